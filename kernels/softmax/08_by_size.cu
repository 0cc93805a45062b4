// Rung 8: whoever fits the row. Warps, blocks and clusters in one kernel, chosen by N, with one exchange a row.
//
// Changed  against the rungs before: a row's threads are what its length asks for, and rung 7's single exchange serves
//          blocks too: each warp finds the maximum and the sum of its own part, and one barrier, not two, lets all warps
//          merge the parts.
// Table    32 elements of a row a thread; `part` is what a block holds of it.
//              N to          threads a row           blocks (parts) a row
//              WARP_MOST     32                      1 (short rows share a block of up to eight warps)
//              BLOCK_MOST    N / 32                  1
//              8 * PART      PART / 32 a block       2, 4, 8
//              262144        1024 a block            8
//          Defaults 1024, 16384, 16384: then no block has more than 512 threads up to N = 131072, and at least two
//          blocks of a multiprocessor, at 64 registers a thread, take turns at loading and reducing.
// Powers   In FP32 a power takes its value's place, and is scaled in the end. In BF16 it is computed again.
// BF16     stays packed in registers between the passes (rows.cuh), half of what floats take: a cluster takes two rows at
//          the same time. What it does between its loads and its stores (maximum, sum, exchange) takes as long for half
//          the bytes, and only more bytes hide it.
// Warps    A row of 1024 is a block of one warp, which ends when its row does. Eight rows a block wait for the slowest
//          before the next eight begin (rung 6).
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes at N = 1024, 4096, 8192, 32768 and 131072: in
//          FP32 99.8, 97.4, 97.4, 97.9 and 97.9 %, in BF16 99.2, 97.4, 97.0, 95.0 and 85.2 %. An earlier form (STREAMING
//          1, eight rows a block for warps, BF16 as floats, one row a cluster) had 94.5, 94.3, 92.6, 94.4 and 94.1 %, in
//          BF16 93.5, 93.3, 92.9, 91.1 and 80.5 %.
// Chain    of additions in a thread: 32, then a warp's, then at most 8 pairs, then a warp's.
// Sizes    N up to 262144. Rows that do not begin on 16 bytes go element by element.
#include "../common/async_copy.cuh"
#include "../common/bulk_copy.cuh"
#include "../common/cluster.cuh"
#include "tally.cuh"

#ifndef WARP_MOST
#define WARP_MOST 1024
#endif
#ifndef BLOCK_MOST
#define BLOCK_MOST 16384
#endif
#ifndef PART
#define PART 16384
#endif
#ifndef ROWS
#define ROWS 0
#endif

constexpr int kEach = 32;
constexpr int kMostThreads = 1024;
constexpr int kMostBlocks = 8;
constexpr unsigned kMostWarpRows = 8;  // rows a block where a warp takes one
static_assert(WARP_MOST <= 32 * kEach, "a warp holds 1024 elements");
static_assert(BLOCK_MOST <= kMostThreads * kEach && PART <= kMostThreads * kEach, "a block holds 32768 elements");
static_assert(ROWS == 0 || ROWS == 1 || (ROWS == 2 && sizeof(Element) == 2), "two rows where they are packed");

constexpr bool kPowers = sizeof(Element) == 4;

enum Group { kWarp, kBlock, kCluster };

// Rows that a cluster takes together.
constexpr int kClusterRows = ROWS > 0 ? ROWS : sizeof(Element) == 2 ? 2 : 1;
constexpr int kTogetherThreads = 512;  // of a block that takes several: two of them fill the registers
template <Group kGroup, int kRows>
constexpr int kThreads = kGroup == kWarp ? 32 * kMostWarpRows
                         : kRows > 1     ? kTogetherThreads
                                         : kMostThreads;

template <int kWidth, Group kGroup, int kRows>
__global__ void __launch_bounds__(kThreads<kGroup, kRows>, kGroup == kWarp ? 4 : kRows)
    by_size(const Element *__restrict__ x, Element *__restrict__ y, int64_t T, int64_t N, int part) {
    static_assert(kRows == 1 || kGroup == kCluster, "several rows are taken by clusters alone");
    constexpr int kVectors = kEach / kWidth;
    using Vector = ladder::Pack<Element, kWidth>;
    __shared__ Tally pairs[kRows][kGroup == kCluster ? kMostBlocks * 32 : 32];
    __shared__ uint64_t told;
    const uint32_t told_at = ladder::shared_address(&told), pairs_at = ladder::shared_address(pairs);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    unsigned rank = 0, blocks = 1;
    int64_t row = blockIdx.x;
    if constexpr (kGroup == kWarp) {
        row = row * warps + warp;
        if (row >= T) return;  // the whole warp
    }
    if constexpr (kGroup == kCluster) {
        rank = ladder::cluster_rank(), blocks = ladder::cluster_blocks();
        row = row / blocks * kRows;
        if (threadIdx.x == 0) {
            ladder::barrier_init(told_at, 1);
            ladder::fence_barriers();
            ladder::arrive_expecting_alone(told_at, blocks * warps * kRows * sizeof(Tally));
        }
        ladder::cluster_arrive();  // this block has started, and may be told
    }
    const int rows = kRows == 1 || T - row >= kRows ? kRows : static_cast<int>(T - row);  // T may be no multiple
    const int64_t begin = row * N + static_cast<int64_t>(rank) * part, left = N - static_cast<int64_t>(rank) * part;
    const int columns = static_cast<int>(left < part ? left : part);  // negative behind the row's end
    const int step = (kGroup == kWarp ? 32 : blockDim.x) * kWidth;
    int first = (kGroup == kWarp ? lane : threadIdx.x) * kWidth;

    typename Vector::Bits bits[kRows][kVectors];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {  // e^-inf is 0
        ladder::load_row<Element, kWidth>(bits[r], x + begin + r * N, r < rows ? columns : 0, first, step,
                                          -ladder::kInfinity);
    }
    if constexpr (kGroup == kCluster) ladder::cluster_wait();  // all have

    Tally all[kRows];
    float scale[kRows];  // of the powers
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        all[r] = tally_of_warp<kWidth, kPowers>(bits[r]);
        if constexpr (kGroup == kBlock) {
            if (lane == 0) pairs[r][warp] = all[r];
        }
        if constexpr (kGroup == kCluster) {
            if (lane < blocks) {  // lane b tells block b
                const uint32_t pair_at = pairs_at + (r * kMostBlocks * 32 + rank * warps + warp) * sizeof(Tally);
                ladder::send(ladder::remote_address(pair_at, lane), make_float2(all[r].largest, all[r].sum),
                             ladder::remote_address(told_at, lane));
            }
        }
    }
    if constexpr (kGroup == kBlock) __syncthreads();
    if constexpr (kGroup == kCluster) ladder::wait_phase(told_at, 0);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const float own = all[r].largest;
        if constexpr (kGroup != kWarp) {
            Tally merged = {-ladder::kInfinity, 0.0f};
            for (unsigned i = lane; i < blocks * warps; i += 32) merged = merge(merged, pairs[r][i]);
            all[r] = warp_merge(merged);
        }
        scale[r] = kPowers ? factor(own, all[r]) : 1.0f / all[r].sum;
    }

    Element *to = y + begin;
#pragma unroll
    for (int r = 0; r < kRows; ++r, to += N) {
        first = ladder::again(first);
        const int inside = r < ladder::again(rows) ? columns : 0;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            if (first + v * step >= inside) continue;
            float values[kWidth];
            Vector::unpack(bits[r][v], values);
#pragma unroll
            for (int i = 0; i < kWidth; ++i) {
                values[i] = (kPowers ? values[i] : exp_of(values[i] - all[r].largest)) * scale[r];
            }
            ladder::store_once<Element, kWidth>(to + first + v * step, values);
        }
    }
}

template <int kWidth, int kRows>
cudaError_t start_clusters(const Args *args, unsigned blocks, cudaStream_t stream) {
    const int64_t T = args->T, N = args->N, clusters = (T + kRows - 1) / kRows;
    const int64_t part = (N / kWidth + blocks - 1) / blocks * kWidth;  // N is a multiple of kWidth
    return ladder::launch_clusters(by_size<kWidth, kCluster, kRows>, static_cast<unsigned>(clusters) * blocks,
                                   ladder::threads_for(part, kEach), blocks, 0, stream, args->x, args->y, T, N,
                                   static_cast<int>(part));
}

template <int kWidth>
cudaError_t start(const Args *args, cudaStream_t stream) {
    const int64_t T = args->T, N = args->N;
    if (N <= WARP_MOST) {
        const unsigned rows = ladder::warp_rows(32 * kEach, N, kMostWarpRows);
        const unsigned grid = static_cast<unsigned>((T + rows - 1) / rows);
        by_size<kWidth, kWarp, 1><<<grid, 32 * rows, 0, stream>>>(args->x, args->y, T, N, static_cast<int>(N));
        return cudaGetLastError();
    }
    if (N <= BLOCK_MOST) {
        const unsigned grid = static_cast<unsigned>(T), threads = ladder::threads_for(N, kEach);
        by_size<kWidth, kBlock, 1><<<grid, threads, 0, stream>>>(args->x, args->y, T, N, static_cast<int>(N));
        return cudaGetLastError();
    }
    unsigned blocks = 2;
    while (blocks < kMostBlocks && static_cast<int64_t>(blocks) * PART < N) blocks *= 2;
    if constexpr (kWidth > 1 && kClusterRows > 1) {
        if (N <= static_cast<int64_t>(blocks) * kTogetherThreads * kEach)
            return start_clusters<kWidth, kClusterRows>(args, blocks, stream);
    }
    return start_clusters<kWidth, 1>(args, blocks, stream);
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    if (args->T > INT32_MAX / kMostBlocks || args->N > kMostBlocks * kMostThreads * kEach) return cudaErrorInvalidValue;
    return ladder::rows_aligned(args->x, args->y, args->N) ? start<ladder::kVector<Element>>(args, stream)
                                                           : start<1>(args, stream);
}
