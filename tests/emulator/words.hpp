// The FP32 and tf32x3 kernels on a CPU: what they say in PTX, said again. Each CUDA thread is a thread of the host,
// blocks run one after the other, and copies are done at once: this checks indices, fragments, swizzles, predicates and
// the counts of barriers (a wrong one hangs), not the order of asynchronous work, which hopper.hpp checks for the ring
// of its kernels.
#pragma once
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define __device__
#define __host__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __restrict__
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

struct Index {
    unsigned x = 0;
};
inline thread_local Index threadIdx, blockIdx;

enum cudaError_t { cudaSuccess, cudaErrorInvalidValue, cudaErrorNotSupported };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize };
using cudaStream_t = void *;
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, int, int bytes) {
    return bytes <= 227 * 1024 ? cudaSuccess : cudaErrorInvalidValue;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <class T>
T __ldg(const T *from) {
    return *from;
}
template <class To, class From>
To bits(From from) {
    To to;
    static_assert(sizeof to == sizeof from);
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline uint32_t __float_as_uint(float x) { return bits<uint32_t>(x); }
inline float __uint_as_float(uint32_t x) { return bits<float>(x); }

namespace emu {

alignas(1024) inline char shared[228 * 1024];
template <class T = char>
T *at(uint32_t address) {  // other __shared__ variables lie elsewhere, at negative addresses perhaps
    return reinterpret_cast<T *>(shared + static_cast<int32_t>(address));
}

inline std::unique_ptr<std::barrier<>> block, warps[32], groups[8];

inline void launch(unsigned grid, unsigned threads, int, const std::function<void()> &kernel) {
    for (unsigned b = 0; b < grid; ++b) {
        std::memset(shared, 0xff, sizeof shared);  // NaN
        block = std::make_unique<std::barrier<>>(threads);
        for (unsigned w = 0; w < threads / 32; ++w) warps[w] = std::make_unique<std::barrier<>>(32);
        for (unsigned g = 0; g < threads / 128; ++g) groups[g] = std::make_unique<std::barrier<>>(128);
        std::vector<std::thread> all;
        for (unsigned t = 0; t < threads; ++t)
            all.emplace_back([&, t] {
                threadIdx.x = t, blockIdx.x = b;
                kernel();
            });
        for (auto &one : all) one.join();
    }
}

inline unsigned lane() { return threadIdx.x % 32; }

}  // namespace emu

inline void __syncthreads() { emu::block->arrive_and_wait(); }
inline void __syncwarp() { emu::warps[threadIdx.x / 32]->arrive_and_wait(); }
inline int __shfl_sync(unsigned, int value, int) { return value; }  // used for what is the same in all lanes

// ---- cuda.h ----
enum CUtensorMapDataType { CU_TENSOR_MAP_DATA_TYPE_FLOAT32 };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_256B };

namespace ladder {

// ---- tensor_map.cuh ----
struct TiledMatrix {
    CUtensorMapDataType type;
    int element_bytes;
    const void *first;
    int64_t rows, columns;
    int tile_rows, tile_columns;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
};

}  // namespace ladder

using CUtensorMap = ladder::TiledMatrix;

namespace ladder {

inline cudaError_t require_hopper() { return cudaSuccess; }
inline cudaError_t make_map(CUtensorMap *map, const TiledMatrix &matrix) {
    *map = matrix;
    const bool aligned = matrix.columns % 4 == 0 && reinterpret_cast<uintptr_t>(matrix.first) % 16 == 0;
    const bool fits = matrix.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || matrix.tile_columns * 4 == 128;
    return aligned && fits && matrix.tile_rows <= 256 && matrix.tile_columns <= 256 ? cudaSuccess
                                                                                    : cudaErrorInvalidValue;
}

// ---- mbarrier.cuh ----
struct Phases {  // the 8 bytes of an mbarrier
    int16_t expected, pending;
    int32_t bytes_and_phase;  // twice the bytes that are on their way, and the parity of the phase

    void settle() {
        if (pending < 0) std::puts("too many arrivals"), std::abort();
        if (pending == 0 && bytes_and_phase >> 1 == 0) pending = expected, bytes_and_phase ^= 1;
    }
};
inline std::mutex one_at_a_time;
inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
    *emu::at<Phases>(barrier) = {static_cast<int16_t>(arrivals), static_cast<int16_t>(arrivals), 0};
}
inline void publish_barriers() {}
inline void arrive_once(uint32_t barrier, int arrivals, int bytes) {
    const std::lock_guard<std::mutex> guard(one_at_a_time);
    Phases &phases = *emu::at<Phases>(barrier);
    phases.bytes_and_phase += 2 * bytes;
    phases.pending -= arrivals;
    phases.settle();
}
inline void arrive(uint32_t barrier) {
    __syncwarp();
    if (emu::lane() == 0) arrive_once(barrier, 1, 0);
}
inline void arrive_expecting(uint32_t barrier, uint32_t bytes) {
    __syncwarp();
    if (emu::lane() == 0) arrive_once(barrier, 1, static_cast<int>(bytes));
}
inline void wait_phase(uint32_t barrier, uint32_t parity) {
    for (;; std::this_thread::yield()) {
        const std::lock_guard<std::mutex> guard(one_at_a_time);
        if ((emu::at<Phases>(barrier)->bytes_and_phase & 1u) != parity) return;
    }
}
inline int warp_in_block() { return threadIdx.x / 32; }
template <int kStages>
struct RingPlace {
    uint32_t stage = 0, parity = 0;
    void advance() {
        if (++stage == kStages) stage = 0, parity ^= 1;
    }
};

// ---- async_copy.cuh ----
inline uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(reinterpret_cast<intptr_t>(pointer) - reinterpret_cast<intptr_t>(emu::shared));
}
inline uint32_t kept(uint32_t value) { return value; }
template <int kBytes>
void copy_async_or_zero(uint32_t shared, const void *global, bool valid) {
    if (shared % kBytes || (valid && reinterpret_cast<uintptr_t>(global) % kBytes)) std::abort();
    if (valid)
        std::memcpy(emu::at(shared), global, kBytes);
    else
        std::memset(emu::at(shared), 0, kBytes);
}
template <int kBytes>
void copy_async_if(uint32_t shared, const void *global, uint32_t wanted) {
    if (wanted) copy_async_or_zero<kBytes>(shared, global, true);
}
inline void arrive_when_copied(uint32_t barrier) { arrive_once(barrier, 1, 0); }
inline void commit_copies() {}
template <int>
void wait_copies() {}

// ---- tma.cuh ----
inline uint32_t swizzled(uint32_t address) { return address ^ (address >> 3 & 0x70); }
inline void publish_to_copies() {}
inline void load_tile(uint32_t shared, const CUtensorMap &map, uint32_t barrier, int column, int row) {
    __syncwarp();
    if (emu::lane() != 0) return;
    const bool swizzle = map.swizzle == CU_TENSOR_MAP_SWIZZLE_128B;
    if (shared % (swizzle ? 1024 : 128)) std::puts("a tile that is not aligned"), std::abort();
    for (int r = 0; r < map.tile_rows; ++r)
        for (int c = 0; c < map.tile_columns; ++c) {
            const int64_t y = int64_t{row} + r, x = int64_t{column} + c;
            const bool inside = y < map.rows && x < map.columns;
            const uint32_t to = shared + (r * map.tile_columns + c) * 4;
            *emu::at<float>(swizzle ? swizzled(to) : to) =
                inside ? static_cast<const float *>(map.first)[y * map.columns + x] : 0.0f;
        }
    arrive_once(barrier, 0, -map.tile_rows * map.tile_columns * 4);
}

// ---- vectors.cuh ----
template <bool kWhole>
void store4(float *to, float4 four, bool inside, int64_t count) {
    if (kWhole && (!inside || count < 4 || reinterpret_cast<uintptr_t>(to) % 16)) std::abort();
    const float values[4] = {four.x, four.y, four.z, four.w};
    for (int i = 0; i < 4; ++i)
        if (inside && i < count) to[i] = values[i];
}
template <int kCount, int kSpan>
void read_fragment(float (&fragment)[kCount], uint32_t shared) {
    if (shared % 16) std::abort();
    for (int v = 0; v < kCount; v += 4) std::memcpy(fragment + v, emu::at(shared + v / 4 * kSpan * 4), 16);
}
inline float read_word(uint32_t shared) { return *emu::at<float>(shared); }
inline void write_words(uint32_t shared, uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
    const uint32_t values[4] = {x, y, z, w};
    std::memcpy(emu::at(shared), values, 16);
}

// ---- tf32.cuh: mma.sync ----
inline float as_tf32(uint32_t x) { return __uint_as_float(x & 0xffffe000u); }
inline uint32_t deposited[32][32][6];
inline void multiply_tf32(float (&acc)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    auto &all = deposited[threadIdx.x / 32];
    const unsigned l = emu::lane();
    std::memcpy(all[l], a, 16), std::memcpy(all[l] + 4, b, 8);
    __syncwarp();
    for (unsigned e = 0; e < 4; ++e) {
        const unsigned row = l / 4 + e / 2 * 8, column = l % 4 * 2 + e % 2;
        for (unsigned k = 0; k < 8; ++k)
            acc[e] +=
                as_tf32(all[row % 8 * 4 + k % 4][row / 8 + k / 4 * 2]) * as_tf32(all[column * 4 + k % 4][4 + k / 4]);
    }
    __syncwarp();
}

// ---- wgmma.cuh, wgmma_tf32.cuh ----
constexpr uint64_t kStepAlongK = 2;
inline uint64_t tile_descriptor(uint32_t shared) { return (shared & 0x3ffff) >> 4; }
inline void fence_products() {}
inline void commit_products() {}
template <int>
void wait_products() {}
template <int kCount>
void pin(float (&)[kCount]) {}
template <int>
void give_up_registers() {}
template <int>
void take_registers() {}
inline uint32_t deposited_by_group[8][128][4];
inline void multiply_tf32_group(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool add) {
    const unsigned group = threadIdx.x / 128, t = threadIdx.x % 128, w = t / 32, l = t % 32;
    auto &all = deposited_by_group[group];
    std::memcpy(all[t], a, 16);
    emu::groups[group]->arrive_and_wait();
    for (unsigned i = 0; i < 64; ++i) {
        const unsigned row = l / 4 + 8 * (i / 2 % 2), column = 8 * (i / 4) + 2 * (l % 4) + i % 2;
        float sum = 0;
        for (unsigned k = 0; k < 8; ++k) {
            const uint32_t x = *emu::at<uint32_t>(swizzled(static_cast<uint32_t>(b << 4) + column * 128 + k * 4));
            sum += as_tf32(all[32 * w + row % 8 * 4 + k % 4][row / 8 + k / 4 * 2]) * as_tf32(x);
        }
        d[i] = (add ? d[i] : 0.0f) + sum;
    }
    emu::groups[group]->arrive_and_wait();
}

}  // namespace ladder

struct Args {
    const float *A, *B;
    float *C;
    int64_t M, N, K;
};
