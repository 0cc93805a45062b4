// Warpgroup products (wgmma): the tensor cores of a whole multiprocessor as four warps drive them, sm_90a only.
//
// D (64 x N, FP32 in registers) (+)= A (64 x k) * B (k x N), both operands read from shared memory, where each is a
// tile of rows of 128 bytes along k: A has a row for each m, B one for each n ("K-major"). k is 32 bytes: 16 FP16 or
// BF16.
//
// Shared memory The rows are swizzled as the copy engine writes them (CU_TENSOR_MAP_SWIZZLE_128B): of a byte address,
//   bits 4 to 6 (which 16 bytes of a row) are XORed with bits 7 to 9 (which row of eight). Eight rows, 1024 bytes, are
//   one pattern: tiles begin at multiples of that.
// Descriptor    What the hardware is told of such a tile, 64 bits: address / 16 in bits 0 to 13; bits 16 to 29 (stride
//   between patterns along k) unused here and 1; bits 32 to 45 stride / 16 from eight rows to the next eight, 1024 /
//   16; bits 62 and 63: 1, the 128-byte swizzle. The next step along k lies 32 bytes further inside the pattern:
//   address + 2.
// Accumulators  Thread t of the warpgroup, w = t / 32, l = t % 32, holds 64 x N as d[8 x 8 block of columns j][i]:
//   row 16 w + l / 4 + 8 (i / 2), column 8 j + 2 (l % 4) + i % 2; flat: d[4 j + i].
// In flight     Products run on while the program goes on. Nobody may touch their registers, or overwrite the shared
//   memory that they read, before wait_products has waited for their group.
#pragma once
#include <cstdint>

namespace ladder {

enum class Operand { kBf16, kFp16 };

constexpr uint64_t kSwizzlePattern = 1024;  // bytes: eight rows of 128
constexpr uint64_t kStepAlongK = 32 / 16;   // in a descriptor

__device__ __forceinline__ uint64_t tile_descriptor(uint32_t shared) {
    return (uint64_t{1} << 62) | (kSwizzlePattern / 16 << 32) | (uint64_t{1} << 16) | ((shared & 0x3ffff) >> 4);
}

// Orders what the warpgroup did to accumulators and shared memory before the products that follow.
__device__ __forceinline__ void fence_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Closes the group of products issued since the last commit.
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Returns when at most kPending of the newest groups are still in flight.
template <int kPending>
__device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Keeps the compiler from moving uses of the accumulators across this point: it does not know that products write them
// after the instruction that issued them.
template <int kCount>
__device__ __forceinline__ void pin(float (&d)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

#define LADDER_REGISTERS_32                                                  \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LADDER_REGISTERS_64                                                            \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LADDER_REGISTERS_96                                                            \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define LADDER_REGISTERS_128                                                                       \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define LADDER_8(d, i)                                                                                          \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
        "+f"(d[i + 7])
#define LADDER_32(d, i) LADDER_8(d, i), LADDER_8(d, i + 8), LADDER_8(d, i + 16), LADDER_8(d, i + 24)
#define LADDER_64(d, i) LADDER_32(d, i), LADDER_32(d, i + 32)
#define LADDER_96(d, i) LADDER_64(d, i), LADDER_32(d, i + 64)
#define LADDER_128(d, i) LADDER_64(d, i), LADDER_64(d, i + 64)

// The first number after the registers is that of A's descriptor.
#define LADDER_PRODUCT(N, TYPE, COUNT, A, B, ADD)                                                              \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, %" #ADD                                               \
                 ", 0;\n"                                                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" LADDER_REGISTERS_##COUNT \
                 "}, "                                                                                         \
                 "%" #A ", %" #B ", keep, 1, 1, 0, 0;\n}\n"                                                    \
                 : LADDER_##COUNT(d, 0)                                                                        \
                 : "l"(a), "l"(b), "r"(static_cast<uint32_t>(add)))

#define LADDER_PRODUCTS(N, COUNT, A, B, ADD)                                                               \
    static __device__ __forceinline__ void multiply(float (&d)[COUNT], uint64_t a, uint64_t b, bool add) { \
        if constexpr (kType == Operand::kBf16)                                                             \
            LADDER_PRODUCT(N, "bf16", COUNT, A, B, ADD);                                                   \
        else                                                                                               \
            LADDER_PRODUCT(N, "f16", COUNT, A, B, ADD);                                                    \
    }

// Issues d (64 x N) = A B, or += where `add`; N follows from the size of d. a and b are descriptors.
template <Operand kType>
struct Product {
    LADDER_PRODUCTS(64, 32, 32, 33, 34);
    LADDER_PRODUCTS(128, 64, 64, 65, 66);
    LADDER_PRODUCTS(192, 96, 96, 97, 98);
    LADDER_PRODUCTS(256, 128, 128, 129, 130);
};

#undef LADDER_PRODUCTS
#undef LADDER_PRODUCT
#undef LADDER_128
#undef LADDER_96
#undef LADDER_64
#undef LADDER_32
#undef LADDER_8
#undef LADDER_REGISTERS_128
#undef LADDER_REGISTERS_96
#undef LADDER_REGISTERS_64
#undef LADDER_REGISTERS_32

// Register budget of the warps of this warpgroup, from here on: all its warps must execute it.
template <int kRegisters>
__device__ __forceinline__ void give_up_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace ladder
