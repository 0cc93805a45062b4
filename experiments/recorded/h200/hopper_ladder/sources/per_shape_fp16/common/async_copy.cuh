// Raw PTX for cp.async: global -> shared copies that bypass registers and complete in the background.
//
// Written as PTX because <cuda/pipeline> and <cuda/barrier> add many seconds to the compile of each file.
#pragma once
#include <cstdint>

namespace ladder {

__device__ __forceinline__ uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Has the compiler keep a value in a register: addresses of shared memory it would compute anew at each use.
__device__ __forceinline__ uint32_t kept(uint32_t value) {
    asm volatile("mov.b32 %0, %0;" : "+r"(value));
    return value;
}

// One copy of kBytes. 16-byte copies go by L2 only (.cg): a tile is read once per block, so a line in L1 would
// never be hit. 4-byte copies exist with .ca only. The L2 is asked for the whole 128-byte line: the rest of it
// belongs to the next K tiles.
template <int kBytes>
__device__ __forceinline__ void copy_async(uint32_t shared, const void *global) {
    static_assert(kBytes == 4 || kBytes == 16, "the two widths that the kernels use");
    if constexpr (kBytes == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4;" ::"r"(shared), "l"(global) : "memory");
}

// The same, but writes zeros and does not touch global memory where `valid` is false.
template <int kBytes>
__device__ __forceinline__ void copy_async_or_zero(uint32_t shared, const void *global, bool valid) {
    static_assert(kBytes == 4 || kBytes == 16, "the two widths that the kernels use");
    const int bytes = valid ? kBytes : 0;
    if constexpr (kBytes == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(bytes)
                     : "memory");
}

// The same, but does nothing at all where `wanted` is 0. Predicated, not branched around: what stands before and after
// it may be scheduled across it.
template <int kBytes>
__device__ __forceinline__ void copy_async_if(uint32_t shared, const void *global, uint32_t wanted) {
    static_assert(kBytes == 4 || kBytes == 16, "the two widths that the kernels use");
    if constexpr (kBytes == 16)
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n}" ::"r"(
                shared),
            "l"(global), "r"(wanted)
            : "memory");
    else
        asm volatile(
            "{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p cp.async.ca.shared.global.L2::128B [%0], [%1], 4;\n}" ::"r"(
                shared),
            "l"(global), "r"(wanted)
            : "memory");
}

// Closes the group of copies that this thread has issued since the last commit (an empty group is legal).
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Returns when at most kPending of this thread's newest groups are still in flight.
template <int kPending>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Arrives at an mbarrier (see mbarrier.cuh) once all copies that this thread has issued so far are complete. The
// barrier counts the arrival like any other: it must have been initialised with a place for it.
__device__ __forceinline__ void arrive_when_copied(uint32_t barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

}  // namespace ladder
