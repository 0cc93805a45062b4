// Lesson: how many warps a multiprocessor holds, and what that is worth.
//
// Idea     y = x, one float a thread, one load in flight: the bytes in flight are the resident threads times 4, so that
//          occupancy is the only thing that hides DRAM's latency. It is limited, one at a time, by
//          BLOCK          threads of a block: 32 of them leave 32 blocks x 1 warp (the limit of blocks), 1024 only whole
//                         multiples of 32 warps.
//          SHARED         bytes of shared memory asked for and not used.
//          REGISTERS      registers that each thread holds while it waits, by keeping values alive across the load.
//          MIN_BLOCKS     __launch_bounds__(BLOCK, MIN_BLOCKS): the compiler keeps to the registers that so many blocks
//                         leave it, and spills what does not fit.
// Shows    the occupancy limiter and the curve, achieved occupancy, the DRAM share; spills where MIN_BLOCKS asks too much.
// Sizes    any N.
#include "copy.h"

#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef SHARED
#define SHARED 0
#endif
#ifndef REGISTERS
#define REGISTERS 0  // values alive across the load
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

namespace {

__global__ void __launch_bounds__(BLOCK, MIN_BLOCKS)
    occupy(const float *__restrict__ x, float *__restrict__ y, int64_t n) {
    const int64_t t = int64_t(blockIdx.x) * BLOCK + threadIdx.x;
    if (t >= n) return;
#if REGISTERS
    // Values that nothing can compute again: each is made from the thread's number by an instruction of its own, and used
    // after the load. They add up to zero, whatever they are.
    unsigned held[REGISTERS];
#pragma unroll
    for (int j = 0; j < REGISTERS; ++j)
        asm volatile("mad.lo.u32 %0, %1, %2, %3;"
                     : "=r"(held[j])
                     : "r"(threadIdx.x), "r"(2u * j + 3), "r"(unsigned(j)));
#endif
    float v;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(x + t) : "memory");
#if REGISTERS
    unsigned bits = __float_as_uint(v);
#pragma unroll
    for (int j = 0; j < REGISTERS; ++j) asm volatile("xor.b32 %0, %0, %1;" : "+r"(bits) : "r"(held[j]));
#pragma unroll
    for (int j = 0; j < REGISTERS; ++j) asm volatile("xor.b32 %0, %0, %1;" : "+r"(bits) : "r"(held[j]));
    v = __uint_as_float(bits);
#endif
    y[t] = v;
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks = (args->N + BLOCK - 1) / BLOCK;
    if (blocks > INT32_MAX) return cudaErrorInvalidValue;
    if (SHARED > 48 * 1024) {
        if (cudaError_t error = cudaFuncSetAttribute(occupy, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED))
            return error;
    }
    occupy<<<static_cast<unsigned>(blocks), BLOCK, SHARED, stream>>>(args->x, args->y, args->N);
    return cudaGetLastError();
}
