// Warpgroup products of TF32: A from registers, B from shared memory. See wgmma.cuh for what the two kinds share.
//
// D (64 x N, FP32) (+)= A (64 x 8) * B (8 x N). TF32 has no transposed operands: B lies as rows of k for each n, 128
// bytes or 32 values of k a row, in the 128-byte swizzle; the next 8 values of k lie 32 bytes further.
// A in registers, for thread t of the warpgroup, w = t / 32, l = t % 32: a[0]: row 16 w + l / 4, column l % 4; a[1]: 8
// rows on; a[2], a[3]: the same, 4 columns on. They may not change before the product has been waited for.
#pragma once
#include <cstdint>

#include "wgmma.cuh"

namespace ladder {

#define LADDER_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LADDER_16(d, i) LADDER_4(d, i), LADDER_4(d, i + 4), LADDER_4(d, i + 8), LADDER_4(d, i + 12)

// Issues d (64 x 128) = a b, or += where `add`; b is a descriptor.
__device__ __forceinline__ void multiply_tf32_group(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred keep;\nsetp.ne.b32 keep, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, keep, 1, 1;\n}\n"
        : LADDER_16(d, 0), LADDER_16(d, 16), LADDER_16(d, 32), LADDER_16(d, 48)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<uint32_t>(add)));
}

#undef LADDER_16
#undef LADDER_4

}  // namespace ladder
