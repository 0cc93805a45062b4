// The second stage of a reduction inside the first's launch: the block that finishes last does it.
#pragma once
#include "op.cuh"

namespace ladder {

constexpr int kCounterBytes = 16;  // of the workspace, before the partial results: those begin on 16 bytes, too

// Each block leaves its result (thread 0's `value`) and draws a number. The fence before the draw makes the result
// visible to whoever draws a later number; the one behind it keeps the last block's reads from running ahead of its
// draw. The counter is 0 before the launch and after it.
template <int kThreads>
__device__ __forceinline__ void reduce_in_last_block(float value, float (&partial)[kThreads / 32], float *partials,
                                                     unsigned *counter, float *y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        __stcg(partials + blockIdx.x, value);
        __threadfence();
        last = atomicAdd(counter, 1u) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();  // also: `partial` may be used again
    if (!last) return;
    value = Op::identity();
    for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) value = Op::apply(value, __ldcg(partials + i));
    value = block_reduce<kThreads>(value, partial);
    if (threadIdx.x == 0) {
        *y = value;
        *counter = 0;
    }
}

// Clears the counter before the first launch, which may be on a stream that waits for no other: so it waits here.
inline cudaError_t clear_counter(const Args *args) {
    const cudaError_t cleared = cudaMemset(args->workspace, 0, kCounterBytes);
    return cleared != cudaSuccess ? cleared : cudaDeviceSynchronize();
}

}  // namespace ladder
