// Rung 7: shared memory without bank conflicts.
//
// Idea     32 banks of 4 bytes serve 32 different banks at once, or one bank once. A vector read is served eight lanes
//          at a time: they must want eight vectors side by side. A store of single words is served 32 at a time.
// Changed  against the rung before, addresses only:
//          - reads of B: threads side by side read vectors side by side. A thread's 8 x 8 elements of C become four
//            pieces of 4 x 4, kSpanM and kSpanN apart. (Its stores to C fill sectors for the same reason.)
//          - stores of A: rows are padded by kPad = 4 words, so that one k further is 4 banks further, and a lane's
//            four k 16 banks; and a warp takes 16 rows by 8 values of k (2 lanes a row), where it took 8 by 16: bank =
//            16 (lane % 2) + lane / 2, all different. Four words, not one: vectors want rows of 16-byte multiples.
//            The other remedy is a swizzle, column ^ (row bits): no padding, but an operation for each address.
// Shows    shared-memory wavefronts in excess of the ideal number (exact, for each instruction): 0 for all LDS and STS.
//          The counter shared_bank_conflicts is noisy: it counts also cycles lost to other users of the same data path.
// Tile     as before: 128 x 128 x 16, 256 threads, 8 x 8 a thread; shared memory 16 * (132 + 128) * 4 B = 16.25 KB.
// Measured H200, cold L2, 4096, median of 20, ratio to cuBLAS FP32 in the same process: 0.845
//          (3185 us); BK = 8: 0.803, 32: 0.840.
// Limit    Conflict-free is not minimal: a warp spans 2 x 16 threads, which read 2 vectors of A and 16 of B, 256 bytes,
//          for each B fragment: more wavefronts than a squarer warp needs. Two barriers a K tile, nothing overlaps
//          but what the second block of the multiprocessor does meanwhile.
// Sizes    any M, N, K >= 1: whole tiles with aligned rows take vectors, others single elements; layouts nn and nt.
#include "gemm.h"

#include "../../common/staged_tile.cuh"
#include "../../common/vectors.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 16
#endif
#ifndef TM
#define TM 8
#endif
#ifndef TN
#define TN 8
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2  // blocks a multiprocessor should hold: caps the registers at 65536 / (2 * 256) = 128
#endif

constexpr int kThreadsM = BM / TM;
constexpr int kThreadsN = BN / TN;
constexpr int kThreads = kThreadsM * kThreadsN;

static_assert(BM % TM == 0 && BN % TN == 0, "thread tiles must divide the block tile");
static_assert(TM % 4 == 0 && TN % 4 == 0, "thread tiles consist of 16-byte vectors");
static_assert(kThreads <= 1024 && kThreads % 32 == 0, "whole warps, at most 1024 threads");
static_assert(kThreadsN % 8 == 0, "eight neighbouring vectors fill the 32 banks");
static_assert(BK % 8 == 0, "the transposing copy works on 8 values of k");
static_assert((BM + BN + 8) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KB");

#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposeB = true;  // B is contiguous along k, like A
#else
constexpr bool kTransposeB = false;
#endif
constexpr int kPad = 4;  // words; a multiple of 4 keeps the rows aligned for vectors
constexpr int kRowA = BM + kPad;
constexpr int kRowB = BN + (kTransposeB ? kPad : 0);
constexpr int kSpanM = 4 * kThreadsM;  // a thread owns 4 rows out of each kSpanM, and 4 columns out of each kSpanN:
constexpr int kSpanN = 4 * kThreadsN;  // neighbouring threads read neighbouring vectors

template <bool kWhole>
__global__ void __launch_bounds__(kThreads, kWhole ? MIN_BLOCKS : 1)
    conflict_free(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int64_t N,
                  int64_t K, int64_t blocks_n) {
    __shared__ __align__(16) float As[BK * kRowA];
    __shared__ __align__(16) float Bs[BK * kRowB];

    const int64_t first_row = blockIdx.x / blocks_n * BM, first_col = blockIdx.x % blocks_n * BN;
    const int my_row = threadIdx.x / kThreadsN * 4;
    const int my_col = threadIdx.x % kThreadsN * 4;

    // Two lanes take 8 values of k from one row of A, one sector, and a warp takes 16 rows.
    ladder::StagedTile<BM, BK, kThreads, kRowA, true, 2, kWhole> tile_a(A, K, first_row, M);
    ladder::StagedTile<BN, BK, kThreads, kRowB, kTransposeB, 2, kWhole> tile_b(B, kTransposeB ? K : N, first_col, N);

    float acc[TM][TN] = {};
    for (int64_t left = K; left > 0; left -= BK) {
        tile_a.load(left);
        tile_b.load(left);
        tile_a.store(As);
        tile_b.store(Bs);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
            ladder::read_fragment<TM, kSpanM>(a, As + k * kRowA + my_row);
            ladder::read_fragment<TN, kSpanN>(b, Bs + k * kRowB + my_col);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int64_t row = first_row + my_row + i / 4 * kSpanM + i % 4;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int64_t col = first_col + my_col + j / 4 * kSpanN;
            const float4 four = make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
            ladder::store4<kWhole>(C + row * N + col, four, row < M, N - col);
        }
    }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks_m = (args->M + BM - 1) / BM;
    const int64_t blocks_n = (args->N + BN - 1) / BN;
    if (blocks_m * blocks_n > INT32_MAX) return cudaErrorInvalidValue;
    const bool whole =
        args->M % BM == 0 && args->N % BN == 0 && args->K % BK == 0 &&
        ladder::vectors_aligned(args->A, args->B, args->C, args->K, kTransposeB ? args->K : args->N, args->N);
    const auto kernel = whole ? conflict_free<true> : conflict_free<false>;
    kernel<<<static_cast<unsigned>(blocks_m * blocks_n), kThreads, 0, stream>>>(args->A, args->B, args->C, args->M,
                                                                                args->N, args->K, blocks_n);
    return cudaGetLastError();
}
