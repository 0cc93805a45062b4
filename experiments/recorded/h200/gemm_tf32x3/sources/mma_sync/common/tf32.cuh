// FP32 numbers as sums of two TF32 numbers, and the warp-wide product of TF32 fragments (mma.sync m16n8k8).
//
// TF32 is FP32 without the last 13 bits of its significand: 11 bits are left. x = high + low + rest with high and low
// in TF32, both rounded to nearest (ties away from zero, as cvt.rna.tf32 does): |low| <= 2^-11 |x|, |rest| <= 2^-22
// |x|. Then x y = high high' + high low' + low high', up to 3 * 2^-22 |x y|: three products on the tensor cores, exact
// there, instead of one. (Ootomo, Yokota, International Journal of High Performance Computing Applications 36(4),
// 2022.)
//
// Fragments of mma.sync m16n8k8, for lane l:
//   A (16 x 8)  a[0]: row l / 4, column l % 4; a[1]: 8 rows on; a[2], a[3]: the same, 4 columns on.
//   B (8 x 8)   b[0]: row l % 4, column l / 4; b[1]: 4 rows on.
//   C (16 x 8)  acc[0], acc[1]: row l / 4, columns 2 (l % 4) and + 1; acc[2], acc[3]: the same, 8 rows on.
#pragma once
#include <cstdint>

namespace ladder {

// Nearest TF32 number of a finite x. cvt.rna.tf32 compiles to this and a test for infinities and NaN, which this lets
// through as well: adding half a unit leaves the exponent of an infinity alone.
__device__ __forceinline__ uint32_t nearest_tf32(float x) { return (__float_as_uint(x) + 0x1000u) & 0xffffe000u; }

struct SplitTf32 {
    uint32_t high, low;
};

__device__ __forceinline__ SplitTf32 split_tf32(float x) {
    const uint32_t high = nearest_tf32(x);
    return {high, nearest_tf32(x - __uint_as_float(high))};  // the difference is exact
}

// acc (16 x 8, FP32) += a (16 x 8) * b (8 x 8)
__device__ __forceinline__ void multiply_tf32(float (&acc)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace ladder
