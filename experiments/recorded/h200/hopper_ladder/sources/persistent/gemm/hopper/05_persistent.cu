// Rung 5: as many blocks as multiprocessors, each of which computes tile after tile in an order that suits L2.
//
// Idea     A new block starts with barriers to set up and an empty ring. A persistent block keeps both: while the
//          consumers store a tile of C, the producer already fills the ring for the next. And it makes the order of the
//          tiles ours: in bands of GROUP tile rows, one wave of 132 tiles covers 16 x 8.25 tiles, 2048 rows of A and
//          2112 of B; row by row it would be 9 rows of tiles, 1152 rows of A and all of B.
// Changed  against 04_two_consumers: the grid is the number of multiprocessors; both roles loop over the tiles
//          blockIdx.x, blockIdx.x + gridDim.x, ...; the place in the ring runs on from tile to tile.
// Tile     128 x 256 x 64, 384 threads, STAGES = 4 stages of 48 KB. At 4096: 512 tiles = 3.88 rounds of 132.
// Measured 0.905 at 4096 and 0.978 at 8192.
// Sizes    K % 8 == 0 (rows of 16 bytes); any M and N.
#include "gemm.h"

#include <algorithm>

#include "../../common/tma.cuh"
#include "operands.cuh"
#include "ring.cuh"
#include "store_registers.cuh"
#include "tile_order.cuh"

#ifndef STAGES
#define STAGES 4
#endif
#ifndef GROUP
#define GROUP 16
#endif

using namespace ladder;

constexpr int kBlockM = 128, kBlockN = 256;
constexpr int kConsumerWarps = 8;
constexpr int kThreads = 128 + 32 * kConsumerWarps;
using Stages = Ring<STAGES, kBlockM, kBlockN>;
constexpr int kSharedBytes = Stages::kBytes + Stages::kBarrierBytes;
static_assert(kSharedBytes <= kMostShared, "the stages must fit in shared memory");

__global__ void __launch_bounds__(kThreads, 1)
    persistent(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Element *C,
               int64_t M, int64_t N, int tiles_m, int tiles_n, int tiles_k) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Stages ring{shared_address(shared), shared_address(shared) + Stages::kBytes};
    if (threadIdx.x == 0) ring.init(kConsumerWarps);
    __syncthreads();

    const int tiles = tiles_m * tiles_n;
    const int warp = warp_in_block(), group = warp / 4;
    Stages::Place place;
    if (group == 0) {  // the producer
        give_up_registers<40>();
        if (warp == 0) {
            for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
                const TileAt tile = grouped_order<GROUP>(index, tiles_m, tiles_n);
                const int row = tile.m * kBlockM, column = tile.n * kBlockN;
                for (int k = 0; k < tiles_k; ++k, place.advance()) {
                    wait_phase(ring.freed(place.stage), place.parity ^ 1);
                    const uint32_t filled = ring.filled(place.stage);
                    arrive_expecting(filled, Stages::kStageBytes);
                    load_tile(ring.tile_a(place.stage), map_a, filled, k * kTileK, row);
                    load_tile(ring.tile_b(place.stage), map_b, filled, k * kTileK, column);
                }
            }
        }
    } else {  // the consumers
        take_registers<232>();
        const int rows_above = (group - 1) * 64;  // this warpgroup's, in the tile
        const uint64_t first_a = tile_descriptor(ring.tile_a(0) + tile_bytes(rows_above));
        const uint64_t first_b = tile_descriptor(ring.tile_b(0));
        float d[kBlockN / 2];
        for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
            for (int k = 0; k < tiles_k; ++k, place.advance()) {
                wait_phase(ring.filled(place.stage), place.parity);
                fence_products();
                multiply_stage(d, first_a + place.stage * Stages::kStageStep,
                               first_b + place.stage * Stages::kStageStep, k > 0);
                commit_products();
                wait_products<0>();
                arrive(ring.freed(place.stage));
            }
            pin(d);
            const TileAt tile = grouped_order<GROUP>(index, tiles_m, tiles_n);
            store_registers(d, C, tile.m * kBlockM + rows_above, tile.n * kBlockN, M, N);
        }
    }
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    return make_plan(plan, [&](Plan *made) {
        if (const cudaError_t error = plan_operands(made, *args, kBlockM, kBlockN, kBlockM, kBlockN)) return error;
        if (const cudaError_t error = resident_blocks(&made->blocks)) return error;
        return allow_shared(persistent, kSharedBytes);
    });
}

extern "C" cudaError_t launch(const Args *args, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    const int grid = std::min(plan.tiles_m * plan.tiles_n, plan.blocks);
    persistent<<<grid, kThreads, kSharedBytes, stream>>>(plan.a, plan.b, args->C, args->M, args->N, plan.tiles_m,
                                                         plan.tiles_n, plan.tiles_k);
    return cudaGetLastError();
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
