// Rung 2: the same loop, the lanes of a warp side by side.
//
// Idea     A warp's 32 accesses are served together, in sectors of 32 bytes. Let threadIdx.x, the index that varies
//          inside a warp, walk COLUMNS: the lanes read 32 neighbours of a row of B, and write 32 neighbours of C.
// Changed  against the rung before: x and y of a thread are swapped, and a block is 8 rows of 128 columns, four lines
//          of 128 bytes. Blocks still walk down the rows, so that those in flight share columns of B.
// Tile     8 x 128 elements of C by 1024 threads, one each. A load of B takes 4 sectors, all 128 bytes used; a load of
//          A is one word for the whole warp, 1 sector, where it was 32. Only the caches reuse anything.
// Loop     A line of A serves 32 steps of k; unrolled so far, its loads and those of B are in flight together. They need
//          64 registers, so one block of 1024 threads a multiprocessor: left alone, ptxas keeps to 32 for two blocks,
//          and orders the loads one after the other (5.30 TFLOP/s in place of 6.22 cold).
// Shows    sectors per load request: 16.5 -> 2.5 (the mean of 4 and 1); bytes used of a stored sector: 4 -> 32.
// Limit    two loads for one FMA: the path from L1 to the registers delivers one load of a warp a cycle, while four
//          FMAs could issue. That allows 1/8 of the FMA peak even if every load hits.
// Measured H200, warm, 4096, TFLOP/s by tile, order of blocks, unrolling: 8x128 down 32 steps 6.36; 32x32 down 16 steps
//          6.21; 32x32 down 8 steps 4.57; 32x32 across 16 steps 5.28; 8x128 down 4 steps, two blocks a multiprocessor
//          6.36; 8x128 across 3.91. 32x32 across, 8 steps of a 64-bit k: 2.9.
// Sizes    any M, N, K >= 1 with N and K below 2^31; layouts nn and nt (in nt the lanes read different rows of B, and
//          the loads of B are what those of A were before).
#include "gemm.h"

#ifndef BLOCK_M
#define BLOCK_M 8
#endif
#ifndef BLOCK_N
#define BLOCK_N 128
#endif
#ifndef UNROLL
#define UNROLL 32  // steps of k whose loads may be in flight together
#endif

static_assert(BLOCK_M * BLOCK_N <= 1024, "a block has at most 1024 threads");
constexpr int kUnroll = UNROLL;  // a pragma takes no macro
static_assert(BLOCK_N % 32 == 0, "the lanes of a warp share a row");

__global__ void __launch_bounds__(BLOCK_M *BLOCK_N, 1)
    coalesced(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int N, int K,
              int blocks_m) {
    const int64_t row = int64_t(blockIdx.x % blocks_m) * BLOCK_M + threadIdx.y;
    const int64_t col = int64_t(blockIdx.x / blocks_m) * BLOCK_N + threadIdx.x;  // lanes side by side: coalesced
    if (row >= M || col >= N) return;

    const float *a = A + row * K;
#ifdef GEMM_LAYOUT_NT
    const float *b = B + col * K;
    const int step = 1;
#else
    const float *b = B + col;
    const int step = N;
#endif
    float sum = 0.0f;
#pragma unroll kUnroll
    for (int k = 0; k < K; ++k) {
        sum += a[k] * *b;
        b += step;
    }
    C[row * N + col] = sum;
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks_m = (args->M + BLOCK_M - 1) / BLOCK_M;
    const int64_t blocks_n = (args->N + BLOCK_N - 1) / BLOCK_N;
    if (blocks_m * blocks_n > INT32_MAX || args->N > INT32_MAX || args->K > INT32_MAX) return cudaErrorInvalidValue;
    coalesced<<<static_cast<unsigned>(blocks_m * blocks_n), dim3(BLOCK_N, BLOCK_M), 0, stream>>>(
        args->A, args->B, args->C, args->M, static_cast<int>(args->N), static_cast<int>(args->K),
        static_cast<int>(blocks_m));
    return cudaGetLastError();
}
