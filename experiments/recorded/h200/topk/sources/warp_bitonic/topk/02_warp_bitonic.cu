// TopK 2, a sorted list a warp: candidates are collected in shared memory and merged into the list by a bitonic sort.
//
// Changed against a heap a thread: 32 lanes share one list, so there are 32 times fewer of them, and an element must beat
// the K-th of 32 times as many to be inserted at all. An insertion is not done at once: a lane whose element passes
// appends it to the warp's buffer (its place from a ballot), and only when the buffer is full do all lanes sort list and
// buffer together, without a branch that depends on data (WarpSelect: Johnson, Douze, Jegou, Billion-scale similarity
// search with GPUs, 2017, has it in registers).
// The lists of a row's warps are merged by the same kernel, in two more rounds that read entries in place of floats.
//
// K up to 256. A list has L entries, K rounded up to a power of two, at least 64; the buffer another L. A sort of 2 L = 128
// entries takes 28 steps of 2 comparisons a lane. Eight elements a lane are loaded at a time.
#include "order.cuh"
#include "topk.h"

namespace {

constexpr int kWarps = 4, kMostK = 256, kLoads = 8, kFirstLists = 2048, kSecondLists = 32;
constexpr unsigned kAll = 0xffffffffu;

// Sorts `size` entries of one warp, a power of two, largest first.
__device__ void sort_by_warp(uint64_t *entries, int size, int lane) {
    for (int run = 2; run <= size; run *= 2) {
        for (int step = run / 2; step > 0; step /= 2) {
            for (int pair = lane; pair < size / 2; pair += 32) {
                const int low = 2 * pair - (pair & (step - 1)), high = low + step;
                const uint64_t a = entries[low], b = entries[high];
                if ((a < b) == ((low & run) == 0)) {
                    entries[low] = b;
                    entries[high] = a;
                }
            }
            __syncwarp();
        }
    }
}

// Each warp takes every `parts`-th group of 32 of a row's `count` elements, floats or entries, and writes the K largest:
// to lists of entries, or as the result if `parts` is 1.
template <bool kFloats>
__global__ void __launch_bounds__(32 * kWarps)
    select(const float *__restrict__ x, const uint64_t *__restrict__ entries, uint64_t *__restrict__ lists,
           float *__restrict__ values, int64_t *__restrict__ indices, int64_t N, int64_t count, int K, int length,
           int parts, int64_t warps) {
    extern __shared__ uint64_t shared[];
    const int lane = threadIdx.x % 32;
    const int64_t warp = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
    if (warp >= warps) return;
    const int64_t row = warp / parts, part = warp % parts;
    uint64_t *list = shared + threadIdx.x / 32 * 2 * length, *buffer = list + length;
    for (int i = lane; i < 2 * length; i += 32) list[i] = 0;
    __syncwarp();
    int waiting = 0;
    uint64_t bar = 0;  // what an entry must be above

    const auto merge = [&]() {
        for (int i = waiting + lane; i < length; i += 32) buffer[i] = 0;
        __syncwarp();
        sort_by_warp(list, 2 * length, lane);
        bar = list[K - 1];
        waiting = 0;
    };
    for (int64_t first = part * 32; first < count; first += int64_t(kLoads) * 32 * parts) {
        uint64_t loaded[kLoads];
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
            const int64_t i = first + int64_t(u) * 32 * parts + lane;
            loaded[u] = 0;
            if (i < count) {
                if constexpr (kFloats)
                    loaded[u] = topk::entry_of(topk::key_of(x[row * N + i]), static_cast<uint32_t>(i));
                else
                    loaded[u] = entries[row * count + i];
            }
        }
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
            unsigned passing = __ballot_sync(kAll, loaded[u] > bar);
            if (passing == 0) continue;
            if (waiting + 32 > length) {
                merge();
                passing = __ballot_sync(kAll, loaded[u] > bar);
            }
            if (loaded[u] > bar) buffer[waiting + __popc(passing & ((1u << lane) - 1))] = loaded[u];
            waiting += __popc(passing);
        }
        __syncwarp();
    }
    merge();
    for (int i = lane; i < K; i += 32) {
        const uint64_t entry = list[i];
        if (parts > 1) {
            lists[warp * K + i] = entry;
        } else {
            const int64_t index = topk::index_of(entry);
            values[row * K + i] = x[row * N + index];
            indices[row * K + i] = index;
        }
    }
}

struct Shape {
    int length;  // of a list
    int parts;   // warps that read a row
    int second;  // warps that merge their lists; 0: no such round
};

Shape shape_of(const Args *args) {
    Shape shape{64, 1, 0};
    while (shape.length < args->K) shape.length *= 2;
    int64_t parts = kFirstLists / args->B;
    const int64_t enough = args->N / (32 * kLoads * 4);  // four rounds of loads, or it is not worth a list
    if (parts > enough) parts = enough;
    if (parts > 1) shape.parts = static_cast<int>(parts);
    if (shape.parts > 2 * kSecondLists) shape.second = kSecondLists;
    return shape;
}

template <bool kFloats>
void start(const Args *args, const Shape &shape, const uint64_t *entries, uint64_t *lists, int64_t count, int parts,
           cudaStream_t stream) {
    const int64_t warps = args->B * parts;
    const unsigned blocks = static_cast<unsigned>((warps + kWarps - 1) / kWarps);
    const size_t shared = sizeof(uint64_t) * 2 * shape.length * kWarps;
    select<kFloats><<<blocks, 32 * kWarps, shared, stream>>>(args->x, entries, lists, args->values, args->indices,
                                                             args->N, count, static_cast<int>(args->K), shape.length,
                                                             parts, warps);
}

}  // namespace

extern "C" size_t workspace_bytes(const Args *args) {
    const Shape shape = shape_of(args);
    const size_t lists = shape.parts > 1 ? shape.parts + shape.second : 0;
    return static_cast<size_t>(args->B) * lists * args->K * sizeof(uint64_t);
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->K > args->N || args->K > kMostK || args->N > topk::kMostElements) return cudaErrorInvalidValue;
    const Shape shape = shape_of(args);
    if (args->B * shape.parts > INT32_MAX) return cudaErrorInvalidValue;
    auto *first = static_cast<uint64_t *>(args->workspace), *second = first + args->B * shape.parts * args->K;
    start<true>(args, shape, nullptr, first, args->N, shape.parts, stream);
    if (shape.second > 0) {
        start<false>(args, shape, first, second, shape.parts * args->K, shape.second, stream);
        start<false>(args, shape, second, nullptr, shape.second * args->K, 1, stream);
    } else if (shape.parts > 1) {
        start<false>(args, shape, first, nullptr, shape.parts * args->K, 1, stream);
    }
    return cudaGetLastError();
}
