// Rung 2: the same loop, the lanes of a warp side by side.
//
// Idea     A warp's 32 accesses are served together, in sectors of 32 bytes. Let threadIdx.x, the index that varies
//          inside a warp, walk COLUMNS: the lanes read 32 neighbours of a row of B, and write 32 neighbours of C.
// Changed  against the rung before: x and y are swapped, for threads and for blocks, so that the blocks in flight share
//          rows of A, too. Nothing else. (With blocks still walking down the columns: 0.059 of cuBLAS.)
// Tile     32 x 32 elements of C by 1024 threads, one each. A load of B takes 4 sectors, all 128 bytes used; a load of
//          A is one word for the whole warp, 1 sector, where it was 32. Only the caches reuse anything.
// Shows    sectors per load request: 16.5 -> 2.5 (the mean of 4 and 1); bytes used of a stored sector: 4 -> 32.
// Limit    two loads for one FMA: the path from L1 to the registers delivers one load of a warp a cycle, while four
//          FMAs could issue. That allows 1/8 of the FMA peak even if every load hits.
// Sizes    any M, N, K >= 1; layouts nn and nt (in nt the lanes read different rows of B, and the loads of B are what
//          those of A were before).
#include "gemm.h"

#ifndef BLOCK_M
#define BLOCK_M 32
#endif
#ifndef BLOCK_N
#define BLOCK_N 32
#endif
#ifndef UNROLL
#define UNROLL 8  // steps of k whose loads may be in flight together
#endif

static_assert(BLOCK_M * BLOCK_N <= 1024, "a block has at most 1024 threads");
constexpr int kUnroll = UNROLL;  // a pragma takes no macro
static_assert(BLOCK_N % 32 == 0, "the lanes of a warp share a row");

__global__ void __launch_bounds__(BLOCK_M *BLOCK_N)
    coalesced(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int64_t N,
              int64_t K, int64_t blocks_n) {
    const int64_t row = blockIdx.x / blocks_n * BLOCK_M + threadIdx.y;
    const int64_t col = blockIdx.x % blocks_n * BLOCK_N + threadIdx.x;  // lanes on neighbouring columns: coalesced
    if (row >= M || col >= N) return;

    const float *a = A + row * K;
#ifdef GEMM_LAYOUT_NT
    const float *b = B + col * K;
    const int64_t step = 1;
#else
    const float *b = B + col;
    const int64_t step = N;
#endif
    float sum = 0.0f;
#pragma unroll kUnroll
    for (int64_t k = 0; k < K; ++k) {
        sum += a[k] * *b;
        b += step;
    }
    C[row * N + col] = sum;
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks_m = (args->M + BLOCK_M - 1) / BLOCK_M;
    const int64_t blocks_n = (args->N + BLOCK_N - 1) / BLOCK_N;
    if (blocks_m * blocks_n > INT32_MAX) return cudaErrorInvalidValue;
    coalesced<<<static_cast<unsigned>(blocks_m * blocks_n), dim3(BLOCK_N, BLOCK_M), 0, stream>>>(
        args->A, args->B, args->C, args->M, args->N, args->K, blocks_n);
    return cudaGetLastError();
}
