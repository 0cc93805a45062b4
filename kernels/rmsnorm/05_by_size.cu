// Rung 5: whoever fits the row. A warp, a block or a cluster, chosen by N; all with the row in registers.
//
// Changed  against the rungs before: the choice; and a cluster, which reads w and b once for two rows (BF16).
// Table        N to         threads a row
//              WARP_MOST    32; short rows share a block of up to eight warps, a row of 1024 has its own
//              BLOCK_MOST   N / 32                                     rung 3
//              131072       N / 32, 2 to 8 blocks of up to 512; for two rows in BF16
//              262144       N / 32, 8 blocks of up to 1024
//          Defaults 1024 and 16384.
// Rows     ROWS 1 or 2 says how many rows a cluster takes; 0, the default, one in FP32 and two in BF16, which stays packed
//          in registers between the passes: two rows take what one took as floats.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes: as it was before (STREAMING 1, eight
//          rows a block for warps, rung 4 from N = 8192 on), in FP32 93.4, 94.1, 91.3, 90.7 and 90.2 %, in BF16 94.3,
//          93.6, 87.5, 87.1 and 80.6 % at N = 1024, 4096, 8192, 32768 and 131072. What it is now was not measured
//          yet.
// Code     ../norm/rows_by_size.cuh, ../norm/vector_rows.cuh.
// Sizes    N up to 262144. Rows that do not begin on 16 bytes go element by element, one row at a time.
#include <type_traits>

#include "../norm/rows_by_size.cuh"
#include "rmsnorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    return ladder::prepare_by_size<Element, false>(args->x, args->w, args->w, args->y, args->N, plan);
}

extern "C" void destroy(void *plan) { ladder::destroy_by_size(plan); }

extern "C" cudaError_t launch(const Args *args, void *plan, cudaStream_t stream) {
    return ladder::launch_by_size<Element, false>(*static_cast<ladder::SizePlan *>(plan), args->x, args->w, args->w,
                                                  args->y, args->T, args->N, args->eps, stream);
}
