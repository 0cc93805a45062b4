// Raw PTX for the tensor cores as one warp drives them: ldmatrix and mma.sync m16n8k16 for BF16.
//
// Layout of the operands in registers, for lane l (two BF16 a register):
//   A (16 x 16)  a[0], a[1]: rows l / 4 and l / 4 + 8, columns 2 (l % 4) and + 1; a[2], a[3]: the same, 8 columns on.
//   B (16 x 8)   b0: rows 2 (l % 4) and + 1, column l / 4; b1: the same, 8 rows on.
//   C (16 x 8)   acc[0], acc[1]: row l / 4, columns 2 (l % 4) and + 1; acc[2], acc[3]: the same, 8 rows on.
// ldmatrix deals the rows of 8 x 8 matrices to the lanes in just this way, four matrices an instruction.
#pragma once
#include <cstdint>

namespace ladder {

// Four 8 x 8 matrices; lanes 8 i to 8 i + 7 give the addresses of the rows of the i-th, which arrives in fragment[i].
__device__ __forceinline__ void load_matrices(uint32_t (&fragment)[4], uint32_t shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(shared)
                 : "memory");
}

// The same, each matrix transposed on its way.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&fragment)[4], uint32_t shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(shared)
                 : "memory");
}

// acc (16 x 8, FP32) += a (16 x 16) * b (16 x 8)
__device__ __forceinline__ void multiply(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace ladder
