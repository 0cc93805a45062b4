// Rung 6: pairs of blocks (clusters) load B once for both of them (multicast).
//
// Idea     Two tiles of C, one above the other, need the same rows of B. Two blocks of a cluster run at the same time
//          on neighbouring multiprocessors: each loads half of B's stage, and the copy engine delivers it to both. L2
//          then hands out (128 + 128) rows for each tile and k, not (128 + 256): two thirds of the traffic.
// Changed  against 05_persistent: __cluster_dims__(2); tiles are handed out in pairs; B comes in two halves, each for
//          both.
// Tile     128 x 256 x 64 a block, 256 x 256 x 64 a cluster; STAGES = 4 stages of 48 KB. At 4096: 256 pairs = 3.88
//          rounds of 66 clusters.
// Barriers filled: 1 arrival and 49152 bytes as before, of which the neighbour's engine brings 16384; they may come
//          before this block has announced them: a phase cannot end before its producer arrives. freed: a producer
//          writes into both blocks, so it waits for the warps of both, 16 arrivals; each warp arrives here and next
//          door.
// Exit     A block must not end while its neighbour may still write to it or arrive at its barriers: all threads of
//          both meet at the end.
// Measured 0.910 at 4096 and 0.974 at 8192, where 05 is as good (0.978; intervals of 1 %). Where power is short it pays:
//          sustained 0.915 and 0.973 against 0.909 and 0.957.
// Sizes    K % 8 == 0 (rows of 16 bytes); any M and N: a pair may stick out below, then one block computes nothing.
#include "gemm.h"

#include <algorithm>

#include "../../common/cluster.cuh"
#include "../../common/tma.cuh"
#include "operands.cuh"
#include "ring.cuh"
#include "store_registers.cuh"
#include "tile_order.cuh"

#ifndef STAGES
#define STAGES 4
#endif
#ifndef GROUP
#define GROUP 8  // pairs
#endif

using namespace ladder;

constexpr int kBlockM = 128, kBlockN = 256;
constexpr int kCluster = 2;  // blocks, one above the other
constexpr int kHalfN = kBlockN / kCluster;
constexpr int kConsumerWarps = 8;
constexpr int kThreads = 128 + 32 * kConsumerWarps;
using Stages = Ring<STAGES, kBlockM, kBlockN>;
constexpr int kSharedBytes = Stages::kBytes + Stages::kBarrierBytes;
static_assert(kSharedBytes <= kMostShared, "the stages must fit in shared memory");

__global__ void __cluster_dims__(kCluster) __launch_bounds__(kThreads, 1)
    cluster_multicast(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Element *C,
                      int64_t M, int64_t N, int pairs_m, int tiles_n, int tiles_k) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Stages ring{shared_address(shared), shared_address(shared) + Stages::kBytes};
    if (threadIdx.x == 0) ring.init(kCluster * kConsumerWarps);
    cluster_sync();

    const int pairs = pairs_m * tiles_n;
    const int first = blockIdx.x / kCluster, step = gridDim.x / kCluster;
    const int rank = blockIdx.x % kCluster;
    const int warp = warp_in_block(), group = warp / 4;
    Stages::Place place;
    if (group == 0) {  // the producer
        give_up_registers<40>();
        if (warp == 0) {
            for (int index = first; index < pairs; index += step) {
                const TileAt pair = grouped_order<GROUP>(index, pairs_m, tiles_n);
                const int row = (pair.m * kCluster + rank) * kBlockM;
                const int column = pair.n * kBlockN + rank * kHalfN;  // of this block's share of B
                for (int k = 0; k < tiles_k; ++k, place.advance()) {
                    wait_phase(ring.freed(place.stage), place.parity ^ 1);
                    const uint32_t filled = ring.filled(place.stage);
                    arrive_expecting(filled, Stages::kStageBytes);
                    load_tile(ring.tile_a(place.stage), map_a, filled, k * kTileK, row);
                    load_tile_multicast(ring.tile_b(place.stage) + tile_bytes(rank * kHalfN), map_b, filled, k * kTileK,
                                        column, (1 << kCluster) - 1);
                }
            }
        }
    } else {  // the consumers
        take_registers<232>();
        const int rows_above = (group - 1) * 64;  // this warpgroup's, in the tile
        const uint64_t first_a = tile_descriptor(ring.tile_a(0) + tile_bytes(rows_above));
        const uint64_t first_b = tile_descriptor(ring.tile_b(0));
        const uint32_t lane = threadIdx.x % 32;
        float d[kBlockN / 2];
        for (int index = first; index < pairs; index += step) {
            for (int k = 0; k < tiles_k; ++k, place.advance()) {
                wait_phase(ring.filled(place.stage), place.parity);
                fence_products();
                multiply_stage(d, first_a + place.stage * Stages::kStageStep,
                               first_b + place.stage * Stages::kStageStep, k > 0);
                commit_products();
                wait_products<0>();
                if (lane < kCluster) arrive_remote(ring.freed(place.stage), lane);
            }
            pin(d);
            const TileAt pair = grouped_order<GROUP>(index, pairs_m, tiles_n);
            store_registers(d, C, (pair.m * kCluster + rank) * kBlockM + rows_above, pair.n * kBlockN, M, N);
        }
    }
    cluster_sync();
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    return make_plan(plan, [&](Plan *made) {
        if (const cudaError_t error = plan_operands(made, *args, kBlockM, kBlockN, kBlockM, kHalfN)) return error;
        if (const cudaError_t error = allow_shared(cluster_multicast, kSharedBytes)) return error;
        return resident_clusters(&made->blocks, cluster_multicast, kCluster, kThreads, kSharedBytes);
    });
}

extern "C" cudaError_t launch(const Args *args, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    const int pairs_m = (plan.tiles_m + kCluster - 1) / kCluster, pairs = pairs_m * plan.tiles_n;
    const int grid = kCluster * std::min(pairs, plan.blocks);
    cluster_multicast<<<grid, kThreads, kSharedBytes, stream>>>(plan.a, plan.b, args->C, args->M, args->N, pairs_m,
                                                                plan.tiles_n, plan.tiles_k);
    return cudaGetLastError();
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
