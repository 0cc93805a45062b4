// Rung 7: rung 5's tile with plain loads, and its blocks in an order that suits both matrices.
//
// Idea     Rung 6 looked for what was missing in the barrier. It lies in the loads: those that bid L1 not to keep what they
//          bring move less than plain ones, in a copy as here, and in LayerNorm as well. With plain loads the block with its
//          barrier is as fast as the warp that has none.
// Order    Blocks that run at the same time should touch long runs of memory. Row by row of tiles, a thousand of them read
//          whole rows of A, but write a few hundred bytes of each of thousands of rows of B, each in another page of DRAM
//          and another page of the address translation. In bands of GROUP tile rows they write GROUP x 256 bytes of each at
//          about one time.
// Changed  against rung 5: ld.global instead of ld.global.nc.L1::no_allocate (PAST_L1 0), which makes nearly all of the
//          difference; and which tile a block takes.
// Tile     64 x 64 floats; bands of GROUP = 2 tile rows.
// Shows    bytes from and to DRAM as before, in less time.
// Card     Measured on one H200, cold L2, 2026-11-30: 94.8 % of a copy of the same bytes at 8192^2, 94.5 % at 16384^2, where
//          rung 5 had 93.4 and 92.6 %, rung 6 95.1 and 94.5 %, and the Triton program, which has this tile and plain loads
//          in bands of 16, 94.9 and 94.5 % in the same run. In another run 95.1 and 94.8 %; there eight blocks a
//          multiprocessor were no better, 94.4 and 94.6 %. In an earlier one, with loads past L1, the best of GROUP 1, 2, 4
//          to 64 was 2, worth at most 1 % (16: 92.5 and 92.1 %; 2: 93.4 and 92.6 %); tiles of 32 on one side reached 83 to
//          88 %.
// Lost     In two later runs, at 16384^2: this 94.4 and 94.1 %; GROUP 1, 3 and 4 94.5, 94.5 and 94.0 %; two blocks of 4 x 4 a
//          thread 94.3 %; tiles of 128 x 64 94.2 %, of 64 x 128 94.7 %; four and three blocks a multiprocessor in place of
//          six, so less on its way, 94.3 and 94.0 %; st.global.cs 94.3 %; Triton 93.9 %. All within what the same code
//          differs by: none of it is the 5 % that a copy has more. What that may be, is in docs/kernels.md.
// Sizes    any M, N >= 1; where M or N is no multiple of 4, the same tile with 4-byte accesses.
#ifndef PAST_L1
#define PAST_L1 0
#endif
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
#ifndef GROUP
#define GROUP 2
#endif

namespace {

static_assert(TILE_M * TILE_N * sizeof(float) <= 48 << 10, "a block's static shared memory");

template <bool kVectors>
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    plain(const float *__restrict__ A, float *__restrict__ B, int64_t M, int64_t N, unsigned tiles_m, unsigned tiles_n,
          unsigned group) {
    __shared__ float4 tile[TILE_M * TILE_N / 4];
    const ladder::TilePlace place = ladder::place_in_bands(blockIdx.x, tiles_m, tiles_n, group);
    ladder::transpose_tile<TILE_M, TILE_N, THREADS, kVectors>(tile, A, B, M, N, place.m * TILE_M, place.n * TILE_N);
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const ladder::Tiles tiles = ladder::tiles_of(args, TILE_M, TILE_N);
    if (!ladder::fits_grid(tiles)) return cudaErrorInvalidValue;
    const auto kernel = ladder::vectors_fit(args) ? plain<true> : plain<false>;
    const unsigned tiles_m = static_cast<unsigned>(tiles.m), tiles_n = static_cast<unsigned>(tiles.n);
    const unsigned group = tiles_m < GROUP ? tiles_m : GROUP;  // so that group x tiles_n fits as well
    kernel<<<static_cast<unsigned>(tiles.count()), THREADS, 0, stream>>>(args->A, args->B, args->M, args->N, tiles_m,
                                                                         tiles_n, group);
    return cudaGetLastError();
}
