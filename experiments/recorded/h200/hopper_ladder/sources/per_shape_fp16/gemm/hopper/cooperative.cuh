// The kernel of the top rungs with its choices open: two warpgroups of consumers that share a tile, a producer warp, a
// ring.
//
// Everything that 01 to 09 introduce one by one is here once, in a form that the compiler specialises: tile, stages,
// buffers for C, cluster in both directions, and what is open beyond them. 10_own_warps.cu makes one choice by macros;
// 11_per_shape.cu chooses by the shape of the problem.
#pragma once
#include <algorithm>

#include "../../common/balanced.cuh"
#include "../../common/cluster.cuh"
#include "../../common/hand_over.cuh"
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
// kZigzag_             whether k runs back in every other round
// kBalanced_           whether the last two rounds are cut into equal ranges of k: see common/balanced.cuh
template <int kBlockM_, int kBlockN_, int kStages_, int kBuffers_, int kClusterM_, int kClusterN_, int kInFlight_ = 0,
          int kStagger_ = 0, bool kZigzag_ = false, bool kBalanced_ = false>
struct Cooperative {
    static constexpr int kBlockM = kBlockM_, kBlockN = kBlockN_;
    static constexpr int kStages = kStages_, kBuffers = kBuffers_;
    static constexpr int kClusterM = kClusterM_, kClusterN = kClusterN_, kCluster = kClusterM * kClusterN;
    static constexpr int kInFlight = kInFlight_, kStagger = kStagger_;
    static constexpr bool kZigzag = kZigzag_, kBalanced = kBalanced_;

    static constexpr int kConsumerWarps = 8;
    static constexpr int kThreads = 128 + 32 * kConsumerWarps;
    static constexpr int kBlocks64 = kBlockM / 2 / 64;  // of 64 rows a warpgroup
    static constexpr int kPieces = kBlockN / kPieceColumns;
    static constexpr int kBoxM = kBlockM / kClusterN, kBoxN = kBlockN / kClusterM;  // this block's shares of A and B
    using Stages = Ring<kStages, kBlockM, kBlockN>;
    static constexpr int kBytesC = 2 * kBuffers * kPieceBytes;
    static constexpr int kVectors = kBlocks64 * kBlockN / 8;  // of four sums a thread
    // Steps along k (1024 cycles at 128 x 256) that writing and reading a tile of sums takes, 64 bytes a cycle.
    static constexpr int kHandOverSteps = 4;
    using Way = Walk<kBalanced>;
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

// Stages are numbered as the tile is cut; where they lie along k. Neighbours of a round agree, wherever a tile is cut.
template <class Config>
__device__ __forceinline__ int along_k(int k, int tiles_k, int round) {
    return (Config::kZigzag && round % 2 == 1 ? tiles_k - 1 - k : k) * kTileK;
}

template <class Config>
__device__ __forceinline__ void produce(const typename Config::Stages &ring, const CUtensorMap &map_a,
                                        const CUtensorMap &map_b, const FirstTiles &starts, const uint32_t *order,
                                        typename Config::Way at, int step, int tiles_k, int place_m, int place_n) {
    // Blocks that get this block's share of A: its row of the cluster; of B: its column.
    uint32_t row = 0, column = 0;
#pragma unroll
    for (int n = 0; n < Config::kClusterN; ++n) row |= 1u << (n * Config::kClusterM + place_m);
#pragma unroll
    for (int m = 0; m < Config::kClusterM; ++m) column |= 1u << (place_n * Config::kClusterM + m);

    typename Config::Stages::Place place;
    uint32_t tile = starts.tile[at.tile];  // the others are read a tile ahead, for the same reason
    while (at.more()) {
        const Shares<Config> from(unpacked_tile(tile), place_m, place_n);
        const int first_k = at.from, last_k = at.to, round = at.tile / step;
        at.advance();
        if (at.more()) tile = __ldg(order + at.tile);
        for (int index = first_k; index < last_k; ++index, place.advance()) {
            const int k = along_k<Config>(index, tiles_k, round);
            wait_phase(ring.freed(place.stage), place.parity ^ 1);
            const uint32_t filled = ring.filled(place.stage);
            const uint32_t to_a = ring.tile_a(place.stage) + tile_bytes(place_n * Config::kBoxM);
            const uint32_t to_b = ring.tile_b(place.stage) + tile_bytes(place_m * Config::kBoxN);
            arrive_expecting(filled, Config::Stages::kStageBytes);
            if constexpr (Config::kClusterN > 1)
                load_tile_multicast(to_a, map_a, filled, k, from.row_a, row);
            else
                load_tile(to_a, map_a, filled, k, from.row_a);
            if constexpr (Config::kClusterM > 1)
                load_tile_multicast(to_b, map_b, filled, k, from.row_b, column);
            else
                load_tile(to_b, map_b, filled, k, from.row_b);
        }
    }
}

// Each warp stores its own 16 rows of a piece, as soon as it has them: it waits for no other.
constexpr int kWarpRows = 16;

// The sums of a consumer warp go to another block, or come from there and are added. `sums` is this lane's first
// vector.
template <class Config>
__device__ __forceinline__ void give(const float (&d)[Config::kBlocks64][Config::kBlockN / 2], float4 *sums,
                                     uint32_t *flag) {
#pragma unroll
    for (int v = 0; v < Config::kVectors; ++v) {
        const float *four = d[v / (Config::kBlockN / 8)] + v % (Config::kBlockN / 8) * 4;
        give_words(sums + v * 32, make_float4(four[0], four[1], four[2], four[3]));
    }
    raise_flag(flag);
}

template <class Config>
__device__ __forceinline__ void take(float (&d)[Config::kBlocks64][Config::kBlockN / 2], const float4 *sums,
                                     uint32_t *flag) {
    constexpr int kAtOnce = 4;  // on their way: more would need registers
    wait_given(flag);
#pragma unroll
    for (int first = 0; first < Config::kVectors; first += kAtOnce) {
        float4 given[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) given[i] = take_words(sums + (first + i) * 32);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
            float *four = d[(first + i) / (Config::kBlockN / 8)] + (first + i) % (Config::kBlockN / 8) * 4;
            four[0] += given[i].x, four[1] += given[i].y, four[2] += given[i].z, four[3] += given[i].w;
        }
    }
    lower_flag(flag);
}

template <class Config>
__device__ __forceinline__ void consume(const typename Config::Stages &ring, const CUtensorMap &map_c,
                                        const uint32_t *order, typename Config::Way at, const Shared &shared,
                                        int tiles_k, int place_m, int place_n, int group, int warp) {
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
    const int own = blockIdx.x * Config::kConsumerWarps + (group - 1) * 4 + warp;  // among those that hand over

    float d[Config::kBlocks64][Config::kBlockN / 2];
    for (; at.more(); at.advance()) {
        const TileAt tile = unpacked_tile(__ldg(order + at.tile));
        uint32_t reading = 0;  // the stage of the group before
        for (int k = at.from; k < at.to; ++k, place.advance()) {
            wait_phase(ring.filled(place.stage), place.parity);
            fence_products();
#pragma unroll
            for (int i = 0; i < Config::kBlocks64; ++i)
                multiply_stage(d[i], first_a + place.stage * kStageStep + i * (tile_bytes(64) / 16),
                               first_b + place.stage * kStageStep, k > at.from);
            commit_products();
            wait_products<Config::kInFlight>();
            if constexpr (Config::kInFlight == 0) {
                if (frees) arrive_remote(ring.freed(place.stage), lane);
            } else {
                if (k > at.from && frees) arrive_remote(ring.freed(reading), lane);
                reading = place.stage;
            }
        }
        if constexpr (Config::kInFlight > 0) {
            wait_products<0>();
            if (frees) arrive_remote(ring.freed(reading), lane);
        }

        if constexpr (Config::kBalanced) {
#pragma unroll
            for (int i = 0; i < Config::kBlocks64; ++i) pin(d[i]);
            if (at.gives()) {  // to the cluster after this one
                give<Config>(d, shared.sums + own * (Config::kVectors * 32) + lane, shared.flags + own);
                continue;
            }
            if (at.takes()) {  // from the one before it
                const int theirs = own - Config::kCluster * Config::kConsumerWarps;
                take<Config>(d, shared.sums + theirs * (Config::kVectors * 32) + lane, shared.flags + theirs);
            }
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
                const uint32_t *__restrict__ order, int tiles, int tiles_k, const Shared shared_tiles) {
    using Stages = typename Config::Stages;
    extern __shared__ __align__(1024) unsigned char shared[];
    const Stages ring{shared_address(shared), shared_address(shared) + Stages::kBytes + Config::kBytesC};
    const int warp = warp_in_block(), group = warp / 4;
    const int first = blockIdx.x / Config::kCluster, step = gridDim.x / Config::kCluster;
    const int place = blockIdx.x % Config::kCluster;  // m runs first
    const int place_m = place % Config::kClusterM, place_n = place / Config::kClusterM;
    const typename Config::Way at(first, step, tiles, shared_tiles.first, tiles_k);
    if (warp == 0) prefetch_map(map_c);
    if (threadIdx.x == 0) ring.init(Config::kArrivalsToFree);
    if constexpr (Config::kCluster > 1)
        cluster_sync();
    else
        __syncthreads();

    if (group == 0) {
        give_up_registers<40>();
        if (warp == 0) produce<Config>(ring, map_a, map_b, starts, order, at, step, tiles_k, place_m, place_n);
    } else {
        take_registers<232>();
        consume<Config>(ring, map_c, order, at, shared_tiles, tiles_k, place_m, place_n, group, warp % 4);
    }
    if constexpr (Config::kCluster > 1) cluster_sync();  // nobody may write to a block that has ended
}

// What can be chosen without another kernel.
struct Choice {
    enum Order { kBands, kHilbert } order = kHilbert;
    int group = 8;        // height of a band, in tiles of a cluster
    int most_blocks = 0;  // 0: the fewest that need no more rounds; with a balanced end, as many as fit
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
    const int tiles = plan->tiles_m * plan->tiles_n;
    // A balanced end may begin with any of the first 2 * clusters tiles.
    clusters = std::min(clusters, FirstTiles::kMost / 2);
    if (choice.most_blocks > 0) clusters = std::min(clusters, std::max(1, choice.most_blocks / Config::kCluster));
    plan->shared.first =
        Config::kBalanced ? first_shared(tiles, plan->tiles_k, clusters, Config::kHandOverSteps) : tiles;
    if (choice.most_blocks == 0 && plan->shared.first == tiles) clusters = even_workers(tiles, clusters);
    plan->blocks = Config::kCluster * std::min(clusters, tiles);
    if (plan->shared.first < tiles)
        return plan_sums(plan, plan->blocks * Config::kConsumerWarps, Config::kVectors * 32);
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
                              static_cast<const uint32_t *>(plan.order), plan.tiles_m * plan.tiles_n, plan.tiles_k,
                              plan.shared);
}

}  // namespace ladder
