// Rung 5: whoever fits the row. A warp, a block, or blocks that stay, chosen by N.
//
// Changed  against the rungs before: nothing but the choice.
// Table        N to         threads a row                         from
//              WARP_MOST    32, eight rows a block, no barrier    rung 3's code, a warp a row
//              BLOCK_MOST   N / 32                                rung 3
//              131072       16 elements each, up to 8 blocks      rung 4, where rows are whole vectors of 16 bytes
//              262144       32 elements each, up to 8 blocks      rung 3's code, a cluster a row, for all others
//          Defaults 1024 and 4096. Below, a row is too short for 512 threads and a barrier; above, the barrier of a
//          reduction costs more than a ring.
// Sizes    N up to 262144.
#include <type_traits>

#include "../norm/rows_by_size.cuh"
#include "rmsnorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    return ladder::prepare_by_size<Element, false>(args->x, args->w, args->w, args->y, args->N, plan);
}

extern "C" void destroy(void *plan) { delete static_cast<ladder::SizePlan *>(plan); }

extern "C" cudaError_t launch(const Args *args, void *plan, cudaStream_t stream) {
    return ladder::launch_by_size<Element, false>(*static_cast<ladder::SizePlan *>(plan), args->x, args->w, args->w,
                                                args->y, args->T, args->N, args->eps, stream);
}
