// Rung 1: one kernel for each line of the formula. The statistics go through memory.
//
// Idea     mean = sum x / N;  variance = sum (x - mean)^2 / N;  y = (x - mean) / sqrt(variance + eps) w + b.
//          A kernel for each: a block a row for the two sums, then one thread an element.
// Bytes    Three reads of x and a write of y: 2.0 times the least. At 512 MiB nothing is left in L2 for the next
//          kernel.
// Limit    everything is fetched again by each kernel, each of which ends by waiting for its slowest block; a thread
//          has one 4-byte (2-byte) load in flight for each step the compiler unrolls.
// Chain    of additions in a thread: N / 256.
// Sizes    any.
#include "../norm/scalar_rows.cuh"
#include "layernorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;
using namespace ladder;

__global__ void __launch_bounds__(kRowThreads)
    means(const Element *__restrict__ x, float *__restrict__ mean, int64_t N) {
    const float sum = row_sum(N, [x = x + blockIdx.x * N](int64_t i) { return to_float(x[i]); });
    if (threadIdx.x == 0) mean[blockIdx.x] = sum / static_cast<float>(N);
}

__global__ void __launch_bounds__(kRowThreads) inverses(const Element *__restrict__ x, const float *__restrict__ mean,
                                                        float *__restrict__ inverse, int64_t N, float eps) {
    const float squares = row_sum(N, [x = x + blockIdx.x * N, m = mean[blockIdx.x]](int64_t i) {
        const float apart = to_float(x[i]) - m;
        return apart * apart;
    });
    if (threadIdx.x == 0) inverse[blockIdx.x] = inverse_deviation(squares, N, eps);
}

__global__ void __launch_bounds__(kRowThreads)
    apply(const Element *__restrict__ x, const Element *__restrict__ w, const Element *__restrict__ b,
          const float *__restrict__ mean, const float *__restrict__ inverse, Element *__restrict__ y, int64_t total,
          int64_t N) {
    const int64_t at = blockIdx.x * static_cast<int64_t>(kRowThreads) + threadIdx.x;
    if (at >= total) return;
    const int64_t row = at / N, column = at - row * N;
    const float normal = (to_float(x[at]) - mean[row]) * inverse[row];
    y[at] = from_float<Element>(normal * to_float(w[column]) + to_float(b[column]));
}

extern "C" size_t workspace_bytes(const Args *args) { return 2 * static_cast<size_t>(args->T) * sizeof(float); }

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    const int64_t total = args->T * args->N, blocks = (total + kRowThreads - 1) / kRowThreads;
    if (args->T > INT32_MAX || blocks > INT32_MAX) return cudaErrorInvalidValue;
    float *mean = static_cast<float *>(args->workspace), *inverse = mean + args->T;
    const unsigned rows = static_cast<unsigned>(args->T);
    means<<<rows, kRowThreads, 0, stream>>>(args->x, mean, args->N);
    inverses<<<rows, kRowThreads, 0, stream>>>(args->x, mean, inverse, args->N, args->eps);
    apply<<<static_cast<unsigned>(blocks), kRowThreads, 0, stream>>>(args->x, args->w, args->b, mean, inverse, args->y,
                                                                     total, args->N);
    return cudaGetLastError();
}
