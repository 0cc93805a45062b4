// stmatrix: a warp stores four 8 x 8 matrices of 16-bit values, each row 16 bytes, from the registers in which tensor
// cores leave their results.
#pragma once
#include <cstdint>

namespace ladder {

// Lanes 8 i to 8 i + 7 give the addresses of the rows of the i-th matrix, which lies in vi: lane l holds of it
// row l / 4, columns 2 (l % 4) and + 1.
__device__ __forceinline__ void store_matrices(uint32_t shared, uint32_t v0, uint32_t v1, uint32_t v2, uint32_t v3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(v0),
                 "r"(v1), "r"(v2), "r"(v3)
                 : "memory");
}

}  // namespace ladder
