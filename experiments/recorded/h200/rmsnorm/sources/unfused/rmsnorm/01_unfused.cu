// Rung 1: one kernel for each line of the formula. The statistic goes through memory.
//
// Idea     y = x / sqrt(mean(x^2) + eps) w. A kernel for the mean of the squares, a block a row; then one thread an
//          element.
// Bytes    Two reads of x and a write of y: 1.5 times the least. At 512 MiB nothing is left in L2 for the second
//          kernel.
// Limit    x is fetched again, and between the kernels everybody waits for the slowest block.
// Chain    of additions in a thread: N / 256.
// Sizes    any.
#include "../norm/scalar_rows.cuh"
#include "rmsnorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;
using namespace ladder;

__global__ void __launch_bounds__(kRowThreads)
    inverses(const Element *__restrict__ x, float *__restrict__ inverse, int64_t N, float eps) {
    const float squares = row_sum(N, [x = x + blockIdx.x * N](int64_t i) {
        const float value = to_float(x[i]);
        return value * value;
    });
    if (threadIdx.x == 0) inverse[blockIdx.x] = inverse_deviation(squares, N, eps);
}

__global__ void __launch_bounds__(kRowThreads)
    apply(const Element *__restrict__ x, const Element *__restrict__ w, const float *__restrict__ inverse,
          Element *__restrict__ y, int64_t total, int64_t N) {
    const int64_t at = blockIdx.x * static_cast<int64_t>(kRowThreads) + threadIdx.x;
    if (at >= total) return;
    const int64_t row = at / N, column = at - row * N;
    y[at] = from_float<Element>(to_float(x[at]) * inverse[row] * to_float(w[column]));
}

extern "C" size_t workspace_bytes(const Args *args) { return static_cast<size_t>(args->T) * sizeof(float); }

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    const int64_t total = args->T * args->N, blocks = (total + kRowThreads - 1) / kRowThreads;
    if (args->T > INT32_MAX || blocks > INT32_MAX) return cudaErrorInvalidValue;
    float *inverse = static_cast<float *>(args->workspace);
    inverses<<<static_cast<unsigned>(args->T), kRowThreads, 0, stream>>>(args->x, inverse, args->N, args->eps);
    apply<<<static_cast<unsigned>(blocks), kRowThreads, 0, stream>>>(args->x, args->w, inverse, args->y, total,
                                                                     args->N);
    return cudaGetLastError();
}
