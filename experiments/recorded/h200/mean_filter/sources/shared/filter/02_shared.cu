// Mean filter 2, shared tile with halo: a block loads its pixels and R around them once, and adds from shared memory.
//
// Changed against the naive kernel: the loads of the windows go to shared memory. Global memory is asked once for
// (32 + 2R)^2 values for 1024 pixels, 1.4 a pixel for R = 3 and 3.8 for R = 15; places outside of the image are zeros,
// which add nothing, so that the loops need no bounds.
// Why that is not enough: there are still (2R+1)^2 loads a pixel, now from shared memory, whose 32 words a cycle are
// the new bound: 961 of them take 30 cycles of an SM for one pixel.
//
// Tile arithmetic: 32 x 32 pixels, 256 threads of 4 pixels each; (32 + 2R)^2 floats of shared memory, 15 KiB for
// R = 15. A warp reads 32 neighbours of a row: no bank conflict at any offset.
#include "edges.cuh"
#include "mean_filter.h"

namespace {

constexpr int kTile = 32, kWarps = 8, kMostRadius = 31;

__global__ void __launch_bounds__(kTile *kWarps)
    mean(const float *__restrict__ x, float *__restrict__ y, int64_t H, int64_t W, int R, int64_t across) {
    extern __shared__ float tile[];
    const int64_t column = blockIdx.x % across * kTile, row = blockIdx.x / across * kTile;
    const int side = kTile + 2 * R;
    for (int i = threadIdx.y; i < side; i += kWarps) {
        for (int j = threadIdx.x; j < side; j += kTile) {
            const int64_t from = row - R + i, at = column - R + j;
            const bool inside = from >= 0 && from < H && at >= 0 && at < W;
            tile[i * side + j] = inside ? x[from * W + at] : 0.0f;
        }
    }
    __syncthreads();
    const int64_t own = column + threadIdx.x;
    for (int i = threadIdx.y; i < kTile; i += kWarps) {
        float sum = 0.0f;
        for (int di = 0; di <= 2 * R; ++di) {
            float line = 0.0f;
            for (int dj = 0; dj <= 2 * R; ++dj) line += tile[(i + di) * side + threadIdx.x + dj];
            sum += line;
        }
        if (row + i < H && own < W) y[(row + i) * W + own] = sum * filter::weight(row + i, own, R, H, W);
    }
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t across = filter::ceil_div(args->W, kTile), blocks = across * filter::ceil_div(args->H, kTile);
    if (args->R > kMostRadius || blocks > INT32_MAX) return cudaErrorInvalidValue;
    const int R = static_cast<int>(args->R), side = kTile + 2 * R;
    const size_t shared = sizeof(float) * side * side;
    mean<<<static_cast<unsigned>(blocks), dim3(kTile, kWarps), shared, stream>>>(args->x, args->y, args->H, args->W, R,
                                                                                 across);
    return cudaGetLastError();
}
