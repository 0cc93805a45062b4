// Rung 4: blocks that stay, the next rows on their way. TMA bulk copies into a ring, weights in registers.
//
// Changed  against the rung before: as many blocks as the device holds, each taking row after row. The TMA unit
//          fetches the rows to come while this one is reduced, so that the barrier of a reduction stops no load; w
//          is read once a block, not once a row, and stays in the registers of the thread that owns its columns.
//          Rows longer than 8192 are shared by a cluster (2 to 8 blocks), which exchanges sums through distributed
//          shared memory.
// Tile     16 elements a thread. N to 65536: 512 threads, two blocks a multiprocessor, rings of up to 8 stages in
//          106 KiB (N = 8192, FP32: 3 of 32 KiB; two blocks have 192 KiB of reads in flight). N to 131072: 8 blocks
//          of 1024 threads, one a multiprocessor, 3 stages of 64 KiB.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes: in FP32 91.6, 92.1, 91.6 and 91.2 % at N
//          = 4096, 8192, 32768 and 131072, in BF16 84.0, 88.6, 87.5 and 80.9 %; at N = 1024 (of an earlier version)
//          55 %. LayerNorm, with a second reduction in each row, is slower still: time and not bytes is what a row
//          costs here. A copy by bulk copies alone reaches 0.92 of plain accesses.
// Tail     rows are dealt out in advance: 16384 rows over 264 blocks are 62.06 each, so that the last round is 63.
// Code     ../norm/persistent_rows.cuh (LayerNorm shares it).
// Sizes    N up to 131072, of which a row must be whole vectors of 16 bytes, as bulk copies ask for: N % 4 (FP32), N
//          % 8 (BF16). Other rows are refused.
#include <type_traits>

#include "../norm/persistent_rows.cuh"
#include "rmsnorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    const bool aligned =
        ladder::rows_aligned(args->x, args->y, args->N) && ladder::rows_aligned(args->w, args->w, args->N);
    if (!aligned || !ladder::persistent_fits(args->N)) return cudaErrorInvalidValue;
    return ladder::make_plan<Element, false>(args->T, args->N, plan);
}

extern "C" void destroy(void *plan) { delete static_cast<ladder::PersistentPlan *>(plan); }

extern "C" cudaError_t launch(const Args *args, void *plan, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    return ladder::launch_persistent<Element, false>(*static_cast<ladder::PersistentPlan *>(plan), args->x, args->w,
                                                     args->w, args->y, args->T, args->N, args->eps, stream);
}
