// How the threads of a block copy a tile of A or B to shared memory by cp.async, where the copy engine does not.
#pragma once
#include "../../common/async_copy.cuh"

namespace ladder {

// Copies kExtent values of m (or n) times kDepth of k, contiguous along k in global memory, to rows of m in shared
// memory, 4 bytes a time: 8 values of k times 4 of m by a warp, so that it reads whole sectors and writes to 32 banks.
template <int kExtent, int kRow, int kDepth, int kThreads, bool kInside>
struct Transposer {
    static constexpr int kStep = kThreads / 8;  // values of m that the block copies at once
    static constexpr int kRows = kExtent / kStep;
    static constexpr int kCopies = kRows * kDepth / 8;
    static_assert(kExtent % kStep == 0, "whole passes");

    const float *from[kRows];
    int64_t limit;    // rows of the matrix from this thread's first on
    int depth;        // K minus this thread's k in the tile to be copied next
    uint32_t target;  // of this thread in a tile, in bytes

    __device__ Transposer(const float *matrix, int64_t first, int64_t extent, int K)
        : limit(extent - first - threadIdx.x / 8),
          depth(K - static_cast<int>(threadIdx.x % 8)),
          target((threadIdx.x % 8 * kRow + threadIdx.x / 8) * 4) {
#pragma unroll
        for (int row = 0; row < kRows; ++row)
            from[row] = matrix + (first + threadIdx.x / 8 + row * kStep) * K + threadIdx.x % 8;
    }

    // The index-th copy. Nothing outside of the matrix is read: zeros are written for it. `wanted` says whether there
    // is such a tile at all.
    __device__ __forceinline__ void copy(uint32_t tile, int index, uint32_t wanted) const {
        const int row = index % kRows, slice = index / kRows * 8;
        const uint32_t to = tile + target + (slice * kRow + row * kStep) * 4;
        if constexpr (kInside)
            copy_async_if<4>(to, from[row] + slice, wanted);
        else
            copy_async_or_zero<4>(to, from[row] + slice, row * kStep < limit && slice < depth);
    }

    __device__ __forceinline__ void next_tile() {
#pragma unroll
        for (int row = 0; row < kRows; ++row) from[row] += kDepth;
        depth -= kDepth;
    }
};

// Copies kDepth rows of B in nn element by element, for sizes that the copy engine does not take.
template <int kWidth, int kDepth, int kThreads>
struct Elements {
    static constexpr int kRows = kThreads < kWidth ? 1 : kThreads / kWidth;    // rows at once
    static constexpr int kPerRow = kThreads < kWidth ? kWidth / kThreads : 1;  // copies of a thread in a row
    static constexpr int kCopies = kDepth / kRows * kPerRow;
    static_assert((kThreads % kWidth == 0 || kWidth % kThreads == 0) && kDepth % kRows == 0, "whole rows");

    const float *matrix;
    int64_t N, first;
    int K, k = 0;

    __device__ Elements(const float *matrix, int64_t first, int64_t N, int K)
        : matrix(matrix), N(N), first(first), K(K) {}

    __device__ __forceinline__ void copy(uint32_t tile, int index, uint32_t) const {
        const int row = index / kPerRow * kRows + threadIdx.x / kWidth;
        const int column = index % kPerRow * kThreads + threadIdx.x % kWidth;
        const bool inside = k + row < K && first + column < N;
        copy_async_or_zero<4>(tile + (row * kWidth + column) * 4, matrix + (k + row) * N + first + column, inside);
    }

    __device__ __forceinline__ void next_tile() { k += kDepth; }
};

}  // namespace ladder
