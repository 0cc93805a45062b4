// Rung 11: one warpgroup runs ahead of the other, so that they do not store C at the same time.
//
// Idea     Two consumers that start together end together: both store their part of C, and the tensor cores wait for
//          them. If one is ahead by a few stages, it stores while the other still multiplies, at the full rate, what is
//          left of the tile, and when that one stores, the first is back with products of the next tile, which the
//          producer has loaded meanwhile. Nothing has to keep them apart: both run at the same rate.
// Changed  against 10_in_flight: the second warpgroup begins when stage STAGGER has been filled for the first time. C
//          is stored by warps, each its 16 rows of a piece, so that no warp waits for another (8 barriers of a
//          warpgroup less for each tile). All else that remained open is a macro: see cooperative.cuh. Loads ask L2 for
//          256 bytes at once (PROMOTION), as a row of 128 bytes of a tile is followed by the next k. And the start: the
//          first tile of each cluster is a parameter, and its first stages are on their way to L2 before the cluster
//          has met.
// Tile     BM x BN = 128 x 256, BK 64; 4 * 48 + 2 * 2 * 8 = 224 KB of 227.
// Sizes    K % 8 == 0 and N % 8 == 0 (rows of 16 bytes); any M; up to 65536 tiles of a cluster each way.
#include "gemm.h"

#include "cooperative.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 256
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef BUFFERS
#define BUFFERS 2
#endif
#ifndef CLUSTER_M
#define CLUSTER_M 2
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 1
#endif
#ifndef IN_FLIGHT
#define IN_FLIGHT 1
#endif
#ifndef STAGGER
#define STAGGER 1
#endif
// HILBERT 1: along a Hilbert curve; 0: in bands of GROUP tiles of a cluster.
#ifndef HILBERT
#define HILBERT 1
#endif
#ifndef GROUP
#define GROUP 8
#endif
// Blocks at work at most; 0: as many as fit.
#ifndef MOST_BLOCKS
#define MOST_BLOCKS 0
#endif
// Bytes that L2 fetches at once from DRAM for a load: 0, 64, 128 or 256.
#ifndef PROMOTION
#define PROMOTION 256
#endif

using namespace ladder;

using Config = Cooperative<BM, BN, STAGES, BUFFERS, CLUSTER_M, CLUSTER_N, IN_FLIGHT, STAGGER>;

constexpr CUtensorMapL2promotion kPromotion = PROMOTION == 256   ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B
                                              : PROMOTION == 128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B
                                              : PROMOTION == 64  ? CU_TENSOR_MAP_L2_PROMOTION_L2_64B
                                                                 : CU_TENSOR_MAP_L2_PROMOTION_NONE;

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    const Choice choice{HILBERT ? Choice::kHilbert : Choice::kBands, GROUP, MOST_BLOCKS, kPromotion};
    return make_plan(plan, [&](Plan *made) { return plan_cooperative<Config>(made, *args, choice); });
}

extern "C" cudaError_t launch(const Args *, void *prepared, cudaStream_t stream) {
    return launch_cooperative<Config>(*static_cast<const Plan *>(prepared), stream);
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
