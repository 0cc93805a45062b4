// Rung 5: blocks that stay, the next rows on their way. TMA bulk copies into a ring, weights in registers.
//
// Changed  against the rung before: as many blocks as the device holds, each taking row after row. The TMA unit
//          fetches the rows to come while this one is reduced, so that the barrier of a reduction stops no load; w
//          and b are read once a block, not once a row, and stay in the registers of the thread that owns their
//          columns. Rows longer than 8192 are shared by a cluster (2 to 8 blocks), which exchanges moments through
//          distributed shared memory.
// Tile     16 elements a thread. N to 65536: 512 threads, two blocks a multiprocessor, rings of up to 8 stages in
//          106 KiB (N = 8192, FP32: 3 of 32 KiB; two blocks have 192 KiB of reads in flight). N to 131072: 8 blocks
//          of 1024 threads, one a multiprocessor, 3 stages of 64 KiB.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes: in FP32 89.3, 90.9, 89.0 and 89.0 % at N
//          = 4096, 8192, 32768 and 131072, in BF16 64.2, 83.6, 63.8 and 53.2 %. At N = 1024 (of an earlier version),
//          34 %: each of 264 blocks goes through 496 rows at 1.5 us each. Prefetching is no substitute for more blocks.
//          Counters at N = 8192 say why: of 24.3 cycles from one instruction of a warp to its next, 12.4 are waits for
//          shared memory, which holds the row and is read three times; and multiprocessors are at work for 92 % of the
//          time on average, one for 69 %.
// Tail     rows are dealt out in advance, as many to each block, but multiprocessors do not get equal shares of memory's
//          rate: the fast ones wait for the slow ones in the end. Rung 6 deals them out on demand.
// Code     ../norm/persistent_rows.cuh (RMSNorm shares it).
// Sizes    N up to 131072, of which a row must be whole vectors of 16 bytes, as bulk copies ask for: N % 4 (FP32), N
//          % 8 (BF16). Other rows are refused.
#include <type_traits>

#include "../norm/persistent_rows.cuh"
#include "layernorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    const bool aligned =
        ladder::rows_aligned(args->x, args->y, args->N) && ladder::rows_aligned(args->w, args->b, args->N);
    if (!aligned || !ladder::persistent_fits(args->N)) return cudaErrorInvalidValue;
    return ladder::make_plan<Element, true>(args->T, args->N, plan);
}

extern "C" void destroy(void *plan) { delete static_cast<ladder::PersistentPlan *>(plan); }

extern "C" cudaError_t launch(const Args *args, void *plan, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    return ladder::launch_persistent<Element, true>(*static_cast<ladder::PersistentPlan *>(plan), args->x, args->w,
                                                    args->b, args->y, args->T, args->N, args->eps, stream);
}
