// Rung 3: tiles of A and B in shared memory.
//
// Idea     The 1024 threads of a block need the same 32 rows of A and 32 columns of B. Load a piece of each once,
//          together and coalesced, wait, and let every thread read it from shared memory.
// Changed  against the rung before: each element that a block needs is loaded from global memory once, where 32 warps
//          loaded it; in exchange two barriers a K tile.
// Tile     TILE x TILE of C = 32 x 32, K in steps of TILE_K = 64; shared memory 2 * 32 * 64 * 4 B = 16 KB (nt: + 256 B
//          of padding). Reuse 2 * 32 * 32 / 64 = 32 FLOP per element loaded.
// Banks    Bs[k][tx]: 32 consecutive words. As[ty][k]: one word for the whole warp, broadcast; four k of it are read as
//          one vector, in two wavefronts. No conflicts. In nt the tile of B is transposed by its store, whose lanes
//          would all hit one bank: there the row is padded to 33 words.
// Measured H200, cold L2, 4096, median of 20, ratio to cuBLAS FP32 in the same process: 0.187
//          (14.4 ms); TILE_K = 32: 0.174, 128: 0.192.
// Limit    1.5 wavefronts of shared memory for one FMA, one wavefront a cycle, four FMAs a cycle: that allows 1/6 of
//          the FMA peak, and barriers take their share. The next rungs give a thread more than one element of C.
// Sizes    any M, N, K >= 1: whole tiles take the unguarded instantiation; layouts nn and nt.
#include "gemm.h"

#ifndef TILE
#define TILE 32
#endif
#ifndef TILE_K
#define TILE_K 64  // two loads of A and two of B in flight, half the barriers that 32 has
#endif

static_assert(TILE == 16 || TILE == 32, "the thread block is TILE x TILE; other sizes cause bank conflicts");
static_assert(TILE_K % TILE == 0, "each thread loads whole passes");

#ifdef GEMM_LAYOUT_NT
constexpr int kPad = 1;
#else
constexpr int kPad = 0;
#endif

template <bool kGuarded>
__global__ void __launch_bounds__(TILE *TILE, 2048 / (TILE * TILE))
    shared_tile(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int64_t N,
                int64_t K, int64_t blocks_n) {
    __shared__ __align__(16) float As[TILE][TILE_K];
    __shared__ __align__(16) float Bs[TILE_K][TILE + kPad];

    const int tx = threadIdx.x, ty = threadIdx.y;
    const int64_t first_row = blockIdx.x / blocks_n * TILE, first_col = blockIdx.x % blocks_n * TILE;
    const int64_t row = first_row + ty, col = first_col + tx;

    // Where this thread copies from; moved on by a K tile each time, so that the loop computes no 64-bit products.
    const float *from_a = A + row * K + tx;
#ifdef GEMM_LAYOUT_NT
    const float *from_b = B + (first_col + ty) * K + tx;
#else
    const float *from_b = B + ty * N + col;
#endif

    float sum = 0.0f;
    for (int64_t left = K; left > 0; left -= TILE_K) {
#pragma unroll
        for (int e = 0; e < TILE_K; e += TILE) {
            As[ty][tx + e] = !kGuarded || (row < M && tx + e < left) ? from_a[e] : 0.0f;
#ifdef GEMM_LAYOUT_NT
            Bs[tx + e][ty] = !kGuarded || (first_col + ty < N && tx + e < left) ? from_b[e] : 0.0f;
#else
            Bs[ty + e][tx] = !kGuarded || (col < N && ty + e < left) ? from_b[e * N] : 0.0f;
#endif
        }
        from_a += TILE_K;
#ifdef GEMM_LAYOUT_NT
        from_b += TILE_K;
#else
        from_b += TILE_K * N;
#endif
        __syncthreads();  // the tile is complete
#pragma unroll
        for (int k = 0; k < TILE_K; ++k) sum += As[ty][k] * Bs[k][tx];
        __syncthreads();  // nobody reads it any more
    }
    if (!kGuarded || (row < M && col < N)) C[row * N + col] = sum;
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks_m = (args->M + TILE - 1) / TILE;
    const int64_t blocks_n = (args->N + TILE - 1) / TILE;
    if (blocks_m * blocks_n > INT32_MAX) return cudaErrorInvalidValue;
    const bool whole = args->M % TILE == 0 && args->N % TILE == 0 && args->K % TILE_K == 0;
    const auto kernel = whole ? shared_tile<false> : shared_tile<true>;
    kernel<<<static_cast<unsigned>(blocks_m * blocks_n), dim3(TILE, TILE), 0, stream>>>(
        args->A, args->B, args->C, args->M, args->N, args->K, blocks_n);
    return cudaGetLastError();
}
