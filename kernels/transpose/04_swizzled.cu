// Rung 4: the tile swizzled instead of padded.
//
// Idea     Put element (row, column) at (row, column XOR row). In a row that is a permutation of its 32 words, so row
//          accesses stay free of conflicts; along a column the XOR with 32 different rows gives 32 different banks.
// Changed  against the rung before: no word is wasted, and rows begin where they did, which 16-byte accesses need (next
//          rung).
// Tile     32 x 32 floats, 4 KiB; 32 x 8 threads.
// Shows    wavefronts per shared load 1, as with padding; one more integer instruction for each access.
// Sizes    any M, N >= 1.
#include "tiles.cuh"

namespace {

constexpr int kTile = 32, kRows = 8;

__global__ void __launch_bounds__(kTile *kRows)
    swizzled(const float *__restrict__ A, float *__restrict__ B, int64_t M, int64_t N, unsigned tiles_n) {
    __shared__ float tile[kTile][kTile];
    const int64_t m0 = int64_t(blockIdx.x / tiles_n) * kTile, n0 = int64_t(blockIdx.x % tiles_n) * kTile;
    const unsigned x = threadIdx.x;
    float v[kTile / kRows];
#pragma unroll
    for (int j = 0; j < kTile / kRows; ++j) {
        const int64_t m = m0 + threadIdx.y + j * kRows, n = n0 + x;
        v[j] = m < M && n < N ? A[m * N + n] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kTile / kRows; ++j) {
        const unsigned row = threadIdx.y + j * kRows;
        tile[row][x ^ row] = v[j];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kTile / kRows; ++j) {
        const unsigned column = threadIdx.y + j * kRows;
        const int64_t n = n0 + column, m = m0 + x;
        if (m < M && n < N) B[n * M + m] = tile[x][x ^ column];
    }
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const ladder::Tiles tiles = ladder::tiles_of(args, kTile, kTile);
    if (!ladder::fits_grid(tiles)) return cudaErrorInvalidValue;
    swizzled<<<static_cast<unsigned>(tiles.count()), dim3(kTile, kRows), 0, stream>>>(
        args->A, args->B, args->M, args->N, static_cast<unsigned>(tiles.n));
    return cudaGetLastError();
}
