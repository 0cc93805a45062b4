// The second launch of the rungs that leave partial results in the workspace.
#pragma once
#include "op.cuh"

namespace ladder {

constexpr int kFinishThreads = 512;

// One block reduces the partial results, in an order that never changes.
__global__ void __launch_bounds__(kFinishThreads)
    finish(const float *__restrict__ partials, int64_t count, float *__restrict__ y) {
    __shared__ float partial[kFinishThreads / 32];
    const float value =
        block_reduce<kFinishThreads>(sweep<kFinishThreads, 8>(partials, count, threadIdx.x, 0, 1), partial);
    if (threadIdx.x == 0) *y = value;
}

}  // namespace ladder
