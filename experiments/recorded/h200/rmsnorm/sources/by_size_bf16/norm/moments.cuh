// What LayerNorm and RMSNorm need to know of a part of a row: how many elements, their mean, and the sum of their
// squared distances from it. RMSNorm is the same with a mean of 0.
//
// The sum of (x - mean)^2 never cancels, where E[x^2] - E[x]^2 loses all digits once the mean is about 2^12 standard
// deviations of FP32: at a mean of 10^4 the squares are multiples of 8, and so is their difference, for a variance
// of 1. Parts are joined by what their means are apart (Chan, Golub, LeVeque: Algorithms for computing the sample
// variance, The American Statistician 37(3), 1983):
//     mean = sum of n_i mean_i / n         squares = sum of squares_i + n_i (mean_i - mean)^2
#pragma once
#include "../common/rows.cuh"

namespace ladder {

struct alignas(16) Moments {
    float count, mean, squares;
    float word;  // free for whoever sends them; joining passes it over
};

// The moments of a warp from those of its lanes, known to all lanes.
template <bool kCentred>
__device__ __forceinline__ Moments warp_merge(Moments own) {
    if constexpr (!kCentred) return {0.0f, 0.0f, warp_reduce<Sum>(own.squares), 0.0f};
    const float count = warp_reduce<Sum>(own.count);
    const float mean = warp_reduce<Sum>(own.count * own.mean) / fmaxf(count, 1.0f);
    const float apart = own.mean - mean;
    return {count, mean, warp_reduce<Sum>(own.count * apart * apart + own.squares), 0.0f};
}

// The moments of a row of N elements from those of its `count` parts, at most 32 kEach, known to all lanes of a warp.
template <bool kCentred, int kEach>
__device__ __forceinline__ Moments join_parts(const Moments *parts, unsigned count, float N) {
    const unsigned lane = threadIdx.x % 32;
    constexpr int kAtOnce = kEach < 4 ? kEach : 4;  // reads of shared memory that do not wait for one another
    Moments row = {N, 0.0f, 0.0f, 0.0f};
    if constexpr (kCentred) {
        float sum = 0.0f;
#pragma unroll kAtOnce
        for (int k = 0; k < kEach; ++k) {
            if (lane + 32 * k < count) sum += parts[lane + 32 * k].count * parts[lane + 32 * k].mean;
        }
        row.mean = warp_reduce<Sum>(sum) / N;
    }
#pragma unroll kAtOnce
    for (int k = 0; k < kEach; ++k) {
        if (lane + 32 * k >= count) continue;
        const Moments part = parts[lane + 32 * k];
        const float apart = part.mean - row.mean;
        row.squares += kCentred ? part.count * apart * apart + part.squares : part.squares;
    }
    row.squares = warp_reduce<Sum>(row.squares);
    return row;
}

// How many of `columns` elements a warp holds whose first vector begins at `first`, a warp's vectors `step` apart.
template <int kWidth, int kVectors>
__device__ __forceinline__ float warp_count(int columns, int first, int step) {
    int count = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) count += min(max(columns - first - v * step, 0), 32 * kWidth);
    return static_cast<float>(count);
}

// Eight bfloat16 as floats that stay: twice the registers, and no instructions to unpack them again for each pass.
template <>
struct Pack<float, 8> {
    struct Bits {
        float each[8];
    };
    __device__ static __forceinline__ void unpack(const Bits &bits, float (&values)[8]) {
#pragma unroll
        for (int i = 0; i < 8; ++i) values[i] = bits.each[i];
    }
};
__device__ __forceinline__ void unpack_anew(Pack<float, 8>::Bits &) {}

__device__ __forceinline__ Pack<float, 8>::Bits as_floats(uint4 bits) {
    Pack<float, 8>::Bits floats;
    Pack<__nv_bfloat16, 8>::unpack(bits, floats.each);
#pragma unroll
    for (float &value : floats.each) value = again(value);  // or the compiler would unpack anew, to save registers
    return floats;
}

// The moments of the vectors of a warp in two passes over registers: the mean first, then the distances from it. What lies
// behind the row's end is set to zero; jumped over where vectors are unpacked, which is for fewer instructions.
template <bool kCentred, class Element, int kWidth, int kVectors>
__device__ __forceinline__ Moments warp_moments(typename Pack<Element, kWidth>::Bits (&bits)[kVectors], int columns,
                                                int first, int step) {
    Moments own = {0.0f, 0.0f, 0.0f, 0.0f};
    float values[kWidth];
    constexpr bool kUnpacked = sizeof(bits[0]) > 16;
    if constexpr (kCentred) {
        float sum = 0.0f;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            Pack<Element, kWidth>::unpack(bits[v], values);
#pragma unroll
            for (int i = 0; i < kWidth; ++i) sum += values[i];  // zeros behind the row's end
        }
        own.count = warp_count<kWidth, kVectors>(columns, first - threadIdx.x % 32 * kWidth, step);
        own.mean = warp_reduce<Sum>(sum) / fmaxf(own.count, 1.0f);
        unpack_anew(bits);
    }
    first = again(first);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        const bool inside = !kCentred || first + v * step < columns;
        if (kUnpacked && !inside) continue;
        Pack<Element, kWidth>::unpack(bits[v], values);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            const float apart = inside ? values[i] - own.mean : 0.0f;
            own.squares += apart * apart;
        }
    }
    own.squares = warp_reduce<Sum>(own.squares);
    unpack_anew(bits);
    return own;
}

// 1 / sqrt(variance + eps), of the whole row. sqrt and / are correctly rounded: once a row costs nothing.
__device__ __forceinline__ float inverse_deviation(float squares, float N, float eps) {
    return 1.0f / sqrtf(squares / N + eps);
}

// Weights, which every row needs again. Volatile: in the order of the text, before the stores that are said after them and
// not all before the first, which registers do not hold.
__device__ __forceinline__ float load_weight(const float *from) {
    float v;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(from));
    return v;
}
__device__ __forceinline__ float4 load_weight(const float4 *from) {
    float4 v;
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(from));
    return v;
}
__device__ __forceinline__ unsigned short load_weight(const unsigned short *from) {
    unsigned short v;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(from));
    return v;
}
__device__ __forceinline__ uint4 load_weight(const uint4 *from) {
    uint4 v;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

// What kBatch vectors of columns are multiplied by and shifted by: y = (x - mean) * inverse * w + b, without the mean and
// b for RMSNorm. Loaded together, for one wait, and serving all rows that a thread has there.
template <class Element, bool kCentred, int kWidth, int kBatch>
struct Weights {
    typename Pack<Element, kWidth>::Bits w[kBatch], b[kCentred ? kBatch : 1];

    __device__ __forceinline__ void load(int v, const Element *from_w, const Element *from_b) {
        using Bits = typename Pack<Element, kWidth>::Bits;
        w[v] = load_weight(reinterpret_cast<const Bits *>(from_w));
        if constexpr (kCentred) b[v] = load_weight(reinterpret_cast<const Bits *>(from_b));
    }
    __device__ __forceinline__ void normalise(int v, float (&values)[kWidth], float mean, float inverse) const {
        float weight[kWidth], bias[kWidth];
        Pack<Element, kWidth>::unpack(w[v], weight);
        if constexpr (kCentred) Pack<Element, kWidth>::unpack(b[v], bias);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            if constexpr (kCentred)
                values[i] = (values[i] - mean) * inverse * weight[i] + bias[i];
            else
                values[i] = values[i] * inverse * weight[i];
        }
    }
};

}  // namespace ladder
