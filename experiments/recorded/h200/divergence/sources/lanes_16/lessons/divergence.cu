// Lesson: lanes of one warp that take different ways are served one way after the other.
//
// Idea     y = x, by way of a chain of products that undo each other exactly (powers of two). There are WAYS chains in the
//          code, of the same length; SPLIT says who takes which:
//          NONE    everybody the first.
//          WARP    a warp takes chain (warp % WAYS): many ways in the code, one for each warp.
//          LANE    a lane takes chain (lane % WAYS): each warp walks all of them, with 32 / WAYS lanes at a time.
//          UNEVEN  lane 0 walks LONGER chains of the same kind, the others one: 31 lanes wait.
// Shows    threads per executed instruction (32 / WAYS of 32), executed instructions (WAYS times as many), the branches in
//          the SASS. The bytes are the same in all of them.
// Sizes    any N.
#include "copy.h"

#define NONE 0
#define WARP 1
#define LANE 2
#define UNEVEN 3
#ifndef SPLIT
#define SPLIT NONE
#endif
#ifndef WAYS
#define WAYS 1
#endif
#ifndef LENGTH
#define LENGTH 512  // pairs of products in a chain
#endif
#ifndef LONGER
#define LONGER 8
#endif
static_assert(WAYS == 1 || WAYS == 2 || WAYS == 4 || WAYS == 8 || WAYS == 16 || WAYS == 32, "a power of two, up to 32");

namespace {

constexpr int kThreads = 256;

// One chain. Each has constants of its own, 2^(Way + 1) and its inverse, so that the compiler cannot make one of two; the
// products are exact while x is far from the ends of the format's range (2^33 is the most it grows).
template <int Way>
__device__ float chain(float v) {
    constexpr unsigned up = (127u + Way + 1) << 23, down = (127u - Way - 1) << 23;
#pragma unroll 1
    for (int i = 0; i < LENGTH / 16; ++i) {
#pragma unroll
        for (int j = 0; j < 16; ++j) {
            asm volatile("mul.rn.f32 %0, %0, %1;" : "+f"(v) : "f"(__uint_as_float(up)));
            asm volatile("mul.rn.f32 %0, %0, %1;" : "+f"(v) : "f"(__uint_as_float(down)));
        }
    }
    return v;
}

// Takes the chain that `way` names: asks for one after the other.
template <int Way>
__device__ float taken(float v, int way) {
    if (way == Way) v = chain<Way>(v);
    if constexpr (Way + 1 < WAYS) v = taken<Way + 1>(v, way);
    return v;
}

__global__ void __launch_bounds__(kThreads) diverge(const float *__restrict__ x, float *__restrict__ y, int64_t n) {
    const int64_t t = int64_t(blockIdx.x) * kThreads + threadIdx.x;
    if (t >= n) return;
    float v = x[t];
#if SPLIT == NONE
    v = chain<0>(v);
#elif SPLIT == UNEVEN
    const int times = threadIdx.x % 32 == 0 ? LONGER : 1;
#pragma unroll 1
    for (int i = 0; i < times; ++i) v = chain<0>(v);
#else
    const int way = (SPLIT == WARP ? threadIdx.x / 32 : threadIdx.x) % WAYS;
    v = taken<0>(v, way);
#endif
    y[t] = v;
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks = (args->N + kThreads - 1) / kThreads;
    if (blocks > INT32_MAX) return cudaErrorInvalidValue;
    diverge<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(args->x, args->y, args->N);
    return cudaGetLastError();
}
