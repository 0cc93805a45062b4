// The K largest of the entries that a block has in shared memory: radix select by histograms of 8 bits, and a bitonic
// sort. All threads of the block call these functions together; each begins and ends with the entries visible to all.
#pragma once
#include <cstdint>

#include "order.cuh"

namespace topk {

constexpr unsigned kAllLanes = 0xffffffffu;

struct Scratch {
    unsigned bins[256];
    unsigned digit, above;  // what a pass found
    unsigned kept, ties;
};

// Adds 1 to a bin for each lane that is `in`. Most keys begin alike: then one lane adds for all.
__device__ __forceinline__ void count_digit(unsigned *bins, unsigned digit, bool in) {
    const unsigned lanes = __ballot_sync(kAllLanes, in);
    if (!in) return;
    int same = 0;
    __match_all_sync(lanes, digit, &same);
    if (!same)
        atomicAdd(&bins[digit], 1u);
    else if ((lanes & ((1u << (threadIdx.x % 32)) - 1)) == 0)
        atomicAdd(&bins[digit], static_cast<unsigned>(__popc(lanes)));
}

// One warp finds the bin in which the `need`-th largest lies, and how many lie in larger ones.
__device__ __forceinline__ void find_digit(Scratch &scratch, unsigned need) {
    const int lane = threadIdx.x % 32;
    unsigned own[8], total = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) total += own[j] = scratch.bins[255 - 8 * lane - j];
    unsigned upto = total;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const unsigned other = __shfl_up_sync(kAllLanes, upto, step);
        if (lane >= step) upto += other;
    }
    unsigned above = upto - total;
    if (above >= need || need > upto) return;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        if (above < need && need <= above + own[j]) {
            scratch.digit = 255 - 8 * lane - j;
            scratch.above = above;
        }
        above += own[j];
    }
}

// Returns the first kDigits digits of 8 bits, zeros behind them, of the key of the k-th largest of `count` entries, 1 <= k
// <= count; in *ties how many of those with these digits belong to the k largest.
template <int kThreads, int kDigits = 4>
__device__ __noinline__ uint32_t kth_key(const uint64_t *entries, int count, int k, Scratch &scratch, int *ties) {
    uint32_t prefix = 0;
    unsigned need = k;
#pragma unroll 1
    for (int shift = 24; shift > 24 - 8 * kDigits; shift -= 8) {
        for (int i = threadIdx.x; i < 256; i += kThreads) scratch.bins[i] = 0;
        __syncthreads();
        for (int first = 0; first < count; first += kThreads) {
            const int i = first + threadIdx.x;
            const uint32_t key = i < count ? key_of(entries[i]) : 0;
            const bool in = i < count && (shift == 24 || (key ^ prefix) >> (shift + 8) == 0);
            count_digit(scratch.bins, key >> shift & 255, in);
        }
        __syncthreads();
        if (threadIdx.x < 32) find_digit(scratch, need);
        __syncthreads();
        prefix |= scratch.digit << shift;
        need -= scratch.above;
    }
    *ties = static_cast<int>(need);
    return prefix;
}

// Moves the k largest of `count` entries, k <= count, to the front, in any order; returns the smallest key of them.
// `room` holds k entries.
template <int kThreads>
__device__ __noinline__ uint32_t keep_largest(uint64_t *entries, int count, int k, uint64_t *room, Scratch &scratch) {
    int ties = 0;
    const uint32_t smallest = kth_key<kThreads>(entries, count, k, scratch, &ties);
    if (threadIdx.x == 0) scratch.kept = scratch.ties = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += kThreads) {
        const uint64_t entry = entries[i];
        const uint32_t key = key_of(entry);
        if (key > smallest || (key == smallest && atomicAdd(&scratch.ties, 1u) < static_cast<unsigned>(ties)))
            room[atomicAdd(&scratch.kept, 1u)] = entry;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < k; i += kThreads) entries[i] = room[i];
    __syncthreads();
    return smallest;
}

// Sorts `size` entries, a power of two, largest first.
template <int kThreads>
__device__ __noinline__ void sort_descending(uint64_t *entries, int size) {
    for (int run = 2; run <= size; run *= 2) {
        for (int step = run / 2; step > 0; step /= 2) {
            for (int pair = threadIdx.x; pair < size / 2; pair += kThreads) {
                const int low = 2 * pair - (pair & (step - 1)), high = low + step;
                const uint64_t a = entries[low], b = entries[high];
                if ((a < b) == ((low & run) == 0)) {
                    entries[low] = b;
                    entries[high] = a;
                }
            }
            __syncthreads();
        }
    }
}

// Puts `count` different entries, at most one a thread, in order, the largest first, but for those behind the `wanted`
// largest, which are lost: each thread counts the entries above its own.
__device__ __forceinline__ void order_by_counting(uint64_t *entries, int count, int wanted) {
    const int t = threadIdx.x;
    const uint64_t own = t < count ? entries[t] : 0;
    int rank = t < count ? 0 : wanted;
    if (t < count)
        for (int i = 0; i < count; ++i) rank += entries[i] > own;
    __syncthreads();
    if (rank < wanted) entries[rank] = own;
    __syncthreads();
}

// The power of two that holds so many.
__host__ __device__ __forceinline__ int power_of_two(int count) {
    int size = 1;
    while (size < count) size *= 2;
    return size;
}

}  // namespace topk
