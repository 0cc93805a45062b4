// Rung 5: whoever fits the row. A warp, a block or a cluster that stays, chosen by N; all with the row in registers.
//
// Changed  against the rungs before: the choice; and for long rows clusters that stay, as rung 4's blocks do, but with the
//          row in registers and w in shared memory, and with rows that are dealt out on demand.
// Table        N to         threads a row
//              WARP_MOST    32; short rows share a block of up to eight warps, a row of 1024 has its own
//              BLOCK_MOST   N / 32                                     rung 3
//              65536        FP32: N / 32, one of four groups of 256 threads in each of 1 to 8 blocks
//              131072       FP32: N / 32, one of two groups of 512 threads in each of 8 blocks
//              262144       BF16: N / 64, one of two groups of up to 512 threads in each of 1 to 8 blocks
//                           FP32: N / 32, 8 blocks of up to 1024, which end with their row
//          Defaults: WARP_MOST 1024; BLOCK_MOST 0, which is 16384 in FP32 and 4096 in BF16; GROUPS 0, as in the table.
//          RESIDENT 0: clusters that end with their row for all long rows.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes: as it was before (STREAMING 1, eight
//          rows a block for warps, rung 4 from N = 8192 on), in FP32 93.4, 94.1, 91.3, 90.7 and 90.2 %, in BF16 94.3,
//          93.6, 87.5, 87.1 and 80.6 % at N = 1024, 4096, 8192, 32768 and 131072. What it is now was not measured
//          yet;
//          the limits are those that LayerNorm was found best with.
// Code     ../norm/rows_by_size.cuh, ../norm/vector_rows.cuh, ../norm/resident_rows.cuh.
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
