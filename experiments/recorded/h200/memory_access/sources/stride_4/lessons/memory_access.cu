// Lesson: the same copy, read and written in another order.
//
// Idea     A warp's accesses are served in sectors of 32 bytes and lines of 128. Every variant moves the same N floats
//          from x to y, each once; only which lane takes which float differs.
// Shows    sectors per load request, bytes used of a sector, and what that does to the bytes that reach DRAM.
//          CONTIGUOUS  lane t takes x[t]: 4 sectors, all of them used.
//          STRIDED     lanes lie STRIDE floats apart, and what lies between them is taken on later passes over the whole
//                      array, when the caches have forgotten it: 4 STRIDE sectors, 32 at most.
//          RANDOM      lane t takes x[p(t)], p a permutation without order: 32 sectors.
//          BROADCAST   all lanes read the same word, 32 words one after the other, and each keeps its own: 1 sector, but
//                      32 requests for what takes one.
//          MISALIGNED  contiguous, one float off: 5 sectors, the outer ones shared with the neighbours.
//          AOS         a lane takes a structure of 4 floats field by field: 16 sectors a request; L1 serves the other
//                      three fields, if it still holds them.
//          SOA         the same structure as four arrays: 4 sectors a request, 4 requests in flight.
//          VECTOR2, 4  8 or 16 bytes a lane: fewer requests for the same bytes (LDG.64, LDG.128 in the SASS).
// Sizes    any N; where N is no multiple of a pattern's piece, the rest is copied lane by lane.
#include "copy.h"

#define CONTIGUOUS 0
#define STRIDED 1
#define RANDOM 2
#define BROADCAST 3
#define MISALIGNED 4
#define AOS 5
#define SOA 6
#define VECTOR2 7
#define VECTOR4 8
#ifndef ACCESS
#define ACCESS CONTIGUOUS
#endif
#ifndef STRIDE
#define STRIDE 2
#endif

namespace {

constexpr int kThreads = 256;
// Elements of one thread.
constexpr int kEach = ACCESS == AOS || ACCESS == SOA || ACCESS == VECTOR4 ? 4 : ACCESS == VECTOR2 ? 2 : 1;

// A permutation of [0, n) without order: steps that can be undone mix the bits of [0, 2^bits), and what falls outside
// of n is mixed again until it falls inside.
[[maybe_unused]] __device__ int64_t permuted(int64_t i, int64_t n, int bits) {
    const uint64_t mask = (uint64_t(1) << bits) - 1;
    uint64_t v = i;
    do {
        v = (v * 0x9e3779b97f4a7c15ull) & mask;
        v ^= v >> (bits / 2 + 1);
        v = (v * 0xd1342543de82ef95ull) & mask;
        v ^= v >> (bits / 2 + 1);
    } while (v >= uint64_t(n));
    return int64_t(v);
}

template <int Width>
struct Vector;
template <>
struct Vector<2> {
    using type = float2;
};
template <>
struct Vector<4> {
    using type = float4;
};

__global__ void __launch_bounds__(kThreads)
    move(const float *__restrict__ x, float *__restrict__ y, int64_t n, [[maybe_unused]] int bits) {
    const int64_t t = int64_t(blockIdx.x) * kThreads + threadIdx.x;
    [[maybe_unused]] const int lane = threadIdx.x % 32;
#if ACCESS == CONTIGUOUS
    if (t < n) y[t] = x[t];
#elif ACCESS == STRIDED
    const int64_t groups = n / 32 / STRIDE;  // pieces of 32 * STRIDE floats
    const int64_t warp = t / 32;
    if (warp < groups * STRIDE) {
        const int64_t i = warp % groups * 32 * STRIDE + int64_t(lane) * STRIDE + warp / groups;
        y[i] = x[i];
    } else if (t < n) {
        y[t] = x[t];
    }
#elif ACCESS == RANDOM
    if (t < n) {
        const int64_t i = permuted(t, n, bits);
        y[i] = x[i];
    }
#elif ACCESS == BROADCAST
    const int64_t base = t - lane;
    if (base + 32 <= n) {
        float own = 0.0f;
#pragma unroll
        for (int j = 0; j < 32; ++j) {
            float v;
            asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(x + base + j));
            own = lane == j ? v : own;
        }
        y[t] = own;
    } else if (t < n) {
        y[t] = x[t];
    }
#elif ACCESS == MISALIGNED
    if (t < n) {
        const int64_t i = t + 1 < n ? t + 1 : 0;
        y[i] = x[i];
    }
#elif ACCESS == AOS || ACCESS == SOA
    const int64_t count = n / 4;  // structures
    const int64_t each = ACCESS == AOS ? 4 : 1, apart = ACCESS == AOS ? 1 : count;
    if (t < count) {
        float field[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
            asm volatile("ld.global.f32 %0, [%1];" : "=f"(field[j]) : "l"(x + t * each + j * apart));
#pragma unroll
        for (int j = 0; j < 4; ++j)
            asm volatile("st.global.f32 [%0], %1;" ::"l"(y + t * each + j * apart), "f"(field[j]) : "memory");
    } else if (t < count + n % 4) {
        y[t - count + 4 * count] = x[t - count + 4 * count];
    }
#else
    using Wide = Vector<kEach>::type;
    const int64_t count = n / kEach;
    if (t < count) {
        reinterpret_cast<Wide *>(y)[t] = reinterpret_cast<const Wide *>(x)[t];
    } else if (t < count + n % kEach) {
        y[t - count + kEach * count] = x[t - count + kEach * count];
    }
#endif
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t n = args->N;
    const int64_t threads = n / kEach + n % kEach;
    int bits = 1;
    while ((int64_t(1) << bits) < n) ++bits;
    const int64_t blocks = (threads + kThreads - 1) / kThreads;
    if (blocks > INT32_MAX) return cudaErrorInvalidValue;
    move<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(args->x, args->y, n, bits);
    return cudaGetLastError();
}
