// TopK 4, one read behind a bar: an element is compared with one number, and nearly all are dropped by that.
//
// Changed against radix select: the input is read once, and nothing is counted. Once K elements are known, no element that
// is not larger than the smallest of them can be needed, whatever comes: that one is the bar, a float in a register. The
// inner loop is four LDG.128 and 16 comparisons, and one branch for all 16; what passes is appended to a buffer in shared
// memory. When the buffer fills up, the block keeps its K largest (radix select in shared memory) and raises the bar.
// So the answer is exact for any input, with nothing to fall back to; ties with the bar stay outside, as they may.
// - The first bar. 256 threads have 16 elements each: the K-th largest of the 256 largest ones is a bar that K elements
//   reach, and for random inputs all but 2 % of the others do not. It costs one select among 256.
// - The last bar. Each block leaves a sorted list of K. The K-th largest of the lists' heads is a bar in the same way: of
//   528 x 64 entries it leaves about 70, which the last block to finish finds, list by list from the top.
// What is slow: ascending rows, where every element passes, so that the buffer fills in every round. Right all the same.
//
// Tile arithmetic: K up to 512; 256 threads x 16 elements (16 KiB) a round; buffer of 1024 + 4096 entries, 40 KiB, so that
// a round of which every element passes has room; 4 blocks an SM, 64 KiB of loads in flight. Random rows of 32768: about
// 600 entries pass, no select but the first and the last. 2^26 elements over 528 blocks: 1 select more.
#include "block_select.cuh"
#include "order.cuh"
#include "topk.h"

namespace {

constexpr int kThreads = 256, kQuads = 4, kEach = 4 * kQuads, kRound = kThreads * kEach;
constexpr int kMostK = 512, kFull = 1024, kRoom = kFull + kRound, kMostParts = 1024;

struct Shared {
    uint64_t entries[kRoom];
    uint64_t kept[kMostK];
    topk::Scratch scratch;
    unsigned count;
    bool last;
};

// What has passed so far. `bar` and `value` are the same in all threads.
struct Selection {
    Shared &shared;
    int K;
    uint32_t bar = 0;  // an entry must be above it
    float value;       // !(v <= value) for all that are

    __device__ Selection(Shared &s, int k) : shared(s), K(k), value(topk::bar_value(0)) {
        if (threadIdx.x == 0) shared.count = 0;
        __syncthreads();
    }

    // Sets the bar below the K-th largest of the keys of `count` different elements, of which there may be more.
    __device__ void start(int count) {
        int ties = 0;
        const uint32_t key = K <= count ? topk::kth_key<kThreads>(shared.entries, count, K, shared.scratch, &ties) : 0;
        raise(key > 0 ? key - 1 : 0);
        __syncthreads();  // the entries make room
    }

    __device__ void raise(uint32_t to) {
        bar = to;
        value = topk::bar_value(to);
    }

    // Appends one entry; returns whether the buffer is full.
    __device__ bool push(uint64_t entry) {
        const unsigned place = atomicAdd(&shared.count, 1u);
        shared.entries[place] = entry;
        return place >= kFull;
    }

    // All threads: the end of a round, in which some may have filled the buffer.
    __device__ void settle(bool full) {
        if (!__syncthreads_or(full)) return;
        raise(topk::keep_largest<kThreads>(shared.entries, static_cast<int>(shared.count), K, shared.kept,
                                           shared.scratch));
        if (threadIdx.x == 0) shared.count = K;
        __syncthreads();
    }

    // All threads: the K largest, in order, or all if there are fewer, and zeros behind them.
    __device__ void finish() {
        __syncthreads();
        int count = static_cast<int>(shared.count);
        if (count > K) {
            topk::keep_largest<kThreads>(shared.entries, count, K, shared.kept, shared.scratch);
            count = K;
        }
        const int size = topk::power_of_two(K);
        for (int i = threadIdx.x; i < size; i += kThreads)
            if (i >= count) shared.entries[i] = 0;
        __syncthreads();
        topk::sort_descending<kThreads>(shared.entries, size);
    }
};

// 16 elements of a row: those of a round, a quad at a time, or, where rows are not aligned, one at a time.
template <bool kWhole>
struct Elements {
    float v[kEach];

    __device__ static int64_t index(int64_t round, int i) {
        if constexpr (kWhole) return round * kRound + i / 4 * (4 * kThreads) + 4 * threadIdx.x + i % 4;
        return round * kRound + i * kThreads + threadIdx.x;
    }

    // Places behind the end of the row get -inf.
    __device__ void load(const float *row, int64_t round, int64_t N) {
        const float least = __uint_as_float(0xff800000u);
        if constexpr (kWhole) {
#pragma unroll
            for (int q = 0; q < kQuads; ++q) {
                const int64_t first = index(round, 4 * q);
                float4 quad = make_float4(least, least, least, least);
                if (first < N) quad = __ldcs(reinterpret_cast<const float4 *>(row + first));
                v[4 * q] = quad.x, v[4 * q + 1] = quad.y, v[4 * q + 2] = quad.z, v[4 * q + 3] = quad.w;
            }
        } else {
#pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const int64_t at = index(round, i);
                v[i] = at < N ? row[at] : least;
            }
        }
    }

    __device__ uint32_t largest_key(int64_t round, int64_t N) const {
        uint32_t most = 0;
#pragma unroll
        for (int i = 0; i < kEach; ++i)
            if (index(round, i) < N) most = max(most, topk::key_of(v[i]));
        return most;
    }

    // Appends those that are above the bar; returns whether that filled the buffer.
    __device__ bool push_to(Selection &selection, int64_t round, int64_t N) const {
        bool any = false;
#pragma unroll
        for (int i = 0; i < kEach; ++i) any |= !(v[i] <= selection.value);
        bool full = false;
        if (any) {
#pragma unroll
            for (int i = 0; i < kEach; ++i) {
                const uint32_t key = topk::key_of(v[i]);
                if (key > selection.bar && index(round, i) < N)
                    full |= selection.push(topk::entry_of(key, static_cast<uint32_t>(index(round, i))));
            }
        }
        return full;
    }
};

__device__ void write(const Shared &shared, const float *row, float *values, int64_t *indices, int K) {
    for (int i = threadIdx.x; i < K; i += kThreads) {
        const int64_t index = topk::index_of(shared.entries[i]);
        values[i] = row[index];
        indices[i] = index;
    }
}

// Of `parts` sorted lists of K entries, the K largest; the lists were written by other blocks.
__device__ void merge(Shared &shared, const uint64_t *lists, int parts, int K) {
    Selection selection(shared, K);
    for (int part = threadIdx.x; part < parts; part += kThreads)
        shared.entries[part] = __ldcg(reinterpret_cast<const unsigned long long *>(lists + int64_t(part) * K));
    __syncthreads();
    selection.start(parts);
    unsigned alive = kMostParts / kThreads < 32 ? (1u << (kMostParts / kThreads)) - 1 : 0xffffffffu;
    for (int depth = 0; depth < K; ++depth) {
        bool full = false;
        for (int j = 0; j < kMostParts / kThreads; ++j) {
            const int part = j * kThreads + threadIdx.x;
            if (part >= parts) alive &= ~(1u << j);
            if ((alive >> j & 1) == 0) continue;
            const uint64_t entry =
                __ldcg(reinterpret_cast<const unsigned long long *>(lists + int64_t(part) * K + depth));
            if (topk::key_of(entry) > selection.bar)
                full |= selection.push(entry);
            else
                alive &= ~(1u << j);  // what follows in this list is not larger
        }
        selection.settle(full);
        if (!__syncthreads_or(alive != 0)) break;
    }
    selection.finish();
}

template <bool kWhole>
__global__ void __launch_bounds__(kThreads, 4)
    select(const float *__restrict__ x, float *__restrict__ values, int64_t *__restrict__ indices,
           uint64_t *__restrict__ lists, unsigned *__restrict__ done, int64_t N, int K, int parts) {
    __shared__ Shared shared;
    const int64_t b = blockIdx.x / parts, part = blockIdx.x % parts;
    const float *row = x + b * N;
    const int64_t rounds = (N + kRound - 1) / kRound;
    Selection selection(shared, K);
    for (int64_t round = part; round < rounds; round += parts) {
        Elements<kWhole> elements;
        elements.load(row, round, N);
        if (round == part) {
            shared.entries[threadIdx.x] = topk::entry_of(elements.largest_key(round, N), 0);
            __syncthreads();
            selection.start(kThreads);
        }
        selection.settle(elements.push_to(selection, round, N));
    }
    selection.finish();
    if (parts == 1) {
        write(shared, row, values + b * K, indices + b * K, K);
        return;
    }
    uint64_t *list = lists + (b * parts + part) * K;
    for (int i = threadIdx.x; i < K; i += kThreads) list[i] = shared.entries[i];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) shared.last = atomicAdd(&done[b], 1u) == static_cast<unsigned>(parts - 1);
    __syncthreads();
    if (!shared.last) return;
    __threadfence();
    merge(shared, lists + b * parts * K, parts, K);
    write(shared, row, values + b * K, indices + b * K, K);
    if (threadIdx.x == 0) done[b] = 0;  // for the next launch
}

bool whole_quads(const Args *args) { return args->N % 4 == 0 && reinterpret_cast<uintptr_t>(args->x) % 16 == 0; }

// Blocks that share a row: as many as the chip holds at a time, with at least one round each.
cudaError_t parts_of(const Args *args, int *parts) {
    int device = 0, multiprocessors = 0, resident = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (status == cudaSuccess)
        status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, select<true>, kThreads, 0);
    if (status != cudaSuccess) return status;
    const int64_t rounds = (args->N + kRound - 1) / kRound;
    int64_t wanted = int64_t(resident) * multiprocessors / args->B;
    if (wanted > rounds) wanted = rounds;
    if (wanted > kMostParts) wanted = kMostParts;
    *parts = wanted > 1 ? static_cast<int>(wanted) : 1;
    return cudaSuccess;
}

struct Plan {
    int parts;
};

}  // namespace

extern "C" size_t workspace_bytes(const Args *args) {
    int parts = 1;
    if (parts_of(args, &parts) != cudaSuccess || parts == 1) return 0;
    return static_cast<size_t>(args->B) * (sizeof(uint64_t) * parts * args->K + sizeof(unsigned));
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    auto *made = new Plan;
    *plan = made;
    cudaError_t status = parts_of(args, &made->parts);
    // L1 has nothing to keep here: its memory is for the buffers of four blocks.
    for (const auto kernel : {select<true>, select<false>})
        if (status == cudaSuccess)
            status = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                          cudaSharedmemCarveoutMaxShared);
    if (status != cudaSuccess || made->parts == 1) return status;
    return cudaMemset(static_cast<uint64_t *>(args->workspace) + args->B * made->parts * args->K, 0,
                      sizeof(unsigned) * args->B);
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }

extern "C" cudaError_t launch(const Args *args, void *plan, cudaStream_t stream) {
    const int parts = static_cast<const Plan *>(plan)->parts;
    if (args->K > args->N || args->K > kMostK || args->N > topk::kMostElements || args->B * parts > INT32_MAX)
        return cudaErrorInvalidValue;
    auto *lists = static_cast<uint64_t *>(args->workspace);
    auto *done = reinterpret_cast<unsigned *>(lists + args->B * parts * args->K);
    const unsigned blocks = static_cast<unsigned>(args->B * parts);
    const int K = static_cast<int>(args->K);
    if (whole_quads(args))
        select<true>
            <<<blocks, kThreads, 0, stream>>>(args->x, args->values, args->indices, lists, done, args->N, K, parts);
    else
        select<false>
            <<<blocks, kThreads, 0, stream>>>(args->x, args->values, args->indices, lists, done, args->N, K, parts);
    return cudaGetLastError();
}
