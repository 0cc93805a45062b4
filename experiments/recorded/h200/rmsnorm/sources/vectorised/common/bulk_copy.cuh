// What completes on mbarriers by its bytes: bulk copies of the TMA unit from global to shared memory, and stores into the
// shared memory of another block of the cluster. Raw PTX: <cuda/barrier> adds many seconds to the compile of each file.
//
// A barrier here has one arrival a phase, by the thread that says how many bytes will come (arrive_expecting_alone), and
// the phase ends when they have. Bytes may come before they are announced.
#pragma once
#include <cstdint>

#include "mbarrier.cuh"

namespace ladder {

// Makes new barriers known to the other blocks of the cluster and to what counts bytes on them; a barrier of all threads
// (of the cluster) must follow.
__device__ __forceinline__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Arrives and adds bytes to what the phase waits for, by the calling thread, whichever it is: for code in which one thread
// alone starts the copies.
__device__ __forceinline__ void arrive_expecting_alone(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
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
