// What two rungs need of compute capability 9.0, in raw PTX: bulk copies of the TMA unit that an mbarrier counts, and
// the barrier of a cluster with stores into its other blocks' shared memory.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace ladder {

__device__ __forceinline__ uint32_t in_shared(const void *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// An mbarrier that one arrival, and the bytes which it announces, completes. One thread initialises; then comes the
// fence, for the unit that will count, and a barrier of the block.
__device__ __forceinline__ void barrier_init(uint32_t barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Starts a copy of `bytes` (a multiple of 16; both addresses on 16 bytes) and announces it to the barrier, whose phase
// ends when all have landed.
__device__ __forceinline__ void start_copy(uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
        "l"(global), "r"(bytes), "r"(barrier)
        : "memory");
}

// Returns when the phase of this parity (0 the first, 1 the second, 0 the third, and so on) has ended.
__device__ __forceinline__ void wait_phase(uint32_t barrier, uint32_t parity) {
    uint32_t ended;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(ended)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!ended);
}

__device__ __forceinline__ unsigned rank_in_cluster() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Writes `value` to where `own` lies, in the shared memory of block `rank` of the cluster.
__device__ __forceinline__ void store_in_block(const void *own, unsigned rank, float value) {
    uint32_t remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(in_shared(own)), "r"(rank));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(remote), "f"(value) : "memory");
}

// The two halves of the barrier over all threads of the cluster. What was written before an arrival that releases is
// seen after the wait; the other kind orders nothing, and does not cost a fence.
__device__ __forceinline__ void arrive_in_cluster() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void release_in_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_for_cluster() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace ladder
