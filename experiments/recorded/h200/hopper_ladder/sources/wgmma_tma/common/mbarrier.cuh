// Barriers in shared memory that count arrivals and bytes (mbarrier): how threads and the copy engine wait for one
// another.
//
// A barrier completes a phase when its arrivals and the bytes it was told to expect have all come, and then starts the
// next. Who waits names the phase by its parity: the first phase is 0, the next 1, then 0 again. On a new barrier,
// waiting for parity 1 returns at once ("the phase before the first is over"): that is how a ring starts empty.
// All addresses are those of shared memory as 32 bits (shared_address).
//
// "By one lane": a whole warp calls, and one lane of it, always the same, acts (elect.sync). The choice is part of the
// instruction sequence and not a branch around the call, because the compiler keeps what is the same for the whole warp
// (addresses, descriptors) in uniform registers only where the warp has not diverged; wgmma and the copy engine take
// their operands from there, and each value that is elsewhere costs an R2UR in the main loop.
#pragma once
#include <cstdint>

namespace ladder {

__device__ __forceinline__ void barrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes new barriers known to the copy engine and to the other blocks of the cluster; a barrier of all threads (of the
// cluster) must follow.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Arrives, by one lane.
__device__ __forceinline__ void arrive(uint32_t barrier) {
    asm volatile(
        "{\n.reg .pred mine;\n"
        "elect.sync _|mine, 0xffffffff;\n"
        "@mine mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];\n}" ::"r"(barrier)
        : "memory");
}

// Arrives, and adds bytes to what this phase waits for, by one lane.
__device__ __forceinline__ void arrive_expecting(uint32_t barrier, uint32_t bytes) {
    asm volatile(
        "{\n.reg .pred mine;\n"
        "elect.sync _|mine, 0xffffffff;\n"
        "@mine mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;\n}" ::"r"(barrier),
        "r"(bytes)
        : "memory");
}

// Arrives at the barrier that lies at the same place in another block of the cluster (or in this one). The order is
// that of the block, not of the cluster: it says "my products have read this stage", which wgmma knows to be over
// before, and what follows is a copy by the engine. Release and acquire of the cluster would put a MEMBAR and an
// invalidation of L1 into the main loop.
__device__ __forceinline__ void arrive_remote(uint32_t barrier, uint32_t block) {
    asm volatile(
        "{\n.reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(barrier),
        "r"(block)
        : "memory");
}

// Returns when the phase of that parity is over. The hardware suspends the thread for a while instead of spinning.
__device__ __forceinline__ void wait_phase(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred over;\n"
        "again:\n"
        "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 over, [%0], %1;\n"
        "@over bra done;\n"
        "bra again;\n"
        "done:\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// Hardware barrier `id` (1 to 15; 0 is __syncthreads) among `threads` threads, whole warps.
__device__ __forceinline__ void named_barrier_sync(uint32_t id, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Counts towards that barrier without waiting for it.
__device__ __forceinline__ void named_barrier_arrive(uint32_t id, uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Number of this thread's warp, said in a way that tells the compiler that it is the same for all its lanes.
__device__ __forceinline__ int warp_in_block() {
    return __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x / 32), 0);
}

// Places in a ring of kStages buffers. `parity` is that of the phase in which the buffer is filled for this turn.
template <int kStages>
struct RingPlace {
    uint32_t stage = 0, parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == kStages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

}  // namespace ladder
