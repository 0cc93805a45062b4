// LayerNorm and RMSNorm with blocks that stay: each takes row after row, while the TMA unit fetches the next ones.
//
// A ring of stages in shared memory holds a block's part of the coming rows. One thread starts a bulk copy for each
// stage: the next stages - 1 rows are on their way while row i is reduced and written, so that memory never waits
// for a barrier. A thread owns the same 16 columns of every row: their weights stay in its registers, and are read
// once a block instead of once a row. Rows longer than a block holds are shared by a cluster, which exchanges
// moments as vector_rows does.
//
// One exchange a row, at which all wait for all. Behind that of row i + 1 everybody in the block has written row i,
// so its stage may be filled again. The parts lie in two buffers by turns: who tells the others of row i + 2 has
// heard from all of row i + 1, which they tell after having read those of row i.
#pragma once
#include <new>

#include "vector_rows.cuh"

namespace ladder {

constexpr int kOwned = 16;  // elements of each row that a thread owns
constexpr int kMostStages = 8;

// Two shapes: two blocks of 512 threads a multiprocessor, so that one reduces while the other writes; or one of 1024
// where a part is longer than 8192. Both leave 64 registers a thread. A ring and the parts fill half, or all, of
// shared memory.
struct Half {
    static constexpr int kThreads = 512, kBlocks = 2, kRing = 106 * 1024;
};
struct Full {
    static constexpr int kThreads = 1024, kBlocks = 1, kRing = 212 * 1024;
};
template <class Shape>
constexpr int kPartMost = Shape::kThreads * kOwned;

template <class Element, bool kCentred, class Shape, bool kClustered>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    persistent_rows(const Element *__restrict__ x, const Element *__restrict__ w, const Element *__restrict__ b,
                    Element *__restrict__ y, int64_t T, int64_t N, int part, int stages, float eps) {
    constexpr int kWidth = kVector<Element>, kVectors = kOwned / kWidth, kStep = Shape::kThreads * kWidth;
    constexpr unsigned kWarps = Shape::kThreads / 32;
    using Vector = Pack<Element, kWidth>;
    extern __shared__ __align__(128) unsigned char ring[];
    __shared__ uint64_t landed[kMostStages], told[2];
    __shared__ Moments parts[2][kClustered ? kPortableBlocks * kWarps : kWarps];

    const unsigned rank = kClustered ? cluster_rank() : 0, blocks = kClustered ? cluster_blocks() : 1;
    const int64_t begin = static_cast<int64_t>(rank) * part;
    const int columns = static_cast<int>(N - begin < part ? N - begin : part);  // not positive behind the row's end
    const int first = threadIdx.x * kWidth;
    const uint32_t stage_bytes = part * static_cast<int>(sizeof(Element));
    const uint32_t ring_at = shared_address(ring), landed_at = shared_address(landed);
    const uint32_t told_at = shared_address(told);
    const int rows = static_cast<int>(T), apart = gridDim.x / blocks;  // rows in all; from one row to the next here
    const int64_t stride = apart * N;
    int row = blockIdx.x / blocks;

    const bool leader = threadIdx.x == 0 && columns > 0;
    const Element *next = x + row * N + begin;    // what will be fetched next
    int left = (rows - row + apart - 1) / apart;  // rows that are not yet fetched
    const auto fetch = [&](int stage) {
        if (leader && left > 0) {
            const uint32_t bytes = columns * static_cast<uint32_t>(sizeof(Element));
            arrive_expecting_alone(landed_at + 8 * stage, bytes);
            bulk_copy(ring_at + stage * stage_bytes, next, bytes, landed_at + 8 * stage);
            next += stride;
            --left;
        }
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < kMostStages; ++stage) barrier_init(landed_at + 8 * stage, 1);
        barrier_init(told_at, 1);
        barrier_init(told_at + 8, 1);
        fence_barriers();
    }
    if constexpr (kClustered) cluster_arrive();  // this block has started, and may be told
    __syncthreads();
    for (int stage = 0; stage < stages; ++stage) fetch(stage);

    typename Vector::Bits weight[kVectors], bias[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        weight[v] = bias[v] = Vector::fill(0.0f);
        if (first + v * kStep < columns) {
            weight[v] = *reinterpret_cast<const typename Vector::Bits *>(w + begin + first + v * kStep);
            if (kCentred) bias[v] = *reinterpret_cast<const typename Vector::Bits *>(b + begin + first + v * kStep);
        }
    }
    if constexpr (kClustered) cluster_wait();  // all have

    Element *to = y + row * N + begin + first;
    int stage = 0, before = -1;
    int turn = 0;  // bit 0: which parts and mbarrier; bit 1: its phase's parity
    uint32_t parity = 0;
    for (; row < rows; row += apart) {
        if (columns > 0) wait_phase(landed_at + 8 * stage, parity);
        const Element *staged = reinterpret_cast<const Element *>(ring + stage * stage_bytes) + first;
        // The vector as floats, read from shared memory again each time: beside two of weights there is no room for
        // it.
        const auto read = [&](int v, float (&values)[kWidth]) {
            if (first + v * kStep >= columns) return false;
            Vector::unpack(*reinterpret_cast<const typename Vector::Bits *>(staged + v * kStep), values);
            return true;
        };
        Moments own = {};
        float values[kWidth];
        if constexpr (kCentred) {
            float sum = 0.0f;
#pragma unroll
            for (int v = 0; v < kVectors; ++v) {
                if (!read(v, values)) continue;
#pragma unroll
                for (int i = 0; i < kWidth; ++i) sum += values[i];
            }
            own.count = warp_count<kWidth, kVectors>(columns, first - threadIdx.x % 32 * kWidth, kStep);
            own.mean = warp_reduce<Sum>(sum) / fmaxf(own.count, 1.0f);
            asm volatile("" ::: "memory");  // or the compiler would keep the values
        }
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            if (!read(v, values)) continue;
#pragma unroll
            for (int i = 0; i < kWidth; ++i) own.squares += (values[i] - own.mean) * (values[i] - own.mean);
        }
        own.squares = warp_reduce<Sum>(own.squares);
        Moments all;
        if constexpr (kClustered) {
            if (threadIdx.x == 0) expect_parts(told_at + 8 * (turn & 1), kWarps);
            all = join_cluster<kCentred>(own, parts[turn & 1], kWarps, N, told_at + 8 * (turn & 1), turn >> 1);
        } else {
            all = join_block<kCentred>(own, parts[turn & 1], kWarps, N);
        }
        if (before >= 0) fetch(before);  // everybody has written the row before, and reads its stage no more
        const float inverse = inverse_deviation(all.squares, N, eps);

#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            if (!read(v, values)) continue;
            float scale[kWidth], shift[kWidth];
            Vector::unpack(weight[v], scale);
            Vector::unpack(bias[v], shift);
#pragma unroll
            for (int i = 0; i < kWidth; ++i) {
                values[i] =
                    kCentred ? (values[i] - all.mean) * inverse * scale[i] + shift[i] : values[i] * inverse * scale[i];
            }
            store_once<Element, kWidth>(to + v * kStep, values);
        }
        to += stride;
        turn = (turn + 1) & 3;
        before = stage;
        if (++stage == stages) stage = 0, parity ^= 1;
    }
}

// How persistent_rows is launched: found once for a set of buffers, in `prepare`.
struct PersistentPlan {
    unsigned grid = 0, blocks = 1;  // blocks in all; blocks a row
    int part = 0, stages = 0;
    bool full = false;
};

inline bool persistent_fits(int64_t N) { return N <= static_cast<int64_t>(kPortableBlocks) * kPartMost<Full>; }

template <class Element, bool kCentred, class Shape, bool kClustered>
cudaError_t plan_of(int64_t T, int64_t N, PersistentPlan *plan) {
    const auto kernel = persistent_rows<Element, kCentred, Shape, kClustered>;
    while (static_cast<int64_t>(plan->blocks) * kPartMost<Shape> < N) plan->blocks *= 2;
    constexpr int kWidth = kVector<Element>;
    plan->part = static_cast<int>((N / kWidth + plan->blocks - 1) / plan->blocks * kWidth);
    const int stage_bytes = plan->part * static_cast<int>(sizeof(Element));
    plan->stages = Shape::kRing / stage_bytes < kMostStages ? Shape::kRing / stage_bytes : kMostStages;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kRing);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                     cudaSharedmemCarveoutMaxShared);
    if (error != cudaSuccess) return error;

    int fitting = 0;  // rows that are worked on at the same time
    if constexpr (kClustered) {
        error = active_clusters(&fitting, kernel, plan->blocks * 1024, Shape::kThreads, plan->blocks,
                                plan->stages * stage_bytes);
    } else {
        int device = 0, multiprocessors = 0;
        error = cudaGetDevice(&device);
        if (error == cudaSuccess)
            error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
        if (error == cudaSuccess)
            error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fitting, kernel, Shape::kThreads,
                                                                  plan->stages * stage_bytes);
        fitting *= multiprocessors;
    }
    if (error != cudaSuccess) return error;
    if (fitting < 1) return cudaErrorLaunchOutOfResources;
    plan->grid = static_cast<unsigned>(T < fitting ? T : fitting) * plan->blocks;
    return cudaSuccess;
}

template <class Element, bool kCentred>
cudaError_t plan_persistent(int64_t T, int64_t N, PersistentPlan *plan) {
    if (N <= kPartMost<Half>) return plan_of<Element, kCentred, Half, false>(T, N, plan);
    if (N <= kPartMost<Half> * kPortableBlocks) return plan_of<Element, kCentred, Half, true>(T, N, plan);
    plan->full = true;
    return plan_of<Element, kCentred, Full, true>(T, N, plan);
}

// The plan as an object of its own, for `prepare`; `destroy` deletes it.
template <class Element, bool kCentred>
cudaError_t make_plan(int64_t T, int64_t N, void **plan) {
    *plan = nullptr;
    if (T > INT32_MAX / 2) return cudaErrorInvalidValue;  // rows are counted in 32 bits
    auto *made = new (std::nothrow) PersistentPlan;
    if (made == nullptr) return cudaErrorMemoryAllocation;
    const cudaError_t error = T == 0 || N == 0 ? cudaSuccess : plan_persistent<Element, kCentred>(T, N, made);
    if (error == cudaSuccess)
        *plan = made;
    else
        delete made;
    return error;
}

template <class Element, bool kCentred>
cudaError_t launch_persistent(const PersistentPlan &plan, const Element *x, const Element *w, const Element *b,
                              Element *y, int64_t T, int64_t N, float eps, cudaStream_t stream) {
    const size_t shared = static_cast<size_t>(plan.stages) * plan.part * sizeof(Element);
    if (plan.blocks == 1) {
        persistent_rows<Element, kCentred, Half, false>
            <<<plan.grid, Half::kThreads, shared, stream>>>(x, w, b, y, T, N, plan.part, plan.stages, eps);
        return cudaGetLastError();
    }
    const auto kernel =
        plan.full ? persistent_rows<Element, kCentred, Full, true> : persistent_rows<Element, kCentred, Half, true>;
    const unsigned threads = plan.full ? Full::kThreads : Half::kThreads;
    return launch_clusters(kernel, plan.grid, threads, plan.blocks, shared, stream, x, w, b, y, T, N, plan.part,
                           plan.stages, eps);
}

}  // namespace ladder
