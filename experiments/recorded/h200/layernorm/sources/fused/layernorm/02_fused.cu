// Rung 2: one kernel. A block keeps to its row from the first sum to the last element.
//
// Changed  against the rung before: mean and variance stay in the block, so nothing but x, w, b and y is in memory;
//          and the second and third pass over a row follow the first at once, while the row is still in L1 (to N
//          about 8192 in FP32: eight blocks a multiprocessor share it) or L2.
// Bytes    From memory the least, if the row stays in L2; through L1 three times the reads.
// Limit    two barriers a row with nothing in flight, and 4-byte (2-byte) accesses.
// Chain    of additions in a thread: N / 256.
// Sizes    any.
#include "../norm/scalar_rows.cuh"
#include "layernorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;
using namespace ladder;

__global__ void __launch_bounds__(kRowThreads)
    fused(const Element *__restrict__ x, const Element *__restrict__ w, const Element *__restrict__ b,
          Element *__restrict__ y, int64_t N, float eps) {
    const Element *from = x + blockIdx.x * N;
    Element *to = y + blockIdx.x * N;
    const float mean = row_sum(N, [from](int64_t i) { return to_float(from[i]); }) / static_cast<float>(N);
    const float squares = row_sum(N, [from, mean](int64_t i) {
        const float apart = to_float(from[i]) - mean;
        return apart * apart;
    });
    const float inverse = inverse_deviation(squares, N, eps);
    for (int64_t i = threadIdx.x; i < N; i += kRowThreads) {
        const float normal = (to_float(from[i]) - mean) * inverse;
        to[i] = from_float<Element>(normal * to_float(w[i]) + to_float(b[i]));
    }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    if (args->T > INT32_MAX) return cudaErrorInvalidValue;
    fused<<<static_cast<unsigned>(args->T), kRowThreads, 0, stream>>>(args->x, args->w, args->b, args->y, args->N,
                                                                      args->eps);
    return cudaGetLastError();
}
