// The choice by the length of a row: a warp or a block (vector_rows), clusters that stay (resident_rows), or, for what these
// cannot hold and for rows that no vector fits, clusters that end with their rows (vector_rows); all in registers.
//
// Blocks that stay and move a row through shared memory (persistent_rows) have no place in it. They wait for shared memory,
// which they read three times a row, and the rows that each was dealt in advance end at different times.
#pragma once
#include <new>

#include "resident_rows.cuh"

#ifndef WARP_MOST
#define WARP_MOST 1024
#endif
#ifndef BLOCK_MOST
#define BLOCK_MOST 16384
#endif

namespace ladder {

static_assert(WARP_MOST <= kWarpColumns && BLOCK_MOST <= kBlockColumns, "more than registers hold");

constexpr int kHalfThreads = kMostThreads / 2;  // two blocks a multiprocessor: one loads while another reduces

struct SizePlan {
    RowShape shape;         // of a cluster that ends with its row; no blocks: a warp or a block takes a row
    ResidentPlan resident;  // without clusters: not these
};

inline RowShape shape_by_size(int64_t N, int width) {
    if (N <= BLOCK_MOST) return {0, 0, 0};
    // 512 threads a block as long as 8 blocks are enough, then 1024.
    const int64_t part = N <= kPortableBlocks * kHalfThreads * kEach ? kHalfThreads * kEach : kBlockColumns;
    return cluster_shape(N, width, part, kEach, 2);
}

// Whether rows can be accessed in vectors of 16 bytes.
template <class Element>
bool in_vectors(const Element *x, const Element *w, const Element *b, const Element *y, int64_t N) {
    return rows_aligned(x, y, N) && rows_aligned(w, b, N);
}

template <class Element, bool kCentred>
cudaError_t prepare_by_size(const Element *x, const Element *w, const Element *b, const Element *y, int64_t N,
                            void **plan) {
    auto *made = new (std::nothrow) SizePlan;
    if (made == nullptr) return cudaErrorMemoryAllocation;
    const bool vectors = in_vectors(x, w, b, y, N);
    made->shape = shape_by_size(N, vectors ? kVector<Element> : 1);
    *plan = made;
    return vectors && made->shape.blocks > 0 ? prepare_resident<Element, kCentred>(N, &made->resident) : cudaSuccess;
}

inline void destroy_by_size(void *plan) {
    auto *made = static_cast<SizePlan *>(plan);
    if (made != nullptr) cudaFree(made->resident.dealt);
    delete made;
}

template <class Element, bool kCentred, int kWidth>
cudaError_t launch_planned(const SizePlan &plan, const Element *x, const Element *w, const Element *b, Element *y,
                           int64_t T, int64_t N, float eps, cudaStream_t stream) {
    if (N <= WARP_MOST) return launch_vector_rows<Element, kCentred, kWidth, kWarp>(x, w, b, y, T, N, eps, stream);
    if (plan.shape.blocks == 0)
        return launch_vector_rows<Element, kCentred, kWidth, kBlock>(x, w, b, y, T, N, eps, stream);
    if constexpr (kWidth > 1) {
        if (plan.resident.clusters > 0)
            return launch_resident<Element, kCentred>(plan.resident, x, w, b, y, T, N, eps, stream);
    }
    return launch_cluster_rows<Element, kCentred, kWidth>(plan.shape, x, w, b, y, T, N, eps, stream);
}

template <class Element, bool kCentred>
cudaError_t launch_by_size(const SizePlan &plan, const Element *x, const Element *w, const Element *b, Element *y,
                           int64_t T, int64_t N, float eps, cudaStream_t stream) {
    if (T == 0 || N == 0) return cudaSuccess;
    if (in_vectors(x, w, b, y, N))
        return launch_planned<Element, kCentred, kVector<Element>>(plan, x, w, b, y, T, N, eps, stream);
    return launch_planned<Element, kCentred, 1>(plan, x, w, b, y, T, N, eps, stream);
}

}  // namespace ladder
