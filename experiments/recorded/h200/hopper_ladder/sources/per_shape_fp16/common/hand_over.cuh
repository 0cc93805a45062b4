// Partial sums from one warp to another warp of the grid, through global memory (which for them is L2): the giver
// writes, then raises a flag; the taker waits for the flag, reads, and lowers it, so that all flags are down again when
// the kernel ends. All threads of a warp call these together.
#pragma once
#include <cstdint>

namespace ladder {

// What was handed over has been read only if it is read after `wait_given`, and is never in L1 before: .cg.
__device__ __forceinline__ void give_words(float4 *to, float4 four) {
    asm volatile("st.global.cg.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(four.x), "f"(four.y), "f"(four.z),
                 "f"(four.w)
                 : "memory");
}

__device__ __forceinline__ float4 take_words(const float4 *from) {
    float4 four;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
                 : "l"(from)
                 : "memory");
    return four;
}

// After the last give_words. The fence is each lane's own: its writes are seen by all who see the flag.
__device__ __forceinline__ void raise_flag(uint32_t *flag) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}

__device__ __forceinline__ void wait_given(const uint32_t *flag) {
    uint32_t raised;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(raised) : "l"(flag) : "memory");
    } while (raised == 0);
    __syncwarp();
}

// After the last take_words.
__device__ __forceinline__ void lower_flag(uint32_t *flag) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(flag) : "memory");
}

}  // namespace ladder
