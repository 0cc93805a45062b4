// Rung 8: even rounds, each of which is a square of C.
//
// Idea     4096 and 8192 are 256 and 1024 pairs of tiles, for 66 clusters 3.88 and 15.5 rounds, so 4 and 16: as many as
//          for 64. With 64, all rounds are full, and a Hilbert curve makes each of them a square of 8 x 8 pairs, beside
//          the one before: of both operands together 16 panels of 256 rows pass through L2 in a round, the fewest there
//          can be; 66 in a row of the curve touch 19 or 20. At 8192, where a round's panels (64 MB) are more than L2,
//          those are the bytes that come from DRAM: 1.02 GB in place of 1.25. Four multiprocessors are idle, and the
//          power that they and the bytes would have drawn goes into the clock, which under a cap is what a tensor
//          kernel lives on.
// Changed  against 07_tma_store: the fewest clusters that need no more rounds (common/balanced.cuh); the order is a
//          table in device memory, made once by `prepare` (4 KB at 8192), from which each role reads a word a tile.
// Measured of cuBLAS BF16, H200, one process (the kernel of rung 10): 132 blocks 1.004 at 4096 and 1.017 at 8192, 128
//          blocks 1.014 and 1.029; in cycles the same within 0.5 %, the clock 1.1 and 1.7 % higher. The curve alone,
//          with 132 blocks, paid nothing (1.002 and 1.025 against 1.004 and 1.027 of bands): its rounds were no
//          squares. With 128, sustained, 16 x 4 pairs (bands of 16) take 2.1 to 2.5 % more time than 8 x 8 along the
//          curve.
//          As it stands here, in two runs, the second recorded, single and sustained: 1.017 and 1.016, 1.020 and 1.002 at
//          4096, 1.036 and 1.026, 1.044 and 1.023 at 8192; rung 7 1.008, 1.000, 1.012, 1.001 and 1.036, 1.027, 1.041, 1.018.
//          So at 8192 it gained next to nothing there. From and to DRAM at 4096: 158 MB in place of 176.
// Tile     128 x 256 x 64 a block, 256 x 256 x 64 a cluster of two; STAGES = 3: 3 * 48 + 64 = 208 KB.
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
#define STAGES 3
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
    even_rounds(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                const __grid_constant__ CUtensorMap map_c, const uint32_t *__restrict__ order, int pairs, int tiles_k) {
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
        const uint32_t buffer = ring.tiles + Stages::kBytes + (group - 1) * kPieces * kPieceBytes;  // for its part of C
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
        made->tiles_m = static_cast<int>(divide_up(made->tiles_m, kCluster));
        if (const cudaError_t error = plan_order(made, hilbert_order)) return error;
        if (const cudaError_t error = allow_shared(even_rounds, kSharedBytes)) return error;
        return resident_clusters(&made->blocks, even_rounds, kCluster, kThreads, kSharedBytes);
    });
}

extern "C" cudaError_t launch(const Args *, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    const int pairs = plan.tiles_m * plan.tiles_n;
    const int grid = kCluster * even_workers(pairs, plan.blocks);
    even_rounds<<<grid, kThreads, kSharedBytes, stream>>>(plan.a, plan.b, plan.c, plan.order, pairs, plan.tiles_k);
    return cudaGetLastError();
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
