// Rung 5: 16-byte accesses on both sides, and four of them in flight in each thread.
//
// Idea     A load of 4 bytes a lane brings 128 bytes for one instruction and one entry in every queue on the way; one
//          of 16 bytes brings 512. And DRAM wants tens of KiB on their way from each multiprocessor.
// Changed  against the rung before: 64 x 64 tiles, a 4 x 4 block for each thread (micro_block.cuh says how it moves
//          through registers and shared memory, and why no bank is asked twice).
// Tile     64 x 64 floats, 16 KiB, by 256 threads: a warp loads 2 x 256 neighbouring bytes with each instruction and
//          stores as many; 64 bytes in flight a thread, 96 KiB a multiprocessor with 6 blocks.
// Shows    LDG.E.128, STS.128, LDS.128, STG.E.128 in SASS; one wavefront for each 128 bytes of shared memory.
// Card     Measured on one H200, cold L2, 2026-11-30: 93.4 % of a copy of the same bytes at 8192^2, 92.6 % at
//          16384^2; the Triton program, with this tile and plain loads, 94.9 and 94.5 %.
// Sizes    any M, N >= 1; where M or N is no multiple of 4, the same tile with 4-byte accesses.
#include "micro_block.cuh"

#ifndef TILE_M
#define TILE_M 64
#endif
#ifndef TILE_N
#define TILE_N 64
#endif
#ifndef THREADS
#define THREADS 256
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 6
#endif

namespace {

static_assert(TILE_M * TILE_N * sizeof(float) <= 48 << 10, "a block's static shared memory");

template <bool kVectors>
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    vectorised(const float *__restrict__ A, float *__restrict__ B, int64_t M, int64_t N, unsigned tiles_n) {
    __shared__ float4 tile[TILE_M * TILE_N / 4];
    ladder::transpose_tile<TILE_M, TILE_N, THREADS, kVectors>(tile, A, B, M, N, int64_t(blockIdx.x / tiles_n) * TILE_M,
                                                              int64_t(blockIdx.x % tiles_n) * TILE_N);
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const ladder::Tiles tiles = ladder::tiles_of(args, TILE_M, TILE_N);
    if (!ladder::fits_grid(tiles)) return cudaErrorInvalidValue;
    const auto kernel = ladder::vectors_fit(args) ? vectorised<true> : vectorised<false>;
    kernel<<<static_cast<unsigned>(tiles.count()), THREADS, 0, stream>>>(args->A, args->B, args->M, args->N,
                                                                         static_cast<unsigned>(tiles.n));
    return cudaGetLastError();
}
