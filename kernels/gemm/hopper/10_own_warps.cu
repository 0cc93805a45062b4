// Rung 10: each warp stores its own rows of C, and every choice of the kernel is open.
//
// Idea     Between two tiles the tensor cores wait for the stores of C, 1024 of 65536 cycles at 4096 for what shared
//          memory takes alone, and the 8 barriers of a warpgroup a tile make all wait for the slowest. But a warp has
//          whole rows, 16 of each piece of 64 x 64: it can order their copy itself.
// Changed  against 09_piecewise_store: boxes of C of 16 rows, one order of a warp each; the first tiles of the order as
//          a parameter, and each other one read a tile ahead; loads ask L2 for 256 bytes at once (PROMOTION), as a row
//          of 128 bytes of a tile is followed by the next k. All choices are open, as macros: cooperative.cuh.
// Measured of cuBLAS, H200, one process, single cold launches and sustained. Recorded: BF16 1.023 and 1.005 at 4096,
//          1.041 and 1.031 at 8192; FP16 1.019 and 1.010, 1.041 and 1.033. Rung 9 there: BF16 1.025 and 0.995, 1.045 and
//          1.015. In two other runs, BF16: 1.022 and 1.009, 1.021 and 1.019 at 4096, 1.031 and 1.027, 1.035 and 1.041 at 8192,
//          rung 9 1.024 and 1.000, 1.021 and 1.008, 1.031 and 1.025, 1.026 and 1.019. So stores by warps are worth nothing in
//          single launches at 4096, -0.3 to 0.9 % in those at 8192, and 0.2 to 2.2 % sustained; the same code comes back (rung
//          9, five runs) within 0.6 and 1.9 %, sustained within 1.3 and 1.9 %.
// Lost     - the first stages ordered into L2 before the cluster has met: 1.1 and 1.6 % at 4096, 1.1 % at 8192, 2.5 % at 8192
//            x 1024 x 4096 (BF16, C by warpgroups). The loads themselves come a microsecond later, for the same lines;
//          - IN_FLIGHT 1 (products of the next stage are issued before those of this one have ended, which frees stages
//            late), STAGGER 1, 2 (one warpgroup runs ahead, so that one stores while the other multiplies): nothing. Two
//            warpgroups keep the tensor cores busy anyway, and the one ahead soon waits for the other to free a stage;
//          - no cluster: sustained 2 to 3 % slower: half as many bytes again from L2 to the multiprocessors;
//          - PROMOTION 0: 0.2 % faster or slower, sustained 0.5 to 1.2 % slower (with the early loads it was 0.2 to 0.9 %
//            faster);
//          - 132 blocks: 0.9 and 1.2 % slower, see rung 8. With these, clusters of 1 x 2: another 1.1 and 2.3 %; of 2 x 2:
//            16 and 8 % (at most 30 of them fit on 132 multiprocessors, so 5 and 18 rounds in place of 4 and 16); tiles of
//            256 x 192: 8 and 2 % (11 rounds of which 0.6 is empty).
// Paid     by shape, so in the next rung:
//          - ZIGZAG: k runs back in every other round, so that what L2 still holds of the last one is read first: 0.0 to 0.9 %
//            at 4096 and at shapes of two rounds in twelve comparisons, 0.0 to 0.3 % without the early loads; 137 MB from and
//            to DRAM at 4096 in place of 158. Nothing at 8192;
//          - BALANCED: all 132 blocks, the last two rounds cut along k (common/balanced.cuh): 3.88 and 15.5 rounds in place of
//            4 and 16, for a tile of sums that each block writes and reads. In bands of 8 1.062 in place of 1.035 at 8192
//            (sustained 1.023 and 1.041: 132 multiprocessors draw more power); at 4096 0.978.
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
#define IN_FLIGHT 0
#endif
#ifndef STAGGER
#define STAGGER 0
#endif
// HILBERT 1: along a Hilbert curve; 0: in bands of GROUP tiles of a cluster.
#ifndef HILBERT
#define HILBERT 1
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef ZIGZAG
#define ZIGZAG 0
#endif
#ifndef BALANCED
#define BALANCED 0
#endif
// Blocks at work at most; 0: the fewest that need no more rounds, or with BALANCED as many as fit.
#ifndef MOST_BLOCKS
#define MOST_BLOCKS 0
#endif
// Bytes that L2 fetches at once from DRAM for a load: 0, 64, 128 or 256.
#ifndef PROMOTION
#define PROMOTION 256
#endif

using namespace ladder;

using Config = Cooperative<BM, BN, STAGES, BUFFERS, CLUSTER_M, CLUSTER_N, IN_FLIGHT, STAGGER, ZIGZAG, BALANCED>;

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
