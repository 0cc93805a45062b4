// Rung 8: whoever fits the row. Warps, blocks and clusters in one kernel, chosen by N, with one exchange a row.
//
// Changed  against the rungs before: a row's threads are what its length asks for, and rung 7's single exchange
//          serves blocks too: each warp finds the maximum and the sum of its own part, and one barrier, not two,
//          lets all warps merge the parts.
// Table    32 elements a thread, whatever the contract; `part` is what a block holds of a row.
//              N to          threads a row           blocks (parts) a row
//              WARP_MOST     32, eight rows a block  1
//              BLOCK_MOST    N / 32                  1
//              8 * PART      PART / 32 a block       2, 4, 8
//              262144        1024 a block            8
//          Defaults 1024, 16384, 16384: then no block has more than 512 threads up to N = 131072, and at least two
//          blocks of a multiprocessor, at 64 registers a thread, take turns at loading and reducing.
// Chain    of additions in a thread: 32, then a warp's, then at most 8 pairs, then a warp's.
// Sizes    N up to 262144. Rows that do not begin on 16 bytes go element by element.
#include "../common/async_copy.cuh"
#include "../common/cluster.cuh"
#include "../common/bulk_copy.cuh"
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

constexpr int kEach = 32;
constexpr int kMostThreads = 1024;
constexpr int kMostBlocks = 8;
constexpr int kWarpRows = 8;  // rows a block where a warp takes one
static_assert(WARP_MOST <= 32 * kEach, "a warp holds 1024 elements");
static_assert(BLOCK_MOST <= kMostThreads * kEach && PART <= kMostThreads * kEach, "a block holds 32768 elements");

enum Group { kWarp, kBlock, kCluster };

template <int kWidth, Group kGroup>
__global__ void __launch_bounds__(kGroup == kWarp ? 32 * kWarpRows : kMostThreads, kGroup == kWarp ? 4 : 1)
    by_size(const Element *__restrict__ x, Element *__restrict__ y, int64_t T, int64_t N, int part) {
    constexpr int kVectors = kEach / kWidth;
    using Vector = ladder::Pack<Element, kWidth>;
    __shared__ Tally pairs[kGroup == kCluster ? kMostBlocks * 32 : 32];
    __shared__ uint64_t told;
    const uint32_t told_at = ladder::shared_address(&told), pairs_at = ladder::shared_address(pairs);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    unsigned rank = 0, blocks = 1;
    int64_t row = blockIdx.x;
    if constexpr (kGroup == kWarp) {
        row = row * kWarpRows + warp;
        if (row >= T) return;  // the whole warp
    }
    if constexpr (kGroup == kCluster) {
        rank = ladder::cluster_rank(), blocks = ladder::cluster_blocks();
        row /= blocks;
        if (threadIdx.x == 0) {
            ladder::mbarrier_init(told_at);
            ladder::mbarrier_init_fence();
            ladder::mbarrier_expect(told_at, blocks * warps * sizeof(Tally));
        }
        ladder::cluster_arrive();  // this block has started, and may be told
    }
    const int64_t begin = row * N + static_cast<int64_t>(rank) * part, left = N - static_cast<int64_t>(rank) * part;
    const Element *from = x + begin;
    Element *to = y + begin;
    const int columns = static_cast<int>(left < part ? left : part);  // negative behind the row's end
    const int step = (kGroup == kWarp ? 32 : blockDim.x) * kWidth;
    const int first = (kGroup == kWarp ? lane : threadIdx.x) * kWidth;

    typename Vector::Bits bits[kVectors];
    ladder::load_row<Element, kWidth>(bits, from, columns, first, step, -ladder::kInfinity);  // e^-inf is 0
    if constexpr (kGroup == kCluster) ladder::cluster_wait();                                 // all have

    float values[kVectors][kWidth];
    Tally own = {-ladder::kInfinity, 0.0f};  // of the warp
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        Vector::unpack(bits[v], values[v]);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) own.largest = fmaxf(own.largest, values[v][i]);
    }
    own.largest = ladder::warp_reduce<ladder::Max>(own.largest);
    const float from_value = origin(own.largest);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            values[v][i] = exp_of(values[v][i] - from_value);
            own.sum += values[v][i];
        }
    }
    own.sum = ladder::warp_reduce<ladder::Sum>(own.sum);

    Tally all = own;
    if constexpr (kGroup == kBlock) {
        if (lane == 0) pairs[warp] = own;
        __syncthreads();
        all = warp_merge(lane < warps ? pairs[lane] : Tally{-ladder::kInfinity, 0.0f});
    }
    if constexpr (kGroup == kCluster) {
        if (lane < blocks) {  // lane r tells block r
            const uint32_t pair_at = pairs_at + (rank * warps + warp) * sizeof(Tally);
            ladder::send(ladder::remote_address(pair_at, lane), make_float2(own.largest, own.sum),
                         ladder::remote_address(told_at, lane));
        }
        ladder::mbarrier_wait(told_at, 0);
        all = {-ladder::kInfinity, 0.0f};
        for (unsigned i = lane; i < blocks * warps; i += 32) all = merge(all, pairs[i]);
        all = warp_merge(all);
    }
    const float scale = factor(own.largest, all);

    ladder::store_scaled<Element, kWidth>(to, values, scale, columns, first, step);
}

template <int kWidth>
cudaError_t start(const Args *args, cudaStream_t stream) {
    const int64_t T = args->T, N = args->N;
    if (N <= WARP_MOST) {
        const unsigned grid = static_cast<unsigned>((T + kWarpRows - 1) / kWarpRows);
        by_size<kWidth, kWarp><<<grid, 32 * kWarpRows, 0, stream>>>(args->x, args->y, T, N, static_cast<int>(N));
        return cudaGetLastError();
    }
    if (N <= BLOCK_MOST) {
        const unsigned grid = static_cast<unsigned>(T), threads = ladder::threads_for(N, kEach);
        by_size<kWidth, kBlock><<<grid, threads, 0, stream>>>(args->x, args->y, T, N, static_cast<int>(N));
        return cudaGetLastError();
    }
    unsigned blocks = 2;
    while (blocks < kMostBlocks && static_cast<int64_t>(blocks) * PART < N) blocks *= 2;
    const int64_t part = (N / kWidth + blocks - 1) / blocks * kWidth;  // N is a multiple of kWidth
    return ladder::launch_clusters(by_size<kWidth, kCluster>, static_cast<unsigned>(T) * blocks,
                                   ladder::threads_for(part, kEach), blocks, 0, stream, args->x, args->y, T, N,
                                   static_cast<int>(part));
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    if (args->T > INT32_MAX / kMostBlocks || args->N > kMostBlocks * kMostThreads * kEach) return cudaErrorInvalidValue;
    return ladder::rows_aligned(args->x, args->y, args->N) ? start<ladder::kVector<Element>>(args, stream)
                                                           : start<1>(args, stream);
}
