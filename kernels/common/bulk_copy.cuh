// mbarriers, and what completes on them: bulk copies of the TMA unit from global to shared memory, and stores into
// the shared memory of another block of the cluster. Raw PTX: <cuda/barrier> adds many seconds to the compile of
// each file.
//
// A barrier here has one arrival a phase, by the thread that says how many bytes will come (mbarrier_expect), and
// the phase ends when they have. Bytes may come before they are announced.
#pragma once
#include <cstdint>

namespace ladder {

// One thread initialises; the fence and a barrier of the block (of the cluster, if there is one) come before any use.
__device__ __forceinline__ void mbarrier_init(uint32_t barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Returns when the phase of this parity (0 the first, 1 the second, 0 the third...) has ended.
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
    uint32_t done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!done);
}

// Copies `bytes` (a multiple of 16, less than 2^20; both addresses on 16 bytes) and tells the barrier.
__device__ __forceinline__ void bulk_copy(uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
        "l"(global), "r"(bytes), "r"(barrier)
        : "memory");
}

// Stores into another block's shared memory and tells a barrier there; both addresses from remote_address().
__device__ __forceinline__ void send(uint32_t remote, float2 pair, uint32_t barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(remote),
        "f"(pair.x), "f"(pair.y), "r"(barrier)
        : "memory");
}
__device__ __forceinline__ void send(uint32_t remote, float4 four, uint32_t barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(remote),
        "f"(four.x), "f"(four.y), "f"(four.z), "f"(four.w), "r"(barrier)
        : "memory");
}

}  // namespace ladder
