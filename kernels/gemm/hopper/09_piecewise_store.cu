// Rung 9: C leaves piece by piece through a small buffer, so that a fourth stage fits.
//
// Idea     The buffer of rung 7 holds the whole tile of C, 64 KB, for an instant in each tile; that is more than a
//          stage of the ring, which works all the time. Pieces of 64 x 64 need only as many buffers as hide the copy of
//          the last piece behind the writing of the next: two for each warpgroup, 32 KB in all.
// Changed  against 08_even_rounds: BUFFERS = 2 pieces for each warpgroup, used in turn; before a piece is written, the
//          copy that left from the same buffer, BUFFERS copies ago, must have read it. STAGES = 4.
// Measured in the kernel of rung 10 with 128 blocks, H200, BF16: against three stages and a whole tile of C, 0.1 % less
//          time at 4096 and 0.8 % at 8192 in single launches, 0.7 and 0.6 % sustained; with 132 blocks, where each
//          round ends unevenly, nothing. One buffer in place of two costs 0.6 and 0.5 %.
//          Recorded: 1.025 at 4096 (rung 8 1.020) and 1.045 at 8192, where rung 8 (1.044) is as good: intervals of 1 %.
// Tile     128 x 256 x 64 a block, 256 x 256 x 64 a cluster of two; 4 * 48 + 2 * 2 * 8 = 224 KB of 227.
// Sizes    K % 8 == 0 and N % 8 == 0 (rows of 16 bytes); any M; up to 65536 pairs of tiles each way.
#include "gemm.h"

#include "../../common/balanced.cuh"
#include "../../common/cluster.cuh"
#include "../../common/tma.cuh"
#include "operands.cuh"
#include "ring.cuh"
#include "store_tiles.cuh"
#include "tile_order.cuh"

#ifndef STAGES
#define STAGES 4
#endif
#ifndef BUFFERS
#define BUFFERS 2
#endif

using namespace ladder;

constexpr int kBlockM = 128, kBlockN = 256;
constexpr int kCluster = 2;  // blocks, one above the other
constexpr int kHalfN = kBlockN / kCluster;
constexpr int kConsumerWarps = 8;
constexpr int kThreads = 128 + 32 * kConsumerWarps;
using Stages = Ring<STAGES, kBlockM, kBlockN>;
constexpr int kPieces = kBlockN / kPieceColumns;               // of C a warpgroup
constexpr int kBytesC = kBlockM / 64 * BUFFERS * kPieceBytes;  // after the stages
constexpr int kSharedBytes = Stages::kBytes + kBytesC + Stages::kBarrierBytes;
static_assert(kSharedBytes <= kMostShared, "stages and C must fit in shared memory");
static_assert(kPieces % BUFFERS == 0, "each tile begins with the first buffer");

__global__ void __cluster_dims__(kCluster) __launch_bounds__(kThreads, 1)
    piecewise_store(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                    const __grid_constant__ CUtensorMap map_c, const uint32_t *__restrict__ order, int pairs,
                    int tiles_k) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Stages ring{shared_address(shared), shared_address(shared) + Stages::kBytes + kBytesC};
    if (threadIdx.x == 0) ring.init(kCluster * kConsumerWarps);
    cluster_sync();

    const int first = blockIdx.x / kCluster, step = gridDim.x / kCluster;
    const int rank = blockIdx.x % kCluster;
    const int warp = warp_in_block(), group = warp / 4;
    Stages::Place place;
    if (group == 0) {  // the producer
        give_up_registers<40>();
        if (warp == 0) {
            for (int index = first; index < pairs; index += step) {
                const TileAt pair = unpacked_tile(__ldg(order + index));
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
        const uint32_t buffers =
            ring.tiles + Stages::kBytes + (group - 1) * BUFFERS * kPieceBytes;  // for its part of C
        const bool orders = warp % 4 == 0;  // one warp of the warpgroup, of it one lane
        const PieceWriter writer;
        float d[kBlockN / 2];
        for (int index = first; index < pairs; index += step) {
            const TileAt pair = unpacked_tile(__ldg(order + index));
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
#pragma unroll
            for (int piece = 0; piece < kPieces; ++piece) {
                const uint32_t buffer = buffers + piece % BUFFERS * kPieceBytes;
                if (orders) wait_stores_read<BUFFERS - 1>();
                named_barrier_sync(group, 128);
                writer.write(d, piece, buffer);
                publish_to_copies();
                named_barrier_sync(group, 128);
                if (orders) {
                    store_tile(map_c, buffer, pair.n * kBlockN + piece * kPieceColumns,
                               (pair.m * kCluster + rank) * kBlockM + rows_above);
                    commit_stores();
                }
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
        made->tiles_m = static_cast<int>(divide_up(made->tiles_m, kCluster));
        if (const cudaError_t error = plan_order(made, hilbert_order)) return error;
        if (const cudaError_t error = allow_shared(piecewise_store, kSharedBytes)) return error;
        return resident_clusters(&made->blocks, piecewise_store, kCluster, kThreads, kSharedBytes);
    });
}

extern "C" cudaError_t launch(const Args *, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    const int pairs = plan.tiles_m * plan.tiles_n;
    const int grid = kCluster * even_workers(pairs, plan.blocks);
    piecewise_store<<<grid, kThreads, kSharedBytes, stream>>>(plan.a, plan.b, plan.c, plan.order, pairs, plan.tiles_k);
    return cudaGetLastError();
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
