// Rung 1: each element straight to its place.
//
// Idea     B[n][m] = A[m][n], a thread for each element. Something must be strided: here the lanes of a warp read
//          neighbours in a row of A, and write into 32 rows of B.
// Tile     32 x 32 elements by 32 x 8 threads, four rows of A each.
// Shows    32 sectors for each store of a warp where 4 would hold its 128 bytes: 1/8 of every sector is used at a time,
//          and whether the rest is filled before L2 lets go of it is luck. (The other way round, reads would be
//          strided.)
// Card     Measured on one H200, cold L2, 2026-11-30: 12.7 % of a copy of the same bytes at 8192^2, 12.6 % at
//          16384^2.
// Sizes    any M, N >= 1.
#include "tiles.cuh"

namespace {

constexpr int kTile = 32, kRows = 8;

__global__ void __launch_bounds__(kTile *kRows)
    naive(const float *__restrict__ A, float *__restrict__ B, int64_t M, int64_t N, unsigned tiles_n) {
    const int64_t m0 = int64_t(blockIdx.x / tiles_n) * kTile, n = int64_t(blockIdx.x % tiles_n) * kTile + threadIdx.x;
#pragma unroll
    for (int j = 0; j < kTile; j += kRows) {
        const int64_t m = m0 + threadIdx.y + j;
        if (m < M && n < N) B[n * M + m] = A[m * N + n];
    }
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const ladder::Tiles tiles = ladder::tiles_of(args, kTile, kTile);
    if (!ladder::fits_grid(tiles)) return cudaErrorInvalidValue;
    naive<<<static_cast<unsigned>(tiles.count()), dim3(kTile, kRows), 0, stream>>>(args->A, args->B, args->M, args->N,
                                                                                   static_cast<unsigned>(tiles.n));
    return cudaGetLastError();
}
