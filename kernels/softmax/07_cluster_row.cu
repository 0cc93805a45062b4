// Rung 7: a cluster a row. Rows too long for the registers of one block are shared by up to eight.
//
// Changed  against rung 5: the blocks of a cluster hold a part of the row each and exchange what they know of it
//          through distributed shared memory, so that a row of 131072 is still read once. Each warp finds the
//          maximum and sum of its own part first, so that one exchange of pairs is enough: (m, d) to every block,
//          and all merge the same pairs (tally.cuh).
// Tile     512 threads of 32 elements a block, 64 KiB of FP32: N = 131072 takes 8 blocks, and two blocks fill the
//          registers of a multiprocessor: 128 KiB in flight, and one cluster loads while another reduces.
// DSMEM    16 warps * 8 blocks = 128 pairs, 1 KiB, in each block. Stores into another block (st.async) count their
//          bytes on an mbarrier there, on which that block waits: no barrier of the cluster, whose release is a fence of the
//          whole device. A block may not have started when its neighbour wants to write into it: a first, relaxed
//          barrier sees to that, and its wait comes after the loads were issued. A block leaves when all others have
//          told it what they know, so nobody writes into a block that has gone.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes: 97.7, 97.8 and 97.5 % in FP32 at N = 8192,
//          32768 and 131072 (rung 5: 97.5 and 96.7 %).
// Chain    of additions in a thread: 32; then a warp's, then at most 4 pairs, then a warp's.
// Sizes    N up to 131072. Rows that do not begin on 16 bytes go element by element.
#include "../common/async_copy.cuh"
#include "../common/bulk_copy.cuh"
#include "../common/cluster.cuh"
#include "tally.cuh"

constexpr int kEach = 32;
constexpr int kThreads = 512;
constexpr int kPart = kEach * kThreads;  // of a row, the most that a block holds
constexpr int kMostBlocks = 8;           // of a cluster that every device can place

template <int kWidth>
__global__ void __launch_bounds__(kThreads, 2)
    cluster_row(const Element *__restrict__ x, Element *__restrict__ y, int64_t N, int part) {
    constexpr int kVectors = kEach / kWidth;
    using Vector = ladder::Pack<Element, kWidth>;
    __shared__ Tally pairs[kMostBlocks * kThreads / 32];
    __shared__ uint64_t told;
    const unsigned rank = ladder::cluster_rank(), blocks = ladder::cluster_blocks();
    const unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const uint32_t told_at = ladder::shared_address(&told), pairs_at = ladder::shared_address(pairs);
    if (threadIdx.x == 0) {
        ladder::barrier_init(told_at, 1);
        ladder::fence_barriers();
        ladder::arrive_expecting_alone(told_at, blocks * warps * sizeof(Tally));
    }
    ladder::cluster_arrive();  // this block has started, and may be told
    const int64_t row = blockIdx.x / blocks, begin = static_cast<int64_t>(rank) * part;
    const Element *from = x + row * N + begin;
    Element *to = y + row * N + begin;
    const int columns = static_cast<int>(N - begin < part ? N - begin : part);  // negative behind the row's end
    const int step = blockDim.x * kWidth, first = threadIdx.x * kWidth;

    typename Vector::Bits bits[kVectors];
    ladder::load_row<Element, kWidth>(bits, from, columns, first, step, -ladder::kInfinity);  // e^-inf is 0
    ladder::cluster_wait();                                                                   // all have

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

    // Lane r tells block r. All blocks merge all pairs in the same order: they agree to the last bit.
    if (lane < blocks) {
        const uint32_t pair_at = pairs_at + (rank * warps + threadIdx.x / 32) * sizeof(Tally);
        ladder::send(ladder::remote_address(pair_at, lane), make_float2(own.largest, own.sum),
                     ladder::remote_address(told_at, lane));
    }
    ladder::wait_phase(told_at, 0);
    Tally all = {-ladder::kInfinity, 0.0f};
    for (unsigned i = lane; i < blocks * warps; i += 32) all = merge(all, pairs[i]);
    const float scale = factor(own.largest, warp_merge(all));

    ladder::store_scaled<Element, kWidth>(to, values, scale, columns, first, step);
}

template <int kWidth>
cudaError_t start(const Args *args, cudaStream_t stream) {
    unsigned blocks = 2;
    while (static_cast<int64_t>(blocks) * kPart < args->N) blocks *= 2;
    const int64_t vectors = args->N / kWidth;
    const int64_t part = (vectors + blocks - 1) / blocks * kWidth;
    return ladder::launch_clusters(cluster_row<kWidth>, static_cast<unsigned>(args->T) * blocks,
                                   ladder::threads_for(part, kEach), blocks, 0, stream, args->x, args->y, args->N,
                                   static_cast<int>(part));
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    if (args->T > INT32_MAX / kMostBlocks || args->N > kPart * kMostBlocks) return cudaErrorInvalidValue;
    return ladder::rows_aligned(args->x, args->y, args->N) ? start<ladder::kVector<Element>>(args, stream)
                                                           : start<1>(args, stream);
}
