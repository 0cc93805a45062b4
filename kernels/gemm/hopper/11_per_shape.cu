// Rung 11: the kernel of rung 10, with tile, cluster and order chosen by the shape of the problem.
//
// Idea     No tile suits all shapes: what counts is how many tiles there are for 132 multiprocessors, and which operand
//          neighbours share. A library has a table of that; so has this rung (choices.cuh), with what each row
//          measured.
// Changed  against 10_own_warps: several kernels in one library; `prepare` picks one and makes its maps, `launch`
//          starts it.
// Tile     128 x 256 or 256 x 128 for large matrices: 171 FLOP for each element loaded; 128 x 128 where those would be
//          fewer than the multiprocessors: at 1024, 64 tiles in place of 32.
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
            case Kernel::kBelow:
                return plan_with<Below>(made, *args, shape.choice);
            case Kernel::kBeside:
                return plan_with<Beside>(made, *args, shape.choice);
            case Kernel::kSquare:
                return plan_with<Square>(made, *args, shape.choice);
            case Kernel::kTall:
                return plan_with<Tall>(made, *args, shape.choice);
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
