// Rung 4: the row in registers, 16 bytes at a time. Read once, written once.
//
// Changed  against the rung before: a block keeps its row, 32 elements a thread, so that the mean can be taken first
//          and the distances from it second without reading again: two passes over registers, as exact as rung 2 and
//          free of Welford's chain. All loads are issued before one is used, and the parts of the warps are joined
//          by one exchange.
// Tile     N / 32 threads a block: N = 8192 takes 256; 64 registers a thread leave 1024 threads a multiprocessor,
//          128 KiB of reads in flight in FP32. w and b, 2 N elements a row, come through L1: 64 KiB at N = 8192,
//          which fit; from N = 32768 on (256 KiB) they come from L2 for every row, twice the bytes of x.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes: 99.3, 97.8, 96.9 and 84.8 % in FP32 at N
//          = 1024, 4096, 8192 and 32768; the Triton program 99.8, 97.1, 96.1 and 87.9 %. At 32768 w and b come from L2
//          and are as many bytes as x and y. In an earlier run, with accesses that leave the caches first (STREAMING 1),
//          96.3, 93.4, 92.5 and 87.8 %.
// Code     ../norm/vector_rows.cuh, ../norm/moments.cuh (RMSNorm shares them).
// Sizes    N up to 32768. Rows that do not begin on 16 bytes go element by element.
#include <type_traits>

#include "../norm/vector_rows.cuh"
#include "layernorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;

template <int kWidth>
cudaError_t start(const Args *a, cudaStream_t stream) {
    return ladder::launch_vector_rows<Element, true, kWidth, ladder::kBlock>(a->x, a->w, a->b, a->y, a->T, a->N, a->eps,
                                                                             stream);
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    const bool aligned =
        ladder::rows_aligned(args->x, args->y, args->N) && ladder::rows_aligned(args->w, args->b, args->N);
    return aligned ? start<ladder::kVector<Element>>(args, stream) : start<1>(args, stream);
}
