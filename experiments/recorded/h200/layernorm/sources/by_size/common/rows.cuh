// Rows of FP32 or BF16: vectors of a row in registers as floats, and reductions over a warp and a block.
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace ladder {

constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr float kInfinity = __builtin_huge_valf();

// kWidth neighbours of a row as they lie in memory: 16 bytes of them, or one where rows are not aligned.
template <class Element, int kWidth>
struct Pack;

template <>
struct Pack<float, 1> {
    using Bits = float;
    __device__ static __forceinline__ void unpack(Bits bits, float (&values)[1]) { values[0] = bits; }
    __device__ static __forceinline__ Bits pack(const float (&values)[1]) { return values[0]; }
    __device__ static __forceinline__ Bits fill(float value) { return value; }
};

template <>
struct Pack<float, 4> {
    using Bits = float4;
    __device__ static __forceinline__ void unpack(Bits bits, float (&values)[4]) {
        values[0] = bits.x, values[1] = bits.y, values[2] = bits.z, values[3] = bits.w;
    }
    __device__ static __forceinline__ Bits pack(const float (&values)[4]) {
        return make_float4(values[0], values[1], values[2], values[3]);
    }
    __device__ static __forceinline__ Bits fill(float value) { return make_float4(value, value, value, value); }
};

template <>
struct Pack<__nv_bfloat16, 1> {
    using Bits = unsigned short;
    __device__ static __forceinline__ void unpack(Bits bits, float (&values)[1]) {
        values[0] = __uint_as_float(static_cast<unsigned>(bits) << 16);  // a bfloat16 is the upper half of a float
    }
    __device__ static __forceinline__ Bits pack(const float (&values)[1]) {
        return __bfloat16_as_ushort(__float2bfloat16_rn(values[0]));
    }
    __device__ static __forceinline__ Bits fill(float value) {
        return static_cast<Bits>(__float_as_uint(value) >> 16);  // for values that a bfloat16 has, such as 0 and -inf
    }
};

template <>
struct Pack<__nv_bfloat16, 8> {
    using Bits = uint4;
    __device__ static __forceinline__ void unpack(Bits bits, float (&values)[8]) {
        const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            values[2 * i] = __uint_as_float(words[i] << 16);
            values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
        }
    }
    __device__ static __forceinline__ Bits pack(const float (&values)[8]) {
        unsigned words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const __nv_bfloat162 pair = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
            words[i] = *reinterpret_cast<const unsigned *>(&pair);
        }
        return make_uint4(words[0], words[1], words[2], words[3]);
    }
    __device__ static __forceinline__ Bits fill(float value) {
        const unsigned word = __byte_perm(__float_as_uint(value), 0, 0x3232);
        return make_uint4(word, word, word, word);
    }
};

// The largest element of a vector, NaN passed over. Eight bfloat16 are compared two at a time, without being unpacked.
__device__ __forceinline__ float largest_of(float bits) { return bits; }
__device__ __forceinline__ float largest_of(float4 bits) { return fmaxf(fmaxf(bits.x, bits.y), fmaxf(bits.z, bits.w)); }
__device__ __forceinline__ float largest_of(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}
__device__ __forceinline__ float largest_of(uint4 bits) {
    unsigned pair;
    asm("{\n.reg .b32 a, b;\nmax.bf16x2 a, %1, %2;\nmax.bf16x2 b, %3, %4;\nmax.bf16x2 %0, a, b;\n}"
        : "=r"(pair)
        : "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w));
    return fmaxf(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

// Elements of a 16-byte access.
template <class Element>
constexpr int kVector = 16 / static_cast<int>(sizeof(Element));

// A row is read once and written once, yet by plain accesses, with which a copy is fastest. STREAMING 1 marks what is read
// and written as first to leave the caches (ld.cs, st.cs), for comparison. Said in PTX: of a pointer that is const and
// __restrict__ the compiler would read with ld.global.nc, and a vector that it took apart it would write in pieces.
#ifndef STREAMING
#define STREAMING 0
#endif
__device__ __forceinline__ float load_plain(const float *from) {
    float v;
    asm("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(from));
    return v;
}
__device__ __forceinline__ float4 load_plain(const float4 *from) {
    float4 v;
    asm("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(from));
    return v;
}
__device__ __forceinline__ unsigned short load_plain(const unsigned short *from) {
    unsigned short v;
    asm("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(from));
    return v;
}
__device__ __forceinline__ uint4 load_plain(const uint4 *from) {
    uint4 v;
    asm("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
}
__device__ __forceinline__ void store_plain(float *to, float v) { *to = v; }
__device__ __forceinline__ void store_plain(unsigned short *to, unsigned short v) { *to = v; }
__device__ __forceinline__ void store_plain(float4 *to, float4 v) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}
__device__ __forceinline__ void store_plain(uint4 *to, uint4 v) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

template <class Element, int kWidth>
__device__ __forceinline__ typename Pack<Element, kWidth>::Bits load_once(const Element *from) {
    const auto *bits = reinterpret_cast<const typename Pack<Element, kWidth>::Bits *>(from);
    return STREAMING ? __ldcs(bits) : load_plain(bits);
}

// The same value under another name: what is computed from it is computed anew. Columns and conditions that several
// loops over the vectors of a thread need would otherwise stay in registers between them, and spill.
__device__ __forceinline__ int again(int value) {
    asm("" : "+r"(value));
    return value;
}

__device__ __forceinline__ float again(float value) {
    asm("" : "+f"(value));
    return value;
}

template <class T>
__device__ __forceinline__ T *again(T *pointer) {
    asm("" : "+l"(pointer));
    return pointer;
}

// The same for what a thread holds of a row, before a further pass over it: eight bfloat16 take four registers, but eight
// as floats, which the compiler would keep from one pass to the next. Unpacking them again is two instructions a pair. (A
// single one takes a register either way.)
__device__ __forceinline__ void unpack_anew(float &) {}
__device__ __forceinline__ void unpack_anew(float4 &) {}
__device__ __forceinline__ void unpack_anew(unsigned short &) {}
__device__ __forceinline__ void unpack_anew(uint4 &bits) {
    asm("" : "+r"(bits.x), "+r"(bits.y), "+r"(bits.z), "+r"(bits.w));
}
template <class Bits, int kVectors>
__device__ __forceinline__ void unpack_anew(Bits (&bits)[kVectors]) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) unpack_anew(bits[v]);
}

// A thread's vectors of a row, `step` elements apart, all loads issued before one is used; `fill` behind `columns`.
template <class Element, int kWidth, int kVectors>
__device__ __forceinline__ void load_row(typename Pack<Element, kWidth>::Bits (&bits)[kVectors], const Element *from,
                                         int columns, int first, int step, float fill) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        bits[v] = Pack<Element, kWidth>::fill(fill);
        if (first < columns) bits[v] = load_once<Element, kWidth>(from + first);
        first += step;
    }
}

template <class Element, int kWidth>
__device__ __forceinline__ void store_once(Element *to, const float (&values)[kWidth]) {
    auto *bits = reinterpret_cast<typename Pack<Element, kWidth>::Bits *>(to);
    if constexpr (STREAMING)
        __stcs(bits, Pack<Element, kWidth>::pack(values));
    else
        store_plain(bits, Pack<Element, kWidth>::pack(values));
}

// The counterpart: a thread's vectors, each multiplied by `scale`.
template <class Element, int kWidth, int kVectors>
__device__ __forceinline__ void store_scaled(Element *to, float (&values)[kVectors][kWidth], float scale, int columns,
                                             int first, int step) {
    first = again(first);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[v][i] *= scale;
        if (first + v * step < columns) store_once<Element, kWidth>(to + first + v * step, values[v]);
    }
}

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class Element>
__device__ __forceinline__ Element from_float(float value) {
    if constexpr (sizeof(Element) == 4)
        return value;
    else
        return __float2bfloat16_rn(value);
}

struct Sum {
    static constexpr float kIdentity = 0.0f;
    __device__ static __forceinline__ float apply(float a, float b) { return a + b; }
};

struct Max {  // a NaN is passed over: whoever needs it sees it in the values themselves
    static constexpr float kIdentity = -kInfinity;
    __device__ static __forceinline__ float apply(float a, float b) { return fmaxf(a, b); }
};

// The reduction of one value a lane, known to all lanes.
template <class Op>
__device__ __forceinline__ float warp_reduce(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value = Op::apply(value, __shfl_xor_sync(kWholeWarp, value, offset));
    }
    return value;
}

// The reduction of one value a thread over the block, known to all threads. `partial` holds a float for each of up to
// 32 warps; a second reduction needs another one, or a barrier before it.
template <class Op>
__device__ __forceinline__ float block_reduce(float value, float *partial) {
    value = warp_reduce<Op>(value);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    return warp_reduce<Op>(lane < blockDim.x / 32 ? partial[lane] : Op::kIdentity);
}

// Whether 16-byte accesses to these rows of N elements are aligned.
template <class Element>
inline bool rows_aligned(const Element *x, const Element *y, int64_t N) {
    const auto aligned = [](const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; };
    return aligned(x) && aligned(y) && N % kVector<Element> == 0;
}

// The least multiple of a warp that gives each thread at most `each` of N elements.
inline unsigned threads_for(int64_t N, int64_t each) {
    const int64_t warps = (N + 32 * each - 1) / (32 * each);
    return static_cast<unsigned>(32 * (warps < 1 ? 1 : warps));
}

// Rows a block where a warp takes one of N elements: short ones together, so that a block has `elements` to do; a row of
// so many is a block by itself, which ends when the row does and makes room for the next.
inline unsigned warp_rows(int64_t elements, int64_t N, unsigned most) {
    const int64_t rows = N < 1 ? most : elements / N;
    return static_cast<unsigned>(rows < 1 ? 1 : rows < most ? rows : most);
}

}  // namespace ladder
