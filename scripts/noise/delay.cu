// A kernel whose time is a number: one chain of dependent multiply-adds in each thread.
//
// Not clock64: a kernel that waits for a time lasts equally long at any clock, while a real one slows down with the
// card. An FFMA that needs the result of the one before issues every 4 cycles, so a chain of S takes 4 S cycles and what
// the loop adds, the same for every 8 of them. 16896 threads are a block of 128 on each of 132 multiprocessors: a warp a
// scheduler, nothing else to issue.
//
// EXTRA_PERMILLE is the injected slow-down, of the whole time: LAUNCH_STEPS is what a launch costs by itself, in steps.
#include "delay.h"

namespace {

constexpr int UNROLL = 8;

__global__ void __launch_bounds__(128) delay(const float *x, float *y, int64_t n, int steps, float one, float zero) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
#pragma unroll 1
    for (int s = 0; s < steps; s += UNROLL) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) v = fmaf(v, one, zero); // arguments, so that no compiler can leave it out
    }
    if (i < n) y[i] = v;
}

} // namespace

extern "C" __attribute__((visibility("default"))) cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t total = args->STEPS + LAUNCH_STEPS;
    const int64_t extra = (total * EXTRA_PERMILLE / 1000 + UNROLL / 2) / UNROLL * UNROLL;
    const unsigned blocks = unsigned((args->N + 127) / 128);
    delay<<<blocks, 128, 0, stream>>>(args->x, args->y, args->N, int(args->STEPS + extra), args->one, args->zero);
    return cudaGetLastError();
}
