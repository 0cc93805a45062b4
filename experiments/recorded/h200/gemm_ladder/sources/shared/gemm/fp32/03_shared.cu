// Rung 3: tiles of A and B in shared memory.
//
// Idea     The 1024 threads of a block need the same 32 rows of A and 32 columns of B. Load a 32 x 32 piece of each
//          once, together and coalesced, wait, and let every thread read it 32 times from shared memory.
// Changed  against the rung before: global loads fall by TILE = 32; threadIdx.x walks columns, so loads and stores
//          are coalesced; two barriers a K tile.
// Tile     TILE x TILE of C, K in steps of TILE; shared memory 2 * 32 * 32 * 4 B = 8 KB (nt: + 128 B of padding).
//          Reuse 2 * 32 * 32 / 64 = 32 FLOP per element loaded.
// Measured H200, cold L2, 4096, median of 5, ratio to cuBLAS FP32 in the same process: 0.160 (16.8 ms, 8.2 TFLOP/s);
//          shared-memory data pipe 80 % busy.
// Limit    still one FMA for two shared loads: the shared-memory pipe, not the FMA pipe, sets the time. The next
//          rungs give a thread more than one element of C.
// Banks    As[ty][k]: one word a warp, broadcast. Bs[k][tx]: 32 consecutive words. No conflicts. In nt the tile of B
//          is transposed by its store, whose lanes would all hit one bank: there the row is padded to 33 words.
// Sizes    any M, N, K >= 1 (zeros are loaded outside the matrices); layouts nn and nt.
#include "gemm.h"

#ifndef TILE
#define TILE 32
#endif

static_assert(TILE == 16 || TILE == 32, "the thread block is TILE x TILE; other sizes cause bank conflicts");

#ifdef GEMM_LAYOUT_NT
constexpr int kPad = 1;
#else
constexpr int kPad = 0;
#endif

__global__ void __launch_bounds__(TILE *TILE)
    shared_tile(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int64_t N,
                int64_t K, int64_t blocks_n) {
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE + kPad];

    const int tx = threadIdx.x, ty = threadIdx.y;
    const int64_t first_row = blockIdx.x / blocks_n * TILE, first_col = blockIdx.x % blocks_n * TILE;
    const int64_t row = first_row + ty, col = first_col + tx;

    float sum = 0.0f;
    for (int64_t k0 = 0; k0 < K; k0 += TILE) {
        As[ty][tx] = (row < M && k0 + tx < K) ? A[row * K + k0 + tx] : 0.0f;
#ifdef GEMM_LAYOUT_NT
        Bs[tx][ty] = (first_col + ty < N && k0 + tx < K) ? B[(first_col + ty) * K + k0 + tx] : 0.0f;
#else
        Bs[ty][tx] = (k0 + ty < K && col < N) ? B[(k0 + ty) * N + col] : 0.0f;
#endif
        __syncthreads();  // the tile is complete
#pragma unroll
        for (int k = 0; k < TILE; ++k) sum += As[ty][k] * Bs[k][tx];
        __syncthreads();  // nobody reads it any more
    }
    if (row < M && col < N) C[row * N + col] = sum;
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks_m = (args->M + TILE - 1) / TILE;
    const int64_t blocks_n = (args->N + TILE - 1) / TILE;
    if (blocks_m * blocks_n > INT32_MAX) return cudaErrorInvalidValue;
    shared_tile<<<static_cast<unsigned>(blocks_m * blocks_n), dim3(TILE, TILE), 0, stream>>>(
        args->A, args->B, args->C, args->M, args->N, args->K, blocks_n);
    return cudaGetLastError();
}
