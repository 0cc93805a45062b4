// Kernels whose warps go their own ways, on a CPU: shuffles, votes, atomics in shared and global memory, cp.async. Each CUDA
// thread is a fiber of machine.hpp, which picks them at random, and copies are done as late as a wait allows or at once.
#pragma once
#include "machine.hpp"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __launch_bounds__(...)
#define threadIdx (emu::now->thread)
#define blockIdx (emu::now->block)

enum cudaError_t { cudaSuccess, cudaErrorInvalidValue };
enum {
    cudaDevAttrMultiProcessorCount,
    cudaFuncAttributePreferredSharedMemoryCarveout,
    cudaSharedmemCarveoutMaxShared,
};
using cudaStream_t = void *;
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int *value, int, int) { return *value = MULTIPROCESSORS, cudaSuccess; }
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, int, int) {
    return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel, int, size_t) {
    return *blocks = 2, cudaSuccess;
}
inline cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
    return std::memset(memory, value, bytes), cudaSuccess;
}

struct float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
template <class To, class From>
To bits_as(From from) {
    To to;
    static_assert(sizeof to == sizeof from);
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline uint32_t __float_as_uint(float value) { return bits_as<uint32_t>(value); }
inline float __uint_as_float(uint32_t value) { return bits_as<float>(value); }
inline float fmaxf(float a, float b) { return std::fmax(a, b); }
inline int __popc(uint32_t mask) { return __builtin_popcount(mask); }
inline int __ffs(int mask) { return __builtin_ffs(mask); }
template <class T>
T min(T a, T b) {
    return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
    return a < b ? b : a;
}

namespace emu {

// Another may go on here.
inline void yield() {
    if (chance() % 8 == 0) {
        now->ready = [] { return true; };
        swapcontext(&now->context, &scheduler);
    }
}

template <class T>
T &shared(const void *declaration) {
    auto &places = now->home->places;
    auto &memory = now->home->shared;
    const auto found = places.find(declaration);
    if (found == places.end()) {
        uint32_t at = places.empty() ? 0 : 128 * 1024;
        if (sizeof(T) > 100 * 1024 || places.size() > 1) fail("more shared memory than the emulator has");
        places[declaration] = at;
        return *reinterpret_cast<T *>(memory.data() + at);
    }
    return *reinterpret_cast<T *>(memory.data() + found->second);
}

// What a collective leaves for others: a word a lane, for each set of lanes that meet. Two rounds alternate, so that the
// second may begin while slow lanes still read the first.
struct Exchange {
    uint64_t words[2][32];
    uint32_t round[32] = {};
};
inline std::map<std::pair<const Block *, std::pair<uint32_t, uint32_t>>, std::pair<Exchange, Meeting>> exchanges;

inline const uint64_t *exchanged(uint32_t lanes, uint64_t own) {
    if ((lanes >> lane() & 1) == 0) fail("a lane outside of its own mask");
    auto &[exchange, meeting] = exchanges[{now->home, {warp(), lanes}}];
    const uint32_t which = exchange.round[lane()]++ % 2;
    exchange.words[which][lane()] = own;
    meet(meeting, __builtin_popcount(lanes));
    return exchange.words[which];
}

// What __syncthreads_or found, for three in turn: when one is left, the next may be under way.
inline std::map<const Block *, int> votes[3];
inline std::map<const Fiber *, int> voted;

inline uint32_t seed = 1;
inline void launch(unsigned grid, unsigned threads, int, std::function<void()> kernel) {
    exchanges.clear();
    voted.clear();
    for (auto &vote : votes) vote.clear();
    launch(grid, 1, threads, seed++, std::move(kernel));
}

struct Copies {
    std::vector<std::function<void()>> open;
    std::deque<std::vector<std::function<void()>>> groups;
};
inline std::map<const Fiber *, Copies> copies;

inline const char *readable = nullptr, *readable_end = nullptr;  // what copies may touch

}  // namespace emu

inline void __syncthreads() { emu::meet(emu::now->home->meetings[0], emu::threads); }
inline int __syncthreads_or(int value) {
    const int round = emu::voted[emu::now]++ % 3;
    emu::votes[(round + 1) % 3][emu::now->home] = 0;  // nobody can be there yet, nor still in it
    emu::votes[round][emu::now->home] |= value != 0;
    __syncthreads();
    return emu::votes[round][emu::now->home];
}
inline void __syncwarp() { emu::exchanged(~0u, 0); }
inline void __threadfence() {}
template <class T>
T __shfl_sync(uint32_t lanes, T value, int from) {
    return bits_as<T>(static_cast<uint32_t>(emu::exchanged(lanes, bits_as<uint32_t>(value))[from]));
}
template <class T>
T __shfl_up_sync(uint32_t lanes, T value, int by) {
    const int from = static_cast<int>(emu::lane()) - by;
    return bits_as<T>(
        static_cast<uint32_t>(emu::exchanged(lanes, bits_as<uint32_t>(value))[from < 0 ? emu::lane() : from]));
}
template <class T>
T __shfl_down_sync(uint32_t lanes, T value, int by) {
    const int from = static_cast<int>(emu::lane()) + by;
    return bits_as<T>(
        static_cast<uint32_t>(emu::exchanged(lanes, bits_as<uint32_t>(value))[from > 31 ? emu::lane() : from]));
}
inline uint32_t __ballot_sync(uint32_t lanes, bool value) {
    const uint64_t *words = emu::exchanged(lanes, value);
    uint32_t found = 0;
    for (int l = 0; l < 32; ++l) found |= (lanes >> l & 1) != 0 && words[l] != 0 ? 1u << l : 0;
    return found;
}
inline uint32_t __match_all_sync(uint32_t lanes, uint32_t value, int *same) {
    const uint64_t *words = emu::exchanged(lanes, value);
    *same = 1;
    for (int l = 0; l < 32; ++l)
        if ((lanes >> l & 1) != 0 && words[l] != value) *same = 0;
    return *same ? lanes : 0;
}
inline unsigned atomicAdd(unsigned *to, unsigned value) {
    emu::yield();
    return (*to += value) - value;
}
inline unsigned atomicMax(unsigned *to, unsigned value) {
    emu::yield();
    const unsigned old = *to;
    *to = max(old, value);
    return old;
}
template <class T>
T __ldcg(const T *from) {
    emu::yield();
    return *from;
}
template <class T>
T __ldg(const T *from) {
    return *from;
}
template <class T>
void __stcs(T *to, T value) {
    *to = value;
}
inline void prefetch_l2(const float *from, unsigned bytes) {
    const char *begin = reinterpret_cast<const char *>(from);
    if (reinterpret_cast<uintptr_t>(begin) % 16 != 0 || bytes % 16 != 0) emu::fail("a prefetch that is not aligned");
    if (begin < emu::readable || begin + bytes > emu::readable_end) emu::fail("a prefetch from outside of x");
}
inline void load_quad_if(float (&to)[16], int at, const float *from, bool wanted) {
    if (!wanted) return;
    const char *begin = reinterpret_cast<const char *>(from);
    if (reinterpret_cast<uintptr_t>(begin) % 16 != 0) emu::fail("a load that is not aligned");
    if (begin < emu::readable || begin + 16 > emu::readable_end) emu::fail("a load from outside of x");
    std::memcpy(to + at, from, 16);
}

namespace ladder {

inline uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(static_cast<const uint8_t *>(pointer) - emu::now->home->shared.data());
}
template <int kBytes>
void copy_async_or_zero(uint32_t to, const void *from, bool valid) {
    const char *begin = static_cast<const char *>(from);
    if (valid && (begin < emu::readable || begin + kBytes > emu::readable_end)) emu::fail("a copy from outside of x");
    uint8_t *target = emu::now->home->shared.data() + to;
    const auto copy = [=] { valid ? std::memcpy(target, from, kBytes) : std::memset(target, 0, kBytes); };
    if (emu::chance() % 4 == 0)
        copy();
    else
        emu::copies[emu::now].open.push_back(copy);
}
inline void commit_copies() {
    auto &[open, groups] = emu::copies[emu::now];
    groups.push_back(std::move(open));
    open.clear();
}
template <int kPending>
void wait_copies() {
    for (auto &groups = emu::copies[emu::now].groups; groups.size() > kPending; groups.pop_front())
        for (auto &copy : groups.front()) copy();
}

}  // namespace ladder
