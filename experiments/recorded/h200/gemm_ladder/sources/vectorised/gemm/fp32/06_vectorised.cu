// Rung 6: 16-byte accesses everywhere, for which A is transposed on its way into shared memory.
//
// Idea     One instruction may move 16 bytes where it moved 4: a quarter of the loads and stores, of their addresses
//          and of the issue slots they take from FFMAs. A thread wants several values of m at one k; in A these lie K
//          apart. So A is transposed once, where it is stored (As[k][m]), and both operands are read as vectors.
// Changed  against the rung before: global loads, shared reads and stores to C are vectors; As is K-major; a thread's
//          8 x 8 elements of C are neighbours. All loads of a K tile are started before the first is stored.
// Tile     BM x BN x BK = 128 x 128 x 16, 256 threads; shared memory (128 + 128) * 16 * 4 B = 16 KB; 64 accumulators +
//          16 operands + addresses, capped at 128 registers. Reuse 2 * 128 * 128 / 256 = 128 FLOP per element loaded.
//          Per k: 64 FFMA for 4 shared reads, where it had 16 (10, once the compiler joined those of A).
// Shows    LDG.E.128, LDS.128, STS.128 and STG.E.128 in SASS; FFMA 91 % of the loop's instructions, from 82 %.
// Measured H200, cold L2, 4096, median of 20, ratio to cuBLAS FP32 in the same process: 0.756
//          (3561 us); BK = 8: 0.703, 32: 0.756.
// Limit    shared-memory bank conflicts, see the excess counter: threads side by side read B 8 words apart, so that
//          eight vectors meet in half of the banks, two in each; and the four lanes that share a row of A store to one
//          bank, K-major rows being a multiple of 32 words long. The next rung removes both.
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
static_assert((BM + BN) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KB");

#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposeB = true;  // B is contiguous along k, like A
#else
constexpr bool kTransposeB = false;
#endif
constexpr int kRowA = BM;
constexpr int kRowB = BN;

template <bool kWhole>
__global__ void __launch_bounds__(kThreads, kWhole ? MIN_BLOCKS : 1)
    vectorised(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int64_t N,
               int64_t K, int64_t blocks_n) {
    __shared__ __align__(16) float As[BK * kRowA];  // transposed: row k holds BM values of m
    __shared__ __align__(16) float Bs[BK * kRowB];

    const int64_t first_row = blockIdx.x / blocks_n * BM, first_col = blockIdx.x % blocks_n * BN;
    const int my_row = threadIdx.x / kThreadsN * TM;
    const int my_col = threadIdx.x % kThreadsN * TN;

    // BK / 4 lanes take the vectors of one row of A.
    ladder::StagedTile<BM, BK, kThreads, kRowA, true, BK / 4, kWhole> tile_a(A, K, first_row, M);
    ladder::StagedTile<BN, BK, kThreads, kRowB, kTransposeB, BK / 4, kWhole> tile_b(B, kTransposeB ? K : N, first_col,
                                                                                    N);

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
            ladder::read_fragment<TM, 4>(a, As + k * kRowA + my_row);
            ladder::read_fragment<TN, 4>(b, Bs + k * kRowB + my_col);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int64_t row = first_row + my_row + i;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int64_t col = first_col + my_col + j;
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
    const auto kernel = whole ? vectorised<true> : vectorised<false>;
    kernel<<<static_cast<unsigned>(blocks_m * blocks_n), kThreads, 0, stream>>>(args->A, args->B, args->C, args->M,
                                                                                args->N, args->K, blocks_n);
    return cudaGetLastError();
}
