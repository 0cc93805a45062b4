// 16-byte accesses: to global memory, where they need aligned rows, and to shared memory.
#pragma once
#include <cstdint>

namespace ladder {

// Four neighbours in global memory. kWhole: one 16-byte load. Otherwise those of the first `count` that are `inside`,
// one by one, and zeros for the rest: right for any alignment, and slow.
template <bool kWhole>
__device__ __forceinline__ float4 load4(const float *from, bool inside, int64_t count) {
    if constexpr (kWhole) return __ldg(reinterpret_cast<const float4 *>(from));
    float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (inside && count > 0) four.x = from[0];
    if (inside && count > 1) four.y = from[1];
    if (inside && count > 2) four.z = from[2];
    if (inside && count > 3) four.w = from[3];
    return four;
}

// The counterpart for C: four neighbours of a row.
template <bool kWhole>
__device__ __forceinline__ void store4(float *to, float4 four, bool inside, int64_t count) {
    if constexpr (kWhole) {
        *reinterpret_cast<float4 *>(to) = four;
    } else {
        if (inside && count > 0) to[0] = four.x;
        if (inside && count > 1) to[1] = four.y;
        if (inside && count > 2) to[2] = four.z;
        if (inside && count > 3) to[3] = four.w;
    }
}

// A thread's kCount values at one k of a K-major tile: 16-byte reads, kSpan apart.
template <int kCount, int kSpan>
__device__ __forceinline__ void read_fragment(float (&fragment)[kCount], const float *shared) {
    static_assert(kCount % 4 == 0, "whole vectors");
#pragma unroll
    for (int v = 0; v < kCount / 4; ++v) {
        const float4 four = *reinterpret_cast<const float4 *>(shared + v * kSpan);
        fragment[4 * v + 0] = four.x;
        fragment[4 * v + 1] = four.y;
        fragment[4 * v + 2] = four.z;
        fragment[4 * v + 3] = four.w;
    }
}

// The same from a 32-bit address, and after whatever barrier stands before it.
template <int kCount, int kSpan>
__device__ __forceinline__ void read_fragment(float (&fragment)[kCount], uint32_t shared) {
    static_assert(kCount % 4 == 0, "whole vectors");
#pragma unroll
    for (int v = 0; v < kCount; v += 4)
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(fragment[v]), "=f"(fragment[v + 1]), "=f"(fragment[v + 2]), "=f"(fragment[v + 3])
                     : "r"(shared + v / 4 * kSpan * 4)
                     : "memory");
}

__device__ __forceinline__ float read_word(uint32_t shared) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(shared) : "memory");
    return x;
}

__device__ __forceinline__ void write_words(uint32_t shared, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

// Whether 16-byte accesses to these matrices are aligned in every row. Rows of A are K long, those of C are N long,
// those of B `row_b`.
inline bool vectors_aligned(const void *A, const void *B, const void *C, int64_t K, int64_t row_b, int64_t N) {
    const auto aligned = [](const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; };
    return aligned(A) && aligned(B) && aligned(C) && K % 4 == 0 && row_b % 4 == 0 && N % 4 == 0;
}

}  // namespace ladder
