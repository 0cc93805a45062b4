// Rung 11: the kernel of rung 10, with tile, cluster and order chosen by the shape of the problem.
//
// Idea     What is best depends on the number of tiles. 8192 is 15.5 rounds of 66 pairs of blocks: cutting the last two of
//          them along k saves half a round of sixteen, for sums that each block hands over once. At 4096 that would save
//          an eighth of a round of four, and costs more than it saves. Few rounds gain from k that runs back in every
//          other one, many do not. And 1024 is 32 tiles, for 132 multiprocessors. A library has a table of that; so has
//          this rung (choices.cuh), with what each row measured.
// Changed  against 10_own_warps: three kernels in one library; `prepare` picks one and makes its maps, `launch` starts
//          it.
// Measured of cuBLAS, recorded, single cold launches and sustained: BF16 1.026 and 1.012 at 4096, 1.063 and 1.023 at 8192; FP16
//          1.020 and 1.012, 1.058 and 1.032. In the run before 1.023, 1.012, 1.046, 1.029; 1.019, 1.007, 1.047, 1.034. The tensor
//          pipe is active for 95.2 % of the cycles at 4096 (cuBLAS 95.0 %), at a clock 2.3 % higher with 22 % fewer bytes from
//          and to DRAM. What is left: the pipe has 90 % of all cycles of 132 multiprocessors. 3 % are the four that have no
//          block, 2 % those of the others before and after a block, 5 % lie in the block, probably at its ends for the
//          most part. And the clock, 1.66 of 1.98 GHz.
// Tile     128 x 256 in pairs: 171 FLOP for each element loaded; 128 x 128 where those would be fewer than the
//          multiprocessors: at 1024, 64 tiles in place of 32.
// Sizes    K % 8 == 0 and N % 8 == 0 (rows of 16 bytes); any M; up to 65536 tiles of a cluster each way.
#include "gemm.h"

#include "choices.cuh"

using namespace ladder;

template <class Config>
static cudaError_t plan_with(Plan *plan, const Args &args, const Choice &choice) {
    plan->start = launch_cooperative<Config>;
    return plan_cooperative<Config>(plan, args, choice);
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    const ShapeChoice &shape = choose(args->M, args->N, args->K);
    return make_plan(plan, [&](Plan *made) {
        switch (shape.kernel) {
            case Kernel::kZigzag:
                return plan_with<Zigzag>(made, *args, shape.choice);
            case Kernel::kBalanced:
                return plan_with<Balanced>(made, *args, shape.choice);
            case Kernel::kSmall:
                return plan_with<Small>(made, *args, shape.choice);
        }
        return cudaErrorInvalidValue;
    });
}

extern "C" cudaError_t launch(const Args *, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    return plan.start(plan, stream);
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
