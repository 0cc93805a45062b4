// Thread block clusters in raw PTX: blocks that run at the same time on neighbouring multiprocessors and reach one another's
// shared memory: their barrier, addresses in the other blocks, and the launch. A cluster of k blocks along x holds the
// blocks k i to k i + k - 1, so that blockIdx.x % k is the place in it.
//
// <cooperative_groups.h> says the same and adds seconds to the compile of each file.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace ladder {

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ unsigned cluster_blocks() {
    unsigned count;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    return count;
}

// The two halves of the barrier over all threads of the cluster. A relaxed arrival orders nothing but mbarriers that
// were initialised and fenced before it: one that releases would cost a fence of the whole device (MEMBAR.ALL.GPU in
// SASS), which waits for every store to global memory that is under way.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// An arrival that releases: what was written before it is seen after the others' wait.
__device__ __forceinline__ void cluster_release() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// All threads of all blocks of the cluster, in any order of warps and lanes; what was written before is seen after.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// The shared-memory address in block `rank` of the cluster of what lies at this address in one's own.
__device__ __forceinline__ uint32_t remote_address(uint32_t own, unsigned rank) {
    uint32_t remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(own), "r"(rank));
    return remote;
}

// Stores into another block's shared memory; the address is from remote_address().
__device__ __forceinline__ void store_remote(uint32_t remote, float value) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote), "f"(value) : "memory");
}

// A launch of clusters of `blocks` thread blocks along x. `attribute` must live as long as the configuration.
inline cudaLaunchConfig_t cluster_config(unsigned grid, unsigned threads, unsigned blocks, size_t shared,
                                         cudaStream_t stream, cudaLaunchAttribute *attribute) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(grid);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    *attribute = {};
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim = {blocks, 1, 1};
    config.attrs = attribute;
    config.numAttrs = 1;
    return config;
}

// More than 8 blocks need the attribute for sizes that are not portable.
template <class... Parameters, class... Arguments>
cudaError_t launch_clusters(void (*kernel)(Parameters...), unsigned grid, unsigned threads, unsigned blocks,
                            size_t shared, cudaStream_t stream, Arguments... arguments) {
    cudaLaunchAttribute attribute;
    const cudaLaunchConfig_t config = cluster_config(grid, threads, blocks, shared, stream, &attribute);
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// How many such clusters the device holds at the same time.
template <class... Parameters>
cudaError_t active_clusters(int *count, void (*kernel)(Parameters...), unsigned grid, unsigned threads, unsigned blocks,
                            size_t shared) {
    cudaLaunchAttribute attribute;
    const cudaLaunchConfig_t config = cluster_config(grid, threads, blocks, shared, nullptr, &attribute);
    return cudaOccupancyMaxActiveClusters(count, kernel, &config);
}

}  // namespace ladder
