// TopK 6, no barrier: warps that never wait for each other, and loads that are always under way.
//
// Changed against one read behind a bar:
// - No barrier in the stream. A warp looks at the buffer's count before each round, and only if it is full all meet. What
//   was passed by then fits: each warp has at most one round under way.
// - Loads are always under way. Four elements are compared, which leaves four bits of a mask, and their registers take the
//   four of the next round at once. What passes is kept by its index alone; its value is read again when it is needed, so
//   that a mask is all that a round leaves.
// - The end. What K entries reach above is dropped by one select, and the few that are left are put in order by counting,
//   each, how many are above it: one barrier, where a sorting network takes 21 for K = 64.
// - A buffer that is full at 256 entries (or 2 K), not 1024, so that what is left at the end is seldom more than the threads:
//   it is put in order with no select before it. Sixteen bits of a key are enough for a bar: 6 barriers in place of 12; and
//   to make room, what K entries reach in sixteen bits stays, if that is few enough, in place of K: 7 barriers fewer.
// - Where each block has rows of its own, its first thread asks L2 for two more rounds: loads that go on while a bar is found.
// - 3 blocks a multiprocessor where they share a row, 4 where each has rows of its own. A row that is shared needs loads
//   under way and few lists to merge; with many rows a block starts and ends every eight rounds, and others must fill in.
//
// What was tried on an H200 and lost: one bar for all blocks of a row (each published the largest element of its first
// round, and the K-th largest of these stopped all but 3 in 100 000 elements). Shares of reading at the copy's bandwidth:
//                                  2^26 elements  4096 rows of 32768
//   with that bar, 4 blocks            0.603          0.524
//   the same, 3 blocks                 0.674          0.496
//   the same, loads with ld.cs         0.591          0.508
//   a bar for each block, 4 blocks     0.645          0.557
// That the look costs where no row is shared either says that it is its code beside the loop, not the bar. And with a bar
// for each block, in another run; the blocks are 3 (one row) and 4 (many) unless said:
//   full at 1024, all digits           0.673          0.564
//   the same, 4 blocks                 0.643          0.564
//   the same, 2 blocks                 0.678          0.530
//   full at 512                        0.681          0.551
//   full at 256                        0.708          0.605
//   full at 1024, 2 digits             0.697          0.602
//   full at 256, 2 digits              0.726          0.625
// And on from there, in a third run:
//   full at 256, 2 digits              0.721          0.621
//   room by 16 bits                    0.757          0.657   as it is, where a row is shared
//   the same, 2 rounds asked for       0.704          0.683   as it is, where each block has rows of its own
//   2 rounds asked for, room for K     0.689          0.636
//   1 round asked for, room for K      0.684          0.642
//
// Tile arithmetic: as before, 256 threads x 16 elements a round, buffer of 1024 + 4096 entries; 24 or 32 warps x 2 KiB on
// their way, 48 or 64 KiB an SM, where 23 cover the latency of the DRAM. A round is 16 comparisons and 16 bits set.
#include "block_select.cuh"
#include "elements.cuh"
#include "order.cuh"
#include "topk.h"

namespace {

using topk::kRound, topk::kThreads;
constexpr int kMostK = 512, kFull = 1024, kRoom = kFull + kRound, kMostParts = 1024;
constexpr int kFullAt = 256;  // entries, or 2 K where that is more
constexpr int kDigits = 2;    // of 8 bits of a key that are looked at for a bar; 4: all
static_assert(kFullAt <= kFull && 2 * kMostK <= kFull, "a full buffer has room for a round");

// Where there are rows enough for all multiprocessors, blocks have rows of their own; otherwise they share them.
template <bool kMany>
constexpr int kBlocks = kMany ? 4 : 3;  // a multiprocessor
template <bool kMany>
constexpr int kAhead = kMany ? 2 : 0;  // rounds that L2 is asked for ahead of those that registers wait for

struct Shared {
    uint64_t entries[kRoom];
    uint64_t kept[kMostK];
    topk::Scratch scratch;
    unsigned count;
    uint32_t bar;  // an element must be above it
    float value;   // !(v <= value) for all that are
    bool last;
};

// What has passed so far; from `known` on entries have an index alone.
struct Selection {
    Shared &shared;
    const float *row;
    int K;
    int known = 0;

    __device__ Selection(Shared &s, const float *x, int k) : shared(s), row(x), K(k) {
        if (threadIdx.x == 0) {
            shared.count = 0;
            raise(0);
        }
        __syncthreads();
    }

    // One thread.
    __device__ void raise(uint32_t to) {
        shared.bar = to;
        shared.value = topk::bar_value(to);
    }

    // All threads: a key that K of `count` entries reach, the largest such in its first kDigits digits; zeros behind them.
    __device__ uint32_t reached(int count) {
        int ties = 0;
        return topk::kth_key<kThreads, kDigits>(shared.entries, count, K, shared.scratch, &ties);
    }

    // All threads: sets the bar below the K-th largest of the keys of `count` different elements, of which there may be
    // more.
    __device__ void start(int count) {
        const uint32_t key = K <= count ? reached(count) : 0;
        if (threadIdx.x == 0) raise(key > 0 ? key - 1 : 0);
        __syncthreads();  // the entries make room
    }

    // All threads, after a barrier: reads the values of those that have an index alone.
    __device__ int complete() {
        const int count = static_cast<int>(shared.count);
        for (int i = known + threadIdx.x; i < count; i += kThreads) {
            const uint32_t index = static_cast<uint32_t>(shared.entries[i]);
            shared.entries[i] = topk::entry_of(topk::key_of(row[index]), index);
        }
        __syncthreads();
        return known = count;
    }

    // All threads: keeps the K largest of `count` entries.
    __device__ int keep(int count) {
        const uint32_t smallest = topk::keep_largest<kThreads>(shared.entries, count, K, shared.kept, shared.scratch);
        if (threadIdx.x == 0) {
            shared.count = K;
            raise(max(shared.bar, smallest));
        }
        __syncthreads();
        return known = K;
    }

    // All threads: makes room in a buffer that is full at `full` entries. What K reach in few digits is nearly as few.
    __device__ void shrink(int count, int full) {
        if (count <= kFull) {
            count = drop(count);
            __syncthreads();  // all have read it before the first adds to it
            if (count <= (full + K) / 2) return;
        }
        keep(count);
    }

    // All threads, after a barrier: the K largest, in order, or all if there are fewer, and zeros behind them.
    __device__ void finish() {
        int count = complete();
        if (count > kFull) count = keep(count);
        if (count > kThreads && count > K) count = drop(count);
        if (count > kThreads && count > K) count = keep(count);  // many have the same digits
        if (count <= kThreads) {
            topk::order_by_counting(shared.entries, count, K);
            for (int i = count + threadIdx.x; i < K; i += kThreads) shared.entries[i] = 0;
            __syncthreads();
            return;
        }
        const int size = topk::power_of_two(K);
        for (int i = count + threadIdx.x; i < size; i += kThreads) shared.entries[i] = 0;
        __syncthreads();
        topk::sort_descending<kThreads>(shared.entries, size);
    }

    // All threads: drops what K reach above, of at most kFull entries, and raises the bar below those that stay.
    __device__ int drop(int count) {
        const uint32_t key = reached(count);
        uint64_t own[kFull / kThreads];
#pragma unroll
        for (int j = 0; j < kFull / kThreads; ++j) {
            const int i = j * kThreads + threadIdx.x;
            own[j] = i < count ? shared.entries[i] : 0;
        }
        if (threadIdx.x == 0) {
            shared.count = 0;
            raise(max(shared.bar, key - 1));
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < kFull / kThreads; ++j)
            if (topk::key_of(own[j]) >= key && own[j] > 0) shared.entries[atomicAdd(&shared.count, 1u)] = own[j];
        __syncthreads();
        return known = static_cast<int>(shared.count);
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
__device__ void merge(Shared &shared, const float *row, const uint64_t *lists, int parts, int K) {
    constexpr int kLists = kMostParts / kThreads;  // a thread
    Selection selection(shared, row, K);
    for (int part = threadIdx.x; part < parts; part += kThreads)
        shared.entries[part] = __ldcg(reinterpret_cast<const unsigned long long *>(lists + int64_t(part) * K));
    __syncthreads();
    selection.start(parts);
    bool alive[kLists];
#pragma unroll
    for (int j = 0; j < kLists; ++j) alive[j] = j * kThreads + static_cast<int>(threadIdx.x) < parts;
    for (int depth = 0; depth < K; ++depth) {
        const uint32_t bar = shared.bar;
        uint64_t entries[kLists];
#pragma unroll
        for (int j = 0; j < kLists; ++j) {  // all on their way before the first is looked at
            const uint64_t *list = lists + int64_t(j * kThreads + threadIdx.x) * K;
            entries[j] = alive[j] ? __ldcg(reinterpret_cast<const unsigned long long *>(list + depth)) : 0;
        }
        bool any = false;
#pragma unroll
        for (int j = 0; j < kLists; ++j) {
            alive[j] = topk::key_of(entries[j]) > bar;  // what follows in this list is not larger
            any |= alive[j];
            if (alive[j]) shared.entries[atomicAdd(&shared.count, 1u)] = entries[j];
        }
        if (!__syncthreads_or(any)) break;
        selection.known = static_cast<int>(shared.count);
        __syncthreads();
        if (selection.known >= kFull) selection.keep(selection.known);
    }
    selection.known = static_cast<int>(shared.count);
    selection.finish();
}

template <bool kWhole, bool kMany>
__global__ void __launch_bounds__(kThreads, kBlocks<kMany>)
    select(const float *__restrict__ x, float *__restrict__ values, int64_t *__restrict__ indices,
           uint64_t *__restrict__ lists, unsigned *__restrict__ done, int64_t N, int K, int parts) {
    __shared__ Shared shared;
    const int64_t b = blockIdx.x / parts, part = blockIdx.x % parts;
    const float *row = x + b * N;
    const int rounds = static_cast<int>((N + kRound - 1) / kRound);
    Selection selection(shared, row, K);

    const bool asks = kAhead<kMany> > 0 && threadIdx.x == 0;
    for (int i = 1; asks && i <= kAhead<kMany>; ++i) topk::Elements<kWhole>::ask(row, part + i * parts, N);
    topk::Elements<kWhole> elements;
#pragma unroll
    for (int q = 0; q < topk::kQuads; ++q)
        elements.load(q, topk::Elements<kWhole>::begin(row, part), topk::Elements<kWhole>::left(part, N));
    shared.entries[threadIdx.x] = topk::entry_of(elements.large_key(part, N), 0);
    __syncthreads();
    selection.start(kThreads);

    const volatile unsigned *count = &shared.count;
    const volatile float *value = &shared.value;
    const unsigned full = static_cast<unsigned>(max(kFullAt, 2 * K));
    int round = static_cast<int>(part);
    while (true) {
        while (round < rounds) {
            if (__shfl_sync(topk::kAllLanes, *count, 0) >= full) break;
            if (asks) topk::Elements<kWhole>::ask(row, round + (1 + kAhead<kMany>)*int64_t(parts), N);
            const unsigned mask = elements.above(*value, row, round + parts, N);
            if (mask != 0) topk::Elements<kWhole>::push(shared.entries, &shared.count, mask, round, N);
            round += parts;
        }
        if (!__syncthreads_or(round < rounds)) break;
        selection.shrink(selection.complete(), static_cast<int>(full));
    }
    selection.finish();
    if (parts == 1) {
        write(shared, row, values + b * K, indices + b * K, K);
        return;
    }
    uint64_t *own = lists + b * parts * K;
    for (int i = threadIdx.x; i < K; i += kThreads) own[part * K + i] = shared.entries[i];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) shared.last = atomicAdd(&done[b], 1u) == static_cast<unsigned>(parts - 1);
    __syncthreads();
    if (!shared.last) return;
    __threadfence();
    merge(shared, row, own, parts, K);
    write(shared, row, values + b * K, indices + b * K, K);
    if (threadIdx.x == 0) done[b] = 0;  // for the next launch
}

bool whole_quads(const Args *args) { return args->N % 4 == 0 && reinterpret_cast<uintptr_t>(args->x) % 16 == 0; }

struct Plan {
    bool many;  // at least a row for each multiprocessor
    int parts;  // blocks that share a row: as many as the chip holds at a time, with at least one round each
};

cudaError_t plan_of(const Args *args, Plan *plan) {
    int device = 0, multiprocessors = 0, resident = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess)
        status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (status != cudaSuccess) return status;
    plan->many = args->B >= multiprocessors;
    const auto kernel = plan->many ? select<true, true> : select<true, false>;
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kThreads, 0);
    if (status != cudaSuccess) return status;
    const int64_t rounds = (args->N + kRound - 1) / kRound;
    int64_t wanted = int64_t(resident) * multiprocessors / args->B;
    if (wanted > rounds) wanted = rounds;
    if (wanted > kMostParts) wanted = kMostParts;
    plan->parts = wanted > 1 ? static_cast<int>(wanted) : 1;
    return cudaSuccess;
}

template <bool kMany>
cudaError_t run(const Args *args, int parts, cudaStream_t stream) {
    auto *lists = static_cast<uint64_t *>(args->workspace);
    auto *done = reinterpret_cast<unsigned *>(lists + args->B * parts * args->K);
    const unsigned blocks = static_cast<unsigned>(args->B * parts);
    const int K = static_cast<int>(args->K);
    if (whole_quads(args))
        select<true, kMany>
            <<<blocks, kThreads, 0, stream>>>(args->x, args->values, args->indices, lists, done, args->N, K, parts);
    else
        select<false, kMany>
            <<<blocks, kThreads, 0, stream>>>(args->x, args->values, args->indices, lists, done, args->N, K, parts);
    return cudaGetLastError();
}

// L1 has nothing to keep here: its memory is for the buffers.
template <bool kMany>
cudaError_t prefer_shared() {
    cudaError_t status = cudaSuccess;
    for (const auto kernel : {select<true, kMany>, select<false, kMany>})
        if (status == cudaSuccess)
            status = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                          cudaSharedmemCarveoutMaxShared);
    return status;
}

}  // namespace

extern "C" size_t workspace_bytes(const Args *args) {
    Plan plan{};
    if (plan_of(args, &plan) != cudaSuccess || plan.parts == 1) return 0;
    return static_cast<size_t>(args->B) * (sizeof(uint64_t) * plan.parts * args->K + sizeof(unsigned));
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    auto *made = new Plan;
    *plan = made;
    cudaError_t status = plan_of(args, made);
    if (status == cudaSuccess) status = made->many ? prefer_shared<true>() : prefer_shared<false>();
    if (status != cudaSuccess || made->parts == 1) return status;
    return cudaMemset(static_cast<uint64_t *>(args->workspace) + args->B * made->parts * args->K, 0,
                      sizeof(unsigned) * args->B);
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }

extern "C" cudaError_t launch(const Args *args, void *plan, cudaStream_t stream) {
    const Plan &made = *static_cast<const Plan *>(plan);
    if (args->K > args->N || args->K > kMostK || args->N > topk::kMostElements || args->B * made.parts > INT32_MAX)
        return cudaErrorInvalidValue;
    return made.many ? run<true>(args, made.parts, stream) : run<false>(args, made.parts, stream);
}
