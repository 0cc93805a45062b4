// Rung 7: one vector a thread, and plain accesses.
//
// Idea     What a copy is fastest with: many threads that each load 16 bytes as any load does, store them, and end. What
//          is in flight on a multiprocessor is then a narrow strip of memory, and reads and writes of it follow each
//          other closely. Four vectors a thread in flight, or loads past L1, cost a copy 10 % and 2 %.
// Changed  against the rung before: a thread loads one vector of A, not four, and scatters its four elements over four rows
//          of the transposed tile in shared memory; loads are plain; bands are two tile rows high.
// Tile     64 x 64 floats, 16 KiB, by 1024 threads, two blocks a multiprocessor: 32 KiB in flight there, a third of what
//          rung 6 has. Lower or narrower tiles end in rows of 128 bytes on one side, which costs more than all this.
// Banks    A warp loads 8 neighbouring vectors of each of four neighbouring rows. Vector v of row n of the transposed tile
//          is kept at v XOR (n / 4 mod 8), as in micro_block.cuh: storing element i of its vectors, the eight lanes of a
//          row of A differ in n / 4 mod 8, the four rows in the word within the vector: 32 banks. Reading, eight lanes
//          read 8 neighbouring vectors of one row: all banks once.
// Sizes    any M, N >= 1; where M or N is no multiple of 4, the same tile with 4-byte accesses.
#ifndef PAST_L1
#define PAST_L1 0
#endif
#include "micro_block.cuh"

#ifndef THREADS
#define THREADS 1024
#endif
#ifndef GROUP
#define GROUP 2
#endif

namespace {

constexpr int kTile = 64, kAcross = kTile / 4;    // floats; vectors across
constexpr int kEach = kTile * kAcross / THREADS;  // vectors a thread
static_assert(THREADS % 64 == 0 && kEach * THREADS == kTile * kAcross,
              "whole rows of the tile by whole pairs of warps");

template <bool kVectors, bool kInside>
__device__ __forceinline__ void transpose_part(float *tile, const float *A, float *B, int64_t M, int64_t N, int64_t m0,
                                               int64_t n0, int rows, int columns) {
    // Two warps take four rows of A: each 8 vectors of all of them.
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int c = warp % 2 * 8 + lane % 8, r = warp / 2 * 4 + lane / 8;
    constexpr int kRowsApart = THREADS / kAcross;
    float4 v[kEach];
    const float *from = A + (m0 + r) * N + n0 + 4 * c;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        const int down = k * kRowsApart, left = kInside ? 4 : r + down < rows ? columns - 4 * c : 0;
        v[k] = ladder::load_four<kVectors>(from + down * N, left);
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        const unsigned m = r + k * kRowsApart;
        float *to = tile + 4 * ladder::place_of<kTile>(4 * c, m / 4) + m % 4;  // the same place in all four rows
        to[0] = v[k].x, to[kTile] = v[k].y, to[2 * kTile] = v[k].z, to[3 * kTile] = v[k].w;
    }
    __syncthreads();
    const int across = threadIdx.x % kAcross, first = threadIdx.x / kAcross;
    float *to = B + (n0 + first) * M + m0 + 4 * across;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        const int row = first + k * kRowsApart, left = kInside ? 4 : row < columns ? rows - 4 * across : 0;
        const float4 w = reinterpret_cast<const float4 *>(tile)[ladder::place_of<kTile>(row, across)];
        ladder::store_four<kVectors>(to + k * kRowsApart * M, left, w);
    }
}

template <bool kVectors>
__global__ void __launch_bounds__(THREADS, 2048 / THREADS)
    one_in_flight(const float *__restrict__ A, float *__restrict__ B, int64_t M, int64_t N, unsigned tiles_m,
                  unsigned tiles_n, unsigned group) {
    __shared__ float4 tile[kTile * kAcross];
    float *words = reinterpret_cast<float *>(tile);
    const ladder::TilePlace place = ladder::place_in_bands(blockIdx.x, tiles_m, tiles_n, group);
    const int64_t m0 = place.m * kTile, n0 = place.n * kTile;
    const int rows = static_cast<int>(M - m0 < kTile ? M - m0 : kTile);
    const int columns = static_cast<int>(N - n0 < kTile ? N - n0 : kTile);
    if (rows == kTile && columns == kTile)
        transpose_part<kVectors, true>(words, A, B, M, N, m0, n0, rows, columns);
    else
        transpose_part<kVectors, false>(words, A, B, M, N, m0, n0, rows, columns);
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const ladder::Tiles tiles = ladder::tiles_of(args, kTile, kTile);
    if (!ladder::fits_grid(tiles)) return cudaErrorInvalidValue;
    const auto kernel = ladder::vectors_fit(args) ? one_in_flight<true> : one_in_flight<false>;
    const unsigned tiles_m = static_cast<unsigned>(tiles.m), tiles_n = static_cast<unsigned>(tiles.n);
    const unsigned group = tiles_m < GROUP ? tiles_m : GROUP;  // so that group x tiles_n fits as well
    kernel<<<static_cast<unsigned>(tiles.count()), THREADS, 0, stream>>>(args->A, args->B, args->M, args->N, tiles_m,
                                                                         tiles_n, group);
    return cudaGetLastError();
}
