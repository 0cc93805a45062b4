// Mean filter 4, running column sums: a thread walks down a column and keeps the sum of the last 2R+1 pixels.
//
// Changed against the separable kernel: from one row to the next, a column's sum gains the row that comes in and loses
// the one that goes out: 2 additions a pixel for any radius, where the second pass took 2R+1. The halo above a strip is
// paid once for 128 rows, not for 32. The sums of neighbouring columns meet in shared memory, one row at a time, where
// a thread adds 2R+1 of them.
// What is new to be careful about:
// - Cancellation. Each addition and each subtraction rounds, and the error stays in the sum. So a strip is 128 rows, and
//   the next one starts afresh; the problem's tolerance allows for 256 rows.
// - NaN and infinities. What has come in cannot be taken away: inf - inf is NaN, for the rest of the strip. A sum that is
//   not finite is therefore added up anew from its 2R+1 pixels.
//
// Tile arithmetic: 256 threads, 256 - 2R columns of pixels and R either side (226 of 256 for R = 15), 128 rows. Two rows
// of sums in shared memory in turn, so that one barrier a row is enough.
#include <cfloat>

#include "edges.cuh"
#include "mean_filter.h"

namespace {

constexpr int kThreads = 256, kStrip = 128, kMostRadius = 64;

// The sum of rows `first` to `last` of a column, those that exist.
__device__ float column_sum(const float *x, int64_t W, int64_t column, int64_t first, int64_t last) {
    float sum = 0.0f;
    for (int64_t i = first; i <= last; ++i) sum += x[i * W + column];
    return sum;
}

__global__ void __launch_bounds__(kThreads)
    mean(const float *__restrict__ x, float *__restrict__ y, int64_t H, int64_t W, int R, int64_t across) {
    __shared__ float sums[2][kThreads];
    const int width = kThreads - 2 * R, t = threadIdx.x;
    const int64_t column = blockIdx.x % across * width + t - R;
    const int64_t top = blockIdx.x / across * kStrip, bottom = min(top + kStrip, H);
    const bool exists = column >= 0 && column < W, writes = exists && t >= R && t < R + width;

    float sum = exists ? column_sum(x, W, column, max(top - 1 - R, int64_t(0)), min(top - 1 + R, H - 1)) : 0.0f;
    for (int64_t row = top; row < bottom; ++row) {
        float comes = 0.0f, goes = 0.0f;
        if (exists && row + R < H) comes = x[(row + R) * W + column];
        if (exists && row - R - 1 >= 0) goes = x[(row - R - 1) * W + column];
        sum = (sum + comes) - goes;
        if (exists && !(fabsf(sum) <= FLT_MAX))
            sum = column_sum(x, W, column, max(row - R, int64_t(0)), min(row + R, H - 1));
        float *line = sums[(row - top) % 2];
        line[t] = sum;
        __syncthreads();
        if (writes) {
            float window = 0.0f;
            for (int j = t - R; j <= t + R; ++j) window += line[j];
            y[row * W + column] = window * filter::weight(row, column, R, H, W);
        }
    }
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->R > kMostRadius) return cudaErrorInvalidValue;
    const int R = static_cast<int>(args->R);
    const int64_t across = filter::ceil_div(args->W, kThreads - 2 * R);
    const int64_t blocks = across * filter::ceil_div(args->H, kStrip);
    if (blocks > INT32_MAX) return cudaErrorInvalidValue;
    mean<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(args->x, args->y, args->H, args->W, R, across);
    return cudaGetLastError();
}
