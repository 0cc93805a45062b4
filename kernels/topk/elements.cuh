// A thread's elements of a round, 16 in registers: compared with a bar while those of the next round are asked for.
#pragma once
#include <cstdint>

#include "order.cuh"

namespace topk {

constexpr int kThreads = 256, kQuads = 4, kEach = 4 * kQuads, kRound = kThreads * kEach;

// Four neighbours, or nothing. In PTX, so that they come into the very registers that the four before them leave, and
// nothing has to wait for them to be moved there.
__device__ __forceinline__ void load_quad_if(float (&to)[kEach], int at, const float *from, bool wanted) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n@p ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, "
        "[%4];\n}"
        : "+f"(to[at]), "+f"(to[at + 1]), "+f"(to[at + 2]), "+f"(to[at + 3])
        : "l"(from), "r"(static_cast<int>(wanted)));
}

// Asks for `bytes` to be brought to L2; a multiple of 16, as the address.
__device__ __forceinline__ void prefetch_l2(const float *from, unsigned bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// A thread's 16 elements of a round: four quads, or, where rows are not aligned, one at a time.
template <bool kWhole>
struct Elements {
    float v[kEach] = {};

    __device__ static int64_t index(int64_t round, int i) {
        if constexpr (kWhole) return round * kRound + i / 4 * (4 * kThreads) + 4 * threadIdx.x + i % 4;
        return round * kRound + i * kThreads + threadIdx.x;
    }

    // Of a round's elements, how many the row has.
    __device__ static int present(int64_t round, int64_t N) {
        return static_cast<int>(max(min(N - round * kRound, int64_t(kRound)), int64_t(0)));
    }

    // The thread's first element of a round, and how many the row has from there on, at the most those of the round.
    static constexpr int kFirst = kWhole ? 4 : 1;
    __device__ static const float *begin(const float *row, int64_t round) {
        return row + (round * kRound + kFirst * threadIdx.x);
    }
    __device__ static int left(int64_t round, int64_t N) {
        return present(round, N) - kFirst * static_cast<int>(threadIdx.x);
    }

    // Elements 4q to 4q + 3 of the round; those behind the end of the row stay what they are.
    __device__ __forceinline__ void load(int q, const float *begin, int left) {
        if constexpr (kWhole) {
            load_quad_if(v, 4 * q, begin + q * 4 * kThreads, q * 4 * kThreads < left);
        } else {
#pragma unroll
            for (int i = 4 * q; i < 4 * q + 4; ++i)
                if (i * kThreads < left) v[i] = begin[i * kThreads];
        }
    }

    // One thread: a round of the block is brought to L2, if the row has it and can be accessed in quads.
    __device__ static __forceinline__ void ask(const float *row, int64_t round, int64_t N) {
        if constexpr (kWhole) {
            const int there = present(round, N);
            if (there > 0) prefetch_l2(row + round * kRound, there * sizeof(float));
        }
    }

    // The key of one of the largest; NaN counts where there is nothing else.
    __device__ uint32_t large_key(int64_t round, int64_t N) const {
        uint32_t most = 0;
        if (present(round, N) == kRound) {
            float largest = v[0];
#pragma unroll
            for (int i = 1; i < kEach; ++i) largest = fmaxf(largest, v[i]);
            return key_of(largest);
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i)
            if (index(round, i) < N) most = max(most, key_of(v[i]));
        return most;
    }

    // Which of them are above a bar's value, a bit each; meanwhile those of the next round are asked for.
    __device__ __forceinline__ unsigned above(float value, const float *row, int64_t next, int64_t N) {
        unsigned mask = 0;
        const float *from = begin(row, next);
        const int there = left(next, N);
#pragma unroll
        for (int q = 0; q < kQuads; ++q) {
#pragma unroll
            for (int i = 4 * q; i < 4 * q + 4; ++i)
                if (!(v[i] <= value)) mask |= 1u << i;
            load(q, from, there);
        }
        return mask;
    }

    // Appends the indices of those in the mask.
    __device__ static void push(uint64_t *entries, unsigned *count, unsigned mask, int64_t round, int64_t N) {
        if (present(round, N) < kRound) {
#pragma unroll
            for (int i = 0; i < kEach; ++i)
                if (index(round, i) >= N) mask &= ~(1u << i);
        }
        unsigned place = mask != 0 ? atomicAdd(count, static_cast<unsigned>(__popc(mask))) : 0;
#pragma unroll 1
        for (; mask != 0; mask &= mask - 1)
            entries[place++] = static_cast<uint32_t>(index(round, __ffs(static_cast<int>(mask)) - 1));
    }
};

}  // namespace topk
