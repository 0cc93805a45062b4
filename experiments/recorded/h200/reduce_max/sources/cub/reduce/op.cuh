// What the rungs of a reduction share: the operation (sum or maximum, as the problem's option says), its reductions
// over a warp and a block, and loads past L1.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "reduce.h"

namespace ladder {

constexpr unsigned kEveryLane = 0xffffffffu;

#ifdef REDUCE_OP_MAX
// The maximum that torch.amax takes: NaN wins. fmaxf passes NaN over; max.NaN.f32 is as fast, one instruction.
struct Op {
    // Every byte of the starting value for `atomic`: this NaN is below all floats in the order that `atomic` uses.
    static constexpr int kStartByte = 0xff;
    __device__ static __forceinline__ float identity() { return __int_as_float(0xff800000); }  // -infinity
    __device__ static __forceinline__ float apply(float a, float b) {
        float c;
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
        return c;
    }
    // There is no atomicMax of floats. The bits of floats without a sign, as int, are in the order of the floats; of
    // those with one, as unsigned, in the opposite order. The NaN that `apply` makes (0x7fffffff) is above all of them.
    __device__ static __forceinline__ void atomic(float *to, float value) {
        const int bits = __float_as_int(value);
        if (bits >= 0)
            atomicMax(reinterpret_cast<int *>(to), bits);
        else
            atomicMin(reinterpret_cast<unsigned *>(to), static_cast<unsigned>(bits));
    }
};
#else
struct Op {
    static constexpr int kStartByte = 0;
    __device__ static __forceinline__ float identity() { return 0.0f; }
    __device__ static __forceinline__ float apply(float a, float b) { return a + b; }
    __device__ static __forceinline__ void atomic(float *to, float value) { atomicAdd(to, value); }
};
#endif

// The reduction of one value a lane: five exchanges between registers, no memory. Every lane gets the result.
__device__ __forceinline__ float warp_reduce(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        value = Op::apply(value, __shfl_xor_sync(kEveryLane, value, distance));
    return value;
}

// The reduction of one value a thread over a block of kThreads; thread 0's is the result. Before `partial` is used
// again there must be a barrier.
template <int kThreads>
__device__ __forceinline__ float block_reduce(float value, float (&partial)[kThreads / 32]) {
    static_assert(kThreads % 32 == 0 && kThreads <= 1024, "whole warps, and one warp for their results");
    value = warp_reduce(value);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x < 32) value = warp_reduce(threadIdx.x < kThreads / 32 ? partial[threadIdx.x] : Op::identity());
    return value;
}

// 16 bytes that are read once: past L1, which they would only fill. Volatile, so that the loads of a batch stay
// together and ahead of their first use.
__device__ __forceinline__ float4 load_once(const float4 *from) {
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(from));
    return v;
}

// Four running results, one for each lane of a vector: four chains that do not wait for one another.
struct Four {
    float x, y, z, w;
    __device__ static __forceinline__ Four identity() {
        return {Op::identity(), Op::identity(), Op::identity(), Op::identity()};
    }
    __device__ __forceinline__ void take(const float4 &v) {
        x = Op::apply(x, v.x);
        y = Op::apply(y, v.y);
        z = Op::apply(z, v.z);
        w = Op::apply(w, v.w);
    }
    __device__ __forceinline__ float all() const { return Op::apply(Op::apply(x, y), Op::apply(z, w)); }
};

// The share of one group of kThreads threads (a warp, a block) in `count` floats from a 16-byte boundary on, over which
// `groups` of them sweep together. First whole tiles of kThreads x kLoads vectors, all loads of a tile issued before
// the first is used. Then what is left, less than a tile: kLoads more vectors at the most for each thread, in flight
// together, too. Then the last three floats at most. Returns the part of thread number `thread` of the group.
template <int kThreads, int kLoads>
__device__ __forceinline__ float sweep(const float *from, int64_t count, unsigned thread, int64_t group,
                                       int64_t groups) {
    constexpr int64_t kTile = int64_t(kThreads) * kLoads;
    const float4 *vectors = reinterpret_cast<const float4 *>(from);
    const int64_t whole = count / 4, tiles = whole / kTile;
    Four sum = Four::identity();
    float4 v[kLoads];
#pragma unroll 1
    for (int64_t tile = group; tile < tiles; tile += groups) {
        const float4 *mine = vectors + tile * kTile + thread;
#pragma unroll
        for (int j = 0; j < kLoads; ++j) v[j] = load_once(mine + j * kThreads);
#pragma unroll
        for (int j = 0; j < kLoads; ++j) sum.take(v[j]);
    }
    const int64_t first = tiles * kTile + group * kThreads + thread;
    if (first < whole) {
#pragma unroll
        for (int j = 0; j < kLoads; ++j) {
            const float nothing = Op::identity();
            v[j] = make_float4(nothing, nothing, nothing, nothing);
            if (first + j * groups * kThreads < whole) v[j] = load_once(vectors + first + j * groups * kThreads);
        }
#pragma unroll
        for (int j = 0; j < kLoads; ++j) sum.take(v[j]);
    }
    float value = sum.all();
    const int64_t last = 4 * whole + thread;
    if (group == groups - 1 && last < count) value = Op::apply(value, from[last]);
    return value;
}

// The same for a row that may begin anywhere: the first group takes the up to three floats before a 16-byte boundary.
template <int kThreads, int kLoads>
__device__ __forceinline__ float sweep_row(const float *row, int64_t count, unsigned thread, int64_t group,
                                           int64_t groups) {
    const int64_t before = static_cast<int64_t>(-(reinterpret_cast<uintptr_t>(row) / sizeof(float)) % 4);
    const int64_t head = before < count ? before : count;
    const float value = sweep<kThreads, kLoads>(row + head, count - head, thread, group, groups);
    return group == 0 && thread < head ? Op::apply(value, row[thread]) : value;
}

inline bool on_16_bytes(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

// Blocks of a grid that fills the card `per_multiprocessor` times, but no more than there is work for.
inline unsigned resident_blocks(int per_multiprocessor, int64_t work) {
    int device = 0, multiprocessors = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    const int64_t blocks = int64_t(per_multiprocessor) * multiprocessors;
    return static_cast<unsigned>(work < 1 ? 1 : work < blocks ? work : blocks);
}

}  // namespace ladder
