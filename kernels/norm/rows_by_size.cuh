// The choice between vector_rows and persistent_rows by the length of a row.
#pragma once
#include "persistent_rows.cuh"

#ifndef WARP_MOST
#define WARP_MOST 1024
#endif
#ifndef BLOCK_MOST
#define BLOCK_MOST 4096
#endif

namespace ladder {

static_assert(WARP_MOST <= kWarpColumns && BLOCK_MOST <= kBlockColumns, "more than registers hold");

// A plan where persistent_rows will be used, and none elsewhere.
template <class Element, bool kCentred>
cudaError_t prepare_by_size(const Element *x, const Element *w, const Element *b, const Element *y, int64_t T,
                            int64_t N, void **plan) {
    *plan = nullptr;
    const bool aligned = rows_aligned(x, y, N) && rows_aligned(w, b, N);
    if (T == 0 || N <= BLOCK_MOST || !aligned || !persistent_fits(N)) return cudaSuccess;
    return make_plan<Element, kCentred>(T, N, plan);
}

template <class Element, bool kCentred, int kWidth>
cudaError_t launch_in_registers(const Element *x, const Element *w, const Element *b, Element *y, int64_t T, int64_t N,
                                float eps, cudaStream_t stream) {
    if (N <= WARP_MOST) return launch_vector_rows<Element, kCentred, kWidth, kWarp>(x, w, b, y, T, N, 0, eps, stream);
    if (N <= BLOCK_MOST) return launch_vector_rows<Element, kCentred, kWidth, kBlock>(x, w, b, y, T, N, 0, eps, stream);
    return launch_vector_rows<Element, kCentred, kWidth, kCluster>(x, w, b, y, T, N, kBlockColumns, eps, stream);
}

template <class Element, bool kCentred>
cudaError_t launch_by_size(const PersistentPlan *plan, const Element *x, const Element *w, const Element *b, Element *y,
                           int64_t T, int64_t N, float eps, cudaStream_t stream) {
    if (T == 0 || N == 0) return cudaSuccess;
    if (plan != nullptr) return launch_persistent<Element, kCentred>(*plan, x, w, b, y, T, N, eps, stream);
    if (rows_aligned(x, y, N) && rows_aligned(w, b, N))
        return launch_in_registers<Element, kCentred, kVector<Element>>(x, w, b, y, T, N, eps, stream);
    return launch_in_registers<Element, kCentred, 1>(x, w, b, y, T, N, eps, stream);
}

}  // namespace ladder
