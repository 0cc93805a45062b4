// Rung 6: whoever fits the row. A warp, a block or a cluster that stays, chosen by N; all with the row in registers.
//
// Changed  against the rungs before: the choice; and for long rows clusters that stay, as rung 5's blocks do, but with the
//          row in registers and w and b in shared memory, and with rows that are dealt out on demand.
// Table        N to         threads a row
//              WARP_MOST    32; short rows share a block of up to eight warps, a row of 1024 has its own
//              BLOCK_MOST   N / 32                                     rung 4
//              65536        FP32: N / 32, one of four groups of 256 threads in each of 1 to 8 blocks
//              131072       FP32: N / 32, one of two groups of 512 threads in each of 8 blocks
//              262144       BF16: N / 64, one of two groups of up to 512 threads in each of 1 to 8 blocks
//                           FP32: N / 32, 8 blocks of up to 1024, which end with their row
//          Defaults: WARP_MOST 1024; BLOCK_MOST 0, which is 16384 in FP32 and 4096 in BF16; GROUPS 0, as in the table.
//          RESIDENT 0: clusters that end with their row for all long rows.
// Weights  From L2 they are 8 bytes a column and row in FP32, beside 4 of x that are read and 4 that are written: three
//          quarters of what multiprocessors read. A block that stays reads its part once: 16384 columns, 128 KiB.
// Loads    A thread loads the next row's vector into the registers of the one it has just written, so that a group waits
//          for memory only while it reduces. The groups of a block take turns on its multiprocessor.
// Dealing  A counter says which row comes next; the answer travels with the moments (resident_rows.cuh).
// BF16     stays packed in registers between the passes.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes. Warps and blocks: 99.2, 97.5 and 97.4 % in FP32
//          at N = 1024, 4096 and 8192, 98.7 and 97.0 % in BF16 at 1024 and 4096. Clusters that stay: 96.6 % (four groups;
//          two: 95.2 %) and 95.5 % in FP32 at 32768 and 131072; 94.9, 92.0 and 86.1 % in BF16 at 8192, 32768 and 131072,
//          of which the last two came out at 92.2 and 87.7 % a second time. Triton at 8192, 32768 and 131072: 96.1, 87.3
//          and 47.9 %, in BF16 97.4, 77.3 and 48.2 %.
// Lost     there: in BF16 a block a row at 8192, 93.9 %, which issues an instruction in 70 % of all cycles (Triton's: 54 %);
//          four groups in BF16, 75.6 and 72.0 % at 32768 and 131072; a cluster a row that ends with it, in FP32, 90.1 and
//          83.9 %; a cluster for two rows that ends with them, in BF16 85.5 and 73.3 %, in FP32 88.0 and 71.1 % (16 blocks,
//          for 131072, find room only when all are free); bulk copies into a ring (rung 5), 88.9 and 88.8 %.
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
