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
//          Defaults: WARP_MOST 1024, BLOCK_MOST 16384.
// BF16     stays packed in registers between the passes, but for the rows of a block, which are unpacked once, into floats.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes, at N = 1024, 4096, 8192, 32768 and 131072: 99.5,
//          98.1, 97.2, 97.2 and 95.6 % in FP32, 98.5, 97.5, 97.4, 95.1 and 93.5 % in BF16; the Triton program 100.0, 97.3,
//          96.2, 97.3 and 63.9 %, in BF16 99.5, 97.1, 97.3, 88.4 and 58.9 %.
// Lost     in another run, in FP32: a cluster a row that ends with it, 89.9 % at 131072 (97.6 % at 32768, where it is as good),
//          and two groups at 32768, 95.8 %. In BF16 at 8192 clusters that stay, 96.7 %; a block's row unpacked in each pass,
//          97.2 %, is as good. (The same code came out at 94.7 and 95.2 % in that run, and at 93.2 and 92.8 %.)
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
