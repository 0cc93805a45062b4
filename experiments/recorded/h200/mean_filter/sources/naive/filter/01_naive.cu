// Mean filter 1, naive: one thread per pixel adds all (2R+1)^2 pixels of its window.
//
// Idea: the formula as it is written. Lanes of a warp are neighbours in a row, so every load is coalesced; a window
// shares all but one of its columns with the next one, and all but one of its rows with the one below.
// Cost: (2R+1)^2 loads a pixel, 961 for R = 15, of which the DRAM serves about one and the L1 all others. So the time
// grows with the square of the radius although the bytes that must move do not grow at all.
//
// Tile arithmetic: 32 x 8 pixels a block; a warp's load is 128 B, in 4 or 5 sectors.
#include "edges.cuh"
#include "mean_filter.h"

namespace {

constexpr int kColumns = 32, kRows = 8;

__global__ void __launch_bounds__(kColumns *kRows)
    mean(const float *__restrict__ x, float *__restrict__ y, int64_t H, int64_t W, int64_t R, int64_t across) {
    const int64_t column = blockIdx.x % across * kColumns + threadIdx.x;
    const int64_t row = blockIdx.x / across * kRows + threadIdx.y;
    if (row >= H || column >= W) return;
    const int64_t top = max(row - R, int64_t(0)), bottom = min(row + R, H - 1);
    const int64_t left = max(column - R, int64_t(0)), right = min(column + R, W - 1);
    float sum = 0.0f;
    for (int64_t i = top; i <= bottom; ++i) {
        float line = 0.0f;
        for (int64_t j = left; j <= right; ++j) line += x[i * W + j];
        sum += line;
    }
    y[row * W + column] = sum * filter::weight(row, column, R, H, W);
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t across = filter::ceil_div(args->W, kColumns), blocks = across * filter::ceil_div(args->H, kRows);
    if (blocks > INT32_MAX) return cudaErrorInvalidValue;
    mean<<<static_cast<unsigned>(blocks), dim3(kColumns, kRows), 0, stream>>>(args->x, args->y, args->H, args->W,
                                                                              args->R, across);
    return cudaGetLastError();
}
