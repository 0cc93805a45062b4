// A 32 x 32 tile through shared memory by 32 x 8 threads, four elements each: rows of A in, columns out, rows of B. The
// rungs that use it differ in where an element of the tile is kept.
//
// `Place` has kWords, the words that the tile takes, and word(row, column), a different one for each element.
#pragma once
#include "tiles.cuh"

namespace ladder {

constexpr int kTile = 32, kRows = 8;

template <class Place>
__global__ void __launch_bounds__(kTile *kRows)
    through_tile(const float *__restrict__ A, float *__restrict__ B, int64_t M, int64_t N, unsigned tiles_n) {
    __shared__ float tile[Place::kWords];
    const int64_t m0 = int64_t(blockIdx.x / tiles_n) * kTile, n0 = int64_t(blockIdx.x % tiles_n) * kTile;
    const unsigned x = threadIdx.x;
    float v[kTile / kRows];
#pragma unroll
    for (int j = 0; j < kTile / kRows; ++j) {  // all loads are issued before the first value is used
        const int64_t m = m0 + threadIdx.y + j * kRows, n = n0 + x;
        v[j] = m < M && n < N ? A[m * N + n] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < kTile / kRows; ++j) tile[Place::word(threadIdx.y + j * kRows, x)] = v[j];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kTile / kRows; ++j) {
        const unsigned column = threadIdx.y + j * kRows;
        const int64_t n = n0 + column, m = m0 + x;
        if (m < M && n < N) B[n * M + m] = tile[Place::word(x, column)];
    }
}

template <class Place>
cudaError_t launch_through_tile(const Args *args, cudaStream_t stream) {
    const Tiles tiles = tiles_of(args, kTile, kTile);
    if (!fits_grid(tiles)) return cudaErrorInvalidValue;
    through_tile<Place><<<static_cast<unsigned>(tiles.count()), dim3(kTile, kRows), 0, stream>>>(
        args->A, args->B, args->M, args->N, static_cast<unsigned>(tiles.n));
    return cudaGetLastError();
}

}  // namespace ladder
