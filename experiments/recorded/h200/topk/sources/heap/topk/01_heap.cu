// TopK 1, a heap a thread: each thread keeps the K largest of its elements in a heap, one block a row merges the heaps.
//
// Idea: what one writes for one thread, many times. The root of the heap is the smallest of the K; an element that is not
// larger is dropped after one comparison, a larger one takes its place and sinks.
// What it costs: the heaps are indexed by data, so they cannot live in registers; with K = 64 a thread has 512 bytes in
// global memory, interleaved with those of its neighbours. Lanes whose element must be inserted keep the other 31
// waiting. And the more threads there are, the more elements are inserted: each of them has K to begin with.
// Then each heap is sorted, and the merge takes the largest head of all lists K times.
//
// K from 1 to N. A row has up to 32768 lists of at most K entries.
#include "order.cuh"
#include "topk.h"

namespace {

constexpr int kThreads = 256, kMergers = 1024, kMostLists = 32768;

// One thread's heap: entry i of list l at [i * lists + l].
struct Heap {
    uint64_t *at;
    int64_t stride;

    __device__ uint64_t &operator[](int64_t i) const { return at[i * stride]; }

    // Lets `entry` sink from the root, among `size` entries, until both below are larger.
    __device__ void sink(int64_t size, uint64_t entry) const {
        int64_t i = 0;
        while (2 * i + 1 < size) {
            int64_t below = 2 * i + 1;
            if (below + 1 < size && (*this)[below + 1] < (*this)[below]) ++below;
            if (entry <= (*this)[below]) break;
            (*this)[i] = (*this)[below];
            i = below;
        }
        (*this)[i] = entry;
    }

    __device__ void rise(int64_t i, uint64_t entry) const {
        while (i > 0 && entry < (*this)[(i - 1) / 2]) {
            (*this)[i] = (*this)[(i - 1) / 2];
            i = (i - 1) / 2;
        }
        (*this)[i] = entry;
    }
};

// Fills the lists of all rows: entries in descending order, then zeros. Grid: lists / kThreads blocks for each row.
__global__ void __launch_bounds__(kThreads)
    collect(const float *__restrict__ x, uint64_t *__restrict__ lists_of_all, int64_t N, int lists, int64_t length) {
    const int blocks = lists / kThreads;
    const int64_t row = blockIdx.x / blocks;
    const int list = blockIdx.x % blocks * kThreads + threadIdx.x;
    const Heap heap{lists_of_all + row * length * lists + list, lists};
    const float *from = x + row * N;
    int64_t size = 0;
    uint64_t smallest = 0;
    for (int64_t i = list; i < N; i += lists) {
        const uint64_t entry = topk::entry_of(topk::key_of(from[i]), static_cast<uint32_t>(i));
        if (size < length) {
            heap.rise(size++, entry);
            smallest = heap[0];
        } else if (entry > smallest) {
            heap.sink(size, entry);
            smallest = heap[0];
        }
    }
    const int64_t filled = size;
    while (size > 1) {  // the smallest goes to the end, and the heap shrinks: descending order
        const uint64_t last = heap[size - 1];
        heap[size - 1] = heap[0];
        heap.sink(--size, last);
    }
    for (int64_t i = filled; i < length; ++i) heap[i] = 0;
}

// One block a row. `heads`: the next entry of each list.
__global__ void __launch_bounds__(kMergers)
    merge(const float *__restrict__ x, const uint64_t *__restrict__ lists_of_all, int *__restrict__ heads_of_all,
          float *__restrict__ values, int64_t *__restrict__ indices, int64_t N, int64_t K, int lists, int64_t length) {
    __shared__ uint64_t best_of_warp[kMergers / 32];
    __shared__ uint64_t winner;
    const int64_t row = blockIdx.x;
    const uint64_t *entries = lists_of_all + row * length * lists;
    int *heads = heads_of_all + row * lists;
    for (int list = threadIdx.x; list < lists; list += kMergers) heads[list] = 0;
    uint64_t best = 0;
    int best_list = -1;
    const auto look = [&]() {
        best = 0;
        for (int list = threadIdx.x; list < lists; list += kMergers) {
            const int64_t head = heads[list];
            const uint64_t entry = head < length ? entries[head * lists + list] : 0;
            if (entry > best) {
                best = entry;
                best_list = list;
            }
        }
    };
    look();
    for (int64_t k = 0; k < K; ++k) {
        uint64_t most = best;
        for (int step = 16; step > 0; step /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, step));
        if (threadIdx.x % 32 == 0) best_of_warp[threadIdx.x / 32] = most;
        __syncthreads();
        if (threadIdx.x < 32) {
            most = best_of_warp[threadIdx.x];
            for (int step = 16; step > 0; step /= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, step));
            if (threadIdx.x == 0) {
                winner = most;
                const int64_t index = topk::index_of(most);
                values[row * K + k] = x[row * N + index];
                indices[row * K + k] = index;
            }
        }
        __syncthreads();
        if (best != 0 && best == winner) {  // entries are distinct: one thread
            ++heads[best_list];
            look();
        }
    }
}

struct Shape {
    int lists;
    int64_t length;
};

Shape shape_of(const Args *args) {
    int64_t blocks = kMostLists / kThreads / args->B;
    const int64_t enough = (args->N + kThreads - 1) / kThreads;
    if (blocks > enough) blocks = enough;
    if (blocks < 1) blocks = 1;
    const int64_t lists = blocks * kThreads, each = (args->N + lists - 1) / lists;
    return {static_cast<int>(lists), args->K < each ? args->K : each};
}

}  // namespace

extern "C" size_t workspace_bytes(const Args *args) {
    const Shape shape = shape_of(args);
    return static_cast<size_t>(args->B) * shape.lists * (shape.length * sizeof(uint64_t) + sizeof(int));
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const Shape shape = shape_of(args);
    const int64_t blocks = args->B * (shape.lists / kThreads);
    if (args->K > args->N || args->N > topk::kMostElements || blocks > INT32_MAX) return cudaErrorInvalidValue;
    auto *lists = static_cast<uint64_t *>(args->workspace);
    auto *heads = reinterpret_cast<int *>(lists + args->B * shape.lists * shape.length);
    collect<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(args->x, lists, args->N, shape.lists, shape.length);
    merge<<<static_cast<unsigned>(args->B), kMergers, 0, stream>>>(args->x, lists, heads, args->values, args->indices,
                                                                   args->N, args->K, shape.lists, shape.length);
    return cudaGetLastError();
}
