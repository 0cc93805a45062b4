// Lesson: a loop that loads, waits and stores, unrolled.
//
// Idea     y = x with few threads (BLOCKS_PER_SM blocks of 256 a multiprocessor), each of which walks the array in steps of
//          the grid. A thread that waits for each load before it asks for the next keeps 4 bytes in flight; unrolled by
//          UNROLL, it asks for UNROLL values before it needs the first. The rate is the bytes in flight over the time until
//          memory answers (Little's law): some 450 ns with UNROLL 1, and longer the more is asked, until DRAM is full. On
//          an H200 that took 4.3 MB, 33 KB a multiprocessor (UNROLL 16: 93 % of a copy).
//          In flight: 132 multiprocessors x BLOCKS_PER_SM x 256 threads x 4 bytes x UNROLL.
// Shows    registers per thread, instructions per element, long scoreboard in the stalls, DRAM's share.
// Sizes    any N.
#include "copy.h"

#ifndef UNROLL
#define UNROLL 1
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 2
#endif

namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) walk(const float *__restrict__ x, float *__restrict__ y, int64_t n) {
    const int64_t step = int64_t(gridDim.x) * kThreads;
    int64_t t = int64_t(blockIdx.x) * kThreads + threadIdx.x;
    for (; t + (UNROLL - 1) * step < n; t += UNROLL * step) {
        float v[UNROLL];
#pragma unroll
        for (int j = 0; j < UNROLL; ++j) v[j] = x[t + j * step];
#pragma unroll
        for (int j = 0; j < UNROLL; ++j)
            asm volatile("st.global.f32 [%0], %1;" ::"l"(y + t + j * step), "f"(v[j]) : "memory");
    }
    for (; t < n; t += step) asm volatile("st.global.f32 [%0], %1;" ::"l"(y + t), "f"(x[t]) : "memory");
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    int device = 0, multiprocessors = 0;
    if (cudaError_t error = cudaGetDevice(&device)) return error;
    if (cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device))
        return error;
    walk<<<BLOCKS_PER_SM * multiprocessors, kThreads, 0, stream>>>(args->x, args->y, args->N);
    return cudaGetLastError();
}
