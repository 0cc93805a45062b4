// Rung 10: each warp stores its own rows of C, and the first loads do not wait for the cluster to meet.
//
// Idea     Between two tiles the tensor cores wait for the stores of C, 1024 of 65536 cycles at 4096 for what shared
//          memory takes alone, and the 8 barriers of a warpgroup a tile make all wait for the slowest. But a warp has
//          whole rows, 16 of each piece of 64 x 64: it can order their copy itself. And a launch begins with a
//          microsecond of latencies in a row (order of the tiles, maps, first tiles, all from DRAM), which may overlap.
// Changed  against 09_piecewise_store: boxes of C of 16 rows, one order of a warp each; the first tiles of the order as
//          a parameter; maps and the first stages on their way to L2 before the cluster has met; loads ask L2 for 256
//          bytes at once (PROMOTION), as a row of 128 bytes of a tile is followed by the next k. All choices are open,
//          as macros: cooperative.cuh.
// Measured of cuBLAS, H200, one process, single cold launches and sustained: BF16 1.021 and 1.014 at 4096, 1.033 and
//          1.033 at 8192; FP16 1.020 and 1.011, 1.046 and 1.039. What was tried against it, BF16, 4096 and 8192:
//          - IN_FLIGHT 1 (products of the next stage are issued before those of this one have ended, which frees stages
//            late): 1.019 and 1.033 single, 1.015 and 1.030 sustained. Two warpgroups keep the tensor cores busy
//            anyway;
//          - STAGGER 1, 2 (one warpgroup runs ahead, so that one stores while the other multiplies): nothing, as both
//            share each stage of the ring, and the one ahead soon waits for the other to free it;
//          - bands of 8 pairs in place of the curve (HILBERT 0): 1.024 and 1.041 single, but 1.007 and 1.029 sustained:
//            rounds are the same squares, but the next one is not always beside the last;
//          - no cluster: 1.020 and 1.036 single, 0.993 and 1.000 sustained: half as many bytes again from L2 to the
//            multiprocessors cost 2 to 3 % where power is short;
//          - PROMOTION 0: 0.1 to 0.8 % slower.
//          And with 132 blocks (1.004 and 1.017): a 256 x 128 tile 1.002 and 1.014; clusters of 1 x 2 0.993 and 0.993;
//          of 2 x 2 0.846 and 0.936: at most 30 of them fit on 132 multiprocessors, whose groups are no multiples of
//          4, so 5 and 18 rounds in place of 4 and 16; 256 x 192 0.924 and 1.000: 11 rounds of which 0.6 is empty.
// Open     (unmeasured; experiments/tuning/hopper_tuning.yaml has the points)
//          - ZIGZAG: k runs back in every other round. Of the 64 MB that a round reads at 8192, the next one needs half
//            again, and what L2 still holds of it are the last values of k: read first, they hit. With an L2 that keeps
//            the last 30, 40 or 50 MB, 870, 830 or 770 MB come from DRAM in place of 1020. At 4096, where a round's
//            panels are 32 MB, nothing;
//          - BALANCED: all 132 blocks, the last two rounds cut along k (common/balanced.cuh): 3.88 and 15.5 rounds in
//            place of 4 and 16, for a tile of sums that each block writes and reads, about 4 steps of k. In cycles 1.4
//            and 2.8 % less; under a power cap, where the rate goes with the number of multiprocessors to the 2/3, 1
//            and 2 %.
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
