// Rung 4: a column of C in the registers of each thread.
//
// Idea     A thread that owns TM elements of one column of C reads an element of B once and uses it TM times, from a
//          register. One element a thread takes 2 shared reads for 1 FMA; TM = 8 takes 9 for 8.
// Changed  against the rung before: TM accumulators a thread, so 512 threads own 64 x 64 of C where 1024 owned 32 x 32.
// Tile     BM x BN x BK = 64 x 64 x 32; (64 / 8) * 64 = 512 threads; shared memory (64 + 64) * 32 * 4 B = 16 KB;
//          reuse 2 * 64 * 64 / 128 = 64 FLOP per element loaded.
// Banks    A warp has one ty: As[row][k] is one word for all lanes, four k of it one vector in two wavefronts;
//          Bs[k][tx] is 32 consecutive words. In nt the tile of B is transposed by its store: padded by one word.
// Measured H200, cold L2, 4096, ratio to cuBLAS FP32 in the same process: 0.388 (6937 us; recorded); in an earlier run
//          0.399, and with BK = 16 0.355, BM = 32 0.406, TM = 16 0.451.
// Limit    8 reads of A (four k each, 2 wavefronts) and 4 of B for 32 FMAs: 20 wavefronts, 1.6 FMAs for each, where
//          four could issue: 40 % of the FMA peak at best. Only values of B are reused; A has as many reads as before.
// Sizes    any M, N, K >= 1: whole tiles take the unguarded instantiation; layouts nn and nt.
#include "gemm.h"

#ifndef BM
#define BM 64
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK
#define BK 32
#endif
#ifndef TM
#define TM 8
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2  // blocks a multiprocessor should hold: caps the registers at 65536 / (2 * 512) = 64
#endif
#ifndef UNROLL
#define UNROLL 4  // steps of k; more make ptxas read further ahead than 64 registers allow, and spill
#endif

constexpr int kUnroll = UNROLL;  // a pragma takes no macro
constexpr int kThreads = BM / TM * BN;

static_assert(BM % TM == 0 && BN % 32 == 0, "thread tiles must divide the block tile; a warp has one row of threads");
static_assert(kThreads <= 1024, "a block has at most 1024 threads");
static_assert(kThreads % BK == 0 && kThreads % BN == 0, "a pass of copies takes whole rows");
static_assert(BM * BK % kThreads == 0 && BN * BK % kThreads == 0, "each thread copies the same number of elements");
static_assert((BM + BN + 1) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KB");

#ifdef GEMM_LAYOUT_NT
constexpr int kPad = 1;
#else
constexpr int kPad = 0;
#endif

template <bool kGuarded>
__global__ void __launch_bounds__(kThreads, kGuarded ? 1 : MIN_BLOCKS)
    tile_1d(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int64_t N,
            int64_t K, int64_t blocks_n) {
    __shared__ __align__(16) float As[BM][BK];
    __shared__ __align__(16) float Bs[BK][BN + kPad];

    const int tx = threadIdx.x % BN, ty = threadIdx.x / BN * TM;
    const int64_t first_row = blockIdx.x / blocks_n * BM, first_col = blockIdx.x % blocks_n * BN;

    // Copies: thread t takes element t of the tile, t + kThreads, ... in the order of global memory. What a pass has to
    // add is the same for all threads.
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

    float acc[TM] = {};
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
#pragma unroll kUnroll
        for (int k = 0; k < BK; ++k) {
            const float b = Bs[k][tx];  // read once, used TM times
#pragma unroll
            for (int i = 0; i < TM; ++i) acc[i] += As[ty + i][k] * b;
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int64_t row = first_row + ty + i, col = first_col + tx;
        if (!kGuarded || (row < M && col < N)) C[row * N + col] = acc[i];
    }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks_m = (args->M + BM - 1) / BM;
    const int64_t blocks_n = (args->N + BN - 1) / BN;
    if (blocks_m * blocks_n > INT32_MAX) return cudaErrorInvalidValue;
    const bool whole = args->M % BM == 0 && args->N % BN == 0 && args->K % BK == 0;
    const auto kernel = whole ? tile_1d<false> : tile_1d<true>;
    kernel<<<static_cast<unsigned>(blocks_m * blocks_n), kThreads, 0, stream>>>(args->A, args->B, args->C, args->M,
                                                                                args->N, args->K, blocks_n);
    return cudaGetLastError();
}
