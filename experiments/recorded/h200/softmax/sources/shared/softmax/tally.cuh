// What softmax needs to know of a part of a row: its largest value, and the sum of e^(x - largest).
//
// Two parts become one by scaling the sum of the smaller maximum:  m = max(m1, m2),  d = d1 e^(m1-m) + d2 e^(m2-m)
// (Milakov, Gimelshein: Online normalizer calculation for softmax, arXiv:1805.02867).
//
// NaN and infinities as PyTorch has them. A NaN is passed over by the maximum and met again in the sum; +inf - +inf
// is one. A part that is all -inf must count as nothing, not as e^(-inf + inf): it is measured from 0 (`origin`). A
// whole row of -inf is NaN by its `factor`, as it should be.
#pragma once
#include <type_traits>

#include "../common/rows.cuh"
#include "softmax.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;  // float or __nv_bfloat16, by the contract

// e^x as 2^(x log2 e): one multiplication and one MUFU.EX2. ex2.approx is within 2 ulp (PTX ISA), so this is within
// 2 + |1.173 x| ulp, as __expf is (CUDA C++ Programming Guide). x is a difference from the largest value, subtracted
// first: folded into one FMA with x log2 e, values beyond 2.3e38 would overflow.
__device__ __forceinline__ float exp_of(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.44269504088896340736f));
    return result;
}

// What values are subtracted from inside a part.
__device__ __forceinline__ float origin(float largest) { return largest == -ladder::kInfinity ? 0.0f : largest; }

struct Tally {
    float largest, sum;
};

__device__ __forceinline__ Tally merge(Tally a, Tally b) {
    const float largest = fmaxf(a.largest, b.largest), from = origin(largest);
    return {largest, a.sum * exp_of(a.largest - from) + b.sum * exp_of(b.largest - from)};
}

// The tally of a warp from those of its lanes, known to all lanes: two reductions instead of five merges of pairs.
__device__ __forceinline__ Tally warp_merge(Tally own) {
    const float largest = ladder::warp_reduce<ladder::Max>(own.largest);
    return {largest, ladder::warp_reduce<ladder::Sum>(own.sum * exp_of(own.largest - origin(largest)))};
}

// The tally of what a warp holds, known to all its lanes; the vectors stay as they are, or, with kPowers (FP32), each value
// gives place to e^(value - origin(largest)).
template <int kWidth, bool kPowers, int kVectors>
__device__ __forceinline__ Tally tally_of_warp(typename ladder::Pack<Element, kWidth>::Bits (&bits)[kVectors]) {
    Tally own = {-ladder::kInfinity, 0.0f};
    float values[kWidth];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) own.largest = fmaxf(own.largest, ladder::largest_of(bits[v]));
    own.largest = ladder::warp_reduce<ladder::Max>(own.largest);
    const float from = origin(own.largest);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        ladder::Pack<Element, kWidth>::unpack(bits[v], values);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            values[i] = exp_of(values[i] - from);
            own.sum += values[i];
        }
        if constexpr (kPowers) bits[v] = ladder::Pack<Element, kWidth>::pack(values);
    }
    own.sum = ladder::warp_reduce<ladder::Sum>(own.sum);
    ladder::unpack_anew(bits);
    return own;
}

// By what e^(x - origin(part)) has to be multiplied, given the part's largest value and the row's tally. A part of
// -inf holds zeros and gets 0 / sum; in a row of -inf it gets -inf - -inf.
__device__ __forceinline__ float factor(float part, Tally row) { return exp_of(part - row.largest) / row.sum; }
