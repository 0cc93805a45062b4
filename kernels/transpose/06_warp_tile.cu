// Rung 6: a warp a tile. No barrier of a block, and no registers between memory and shared memory.
//
// Idea     In rung 5 all warps of a block wait at one barrier for the slowest load of any, and then all store: a fifth of
//          the cycles between two instructions of a warp is that barrier, and what the block has in flight comes and goes
//          in bursts.
// Changed  against the rung before: blocks of one warp, with a 64 x 64 tile each. That is 128 floats a lane, which registers
//          cannot wait for: cp.async brings them to shared memory as they lie in A. A lane then reads blocks of 4 x 4,
//          transposes them in its registers, and writes to B from there: one trip through shared memory. Tiles in bands of
//          two tile rows (rung 7 says why).
// Tile     64 x 64 floats, 16 KiB; 13 blocks, 208 KiB in flight, on a multiprocessor. Each instruction of a warp moves two
//          rows of 256 bytes on either side. THREADS 64 to 256 share the tile, with a barrier.
// Banks    16-byte accesses are served to eight lanes at a time. Vector c of row m is kept at c XOR (m / 4 mod 8). Arriving,
//          sixteen lanes fill the sixteen places of a row. Read, eight neighbouring lanes want vector c of rows 4 r + j
//          with eight neighbouring r: eight places that differ mod 8, all banks once.
// Card     Measured on one H200, cold L2, 2026-11-30: 95.1 % of a copy of the same bytes at 8192^2, 94.5 % at 16384^2, where
//          rung 5 had 93.4 and 92.6 % in the same run.
// Tried    and lost, in another run, where this had 94.7 % at 8192^2: copies through L1 (cp.async.ca) 89.6 %, where L1 takes in
//          what nobody reads again; rows of 256 bytes asked of DRAM at once (L2::256B) 93.3 %; tiles along diagonals, or row by
//          row, 0.4 % or less either way. With eight warps a tile copies through L1 reach 94.5 %.
// Sizes    any M, N >= 1; at the edges, and where M or N is no multiple of 4, the same tile with 4-byte accesses.
#include "../common/async_copy.cuh"
#include "micro_block.cuh"

#ifndef THREADS
#define THREADS 32
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 13
#endif
#ifndef GROUP
#define GROUP 2
#endif

namespace {

constexpr int kTile = 64, kAcross = kTile / 4;  // floats; vectors
static_assert(THREADS % 32 == 0 && kAcross * kAcross % THREADS == 0, "as many 4 x 4 blocks for each thread");

__device__ __forceinline__ unsigned place_in_tile(unsigned m, unsigned vector) {
    return m * kAcross + (vector ^ (m / 4 % 8));
}

// Past L1: what is read once would only take its place there.
__device__ __forceinline__ void copy_vector(uint32_t shared, const float *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
}

__device__ __forceinline__ void meet() {
    if constexpr (THREADS == 32)
        __syncwarp();
    else
        __syncthreads();
}

template <bool kVectors, bool kInside>
__device__ __forceinline__ void transpose_part(float4 *tile, const float *A, float *B, int64_t M, int64_t N, int64_t m0,
                                               int64_t n0, int rows, int columns) {
    constexpr int kApart = THREADS / kAcross;  // rows, or columns of 4 x 4 blocks, that are taken together
    const int beside = threadIdx.x % kAcross, below = threadIdx.x / kAcross;
    const float *from = A + (m0 + below) * N + n0 + 4 * beside;
    const uint32_t tile_at = ladder::shared_address(tile);
#pragma unroll
    for (int k = 0; k < kTile / kApart; ++k, from += kApart * N) {
        const int m = below + k * kApart;
        const unsigned place = place_in_tile(m, beside);
        if constexpr (kVectors && kInside)
            copy_vector(tile_at + place * 16, from);
        else
            tile[place] = ladder::load_four<kVectors>(from, m < rows ? columns - 4 * beside : 0);
    }
    ladder::commit_copies();
    ladder::wait_copies<0>();
    meet();
    float *to = B + (n0 + 4 * below) * M + m0 + 4 * beside;
#pragma unroll 2
    for (int k = 0; k < kAcross / kApart; ++k, to += 4 * kApart * M) {
        const int c = below + k * kApart;
        float4 v[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) v[j] = tile[place_in_tile(4 * beside + j, c)];
        const float4 w[4] = {make_float4(v[0].x, v[1].x, v[2].x, v[3].x), make_float4(v[0].y, v[1].y, v[2].y, v[3].y),
                             make_float4(v[0].z, v[1].z, v[2].z, v[3].z), make_float4(v[0].w, v[1].w, v[2].w, v[3].w)};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int left = kInside ? 4 : 4 * c + i < columns ? rows - 4 * beside : 0;
            ladder::store_four<kVectors>(to + i * M, left, w[i]);
        }
    }
}

template <bool kVectors>
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    warp_tile(const float *__restrict__ A, float *__restrict__ B, int64_t M, int64_t N, unsigned tiles_m,
              unsigned tiles_n, unsigned group) {
    __shared__ float4 tile[kTile * kAcross];
    const ladder::TilePlace place = ladder::place_in_bands(blockIdx.x, tiles_m, tiles_n, group);
    const int64_t m0 = place.m * kTile, n0 = place.n * kTile;
    const int rows = static_cast<int>(M - m0 < kTile ? M - m0 : kTile);
    const int columns = static_cast<int>(N - n0 < kTile ? N - n0 : kTile);
    if (rows == kTile && columns == kTile)
        transpose_part<kVectors, true>(tile, A, B, M, N, m0, n0, rows, columns);
    else
        transpose_part<kVectors, false>(tile, A, B, M, N, m0, n0, rows, columns);
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const ladder::Tiles tiles = ladder::tiles_of(args, kTile, kTile);
    if (!ladder::fits_grid(tiles)) return cudaErrorInvalidValue;
    const auto kernel = ladder::vectors_fit(args) ? warp_tile<true> : warp_tile<false>;
    const unsigned tiles_m = static_cast<unsigned>(tiles.m), tiles_n = static_cast<unsigned>(tiles.n);
    const unsigned group = tiles_m < GROUP ? tiles_m : GROUP;  // so that group x tiles_n fits as well
    kernel<<<static_cast<unsigned>(tiles.count()), THREADS, 0, stream>>>(args->A, args->B, args->M, args->N, tiles_m,
                                                                         tiles_n, group);
    return cudaGetLastError();
}
