// LayerNorm and RMSNorm with the row in registers, for a warp, a block or a cluster a row: read once, written once.
//
// 32 elements a thread, 16 bytes at a time, all loads issued before one is used. Each warp finds the moments of its
// own part by shuffles; one exchange (shared memory and a barrier, or distributed shared memory and an mbarrier) lets
// every warp join all parts (moments.cuh). Weights come through L1, where other rows have left them.
#pragma once
#include "../common/async_copy.cuh"
#include "../common/cluster.cuh"
#include "../common/bulk_copy.cuh"
#include "moments.cuh"

namespace ladder {

constexpr int kEach = 32;  // elements a thread
constexpr int kMostThreads = 1024;
constexpr int kMostBlocks = 8;  // of a cluster that every device can place
constexpr int kWarpRows = 8;    // rows a block where a warp takes one
constexpr int kWarpColumns = 32 * kEach;
constexpr int kBlockColumns = kMostThreads * kEach;

enum Group { kWarp, kBlock, kCluster };

// The moments of a row of N elements, known to all threads of its block, from those of its warps.
template <bool kCentred>
__device__ __forceinline__ Moments join_block(Moments own, Moments *parts, unsigned warps, float N) {
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
    __syncthreads();
    return join_parts<kCentred>(parts, warps, N);
}

// The same for a cluster: each block is told all parts, and the mbarrier `told` there counts the bytes. One thread
// of each block announces them with expect_parts before or after. (A barrier of the cluster would do, but its
// release is a fence of the whole device.)
template <bool kCentred>
__device__ __forceinline__ Moments join_cluster(Moments own, Moments *parts, unsigned warps, float N, uint32_t told,
                                                uint32_t parity) {
    const unsigned lane = threadIdx.x % 32, blocks = cluster_blocks();
    if (lane < blocks) {  // lane r tells block r
        const uint32_t part = shared_address(&parts[cluster_rank() * warps + threadIdx.x / 32]);
        send(remote_address(part, lane), make_float4(own.count, own.mean, own.squares, 0.0f),
             remote_address(told, lane));
    }
    mbarrier_wait(told, parity);
    return join_parts<kCentred>(parts, blocks * warps, N);
}
__device__ __forceinline__ void expect_parts(uint32_t told, unsigned warps) {
    mbarrier_expect(told, cluster_blocks() * warps * static_cast<unsigned>(sizeof(Moments)));
}

template <class Element, bool kCentred, int kWidth, Group kGroup>
__global__ void __launch_bounds__(kGroup == kWarp ? 32 * kWarpRows : kMostThreads,
                                  kGroup == kWarp ? kWidth == 1 ? 2 : 4 : 1)
    vector_rows(const Element *__restrict__ x, const Element *__restrict__ w, const Element *__restrict__ b,
                Element *__restrict__ y, int64_t T, int64_t N, int part, float eps) {
    constexpr int kVectors = kEach / kWidth;
    __shared__ Moments parts[kGroup == kWarp ? 1 : kGroup == kBlock ? 32 : 32 * kMostBlocks];
    __shared__ uint64_t told;
    const uint32_t told_at = shared_address(&told);
    unsigned rank = 0;
    int64_t row = blockIdx.x;
    if constexpr (kGroup == kWarp) {
        row = row * kWarpRows + threadIdx.x / 32;
        if (row >= T) return;  // the whole warp
    }
    if constexpr (kGroup == kCluster) {
        rank = cluster_rank();
        row /= cluster_blocks();
        if (threadIdx.x == 0) {
            mbarrier_init(told_at);
            mbarrier_init_fence();
            expect_parts(told_at, blockDim.x / 32);
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
    float values[kVectors][kWidth];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) Pack<Element, kWidth>::unpack(bits[v], values[v]);

    const Moments own = warp_moments<kCentred>(values, columns, first, step);
    Moments all = own;
    if constexpr (kGroup == kBlock) all = join_block<kCentred>(own, parts, blockDim.x / 32, N);
    if constexpr (kGroup == kCluster) all = join_cluster<kCentred>(own, parts, blockDim.x / 32, N, told_at, 0);
    const float inverse = inverse_deviation(all.squares, N, eps);

    first = again(kGroup == kWarp ? threadIdx.x % 32 * kWidth : threadIdx.x * kWidth);
    Element *to = y + row * N + begin;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        const int column = first + v * step;
        if (column < columns) {
            normalise<kCentred>(values[v], w + begin + column, b + begin + column, all.mean, inverse);
            store_once<Element, kWidth>(to + column, values[v]);
        }
    }
}

// What vector_rows needs to know of a row: how many threads, and of how many blocks of the cluster.
struct RowShape {
    unsigned threads, blocks;
    int part;
};

inline RowShape cluster_shape(int64_t N, int width, int64_t part_most) {
    RowShape shape = {0, 2, 0};
    while (shape.blocks < kMostBlocks && static_cast<int64_t>(shape.blocks) * part_most < N) shape.blocks *= 2;
    shape.part = static_cast<int>((N / width + shape.blocks - 1) / shape.blocks * width);
    shape.threads = threads_for(shape.part, kEach);
    return shape;
}

// Launches vector_rows over T rows of N elements: `group` decides whether N is short enough.
template <class Element, bool kCentred, int kWidth, Group kGroup>
cudaError_t launch_vector_rows(const Element *x, const Element *w, const Element *b, Element *y, int64_t T, int64_t N,
                               int64_t part_most, float eps, cudaStream_t stream) {
    const auto kernel = vector_rows<Element, kCentred, kWidth, kGroup>;
    if constexpr (kGroup == kCluster) {
        const RowShape shape = cluster_shape(N, kWidth, part_most);
        if (T > INT32_MAX / kMostBlocks || N > kMostBlocks * part_most) return cudaErrorInvalidValue;
        return launch_clusters(kernel, static_cast<unsigned>(T) * shape.blocks, shape.threads, shape.blocks, 0, stream,
                               x, w, b, y, T, N, shape.part, eps);
    } else {
        const int64_t grid = kGroup == kWarp ? (T + kWarpRows - 1) / kWarpRows : T;
        if (grid > INT32_MAX || N > (kGroup == kWarp ? kWarpColumns : kBlockColumns)) return cudaErrorInvalidValue;
        const unsigned threads = kGroup == kWarp ? 32 * kWarpRows : threads_for(N, kEach);
        kernel<<<static_cast<unsigned>(grid), threads, 0, stream>>>(x, w, b, y, T, N, static_cast<int>(N), eps);
        return cudaGetLastError();
    }
}

}  // namespace ladder
