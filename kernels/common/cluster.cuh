// Clusters: blocks that run at the same time on neighbouring multiprocessors and reach one another's shared memory.
#pragma once
#include <cstdint>

namespace ladder {

__device__ __forceinline__ uint32_t block_in_cluster() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// All threads of all blocks of the cluster; every thread of the block must call it, in any order of warps and lanes.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

}  // namespace ladder
