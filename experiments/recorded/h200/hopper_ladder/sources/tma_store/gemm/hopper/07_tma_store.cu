// Rung 7: C leaves through shared memory: stmatrix in, and the copy engine out.
//
// Idea     The accumulators of a warp are pairs of neighbours: stored from registers, each instruction writes 8 pieces
//          of 16 bytes, half of the 32 that L2 works with, and 64 such instructions wait in the way of the next tile.
//          stmatrix puts 16 x 16 of them into shared memory with one instruction, and one thread orders the copy of 64
//          x 64, whole lines, which goes on while the next tile is multiplied.
// Changed  against 06_cluster_multicast: a buffer for C, 128 x 256 * 2 B = 64 KB, so only STAGES = 3 stages of 48 KB; a
//          tensor map of C. What lies outside of C, the engine leaves alone: no tests.
// Tile     128 x 256 x 64 a block, 256 x 256 x 64 a cluster of two; 3 * 48 + 64 = 208 KB.
// Banks    Pieces of C are 64 x 64, rows of 128 bytes, with the swizzle of A and B: see PieceWriter. No conflict.
// Order    Before a warpgroup writes its part of the buffer, the thread that ordered its last copies waits until they
//          have been read. After, each thread makes its writes visible to the engine, the warpgroup meets, one thread
//          orders.
// Measured 1.008 at 4096 and 1.036 at 8192: the widest step since rung 4. The tensor pipe is active for 94 % of the cycles,
//          in place of 83.
// Sizes    K % 8 == 0 and N % 8 == 0 (rows of 16 bytes); any M.
#include "gemm.h"

#include <algorithm>

#include "../../common/cluster.cuh"
#include "../../common/tma.cuh"
#include "operands.cuh"
#include "ring.cuh"
#include "store_tiles.cuh"
#include "tile_order.cuh"

#ifndef STAGES
#define STAGES 3
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
constexpr int kPieces = kBlockN / kPieceColumns;               // of C a warpgroup
constexpr int kBytesC = kBlockM / 64 * kPieces * kPieceBytes;  // after the stages
constexpr int kSharedBytes = Stages::kBytes + kBytesC + Stages::kBarrierBytes;
static_assert(kSharedBytes <= kMostShared, "stages and C must fit in shared memory");

__global__ void __cluster_dims__(kCluster) __launch_bounds__(kThreads, 1)
    tma_store(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
              const __grid_constant__ CUtensorMap map_c, int pairs_m, int tiles_n, int tiles_k) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Stages ring{shared_address(shared), shared_address(shared) + Stages::kBytes + kBytesC};
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
        const uint32_t buffer = ring.tiles + Stages::kBytes + (group - 1) * kPieces * kPieceBytes;  // for its part of C
        const bool orders = warp % 4 == 0;  // one warp of the warpgroup, of it one lane
        const PieceWriter writer;
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
            if (orders) wait_stores_read<0>();
            named_barrier_sync(group, 128);
#pragma unroll
            for (int piece = 0; piece < kPieces; ++piece) writer.write(d, piece, buffer + piece * kPieceBytes);
            publish_to_copies();
            named_barrier_sync(group, 128);
            if (orders) {
#pragma unroll
                for (int piece = 0; piece < kPieces; ++piece)
                    store_tile(map_c, buffer + piece * kPieceBytes, pair.n * kBlockN + piece * kPieceColumns,
                               (pair.m * kCluster + rank) * kBlockM + rows_above);
                commit_stores();
            }
        }
        if (orders) wait_stores_read<0>();  // shared memory must outlive the copies
    }
    cluster_sync();
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    return make_plan(plan, [&](Plan *made) {
        if (const cudaError_t error = plan_operands(made, *args, kBlockM, kBlockN, kBlockM, kHalfN)) return error;
        if (const cudaError_t error = plan_pieces(made, *args)) return error;
        if (const cudaError_t error = allow_shared(tma_store, kSharedBytes)) return error;
        return resident_clusters(&made->blocks, tma_store, kCluster, kThreads, kSharedBytes);
    });
}

extern "C" cudaError_t launch(const Args *, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    const int pairs_m = (plan.tiles_m + kCluster - 1) / kCluster, pairs = pairs_m * plan.tiles_n;
    const int grid = kCluster * std::min(pairs, plan.blocks);
    tma_store<<<grid, kThreads, kSharedBytes, stream>>>(plan.a, plan.b, plan.c, pairs_m, plan.tiles_n, plan.tiles_k);
    return cudaGetLastError();
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
