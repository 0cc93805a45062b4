// LayerNorm and RMSNorm with the row in registers, for a warp, a block or a cluster a row: read once, written once.
//
// 32 elements a thread, 16 bytes at a time, all loads issued before one is used. Each warp finds the moments of its own
// part by shuffles; one exchange (shared memory and a barrier, or distributed shared memory and an mbarrier) lets every
// warp join all parts (moments.cuh). Weights come through L1, where other rows have left them, or from L2.
//
// kRows: rows that a cluster takes at the same time, each thread the same columns of all of them. Their reductions run
// side by side and cost one exchange, and what is read of w and b serves all. In FP32 a thread has 32 / kRows columns, so
// that the rows fill as many registers as one did; in BF16 it keeps 32, which as they lie in memory take half of them.
#pragma once
#include "../common/async_copy.cuh"
#include "../common/bulk_copy.cuh"
#include "../common/cluster.cuh"
#include "moments.cuh"

namespace ladder {

constexpr int kEach = 32;  // elements a thread
constexpr int kMostThreads = 1024;
constexpr int kMostBlocks = 16;  // of a cluster; more than 8 only where the device can place them
constexpr int kPortableBlocks = 8;
constexpr int kPartsEach = 8;     // of a cluster's, for each lane: 8 blocks of 32 warps, or 16 of 16
constexpr int kMostWarpRows = 8;  // rows a block where a warp takes one
constexpr int kWarpColumns = 32 * kEach;
constexpr int kBlockColumns = kMostThreads * kEach;

enum Group { kWarp, kBlock, kCluster };

// The columns of a thread where it takes them of `kRows` rows.
template <class Element, int kRows>
constexpr int kColumns = sizeof(Element) == 2 ? kEach : kEach / kRows;

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
__device__ __forceinline__ void expect_parts(uint32_t told, unsigned warps, unsigned rows) {
    arrive_expecting_alone(told, cluster_blocks() * warps * rows * static_cast<unsigned>(sizeof(Moments)));
}

// The moments of a row of N elements, known to all threads of the cluster.
template <bool kCentred>
__device__ __forceinline__ Moments join_cluster(Moments own, Moments *parts, unsigned warps, float N, uint32_t told,
                                                uint32_t parity) {
    tell_cluster(own, parts, warps, threadIdx.x / 32, told);
    wait_phase(told, parity);
    return join_parts<kCentred, kPartsEach>(parts, cluster_blocks() * warps, N);
}

template <Group kGroup, int kRows>
constexpr int kThreadsMost = kGroup == kWarp ? 32 * kMostWarpRows
                             : kRows > 1     ? kMostThreads / 2
                                             : kMostThreads;
template <Group kGroup, int kRows, int kWidth>
constexpr int kBlocksLeast = kGroup == kWarp ? kWidth == 1 ? 2 : 4 : kRows;

template <class Element, bool kCentred, int kWidth, Group kGroup, int kRows>
__global__ void __launch_bounds__(kThreadsMost<kGroup, kRows>, kBlocksLeast<kGroup, kRows, kWidth>)
    vector_rows(const Element *__restrict__ x, const Element *__restrict__ w, const Element *__restrict__ b,
                Element *__restrict__ y, int64_t T, int64_t N, int part, float eps) {
    static_assert(kRows == 1 || kGroup == kCluster, "several rows are taken by clusters alone");
    constexpr int kVectors = kColumns<Element, kRows> / kWidth;
    // Vectors whose weights are loaded together: two where they come from L2, if registers allow.
    constexpr int kBatch = kGroup == kCluster && kWidth > 1 && sizeof(Element) == 4 ? 2 : 1;
    constexpr int kParts = kGroup == kWarp ? 1 : kGroup == kBlock ? 32 : 32 * kPartsEach;
    __shared__ Moments parts[kRows][kParts];
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
        row = row / cluster_blocks() * kRows;
        if (threadIdx.x == 0) {
            barrier_init(told_at, 1);
            fence_barriers();
            expect_parts(told_at, warps, kRows);
        }
        cluster_arrive();  // this block has started, and may be told
    }
    const int64_t begin = static_cast<int64_t>(rank) * part;
    const int columns = static_cast<int>(N - begin < part ? N - begin : part);  // negative behind the row's end
    const int step = (kGroup == kWarp ? 32 : blockDim.x) * kWidth;
    int first = (kGroup == kWarp ? threadIdx.x % 32 : threadIdx.x) * kWidth;

    const int rows = kRows == 1 || T - row >= kRows ? kRows : static_cast<int>(T - row);  // T may be no multiple

    typename Pack<Element, kWidth>::Bits bits[kRows][kVectors];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        load_row<Element, kWidth>(bits[r], x + (row + r) * N + begin, r < rows ? columns : 0, first, step, 0.0f);
    }
    if constexpr (kGroup == kCluster) cluster_wait();  // all have

    Moments all[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        all[r] = warp_moments<kCentred, Element, kWidth>(bits[r], columns, first, step);
        if constexpr (kGroup == kCluster) tell_cluster(all[r], parts[r], warps, threadIdx.x / 32, told_at);
    }
    if constexpr (kGroup == kBlock) all[0] = join_block<kCentred>(all[0], parts[0], warps, N);
    if constexpr (kGroup == kCluster) {
        wait_phase(told_at, 0);
#pragma unroll
        for (int r = 0; r < kRows; ++r)
            all[r] = join_parts<kCentred, kPartsEach>(parts[r], cluster_blocks() * warps, N);
    }
    float inverse[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) inverse[r] = inverse_deviation(all[r].squares, N, eps);

    first = again(kGroup == kWarp ? threadIdx.x % 32 * kWidth : threadIdx.x * kWidth);
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
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            float values[kWidth];
            Pack<Element, kWidth>::unpack(bits[r][v], values);
            weights.normalise(v % kBatch, values, all[r].mean, inverse[r]);
            if (kRows == 1 || r < again(rows)) store_once<Element, kWidth>(to + r * N + column, values);
        }
    }
}

// How the rows of a cluster are dealt out: threads a block, blocks of the cluster, elements of a row in each.
struct RowShape {
    unsigned threads, blocks;
    int part;
};

// `each` columns a thread, blocks of at most `part_most` columns, clusters of `least` to `most` blocks.
inline RowShape cluster_shape(int64_t N, int width, int64_t part_most, int each, unsigned most, unsigned least = 2) {
    RowShape shape = {0, least, 0};
    while (shape.blocks < most && static_cast<int64_t>(shape.blocks) * part_most < N) shape.blocks *= 2;
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
    vector_rows<Element, kCentred, kWidth, kGroup, 1>
        <<<static_cast<unsigned>(grid), threads, 0, stream>>>(x, w, b, y, T, N, static_cast<int>(N), eps);
    return cudaGetLastError();
}

// The same with a cluster for kRows rows.
template <class Element, bool kCentred, int kWidth, int kRows>
cudaError_t launch_cluster_rows(const RowShape &shape, const Element *x, const Element *w, const Element *b, Element *y,
                                int64_t T, int64_t N, float eps, cudaStream_t stream) {
    const int64_t clusters = (T + kRows - 1) / kRows;
    if (clusters > INT32_MAX / kMostBlocks || N > static_cast<int64_t>(shape.blocks) * shape.part ||
        shape.threads > kThreadsMost<kCluster, kRows>)
        return cudaErrorInvalidValue;
    return launch_clusters(vector_rows<Element, kCentred, kWidth, kCluster, kRows>,
                           static_cast<unsigned>(clusters) * shape.blocks, shape.threads, shape.blocks, 0, stream, x, w,
                           b, y, T, N, shape.part, eps);
}

// Whether the device places clusters of that shape. More than 8 blocks are not portable and have to be allowed first.
template <class Element, bool kCentred, int kWidth, int kRows>
bool cluster_fits(const RowShape &shape) {
    const auto kernel = vector_rows<Element, kCentred, kWidth, kCluster, kRows>;
    if (shape.threads > kThreadsMost<kCluster, kRows>) return false;
    if (shape.blocks <= kPortableBlocks) return true;
    int clusters = 0;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error == cudaSuccess) error = active_clusters(&clusters, kernel, shape.blocks, shape.threads, shape.blocks, 0);
    if (error != cudaSuccess) cudaGetLastError();  // an answer, not a failure
    return error == cudaSuccess && clusters > 0;
}

}  // namespace ladder
