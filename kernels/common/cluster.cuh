// Clusters: blocks that run at the same time on neighbouring multiprocessors and reach one another's shared memory. A
// cluster of k blocks along x holds the blocks k i to k i + k - 1, so that blockIdx.x % k is the place in it.
#pragma once
#include <cstdint>

namespace ladder {

// All threads of all blocks of the cluster; every thread of the block must call it, in any order of warps and lanes.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

}  // namespace ladder
