// Rung 5: a two-dimensional tile of C in the registers of each thread.
//
// Idea     A thread that owns TM x TN elements of C reads TM + TN values from shared memory and does TM * TN FMAs
//          with them: 8 x 8 gives 64 FMAs for 16 loads, where one element a thread gives 1 for 2. The accumulators
//          never leave registers.
// Changed  against the rung before: TN columns a thread, where it had one; (BM/TM)(BN/TN) = 256 threads own a 128 x 128
//          tile of C; reuse from global memory rises from 64 to 2 * 128 * 128 / 256 = 128 FLOP per element loaded.
// Tile     BM x BN x BK = 128 x 128 x 16; shared memory (128 * 16 + 16 * 128) * 4 B = 16 KB; registers 64 accumulators
//          + 16 operands + addresses, capped at 128 for two blocks a multiprocessor: with one, nothing hides barriers.
// Banks    The tile of a thread is interleaved: rows ty + i * BM/TM, columns tx + j * BN/TN. A warp then reads 16
//          consecutive words of Bs (each twice: broadcast) and 2 words of As. (Eight consecutive columns a thread
//          would put lanes 8 words apart on 4 banks.) The stores to C are 64-byte runs for the same reason.
// Shows    FFMA 82 % of the instructions of the loop. That took pointers which move on with k: with an address computed
//          for each element it was 66 %, with the same loads, and 0.49 of cuBLAS FP32 at 4096 on an H200.
// Measured H200, cold L2, 4096, median of 20, ratio to cuBLAS FP32 in the same process: 0.694
//          (3880 us); BK = 32: 0.733. With 64-bit address arithmetic in the copy loop it was 0.506.
// Limit    64 FFMA for 8 scalar reads of B and 2 of A (the compiler joins four k of a row), and nothing overlaps: a K
//          tile is loaded, waited for, then used. Values of A that arrive four k a read have registers whose numbers
//          go with k; half of the FFMAs then ask one of the two register banks twice (dispatch stalls).
// Sizes    any M, N, K >= 1: whole tiles take the unguarded instantiation; layouts nn and nt.
#include "gemm.h"

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

constexpr int kThreadsM = BM / TM;  // 16
constexpr int kThreadsN = BN / TN;  // 16
constexpr int kThreads = kThreadsM * kThreadsN;

static_assert(BM % TM == 0 && BN % TN == 0, "thread tiles must divide the block tile");
static_assert(kThreads <= 1024 && kThreads % 32 == 0, "whole warps, at most 1024 threads");
static_assert(kThreadsN % 16 == 0, "a warp must span at least 16 columns, or reads of Bs meet in a bank");
static_assert(kThreads % BK == 0 && kThreads % BN == 0, "a pass of copies takes whole rows");
static_assert(BM * BK % kThreads == 0 && BN * BK % kThreads == 0, "each thread copies the same number of elements");
static_assert((BM + BN) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KB");

#ifdef GEMM_LAYOUT_NT
constexpr int kPad = 4;  // B is transposed by its store: 8 values of k times 4 of n must meet 32 banks
#else
constexpr int kPad = 0;
#endif

template <bool kGuarded>
__global__ void __launch_bounds__(kThreads, kGuarded ? 1 : MIN_BLOCKS)
    tile_2d(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int64_t N,
            int64_t K, int64_t blocks_n) {
    __shared__ __align__(16) float As[BM][BK];
    __shared__ __align__(16) float Bs[BK][BN + kPad];

    const int tx = threadIdx.x % kThreadsN, ty = threadIdx.x / kThreadsN;
    const int64_t first_row = blockIdx.x / blocks_n * BM, first_col = blockIdx.x % blocks_n * BN;

    // Copies: thread t takes element t of the tile, t + kThreads, ... in the order of global memory. What a pass has to
    // add is the same for all threads, and the pointers move on by a K tile: no 64-bit products in the loop.
    const int along_a = threadIdx.x % BK, down_a = threadIdx.x / BK;
    constexpr int kDownA = kThreads / BK;
    const float *from_a = A + (first_row + down_a) * K + along_a;
#ifdef GEMM_LAYOUT_NT
    const float *from_b = B + (first_col + down_a) * K + along_a;
#else
    const int along_b = threadIdx.x % BN, down_b = threadIdx.x / BN;
    constexpr int kDownB = kThreads / BN;
    const float *from_b = B + down_b * N + first_col + along_b;
#endif

    float acc[TM][TN] = {};
    for (int64_t left = K; left > 0; left -= BK) {
#pragma unroll
        for (int e = 0; e < BM; e += kDownA) {
            const bool inside = !kGuarded || (first_row + down_a + e < M && along_a < left);
            As[down_a + e][along_a] = inside ? from_a[e * K] : 0.0f;
        }
#ifdef GEMM_LAYOUT_NT
#pragma unroll
        for (int e = 0; e < BN; e += kDownA) {
            const bool inside = !kGuarded || (first_col + down_a + e < N && along_a < left);
            Bs[along_a][down_a + e] = inside ? from_b[e * K] : 0.0f;
        }
        from_b += BK;
#else
#pragma unroll
        for (int e = 0; e < BK; e += kDownB) {
            const bool inside = !kGuarded || (first_col + along_b < N && down_b + e < left);
            Bs[down_b + e][along_b] = inside ? from_b[e * N] : 0.0f;
        }
        from_b += BK * N;
#endif
        from_a += BK;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];  // read once, used TN and TM times
#pragma unroll
            for (int i = 0; i < TM; ++i) a[i] = As[ty + i * kThreadsM][k];
#pragma unroll
            for (int j = 0; j < TN; ++j) b[j] = Bs[k][tx + j * kThreadsN];
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i)
#pragma unroll
        for (int j = 0; j < TN; ++j) {
            const int64_t row = first_row + ty + i * kThreadsM, col = first_col + tx + j * kThreadsN;
            if (!kGuarded || (row < M && col < N)) C[row * N + col] = acc[i][j];
        }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks_m = (args->M + BM - 1) / BM;
    const int64_t blocks_n = (args->N + BN - 1) / BN;
    if (blocks_m * blocks_n > INT32_MAX) return cudaErrorInvalidValue;
    const bool whole = args->M % BM == 0 && args->N % BN == 0 && args->K % BK == 0;
    const auto kernel = whole ? tile_2d<false> : tile_2d<true>;
    kernel<<<static_cast<unsigned>(blocks_m * blocks_n), kThreads, 0, stream>>>(args->A, args->B, args->C, args->M,
                                                                                args->N, args->K, blocks_n);
    return cudaGetLastError();
}
