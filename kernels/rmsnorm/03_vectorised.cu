// Rung 3: the row in registers, 16 bytes at a time. Read once, written once.
//
// Changed  against the rung before: a block keeps its row, 32 elements a thread, so that nothing is read again. All
//          loads are issued before one is used, and the sums of the warps are joined by one exchange.
// Tile     N / 32 threads a block: N = 8192 takes 256; 64 registers a thread leave 1024 threads a multiprocessor,
//          128 KiB of reads in flight in FP32 (64 KiB in BF16). w, N elements a row, comes through L1, where it fits
//          to N = 32768 (128 KiB in FP32).
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes: 99.4, 98.4, 97.0 and 91.1 % in FP32 at N
//          = 1024, 4096, 8192 and 32768; the Triton program 100.0, 97.3, 96.2 and 97.3 %. In an earlier run, with
//          STREAMING 1, 96.4, 93.8, 92.9 and 93.2 %.
// Code     ../norm/vector_rows.cuh, ../norm/moments.cuh (LayerNorm shares them).
// Sizes    N up to 32768. Rows that do not begin on 16 bytes go element by element.
#include <type_traits>

#include "../norm/vector_rows.cuh"
#include "rmsnorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;

template <int kWidth>
cudaError_t start(const Args *a, cudaStream_t stream) {
    return ladder::launch_vector_rows<Element, false, kWidth, ladder::kBlock>(a->x, a->w, a->w, a->y, a->T, a->N,
                                                                              a->eps, stream);
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    const bool aligned =
        ladder::rows_aligned(args->x, args->y, args->N) && ladder::rows_aligned(args->w, args->w, args->N);
    return aligned ? start<ladder::kVector<Element>>(args, stream) : start<1>(args, stream);
}
