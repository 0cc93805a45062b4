// Rung 2: through a tile in shared memory, so that both sides are whole rows.
//
// Idea     Read a tile of A row by row, write it column by column: of shared memory, where a stride costs no sectors.
// Changed  against the rung before: the lanes of a warp write 32 neighbours of a row of B, 4 sectors a store, all used.
//          All four loads of a thread are issued before the first is stored.
// Tile     32 x 32 floats, 4 KiB; 32 x 8 threads.
// Shows    sectors per store 32 -> 4. The price: lane x reads word 32 x + column, and 32 words apart is the same bank
//          (banks are 4 bytes wide and 32 in number): every column read is served in 32 passes.
// Sizes    any M, N >= 1.
#include "tiles.cuh"

namespace {

constexpr int kTile = 32, kRows = 8;

__global__ void __launch_bounds__(kTile *kRows)
    shared_tile(const float *__restrict__ A, float *__restrict__ B, int64_t M, int64_t N, unsigned tiles_n) {
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
        tile[row][x] = v[j];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kTile / kRows; ++j) {
        const unsigned column = threadIdx.y + j * kRows;
        const int64_t n = n0 + column, m = m0 + x;
        if (m < M && n < N) B[n * M + m] = tile[x][column];
    }
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const ladder::Tiles tiles = ladder::tiles_of(args, kTile, kTile);
    if (!ladder::fits_grid(tiles)) return cudaErrorInvalidValue;
    shared_tile<<<static_cast<unsigned>(tiles.count()), dim3(kTile, kRows), 0, stream>>>(
        args->A, args->B, args->M, args->N, static_cast<unsigned>(tiles.n));
    return cudaGetLastError();
}
