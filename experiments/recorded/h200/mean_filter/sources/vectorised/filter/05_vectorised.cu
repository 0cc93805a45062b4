// Mean filter 5, vectorised: running sums of four columns a thread in registers, four rows in flight.
//
// Changed against one column a thread:
// - Four columns: LDG.128 and STG.128, and the windows of four neighbours share most of their additions (quads.cuh): 5
//   a pixel for R = 15 in place of 31, and 2.5 words read from shared memory in place of 31.
// - Four rows a step: the eight loads of a step, four rows that come in and four that go out, are issued before the
//   first is needed, and there is one barrier for four rows.
// The row that goes out is read a second time, 2R+1 rows later: from L2, as the rows between are 62 KiB for R = 15 and
// the blocks of an SM do not find room for them in L1. What is cut off at the edges is zero, and the running sums start
// afresh in each strip and after NaN or infinities, as before.
//
// Tile arithmetic: 128 threads, 512 columns of which (128 - 2 (R / 4 + 1)) 4 are written (480 for R = 15), 128 rows. In
// flight: 8 x 16 B a thread, 16 KiB a block.
#include <cfloat>

#include "mean_filter.h"
#include "quads.cuh"
#include "strips.cuh"

namespace {

constexpr int kThreads = 128, kStep = 4, kStrip = 128;

__device__ bool finite(float4 q) {
    return fabsf(q.x) <= FLT_MAX && fabsf(q.y) <= FLT_MAX && fabsf(q.z) <= FLT_MAX && fabsf(q.w) <= FLT_MAX;
}

template <bool kWhole>
__device__ __noinline__ float4 column_sums(filter::Quad quad, const float *x, int64_t H, int64_t first, int64_t last) {
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int64_t i = max(first, int64_t(0)); i <= min(last, H - 1); ++i)
        sum = filter::plus(sum, quad.load<kWhole>(x + i * quad.W, true));
    return sum;
}

template <int R, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    mean(const float *__restrict__ x, float *__restrict__ y, int64_t H, int64_t W, filter::Strips strips) {
    __shared__ float4 columns[2][kStep][kThreads];
    __shared__ float quads[2][kStep][kThreads];
    constexpr int kHalo = filter::halo_quads<R>();
    const int t = threadIdx.x;
    const filter::Quad quad{blockIdx.x % strips.across * strips.width + 4 * (t - kHalo), W};
    const int64_t top = blockIdx.x / strips.across * kStrip, bottom = min(top + kStrip, H);
    const bool writes = t >= kHalo && t < kHalo + strips.width / 4;
    const float4 weights = quad.weights(R);

    float4 sum = column_sums<kWhole>(quad, x, H, top - 1 - R, top - 1 + R);
    for (int64_t row = top, step = 0; row < bottom; row += kStep, ++step) {
        float4 comes[kStep], goes[kStep], own[kStep];
#pragma unroll
        for (int i = 0; i < kStep; ++i) {
            const int64_t below = row + i + R, above = row + i - R - 1;
            comes[i] = quad.load<kWhole>(x + below * W, below < H);
            goes[i] = quad.load<kWhole>(x + above * W, above >= 0 && above < H);
        }
#pragma unroll
        for (int i = 0; i < kStep; ++i) {
            sum = filter::plus(sum, comes[i]);
            sum = make_float4(sum.x - goes[i].x, sum.y - goes[i].y, sum.z - goes[i].z, sum.w - goes[i].w);
            if (!finite(sum)) sum = column_sums<kWhole>(quad, x, H, row + i - R, row + i + R);
            own[i] = sum;
            columns[step % 2][i][t] = sum;
            quads[step % 2][i][t] = filter::quad_sum(sum);
        }
        __syncthreads();
        if (!writes) continue;
#pragma unroll
        for (int i = 0; i < kStep; ++i) {
            if (row + i >= bottom) break;
            const float down = 1.0f / static_cast<float>(filter::places_inside(row + i, R, H));
            const float4 sums = filter::window_sums<R>(columns[step % 2][i], quads[step % 2][i], t, own[i]);
            quad.store<kWhole>(y + (row + i) * W, make_float4(sums.x * weights.x * down, sums.y * weights.y * down,
                                                              sums.z * weights.z * down, sums.w * weights.w * down));
        }
    }
}

template <int R>
cudaError_t run(const Args *args, cudaStream_t stream) {
    constexpr int kMost = 4 * (kThreads - 2 * filter::halo_quads<R>());
    const auto strips = filter::strips_of(args->H, args->W, kMost, INT32_MAX, kStrip, kStrip);
    if (strips.blocks > INT32_MAX) return cudaErrorInvalidValue;
    const unsigned blocks = static_cast<unsigned>(strips.blocks);
    if (filter::whole_quads(args->x, args->y, args->W))
        mean<R, true><<<blocks, kThreads, 0, stream>>>(args->x, args->y, args->H, args->W, strips);
    else
        mean<R, false><<<blocks, kThreads, 0, stream>>>(args->x, args->y, args->H, args->W, strips);
    return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    switch (args->R) {
        case 1:
            return run<1>(args, stream);
        case 3:
            return run<3>(args, stream);
        case 7:
            return run<7>(args, stream);
        case 15:
            return run<15>(args, stream);
        default:
            return cudaErrorInvalidValue;
    }
}
