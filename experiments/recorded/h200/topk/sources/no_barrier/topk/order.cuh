// Floats as integers in the order of torch.topk, and an element as one 64-bit number.
//
// The bits of two floats of the same sign compare as the floats do (negative ones the other way round), so a float
// becomes an unsigned key by flipping its sign bit, or all bits where it is negative. NaN, of whatever sign, is the
// largest key; -0 and +0 are one.
#pragma once
#include <cstdint>

namespace topk {

constexpr uint32_t kNan = 0xffffffffu, kInfinity = 0xff800000u, kMinusInfinity = 0x007fffffu, kZero = 0x80000000u;

// At least kMinusInfinity: 0 is free for "no element".
__device__ __forceinline__ uint32_t key_of(float value) {
    const uint32_t bits = __float_as_uint(value + 0.0f);  // -0 + 0 is +0
    const uint32_t key = bits ^ (static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31) | 0x80000000u);
    return value == value ? key : kNan;
}

// An element: its key, then its index counted backwards, so that of equal keys the first is the largest entry.
// Indices go up to 2^32 - 2; 0 is no element.
__device__ __forceinline__ uint64_t entry_of(uint32_t key, uint32_t index) {
    return static_cast<uint64_t>(key) << 32 | (0xffffffffu - index);
}
__device__ __forceinline__ uint32_t key_of(uint64_t entry) { return static_cast<uint32_t>(entry >> 32); }
__device__ __forceinline__ int64_t index_of(uint64_t entry) { return 0xffffffffu - static_cast<uint32_t>(entry); }

constexpr int64_t kMostElements = 0xfffffffell;

// A float t such that !(v <= t) for every v whose key is above `bar`, and for NaN: one comparison that lets a few too
// many through where v is NaN, and never too few.
__device__ __forceinline__ float bar_value(uint32_t bar) {
    if (bar < kMinusInfinity) return __uint_as_float(0x7fc00000u);  // nothing is <= NaN: all pass
    if (bar >= kInfinity) return __uint_as_float(0x7f800000u);      // NaN passes only
    if (bar == kZero - 1) return __uint_as_float(0x80000001u);      // just below zero, whatever its sign
    return __uint_as_float(bar >= kZero ? bar ^ 0x80000000u : ~bar);
}

}  // namespace topk
