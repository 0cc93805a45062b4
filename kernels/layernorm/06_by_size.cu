// Rung 6: whoever fits the row. A warp, a block or a cluster that stays, chosen by N; all with the row in registers.
//
// Changed  against the rungs before: the choice; and for long rows clusters that stay, as rung 5's blocks do, but with the
//          row in registers and w and b in shared memory, and with rows that are dealt out on demand.
// Table        N to         threads a row
//              WARP_MOST    32; short rows share a block of up to eight warps, a row of 1024 has its own
//              BLOCK_MOST   N / 32                                     rung 4
//              131072       N / 32: one of GROUPS groups of 1024 / GROUPS threads in each of 2 to 8 blocks (BF16: N / 64,
//                           1 to 4 blocks; to 262144)
//              262144       N / 32, 8 blocks of up to 1024, which end with their row
//          Defaults 1024, 16384, two groups. RESIDENT 0: clusters that end with their rows (ROWS 1 or 2 of them) for all
//          long rows.
// Weights  From L2 they are 8 bytes a column and row in FP32, beside 4 of x that are read and 4 that are written: three
//          quarters of what multiprocessors read. A block that stays reads its part once: 16384 columns, 128 KiB.
// Loads    A thread loads the next row's vector into the registers of the one it has just written, so that a group waits
//          for memory only while it reduces. Two groups, with 64 KiB of a row each, take turns on a multiprocessor.
// Dealing  A counter says which row comes next; the answer travels with the moments (resident_rows.cuh).
// BF16     stays packed in registers between the passes.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes: 99.2, 97.5 and 97.4 % in FP32, 98.7, 97.0 and
//          94.3 % in BF16 at N = 1024, 4096 and 8192. At 32768 and 131072 clusters for two rows that end with them had
//          88.0 and 71.1 %, in BF16 84.7 and 73.4 %: of 16 blocks, for 131072, a cluster finds room only when all are
//          free. Clusters that stay were not measured yet.
// Code     ../norm/rows_by_size.cuh, ../norm/vector_rows.cuh, ../norm/resident_rows.cuh.
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
