// The kernel of the top rungs with its choices open: two warpgroups of consumers that share a tile, a producer warp, a
// ring.
//
// Everything that 01 to 10 introduce one by one is here once, in a form that the compiler specialises: tile, stages,
// buffers for C, cluster in both directions, products in flight, stagger. 11_staggered.cu says what the last one is and
// makes one choice by macros; 12_per_shape.cu chooses by the shape of the problem.
#pragma once
#include <algorithm>

#include "../../common/cluster.cuh"
#include "../../common/tma.cuh"
#include "operands.cuh"
#include "ring.cuh"
#include "store_tiles.cuh"
#include "tile_order.cuh"

namespace ladder {

// kBlockM_ x kBlockN_  the tile of a block; each warpgroup has the upper or the lower half of its rows
// kStages_, kBuffers_  of the ring; of C, pieces of 64 x 64 for each warpgroup
// kClusterM_, kClusterN_  blocks of a cluster: those below one another share B, those side by side share A
// kInFlight_           groups of products left running when a stage is done, 0 or 1
// kStagger_            stages that the first warpgroup is ahead of the second at the start
template <int kBlockM_, int kBlockN_, int kStages_, int kBuffers_, int kClusterM_, int kClusterN_, int kInFlight_,
          int kStagger_>
struct Cooperative {
    static constexpr int kBlockM = kBlockM_, kBlockN = kBlockN_;
    static constexpr int kStages = kStages_, kBuffers = kBuffers_;
    static constexpr int kClusterM = kClusterM_, kClusterN = kClusterN_, kCluster = kClusterM * kClusterN;
    static constexpr int kInFlight = kInFlight_, kStagger = kStagger_;

    static constexpr int kConsumerWarps = 8;
    static constexpr int kThreads = 128 + 32 * kConsumerWarps;
    static constexpr int kBlocks64 = kBlockM / 2 / 64;  // of 64 rows a warpgroup
    static constexpr int kPieces = kBlockN / kPieceColumns;
    static constexpr int kBoxM = kBlockM / kClusterN, kBoxN = kBlockN / kClusterM;  // this block's shares of A and B
    using Stages = Ring<kStages, kBlockM, kBlockN>;
    static constexpr int kBytesC = 2 * kBuffers * kPieceBytes;
    static constexpr int kSharedBytes = Stages::kBytes + kBytesC + Stages::kBarrierBytes;

    // Who writes into a block's stages: itself, its column (B) and its row (A) of the cluster. Whoever writes must wait
    // for the consumers of all to whom he writes, which are the same blocks.
    static constexpr int kArrivalsToFree = (kClusterM + kClusterN - 1) * kConsumerWarps;

    static_assert(kBlockM == 128 || kBlockM == 256, "64 or 128 rows for each of two warpgroups");
    static_assert(kBlocks64 * kBlockN <= 2 * 192, "accumulators and the rest must fit in 232 registers");
    static_assert(kBoxM % 8 == 0 && kBoxN % 8 == 0 && kBoxM <= 256 && kBoxN <= 256, "whole swizzle patterns; boxes");
    static_assert(kBlocks64 * kPieces % kBuffers == 0, "each tile begins with the first buffer");
    static_assert(kInFlight == 0 || kInFlight == 1, "a stage is freed at most one round late");
    static_assert(kInFlight + 1 < kStages, "the producer needs a stage that nobody reads");
    static_assert(kStagger < kStages, "the ring is all that one warpgroup can be ahead");
    static_assert(kSharedBytes <= kMostShared, "stages and C must fit in shared memory");
};

// Where this block's shares of a tile begin: rows of A and of B.
template <class Config>
struct Shares {
    int row_a, row_b;

    __device__ __forceinline__ Shares(TileAt tile, int place_m, int place_n)
        : row_a((tile.m * Config::kClusterM + place_m) * Config::kBlockM + place_n * Config::kBoxM),
          row_b((tile.n * Config::kClusterN + place_n) * Config::kBlockN + place_m * Config::kBoxN) {}
};

template <class Config>
__device__ __forceinline__ void produce(const typename Config::Stages &ring, const CUtensorMap &map_a,
                                        const CUtensorMap &map_b, const FirstTiles &starts, const uint32_t *order,
                                        int first, int step, int tiles, int tiles_k, int place_m, int place_n) {
    // Blocks that get this block's share of A: its row of the cluster; of B: its column.
    uint32_t row = 0, column = 0;
#pragma unroll
    for (int n = 0; n < Config::kClusterN; ++n) row |= 1u << (n * Config::kClusterM + place_m);
#pragma unroll
    for (int m = 0; m < Config::kClusterM; ++m) column |= 1u << (place_n * Config::kClusterM + m);

    typename Config::Stages::Place place;
    uint32_t next = starts.tile[first];  // the others are read a tile ahead, for the same reason
    for (int index = first; index < tiles; index += step) {
        const Shares<Config> from(unpacked_tile(next), place_m, place_n);
        if (index + step < tiles) next = __ldg(order + index + step);
        for (int k = 0; k < tiles_k; ++k, place.advance()) {
            wait_phase(ring.freed(place.stage), place.parity ^ 1);
            const uint32_t filled = ring.filled(place.stage);
            const uint32_t to_a = ring.tile_a(place.stage) + tile_bytes(place_n * Config::kBoxM);
            const uint32_t to_b = ring.tile_b(place.stage) + tile_bytes(place_m * Config::kBoxN);
            arrive_expecting(filled, Config::Stages::kStageBytes);
            if constexpr (Config::kClusterN > 1)
                load_tile_multicast(to_a, map_a, filled, k * kTileK, from.row_a, row);
            else
                load_tile(to_a, map_a, filled, k * kTileK, from.row_a);
            if constexpr (Config::kClusterM > 1)
                load_tile_multicast(to_b, map_b, filled, k * kTileK, from.row_b, column);
            else
                load_tile(to_b, map_b, filled, k * kTileK, from.row_b);
        }
    }
}

// Each warp stores its own 16 rows of a piece, as soon as it has them: it waits for no other.
constexpr int kWarpRows = 16;

template <class Config>
__device__ __forceinline__ void consume(const typename Config::Stages &ring, const CUtensorMap &map_c,
                                        const uint32_t *order, int first, int step, int tiles, int tiles_k, int place_m,
                                        int place_n, int group, int warp) {
    constexpr uint64_t kStageStep = Config::Stages::kStageStep;
    const int rows_above = (group - 1) * Config::kBlockM / 2;  // this warpgroup's, in the tile
    const uint64_t first_a = tile_descriptor(ring.tile_a(0) + tile_bytes(rows_above));
    const uint64_t first_b = tile_descriptor(ring.tile_b(0));
    const uint32_t buffers = ring.tiles + Config::Stages::kBytes + (group - 1) * Config::kBuffers * kPieceBytes;
    const PieceWriter writer;

    // The lane that tells a block of the cluster that this warp is done with a stage: those that write to it.
    const int lane = threadIdx.x % 32;
    const bool frees =
        lane < Config::kCluster && (lane % Config::kClusterM == place_m || lane / Config::kClusterM == place_n);

    typename Config::Stages::Place place;
    if (Config::kStagger > 0 && group == 2)  // the ring fills without us up to the last stage
        wait_phase(ring.filled(min(Config::kStagger, tiles_k - 1)), 0);

    float d[Config::kBlocks64][Config::kBlockN / 2];
    for (int index = first; index < tiles; index += step) {
        const TileAt tile = unpacked_tile(__ldg(order + index));
        uint32_t reading = 0;  // the stage of the group before
        for (int k = 0; k < tiles_k; ++k, place.advance()) {
            wait_phase(ring.filled(place.stage), place.parity);
            fence_products();
#pragma unroll
            for (int i = 0; i < Config::kBlocks64; ++i)
                multiply_stage(d[i], first_a + place.stage * kStageStep + i * (tile_bytes(64) / 16),
                               first_b + place.stage * kStageStep, k > 0);
            commit_products();
            wait_products<Config::kInFlight>();
            if constexpr (Config::kInFlight == 0) {
                if (frees) arrive_remote(ring.freed(place.stage), lane);
            } else {
                if (k > 0 && frees) arrive_remote(ring.freed(reading), lane);
                reading = place.stage;
            }
        }
        if constexpr (Config::kInFlight > 0) {
            wait_products<0>();
            if (frees) arrive_remote(ring.freed(reading), lane);
        }

        const int row = (tile.m * Config::kClusterM + place_m) * Config::kBlockM + rows_above;
        const int column = (tile.n * Config::kClusterN + place_n) * Config::kBlockN;
#pragma unroll
        for (int i = 0; i < Config::kBlocks64; ++i) {
            pin(d[i]);
#pragma unroll
            for (int piece = 0; piece < Config::kPieces; ++piece) {
                const uint32_t buffer = buffers + (i * Config::kPieces + piece) % Config::kBuffers * kPieceBytes;
                wait_stores_read<Config::kBuffers - 1>();
                __syncwarp();
                writer.write(d[i], piece, buffer);
                publish_to_copies();
                __syncwarp();
                store_tile(map_c, buffer + warp * tile_bytes(kWarpRows), column + piece * kPieceColumns,
                           row + i * 64 + warp * kWarpRows);
                commit_stores();
            }
        }
    }
    wait_stores_read<0>();  // shared memory must outlive the copies
}

// A cluster computes the cluster tiles first, first + step, ... of the order.
template <class Config>
__global__ void __launch_bounds__(Config::kThreads, 1)
    cooperative(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                const __grid_constant__ CUtensorMap map_c, const __grid_constant__ FirstTiles starts,
                const uint32_t *__restrict__ order, int tiles, int tiles_k) {
    using Stages = typename Config::Stages;
    extern __shared__ __align__(1024) unsigned char shared[];
    const Stages ring{shared_address(shared), shared_address(shared) + Stages::kBytes + Config::kBytesC};
    const int warp = warp_in_block(), group = warp / 4;
    const int first = blockIdx.x / Config::kCluster, step = gridDim.x / Config::kCluster;
    const int place = blockIdx.x % Config::kCluster;  // m runs first
    const int place_m = place % Config::kClusterM, place_n = place / Config::kClusterM;
    if (warp == 0) {  // what can start before the cluster has met: maps, and the first stages as far as L2
        prefetch_map(map_c);
        const Shares<Config> from(unpacked_tile(starts.tile[first]), place_m, place_n);
        for (int k = 0; k < min(Config::kStages, tiles_k); ++k) {
            prefetch_tile(map_a, k * kTileK, from.row_a);
            prefetch_tile(map_b, k * kTileK, from.row_b);
        }
    }
    if (threadIdx.x == 0) ring.init(Config::kArrivalsToFree);
    if constexpr (Config::kCluster > 1)
        cluster_sync();
    else
        __syncthreads();

    if (group == 0) {
        give_up_registers<40>();
        if (warp == 0)
            produce<Config>(ring, map_a, map_b, starts, order, first, step, tiles, tiles_k, place_m, place_n);
    } else {
        take_registers<232>();
        consume<Config>(ring, map_c, order, first, step, tiles, tiles_k, place_m, place_n, group, warp % 4);
    }
    if constexpr (Config::kCluster > 1) cluster_sync();  // nobody may write to a block that has ended
}

// What can be chosen without another kernel.
struct Choice {
    enum Order { kBands, kHilbert } order = kHilbert;
    int group = 8;        // height of a band, in tiles of a cluster
    int most_blocks = 0;  // 0: as many as fit
    CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
};

template <class Config>
cudaError_t plan_cooperative(Plan *plan, const Args &args, const Choice &choice) {
    if (const cudaError_t error =
            plan_operands(plan, args, Config::kBlockM, Config::kBlockN, Config::kBoxM, Config::kBoxN, choice.promotion))
        return error;
    if (const cudaError_t error = plan_pieces(plan, args, kWarpRows)) return error;
    plan->tiles_m = static_cast<int>(divide_up(plan->tiles_m, Config::kClusterM));
    plan->tiles_n = static_cast<int>(divide_up(plan->tiles_n, Config::kClusterN));
    const auto order = [&choice](uint32_t tiles_m, uint32_t tiles_n) {
        return choice.order == Choice::kHilbert ? hilbert_order(tiles_m, tiles_n)
                                                : band_order(choice.group, tiles_m, tiles_n);
    };
    if (const cudaError_t error = plan_order(plan, order)) return error;
    const auto kernel = cooperative<Config>;
    if (const cudaError_t error = allow_shared(kernel, Config::kSharedBytes)) return error;
    int clusters = 0;
    if (const cudaError_t error =
            resident_clusters(&clusters, kernel, Config::kCluster, Config::kThreads, Config::kSharedBytes))
        return error;
    clusters = std::min(clusters, FirstTiles::kMost);
    if (choice.most_blocks > 0) clusters = std::min(clusters, std::max(1, choice.most_blocks / Config::kCluster));
    plan->blocks = Config::kCluster * std::min(clusters, plan->tiles_m * plan->tiles_n);
    return cudaSuccess;
}

template <class Config>
cudaError_t launch_cooperative(const Plan &plan, cudaStream_t stream) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {Config::kCluster, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = plan.blocks;
    config.blockDim = Config::kThreads;
    config.dynamicSmemBytes = Config::kSharedBytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = Config::kCluster > 1 ? 1 : 0;
    return cudaLaunchKernelEx(&config, cooperative<Config>, plan.a, plan.b, plan.c, plan.first,
                              static_cast<const uint32_t *>(plan.order), plan.tiles_m * plan.tiles_n, plan.tiles_k);
}

}  // namespace ladder
