// Rung 2: one kernel. A block keeps to its row from the sum to the last element.
//
// Changed  against the rung before: the statistic stays in the block, and the second pass over a row follows the
//          first at once, while the row is still in L1 (to N about 8192 in FP32: eight blocks a multiprocessor share
//          it) or L2.
// Bytes    From memory the least, if the row stays in L2; through L1 twice the reads.
// Limit    a barrier a row with nothing in flight, and 4-byte (2-byte) accesses.
// Chain    of additions in a thread: N / 256.
// Sizes    any.
#include "../norm/scalar_rows.cuh"
#include "rmsnorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;
using namespace ladder;

__global__ void __launch_bounds__(kRowThreads)
    fused(const Element *__restrict__ x, const Element *__restrict__ w, Element *__restrict__ y, int64_t N, float eps) {
    const Element *from = x + blockIdx.x * N;
    Element *to = y + blockIdx.x * N;
    const float squares = row_sum(N, [from](int64_t i) {
        const float value = to_float(from[i]);
        return value * value;
    });
    const float inverse = inverse_deviation(squares, N, eps);
    for (int64_t i = threadIdx.x; i < N; i += kRowThreads) {
        to[i] = from_float<Element>(to_float(from[i]) * inverse * to_float(w[i]));
    }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    if (args->T > INT32_MAX) return cudaErrorInvalidValue;
    fused<<<static_cast<unsigned>(args->T), kRowThreads, 0, stream>>>(args->x, args->w, args->y, args->N, args->eps);
    return cudaGetLastError();
}
