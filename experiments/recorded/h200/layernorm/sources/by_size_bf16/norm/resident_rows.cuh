// LayerNorm and RMSNorm of long rows by clusters that stay: the weights in shared memory, the row in registers, and the next
// row on its way while this one is written.
//
// A block keeps its part of w and b in shared memory for as long as it lives, so that they cross from L2 once, not once a
// row. Its threads are kGroups groups, each with a row of its own (and the same groups in all blocks of the cluster), so
// that one group loads while another reduces; they share the weights, and meet nowhere. As soon as a thread has written a
// vector it loads the next row's into the same registers.
//
// Rows are dealt out on demand: multiprocessors do not get equal shares of memory's rate, and those that were dealt as many
// rows as all others have finished a third before the end. The first warp of a group asks a counter for the row after
// this one, and its answer travels to all blocks with the moments of that warp. Whoever asks last sets the counter back.
//
// One exchange a row. The parts lie in two buffers by turns: who tells the others of row i + 2 has heard from all of row
// i + 1, which they tell after having read those of row i.
#pragma once
#include "vector_rows.cuh"

namespace ladder {

template <int kGroups>
constexpr int kGroupThreads = kMostThreads / kGroups;

// Elements of a row that a thread holds: 128 bytes, eight vectors.
template <class Element>
constexpr int kHeld = 128 / static_cast<int>(sizeof(Element));
template <class Element, int kGroups>
constexpr int64_t kHeldPart = static_cast<int64_t>(kGroupThreads<kGroups>) * kHeld<Element>;

// Whether four groups are ever chosen. They take turns more evenly than two, but share out a row over twice as many blocks;
// in BF16 the cluster's exchange then costs more than it brings.
template <class Element>
constexpr bool kInFours = sizeof(Element) == 4;

// Groups a block for rows of N elements; 0: too long for any.
template <class Element>
int groups_for(int64_t N) {
    if (kInFours<Element> && N <= kPortableBlocks * kHeldPart<Element, 4>) return 4;
    return N <= kPortableBlocks * kHeldPart<Element, 2> ? 2 : 0;
}

// Weights from shared memory.
__device__ __forceinline__ void load_held(float4 &v, uint32_t from) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(from));
}
__device__ __forceinline__ void load_held(uint4 &v, uint32_t from) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from));
}

// A block that stays alone on its multiprocessor may use twice the registers of one that shares it: 64 a thread.
template <class Element, bool kCentred, int kGroups>
__global__ void __launch_bounds__(kGroupThreads<kGroups> *kGroups, 1)
    resident_rows(const Element *__restrict__ x, const Element *__restrict__ w, const Element *__restrict__ b,
                  Element *__restrict__ y, unsigned *dealt, int T, int64_t N, int part, float eps) {
    constexpr int kWidth = kVector<Element>, kVectors = kHeld<Element> / kWidth;
    constexpr int kParts = kPortableBlocks * kGroupThreads<kGroups> / 32, kEachLane = (kParts + 31) / 32;
    using Vector = Pack<Element, kWidth>;
    extern __shared__ __align__(128) unsigned char kept_weights[];
    __shared__ Moments parts[kGroups][2][kParts];
    __shared__ uint64_t told[kGroups][2];
    __shared__ uint64_t landed;
    const unsigned threads = blockDim.x / kGroups, group = threadIdx.x / threads, thread = threadIdx.x % threads;
    const unsigned warps = threads / 32, rank = cluster_rank(), blocks = cluster_blocks();
    const uint32_t told_at = shared_address(told), landed_at = shared_address(&landed);
    const int64_t begin = static_cast<int64_t>(rank) * part;
    const int columns = static_cast<int>(N - begin < part ? N - begin : part);  // not positive behind the row's end
    const int step = threads * kWidth, first = thread * kWidth;
    const int workers = gridDim.x / blocks * kGroups;
    int row = blockIdx.x / blocks * kGroups + group;

    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * kGroups; ++i) barrier_init(told_at + 8 * i, 1);
        barrier_init(landed_at, 1);
        fence_barriers();
    }
    cluster_arrive();  // this block has started, and may be told
    typename Vector::Bits bits[kVectors];
    load_row<Element, kWidth>(bits, x + row * N + begin, row < T ? columns : 0, first, step, 0.0f);
    cluster_wait();  // all have
    constexpr uint32_t kSize = sizeof(Element);
    const uint32_t held_at = shared_address(kept_weights), b_apart = part * kSize;
    if (threadIdx.x == 0 && columns > 0) {
        const uint32_t bytes = columns * kSize;
        arrive_expecting_alone(landed_at, kCentred ? 2 * bytes : bytes);
        bulk_copy(held_at, w + begin, bytes, landed_at);
        if constexpr (kCentred) bulk_copy(held_at + b_apart, b + begin, bytes, landed_at);
    }
    const uint32_t mine_at = kept(held_at + first * kSize);

    unsigned turn = 0;  // bit 0: which parts and mbarrier; bit 1: its phase's parity
    while (row < T) {
        unsigned coming = 0;
        if (rank == 0 && thread == 0) {  // min(T, workers) first rows, and the rest: T questions in all
            const unsigned asked = atomicAdd(dealt, 1u);
            if (asked == static_cast<unsigned>(T) - 1) *dealt = 0;
            coming = workers + asked;
        }
        Moments own = warp_moments<kCentred, Element, kWidth>(bits, columns, first, step);
        own.word = __uint_as_float(__shfl_sync(kWholeWarp, coming, 0));
        const uint32_t told_now = told_at + 8 * (2 * group + (turn & 1));
        Moments *heard = parts[group][turn & 1];
        if (thread == 0) expect_parts(told_now, warps);
        tell_cluster(own, heard, warps, thread / 32, told_now);
        wait_phase(told_now, turn >> 1);
        const Moments all = join_parts<kCentred, kEachLane>(heard, blocks * warps, N);
        const int next = static_cast<int>(__float_as_uint(heard[0].word));
        const float inverse = inverse_deviation(all.squares, N, eps);

        if (columns > 0) wait_phase(landed_at, 0);
        Element *to = again(y + row * N + begin + first);
        const Element *from = again(x + next * N + begin + first);
        const int left = again(columns - first);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            if (v * step >= left) continue;
            Weights<Element, kCentred, kWidth, 1> weights;
            load_held(weights.w[0], mine_at + v * step * kSize);
            if constexpr (kCentred) load_held(weights.b[0], mine_at + v * step * kSize + b_apart);
            float values[kWidth];
            Vector::unpack(bits[v], values);
            weights.normalise(0, values, all.mean, inverse);
            store_once<Element, kWidth>(to + v * step, values);
            if (next < T) bits[v] = load_once<Element, kWidth>(from + v * step);
        }
        row = next;
        turn = (turn + 1) & 3;
    }
}

// How resident_rows is launched; `dealt` is its counter, in the device's memory: one launch at a time.
struct ResidentPlan {
    RowShape shape = {0, 0, 0};
    unsigned clusters = 0, groups = 0;
    unsigned *dealt = nullptr;
};

template <class Element, bool kCentred>
size_t resident_bytes(const RowShape &shape) {
    return static_cast<size_t>(shape.part) * sizeof(Element) * (kCentred ? 2 : 1);
}

template <class Element, bool kCentred, int kGroups>
cudaError_t prepare_groups(int64_t N, ResidentPlan *plan) {
    const auto kernel = resident_rows<Element, kCentred, kGroups>;
    constexpr int64_t kPart = kHeldPart<Element, kGroups>;
    RowShape shape = cluster_shape(N, kVector<Element>, kPart, kHeld<Element>, 1);
    const size_t shared = resident_bytes<Element, kCentred>(shape);
    shape.threads *= kGroups;
    constexpr size_t kMost = kPart * sizeof(Element) * (kCentred ? 2 : 1);  // for plans of any N
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(kMost));
    int clusters = 0;
    if (error == cudaSuccess)
        error = active_clusters(&clusters, kernel, shape.blocks, shape.threads, shape.blocks, shared);
    if (error == cudaSuccess && clusters == 0) error = cudaErrorInvalidValue;
    if (error == cudaSuccess) error = cudaMalloc(&plan->dealt, sizeof(unsigned));
    if (error == cudaSuccess) error = cudaMemset(plan->dealt, 0, sizeof(unsigned));
    plan->shape = shape, plan->clusters = static_cast<unsigned>(clusters), plan->groups = kGroups;
    return error;
}

template <class Element, bool kCentred, int kGroups>
cudaError_t launch_groups(const ResidentPlan &plan, const Element *x, const Element *w, const Element *b, Element *y,
                          int64_t T, int64_t N, float eps, cudaStream_t stream) {
    if (T > INT32_MAX / 2) return cudaErrorInvalidValue;  // rows are counted in 32 bits
    const int64_t wanted = (T + kGroups - 1) / kGroups;
    const unsigned clusters = wanted < plan.clusters ? static_cast<unsigned>(wanted) : plan.clusters;
    return launch_clusters(resident_rows<Element, kCentred, kGroups>, clusters * plan.shape.blocks, plan.shape.threads,
                           plan.shape.blocks, resident_bytes<Element, kCentred>(plan.shape), stream, x, w, b, y,
                           plan.dealt, static_cast<int>(T), N, plan.shape.part, eps);
}

template <class Element, bool kCentred>
cudaError_t prepare_resident(int64_t N, ResidentPlan *plan) {
    const int groups = groups_for<Element>(N);
    if constexpr (kInFours<Element>) {
        if (groups == 4) return prepare_groups<Element, kCentred, 4>(N, plan);
    }
    return groups == 2 ? prepare_groups<Element, kCentred, 2>(N, plan) : cudaSuccess;
}

template <class Element, bool kCentred>
cudaError_t launch_resident(const ResidentPlan &plan, const Element *x, const Element *w, const Element *b, Element *y,
                            int64_t T, int64_t N, float eps, cudaStream_t stream) {
    if constexpr (kInFours<Element>) {
        if (plan.groups == 4) return launch_groups<Element, kCentred, 4>(plan, x, w, b, y, T, N, eps, stream);
    }
    return launch_groups<Element, kCentred, 2>(plan, x, w, b, y, T, N, eps, stream);
}

}  // namespace ladder
