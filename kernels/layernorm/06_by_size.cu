// Rung 6: whoever fits the row. A warp, a block or a cluster, chosen by N; all with the row in registers.
//
// Changed  against the rungs before: the choice; and a cluster, which reads w and b once for two rows.
// Table        N to         threads a row
//              WARP_MOST    32; short rows share a block of up to eight warps, a row of 1024 has its own
//              BLOCK_MOST   N / 32                                     rung 4
//              131072       N / 32 (BF16) or N / 16 (FP32) for two rows: 2 to 16 blocks of up to 512 threads
//              262144       N / 32, 8 blocks of up to 1024
//          Defaults 1024 and 16384. More than 8 blocks are not portable: a device that does not place 16 takes one row
//          a cluster instead.
// Weights  A long row finds w and b in L2: 8 bytes a column in FP32 beside the 8 of x and y. For two rows they are read
//          once. ROWS 1 or 2 says how many rows; 0, the default, two.
// BF16     stays packed in registers between the passes: two rows take what one took as floats.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes: as it was before (STREAMING 1, eight
//          rows a block for warps, rung 5 from N = 8192 on), in FP32 93.1, 93.2, 89.6, 89.0 and 88.1 %, in BF16 94.0,
//          94.8, 82.5, 70.3 and 52.6 % at N = 1024, 4096, 8192, 32768 and 131072. What it is now was not measured
//          yet.
// Code     ../norm/rows_by_size.cuh, ../norm/vector_rows.cuh.
// Sizes    N up to 262144. Rows that do not begin on 16 bytes go element by element, one row at a time.
#include <type_traits>

#include "../norm/rows_by_size.cuh"
#include "layernorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    return ladder::prepare_by_size<Element, true>(args->x, args->w, args->b, args->y, args->N, plan);
}

extern "C" void destroy(void *plan) { ladder::destroy_by_size(plan); }

extern "C" cudaError_t launch(const Args *args, void *plan, cudaStream_t stream) {
    return ladder::launch_by_size<Element, true>(*static_cast<ladder::SizePlan *>(plan), args->x, args->w, args->b,
                                                 args->y, args->T, args->N, args->eps, stream);
}
