// The kernels over rows on a CPU: what they say in PTX, said again. Each CUDA thread is a thread of the host, the blocks of
// a cluster run together, clusters one after the other. It checks indices, edges, exchanges and what barriers count (a
// wrong count hangs), not the order in which memory sees things.
#pragma once
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)

struct Index {
    unsigned x = 0;
};
inline thread_local Index threadIdx, blockIdx, blockDim, gridDim;

enum cudaError_t { cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation };
enum {
    cudaFuncAttributeNonPortableClusterSizeAllowed,
    cudaFuncAttributeMaxDynamicSharedMemorySize,
    cudaDevAttrMultiProcessorCount
};
using cudaStream_t = void *;
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, int, int) {
    return cudaSuccess;
}

template <class T>
cudaError_t cudaMalloc(T **memory, size_t bytes) {
    *memory = static_cast<T *>(std::malloc(bytes));
    return cudaSuccess;
}
inline cudaError_t cudaMemset(void *memory, int value, size_t bytes) {
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaFree(void *memory) { return std::free(memory), cudaSuccess; }

inline cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int *value, int, int) { return *value = 2, cudaSuccess; }
struct dim3 {
    unsigned x = 1;
};

struct float2 {
    float x, y;
};
struct float4 {
    float x, y, z, w;
};
struct uint4 {
    unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
template <class To, class From>
To bits_as(From from) {
    To to;
    static_assert(sizeof to == sizeof from);
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline float __int_as_float(int value) { return bits_as<float>(value); }
inline unsigned __float_as_uint(float value) { return bits_as<unsigned>(value); }
inline float __uint_as_float(unsigned value) { return bits_as<float>(value); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= (bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return result;
}
struct __nv_bfloat16 {
    unsigned short bits;
};
struct __nv_bfloat162 {
    __nv_bfloat16 low, high;
};
inline __nv_bfloat16 __float2bfloat16_rn(float value) {
    const unsigned word = __float_as_uint(value);
    if (std::isnan(value)) return {0x7fff};
    return {static_cast<unsigned short>((word + 0x7fff + (word >> 16 & 1)) >> 16)};
}
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
    return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline float __bfloat162float(__nv_bfloat16 value) { return __uint_as_float(unsigned(value.bits) << 16); }
template <class T>
T min(T a, T b) {
    return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
    return a < b ? b : a;
}

namespace emu {

// An mbarrier with one arrival a phase; bytes may come before they are announced.
class Bytes {
  public:
    void announce(int64_t bytes) { change(bytes, true); }
    void come(int64_t bytes) { change(-bytes, false); }
    void wait(uint32_t parity) {
        for (unsigned now = phase; now % 2 == parity; now = phase) phase.wait(now);
    }

  private:
    std::mutex lock;
    int64_t left = 0;
    bool announced = false;
    std::atomic<unsigned> phase{0};
    void change(int64_t bytes, bool arrives) {
        const std::lock_guard guard(lock);
        if (arrives && announced) std::abort();  // two arrivals in a phase
        left += bytes, announced |= arrives;
        if (announced && left == 0) announced = false, ++phase, phase.notify_all();
    }
};

constexpr size_t kDynamic = 32 << 10;  // where dynamic shared memory begins

struct Block {
    alignas(64) unsigned char shared[64 << 10] = {};
    size_t used = 0;
    std::mutex lock;
    std::vector<std::pair<const void *, size_t>> places;  // of variables, by the line that declares them
    std::unique_ptr<std::barrier<>> all;
    std::vector<std::unique_ptr<std::barrier<>>> warps;
    std::vector<float> exchanged;
    std::map<uint32_t, Bytes> barriers;
    Bytes &barrier(uint32_t at) {
        const std::lock_guard guard(lock);
        return barriers[at];
    }
};

inline std::vector<std::unique_ptr<Block>> cluster;
inline std::unique_ptr<std::barrier<>> whole;
inline thread_local unsigned rank;
inline Block &mine() { return *cluster[rank]; }

template <class T>
T &shared(const void *declaration) {
    Block &block = mine();
    const std::lock_guard guard(block.lock);
    for (const auto &[name, at] : block.places)
        if (name == declaration) return *reinterpret_cast<T *>(block.shared + at);
    const size_t at = (block.used + 63) / 64 * 64;
    block.used = at + sizeof(T);
    if (block.used > kDynamic) std::abort();
    block.places.push_back({declaration, at});
    return *reinterpret_cast<T *>(block.shared + at);
}

inline unsigned char *dynamic() { return mine().shared + kDynamic; }

template <class Call>
void launch(unsigned grid, unsigned threads, unsigned blocks, Call call) {
    if (grid % blocks != 0) std::abort();
    for (unsigned first = 0; first < grid; first += blocks) {
        cluster.clear();
        whole = std::make_unique<std::barrier<>>(blocks * threads);
        for (unsigned b = 0; b < blocks; ++b) {
            cluster.push_back(std::make_unique<Block>());
            cluster[b]->all = std::make_unique<std::barrier<>>(threads);
            cluster[b]->exchanged.resize(threads);
            for (unsigned w = 0; w < threads / 32; ++w)
                cluster[b]->warps.push_back(std::make_unique<std::barrier<>>(32));
        }
        std::vector<std::thread> running;
        for (unsigned t = 0; t < blocks * threads; ++t)
            running.emplace_back([=] {
                rank = t / threads;
                threadIdx.x = t % threads, blockIdx.x = first + rank, blockDim.x = threads, gridDim.x = grid;
                call();
            });
        for (std::thread &thread : running) thread.join();
    }
}

}  // namespace emu

inline void atomicAdd(float *to, float value) { std::abort(); }
inline unsigned atomicAdd(unsigned *to, unsigned value) { return std::atomic_ref(*to).fetch_add(value); }
inline void __syncwarp() { emu::mine().warps[threadIdx.x / 32]->arrive_and_wait(); }
inline void __syncthreads() { emu::mine().all->arrive_and_wait(); }
inline float __shfl_xor_sync(unsigned, float value, int mask) {
    emu::Block &block = emu::mine();
    std::barrier<> &warp = *block.warps[threadIdx.x / 32];
    block.exchanged[threadIdx.x] = value;
    warp.arrive_and_wait();
    const float other = block.exchanged[threadIdx.x ^ mask];
    warp.arrive_and_wait();
    return other;
}

inline unsigned __shfl_sync(unsigned, unsigned value, int lane) {
    emu::Block &block = emu::mine();
    std::barrier<> &warp = *block.warps[threadIdx.x / 32];
    block.exchanged[threadIdx.x] = __uint_as_float(value);
    warp.arrive_and_wait();
    const unsigned other = __float_as_uint(block.exchanged[threadIdx.x / 32 * 32 + lane]);
    warp.arrive_and_wait();
    return other;
}

namespace ladder {

inline uint32_t shared_address(const void *pointer) {
    return static_cast<uint32_t>(static_cast<const unsigned char *>(pointer) - emu::mine().shared);
}
inline unsigned cluster_rank() { return emu::rank; }
inline unsigned cluster_blocks() { return static_cast<unsigned>(emu::cluster.size()); }
inline void cluster_arrive() {}
inline void cluster_release() {}
inline void cluster_wait() { emu::whole->arrive_and_wait(); }
inline uint32_t remote_address(uint32_t own, unsigned rank) {
    if (rank >= emu::cluster.size()) std::abort();
    return own | (rank + 1) << 20;
}
inline void barrier_init(uint32_t, uint32_t arrivals) {
    if (arrivals != 1) std::abort();
}
inline void fence_barriers() {}
inline void arrive_expecting_alone(uint32_t barrier, uint32_t bytes) { emu::mine().barrier(barrier).announce(bytes); }
inline void wait_phase(uint32_t barrier, uint32_t parity) { emu::mine().barrier(barrier).wait(parity); }
inline void bulk_copy(uint32_t shared, const void *global, uint32_t bytes, uint32_t barrier) {
    if (shared % 16 != 0 || reinterpret_cast<uintptr_t>(global) % 16 != 0 || bytes % 16 != 0) std::abort();
    if (shared + bytes > sizeof emu::mine().shared) std::abort();
    std::memcpy(emu::mine().shared + shared, global, bytes);
    emu::mine().barrier(barrier).come(bytes);
}
template <class Value>
void send(uint32_t remote, Value value, uint32_t barrier) {
    if (remote >> 20 != barrier >> 20 || remote % sizeof value != 0) std::abort();
    emu::Block &block = *emu::cluster[(remote >> 20) - 1];
    std::memcpy(block.shared + (remote & 0xfffff), &value, sizeof value);
    block.barrier(barrier & 0xfffff).come(sizeof value);
}
inline void store_remote(uint32_t remote, float value) {
    std::memcpy(emu::cluster[(remote >> 20) - 1]->shared + (remote & 0xfffff), &value, sizeof value);
}
template <class... Parameters, class... Arguments>
cudaError_t launch_clusters(void (*kernel)(Parameters...), unsigned grid, unsigned threads, unsigned blocks, size_t,
                            cudaStream_t, Arguments... arguments) {
    emu::launch(grid, threads, blocks, [=] { kernel(arguments...); });
    return cudaSuccess;
}
template <class Kernel>
cudaError_t active_clusters(int *count, Kernel, unsigned, unsigned, unsigned, size_t) {
    *count = 2;
    return cudaSuccess;
}

template <class T>
T load_plain(const T *from) {
    return *from;
}
template <class T>
void store_plain(T *to, T value) {
    *to = value;
}
template <class T>
T load_weight(const T *from) {
    return *from;
}
template <class T>
T again(T value) {
    return value;
}
inline uint32_t kept(uint32_t value) { return value; }
template <class Bits>
void load_held(Bits &bits, uint32_t from) {
    std::memcpy(&bits, emu::mine().shared + from, sizeof bits);
}
inline void unpack_anew(uint4 &) {}
inline float largest_of(uint4 bits) {
    float largest = -INFINITY;
    for (const unsigned word : {bits.x, bits.y, bits.z, bits.w})
        largest = std::fmax(largest, std::fmax(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)));
    return largest;
}

}  // namespace ladder
template <class T>
T __ldg(const T *from) {
    return *from;
}
template <class T>
T __ldcs(const T *from) {
    return *from;
}
template <class T>
void __stcs(T *to, T value) {
    *to = value;
}
inline float exp_of(float x) { return std::exp2(x * 1.44269504088896340736f); }
