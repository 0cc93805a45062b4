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
//          Defaults: WARP_MOST 1024, BLOCK_MOST 16384.
// Weights  From L2 they are 8 bytes a column and row in FP32, beside 4 of x that are read and 4 that are written: three
//          quarters of what multiprocessors read. A block that stays reads its part once: 16384 columns, 128 KiB.
// Loads    A thread loads the next row's vector into the registers of the one it has just written, so that a group waits
//          for memory only while it reduces. The groups of a block take turns on its multiprocessor.
// Dealing  A counter says which row comes next; the answer travels with the moments (resident_rows.cuh).
// BF16     stays packed in registers between the passes, but for the rows of a block, which are unpacked once, into floats.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes, at N = 1024, 4096, 8192, 32768 and 131072: 99.4,
//          97.7, 97.0, 96.5 and 95.6 % in FP32, 98.4, 98.0, 95.8, 92.0 and 87.9 % in BF16; the Triton program 99.8, 97.1,
//          96.1, 87.9 and 47.8 %, in BF16 98.5, 96.6, 96.7, 76.9 and 48.3 %.
// Lost     in other runs, where this had the same to 0.6 %: in BF16 at 8192 a block with its row packed, 94.2 %, which issues an
//          instruction in 70 % of all cycles (Triton's: 54 %), and clusters that stay, 94.8 %; at 32768 and 131072 four groups,
//          75.7 and 72.0 %, and parts of a row whose end is jumped over as a block's is, 89.6 and 85.2 %. In FP32 two groups at
//          32768, 95.1 %; a cluster a row that ends with it, 90.1 and 83.9 %; a cluster for two rows that ends with them, 88.0
//          and 71.1 %, in BF16 85.5 and 73.3 % (16 blocks, for 131072, find room only when all are free).
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
