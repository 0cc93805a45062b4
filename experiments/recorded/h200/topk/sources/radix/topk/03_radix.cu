// TopK 3, radix select: histograms of the leading bits say where the K-th largest lies, until all its bits are known.
//
// Changed against lists of candidates: nothing is sorted but the K results, and the time hardly depends on K. A pass counts
// how many keys begin with each of 2048 patterns of 11 bits; from the largest pattern down, the one in which the K-th lies
// is the beginning of the answer. What begins with a larger pattern is a result; what begins with that one is copied to a
// list of candidates, so that the passes for the next 11 and the last 10 bits read little. If more begin alike than the
// list holds (equal values), those passes read the input again: slower, and as right.
// The cost is two reads of the input, and the first one's histogram: values of one sign and size begin alike, so that the
// lanes of a warp meet in a few bins of shared memory, and wait for each other.
//
// K up to 2048. A block's histogram is 8 KiB; the list holds a sixteenth of a row, at least 4096 entries. 256 threads; a
// row is read by so many blocks that the chip has 8 an SM.
#include "block_select.cuh"
#include "order.cuh"
#include "topk.h"

namespace {

constexpr int kThreads = 256, kSorters = 512, kMostK = 2048, kBins = 2048, kBlocks = 132 * 8, kLoads = 8;

struct Row {
    uint32_t prefix;      // the bits of the K-th largest that are known
    uint32_t need;        // how many of those that begin so are results
    uint32_t candidates;  // entries in the list, or how many there would be
    uint32_t results, ties;
    uint32_t bins[3][kBins];
};

// The bits below those that level 0, 1, 2 looks at.
__host__ __device__ constexpr int shift_of(int level) { return level == 0 ? 21 : level == 1 ? 10 : 0; }

struct Space {
    Row *rows;
    uint64_t *results;     // K a row
    uint64_t *candidates;  // `room` a row
    int64_t room;
};

// Level 0 counts the first bits. Level l = 1, 2, 3 knows the bits of level l - 1: it picks results and candidates by them
// and counts the bits of level l, or, at the end, takes as many of the equal ones as are needed.
template <int kLevel>
__global__ void __launch_bounds__(kThreads)
    pass(const float *__restrict__ x, Space space, int64_t N, int64_t K, int parts) {
    __shared__ unsigned bins[kBins];
    const int64_t r = blockIdx.x / parts, part = blockIdx.x % parts;
    Row &row = space.rows[r];
    const uint64_t *candidates = space.candidates + r * space.room;
    const bool listed = kLevel >= 2 && row.candidates <= space.room;
    const int64_t count = listed ? row.candidates : N;
    const uint32_t prefix = kLevel > 0 ? row.prefix : 0;
    const uint32_t need = row.need;
    if constexpr (kLevel < 3) {
        for (int i = threadIdx.x; i < kBins; i += kThreads) bins[i] = 0;
        __syncthreads();
    }
    for (int64_t first = part * kThreads; first < count; first += int64_t(parts) * kThreads * kLoads) {
        uint64_t loaded[kLoads];
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
            const int64_t i = first + int64_t(u) * parts * kThreads + threadIdx.x;
            loaded[u] = 0;
            if (i < count)
                loaded[u] =
                    listed ? candidates[i] : topk::entry_of(topk::key_of(x[r * N + i]), static_cast<uint32_t>(i));
        }
#pragma unroll
        for (int u = 0; u < kLoads; ++u) {
            const uint64_t entry = loaded[u];
            if (entry == 0) continue;
            const uint32_t key = topk::key_of(entry);
            if constexpr (kLevel > 0) {
                constexpr int kKnown = shift_of(kLevel > 0 ? kLevel - 1 : 0);
                constexpr int kBefore = shift_of(kLevel > 1 ? kLevel - 2 : 0);
                if (kLevel > 1 && (key ^ prefix) >> kBefore != 0) continue;
                const uint32_t begins = key >> kKnown, wanted = prefix >> kKnown;
                if (begins < wanted) continue;
                const bool result = begins > wanted || (kLevel == 3 && atomicAdd(&row.ties, 1u) < need);
                if (result) space.results[r * K + atomicAdd(&row.results, 1u)] = entry;
                if (result || kLevel == 3) continue;
                if constexpr (kLevel == 1) {
                    const uint32_t place = atomicAdd(&row.candidates, 1u);
                    if (place < space.room) space.candidates[r * space.room + place] = entry;
                }
            }
            if constexpr (kLevel < 3) {
                constexpr uint32_t kMask = kLevel == 2 ? 1023 : 2047;
                atomicAdd(&bins[key >> shift_of(kLevel) & kMask], 1u);
            }
        }
    }
    if constexpr (kLevel < 3) {
        __syncthreads();
        for (int i = threadIdx.x; i < kBins; i += kThreads)
            if (bins[i] != 0) atomicAdd(&row.bins[kLevel][i], bins[i]);
    }
}

// One block of kThreads a row: in which bin of a level the K-th largest lies.
__global__ void __launch_bounds__(kThreads) find(Space space, int64_t K, int level) {
    constexpr int kEach = kBins / kThreads;
    __shared__ unsigned upto[kThreads];
    Row &row = space.rows[blockIdx.x];
    const unsigned need = level == 0 ? static_cast<unsigned>(K) : row.need;
    unsigned own[kEach], total = 0;
    for (int j = 0; j < kEach; ++j)
        total += own[j] = row.bins[level][kBins - 1 - (static_cast<int>(threadIdx.x) * kEach + j)];
    upto[threadIdx.x] = total;
    __syncthreads();
    for (int step = 1; step < kThreads; step *= 2) {
        const unsigned other = static_cast<int>(threadIdx.x) >= step ? upto[threadIdx.x - step] : 0;
        __syncthreads();
        upto[threadIdx.x] += other;
        __syncthreads();
    }
    unsigned above = upto[threadIdx.x] - total;
    for (int j = 0; j < kEach; ++j) {
        if (above < need && need <= above + own[j]) {  // one bin of one thread
            row.prefix |= static_cast<uint32_t>(kBins - 1 - (static_cast<int>(threadIdx.x) * kEach + j))
                          << shift_of(level);
            row.need = need - above;
        }
        above += own[j];
    }
}

__global__ void __launch_bounds__(kSorters) finish(const float *__restrict__ x, Space space, float *__restrict__ values,
                                                   int64_t *__restrict__ indices, int64_t N, int K, int size) {
    __shared__ uint64_t entries[kMostK];
    const int64_t row = blockIdx.x;
    for (int i = threadIdx.x; i < size; i += kSorters) entries[i] = i < K ? space.results[row * K + i] : 0;
    __syncthreads();
    topk::sort_descending<kSorters>(entries, size);
    for (int i = threadIdx.x; i < K; i += kSorters) {
        const int64_t index = topk::index_of(entries[i]);
        values[row * K + i] = x[row * N + index];
        indices[row * K + i] = index;
    }
}

Space space_of(const Args *args) {
    Space space{};
    const int64_t sixteenth = args->N / 16 > 4096 ? args->N / 16 : 4096;
    space.room = sixteenth < args->N ? sixteenth : args->N;
    space.results = static_cast<uint64_t *>(args->workspace);
    space.candidates = space.results + args->B * args->K;
    space.rows = reinterpret_cast<Row *>(space.candidates + args->B * space.room);
    return space;
}

}  // namespace

extern "C" size_t workspace_bytes(const Args *args) {
    return static_cast<size_t>(args->B) * (sizeof(uint64_t) * (args->K + space_of(args).room) + sizeof(Row));
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->K > args->N || args->K > kMostK || args->N > topk::kMostElements) return cudaErrorInvalidValue;
    const Space space = space_of(args);
    const int64_t enough = (args->N + kThreads * kLoads - 1) / (kThreads * kLoads);
    int64_t parts = kBlocks / args->B > 1 ? kBlocks / args->B : 1;
    if (parts > enough) parts = enough;
    if (args->B * parts > INT32_MAX) return cudaErrorInvalidValue;
    const unsigned rows = static_cast<unsigned>(args->B), blocks = static_cast<unsigned>(args->B * parts);
    const int each = static_cast<int>(parts);
    const cudaError_t status = cudaMemsetAsync(space.rows, 0, sizeof(Row) * args->B, stream);
    if (status != cudaSuccess) return status;
    pass<0><<<blocks, kThreads, 0, stream>>>(args->x, space, args->N, args->K, each);
    find<<<rows, kThreads, 0, stream>>>(space, args->K, 0);
    pass<1><<<blocks, kThreads, 0, stream>>>(args->x, space, args->N, args->K, each);
    find<<<rows, kThreads, 0, stream>>>(space, args->K, 1);
    pass<2><<<blocks, kThreads, 0, stream>>>(args->x, space, args->N, args->K, each);
    find<<<rows, kThreads, 0, stream>>>(space, args->K, 2);
    pass<3><<<blocks, kThreads, 0, stream>>>(args->x, space, args->N, args->K, each);
    const int K = static_cast<int>(args->K);
    finish<<<rows, kSorters, 0, stream>>>(args->x, space, args->values, args->indices, args->N, K,
                                          topk::power_of_two(K));
    return cudaGetLastError();
}
