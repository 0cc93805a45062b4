// C from the accumulators straight to global memory.
#pragma once
#include "operands.cuh"

namespace ladder {

// Stores the 64 x (kCount / 2) accumulators of a warpgroup whose first element is C[row, column]; what lies outside of
// C is left out. A thread holds pairs of neighbours: 4 bytes, 4 lanes one after the other, 8 rows an instruction. So a
// warp writes 8 pieces of 16 bytes, half a sector each. Rows of an odd number of elements are stored one by one.
template <int kCount>
__device__ __forceinline__ void store_registers(const float (&d)[kCount], Element *C, int64_t row, int64_t column,
                                                int64_t M, int64_t N) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    row += warp * 16 + lane / 4;
    column += lane % 4 * 2;
    Element *to = C + row * N + column;
    const bool pairs = N % 2 == 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        if (row + half * 8 >= M) break;
#pragma unroll
        for (int j = 0; j < kCount / 4; ++j) {
            const int64_t left = N - column - j * 8;
            const float low = d[j * 4 + half * 2], high = d[j * 4 + half * 2 + 1];
            Element *at = to + half * 8 * N + j * 8;
            const uint32_t packed = pack(low, high);
            if (pairs) {
                if (left > 0) *reinterpret_cast<uint32_t *>(at) = packed;
            } else {
                const auto *each = reinterpret_cast<const Element *>(&packed);
                if (left > 0) at[0] = each[0];
                if (left > 1) at[1] = each[1];
            }
        }
    }
}

}  // namespace ladder
