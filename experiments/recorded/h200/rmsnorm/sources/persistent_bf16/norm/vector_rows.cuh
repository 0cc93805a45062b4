// LayerNorm and RMSNorm with the row in registers, for a warp, a block or a cluster a row: read once, written once.
//
// 32 elements a thread, 16 bytes at a time, all loads issued before one is used. Each warp finds the moments of its own
// part by shuffles; one exchange (shared memory and a barrier, or distributed shared memory and an mbarrier) lets every
// warp join all parts (moments.cuh). Weights come through L1, where other rows have left them, or from L2.
//
// In BF16 a row stays packed, but for that of a block, which issues an instruction in 70 % of its cycles: it is unpacked once.
// On an H200, N = 8192, that moves 96.0 % of a copy in place of 94.2 % (LayerNorm; RMSNorm 97.3 and 97.2 %).
#pragma once
#include <type_traits>

#include "../common/async_copy.cuh"
#include "../common/bulk_copy.cuh"
#include "../common/cluster.cuh"
#include "moments.cuh"

namespace ladder {

constexpr int kEach = 32;  // elements a thread
constexpr int kMostThreads = 1024;
constexpr int kPortableBlocks = 8;  // of a cluster, on any device
constexpr int kPartsEach = 8;       // of a cluster's, for each lane: 8 blocks of 32 warps
constexpr int kMostWarpRows = 8;    // rows a block where a warp takes one
constexpr int kWarpColumns = 32 * kEach;
constexpr int kBlockColumns = kMostThreads * kEach;

enum Group { kWarp, kBlock, kCluster };

// The moments of a row of N elements, known to all threads of its block, from those of its warps.
template <bool kCentred>
__device__ __forceinline__ Moments join_block(Moments own, Moments *parts, unsigned warps, float N) {
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
    __syncthreads();
    return join_parts<kCentred, 1>(parts, warps, N);
}

// A warp's moments to every block of the cluster: lane r tells block r, and the mbarrier `told` there counts the bytes.
// One thread of each block announces them with expect_parts before or after. (A barrier of the cluster would do, but its
// release is a fence of the whole device.)
__device__ __forceinline__ void tell_cluster(Moments own, Moments *parts, unsigned warps, unsigned warp,
                                             uint32_t told) {
    const unsigned lane = threadIdx.x % 32;
    if (lane < cluster_blocks()) {
        const uint32_t part = shared_address(&parts[cluster_rank() * warps + warp]);
        send(remote_address(part, lane), make_float4(own.count, own.mean, own.squares, own.word),
             remote_address(told, lane));
    }
}
__device__ __forceinline__ void expect_parts(uint32_t told, unsigned warps) {
    arrive_expecting_alone(told, cluster_blocks() * warps * static_cast<unsigned>(sizeof(Moments)));
}

// The moments of a row of N elements, known to all threads of the cluster.
template <bool kCentred>
__device__ __forceinline__ Moments join_cluster(Moments own, Moments *parts, unsigned warps, float N, uint32_t told,
                                                uint32_t parity) {
    tell_cluster(own, parts, warps, threadIdx.x / 32, told);
    wait_phase(told, parity);
    return join_parts<kCentred, kPartsEach>(parts, cluster_blocks() * warps, N);
}

template <Group kGroup>
constexpr int kThreadsMost = kGroup == kWarp ? 32 * kMostWarpRows : kMostThreads;
template <Group kGroup, int kWidth>
constexpr int kBlocksLeast = kGroup == kWarp ? kWidth == 1 ? 2 : 4 : 1;

template <class Element, bool kCentred, int kWidth, Group kGroup>
__global__ void __launch_bounds__(kThreadsMost<kGroup>, kBlocksLeast<kGroup, kWidth>)
    vector_rows(const Element *__restrict__ x, const Element *__restrict__ w, const Element *__restrict__ b,
                Element *__restrict__ y, int64_t T, int64_t N, int part, float eps) {
    constexpr int kVectors = kEach / kWidth;
    // Vectors whose weights are loaded together: two where they come from L2, if registers allow.
    constexpr int kBatch = kGroup == kCluster && kWidth > 1 && sizeof(Element) == 4 ? 2 : 1;
    constexpr int kParts = kGroup == kWarp ? 1 : kGroup == kBlock ? 32 : 32 * kPartsEach;
    __shared__ Moments parts[kParts];
    __shared__ uint64_t told;
    const uint32_t told_at = shared_address(&told);
    const unsigned warps = blockDim.x / 32;
    unsigned rank = 0;
    int64_t row = blockIdx.x;
    if constexpr (kGroup == kWarp) {
        row = row * warps + threadIdx.x / 32;
        if (row >= T) return;  // the whole warp
    }
    if constexpr (kGroup == kCluster) {
        rank = cluster_rank();
        row = row / cluster_blocks();
        if (threadIdx.x == 0) {
            barrier_init(told_at, 1);
            fence_barriers();
            expect_parts(told_at, warps);
        }
        cluster_arrive();  // this block has started, and may be told
    }
    const int64_t begin = static_cast<int64_t>(rank) * part;
    const int columns = static_cast<int>(N - begin < part ? N - begin : part);  // negative behind the row's end
    const int step = (kGroup == kWarp ? 32 : blockDim.x) * kWidth;
    int first = (kGroup == kWarp ? threadIdx.x % 32 : threadIdx.x) * kWidth;

    typename Pack<Element, kWidth>::Bits bits[kVectors];
    load_row<Element, kWidth>(bits, x + row * N + begin, columns, first, step, 0.0f);
    if constexpr (kGroup == kCluster) cluster_wait();  // all have

    constexpr bool kFloats = sizeof(Element) == 2 && kWidth > 1 && kGroup == kBlock;
    using Held = std::conditional_t<kFloats, float, Element>;
    typename Pack<Held, kWidth>::Bits held[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        if constexpr (kFloats)
            held[v] = as_floats(bits[v]);
        else
            held[v] = bits[v];
    }
    Moments all = warp_moments<kCentred, Held, kWidth>(held, columns, first, step);
    if constexpr (kGroup == kBlock) all = join_block<kCentred>(all, parts, warps, N);
    if constexpr (kGroup == kCluster) all = join_cluster<kCentred>(all, parts, warps, N, told_at, 0);
    const float inverse = inverse_deviation(all.squares, N, eps);

    first = again(static_cast<int>(kGroup == kWarp ? threadIdx.x % 32 : threadIdx.x) * kWidth);
    Element *to = y + row * N + begin;
    Weights<Element, kCentred, kWidth, kBatch> weights;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        const int column = first + v * step;
        if (column >= columns) continue;
        if (v % kBatch == 0) {
#pragma unroll
            for (int i = 0; i < kBatch; ++i) {
                const int other = column + i * step;
                if (i == 0 || other < columns) weights.load(i, w + begin + other, b + begin + other);
            }
        }
        float values[kWidth];
        Pack<Held, kWidth>::unpack(held[v], values);
        weights.normalise(v % kBatch, values, all.mean, inverse);
        store_once<Element, kWidth>(to + column, values);
    }
}

// How the rows of a cluster are dealt out: threads a block, blocks of the cluster, elements of a row in each.
struct RowShape {
    unsigned threads, blocks;
    int part;
};

// `each` columns a thread, blocks of at most `part_most` columns, clusters of `least` to 8 blocks.
inline RowShape cluster_shape(int64_t N, int width, int64_t part_most, int each, unsigned least) {
    RowShape shape = {0, least, 0};
    while (shape.blocks < kPortableBlocks && static_cast<int64_t>(shape.blocks) * part_most < N) shape.blocks *= 2;
    shape.part = static_cast<int>((N / width + shape.blocks - 1) / shape.blocks * width);
    shape.threads = threads_for(shape.part, each);
    return shape;
}

// Launches vector_rows over T rows of N elements, a warp or a block each: `group` decides whether N is short enough.
template <class Element, bool kCentred, int kWidth, Group kGroup>
cudaError_t launch_vector_rows(const Element *x, const Element *w, const Element *b, Element *y, int64_t T, int64_t N,
                               float eps, cudaStream_t stream) {
    const int64_t rows = kGroup == kWarp ? warp_rows(kWarpColumns, N, kMostWarpRows) : 1, grid = (T + rows - 1) / rows;
    if (grid > INT32_MAX || N > (kGroup == kWarp ? kWarpColumns : kBlockColumns)) return cudaErrorInvalidValue;
    const unsigned threads = kGroup == kWarp ? 32 * static_cast<unsigned>(rows) : threads_for(N, kEach);
    vector_rows<Element, kCentred, kWidth, kGroup>
        <<<static_cast<unsigned>(grid), threads, 0, stream>>>(x, w, b, y, T, N, static_cast<int>(N), eps);
    return cudaGetLastError();
}

// The same with a cluster a row.
template <class Element, bool kCentred, int kWidth>
cudaError_t launch_cluster_rows(const RowShape &shape, const Element *x, const Element *w, const Element *b, Element *y,
                                int64_t T, int64_t N, float eps, cudaStream_t stream) {
    if (T > INT32_MAX / kPortableBlocks || N > static_cast<int64_t>(shape.blocks) * shape.part ||
        shape.threads > kMostThreads)
        return cudaErrorInvalidValue;
    return launch_clusters(vector_rows<Element, kCentred, kWidth, kCluster>, static_cast<unsigned>(T) * shape.blocks,
                           shape.threads, shape.blocks, 0, stream, x, w, b, y, T, N, shape.part, eps);
}

}  // namespace ladder
