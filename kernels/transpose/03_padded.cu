// Rung 3: the tile with rows of 33 words.
//
// Idea     One unused word at the end of each row moves every row by one bank: lane x reads word 33 x + column, bank
//          (x + column) mod 32, another one for each lane.
// Changed  against the rung before: [32][33] instead of [32][32].
// Tile     32 x 33 floats, 4224 bytes; 32 x 8 threads.
// Shows    wavefronts per shared load 32 -> 1. Rows of 132 bytes, though, do not begin on 16 bytes: no vector access.
// Sizes    any M, N >= 1.
#include "tiles.cuh"

namespace {

constexpr int kTile = 32, kRows = 8;

__global__ void __launch_bounds__(kTile *kRows)
    padded(const float *__restrict__ A, float *__restrict__ B, int64_t M, int64_t N, unsigned tiles_n) {
    __shared__ float tile[kTile][kTile + 1];
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
    padded<<<static_cast<unsigned>(tiles.count()), dim3(kTile, kRows), 0, stream>>>(args->A, args->B, args->M, args->N,
                                                                                    static_cast<unsigned>(tiles.n));
    return cudaGetLastError();
}
