// How the threads of a block copy a tile of A or B to shared memory by cp.async, where the copy engine does not.
#pragma once
#include "../../common/async_copy.cuh"

namespace ladder {

// What a thread keeps in registers for the rows that it copies; the less it is, the more it computes each time. Offsets
// are kept by the compiler, which computes them before the main loop.
enum Keeps { kAddresses, kOffsets, kNothing };

// Copies kExtent values of m (or n) times kDepth of k, contiguous along k in global memory, to rows of m in shared
// memory, 4 bytes a time: 8 values of k times 4 of m by a warp, so that it reads whole sectors and writes to 32 banks.
template <int kExtent, int kRow, int kDepth, int kThreads, bool kInside, Keeps kKeeps>
struct Transposer {
    static constexpr int kStep = kThreads / 8;  // values of m that the block copies at once
    static constexpr int kRows = kExtent / kStep;
    static constexpr int kCopies = kRows * kDepth / 8;
    static_assert(kExtent % kStep == 0, "whole passes");

    const float *from[kKeeps == kAddresses ? kRows : 1];
    int limit;        // rows of the matrix from this thread's first on
    int depth;        // K minus this thread's k in the tile to be copied next
    uint32_t pitch;   // of the matrix
    uint32_t target;  // of this thread in a tile, in bytes

    __device__ Transposer() : target((threadIdx.x % 8 * kRow + threadIdx.x / 8) * 4) {}

    // Goes to the rows from `first` on, and to k.
    __device__ __forceinline__ void go_to(const float *matrix, int64_t first, int64_t extent, int K, int k) {
        const int64_t rows = extent - first - static_cast<int>(threadIdx.x / 8);
        limit = static_cast<int>(rows < kExtent ? rows : kExtent);
        depth = K - k - static_cast<int>(threadIdx.x % 8);
        pitch = K;
#pragma unroll
        for (int row = 0; row < (kKeeps == kAddresses ? kRows : 1); ++row)
            from[row] = matrix + (first + threadIdx.x / 8 + row * kStep) * K + k + threadIdx.x % 8;
    }

    // The index-th copy. Nothing outside of the matrix is read: zeros are written for it. `wanted` says whether there
    // is such a tile at all.
    __device__ __forceinline__ void copy(uint32_t tile, int index, uint32_t wanted) const {
        const int row = index % kRows, slice = index / kRows * 8;
        const uint32_t to = tile + target + (slice * kRow + row * kStep) * 4;
        const float *at = from[0] + slice;
        if constexpr (kKeeps == kAddresses)
            at = from[row] + slice;
        else
            at += static_cast<int64_t>(row * kStep) * static_cast<int>(kKeeps == kNothing ? kept(pitch) : pitch);
        if constexpr (kInside)
            copy_async_if<4>(to, at, wanted);
        else
            copy_async_or_zero<4>(to, at, row * kStep < limit && slice < depth);
    }

    __device__ __forceinline__ void next_tile() {
#pragma unroll
        for (int row = 0; row < (kKeeps == kAddresses ? kRows : 1); ++row) from[row] += kDepth;
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
    int K, k;

    __device__ __forceinline__ void go_to(const float *matrix_, int64_t first_, int64_t N_, int K_, int k_) {
        matrix = matrix_, first = first_, N = N_, K = K_, k = k_;
    }

    __device__ __forceinline__ void copy(uint32_t tile, int index, uint32_t) const {
        const int row = index / kPerRow * kRows + threadIdx.x / kWidth;
        const int column = index % kPerRow * kThreads + threadIdx.x % kWidth;
        const bool inside = k + row < K && first + column < N;
        copy_async_or_zero<4>(tile + (row * kWidth + column) * 4, matrix + (k + row) * N + first + column, inside);
    }

    __device__ __forceinline__ void next_tile() { k += kDepth; }
};

}  // namespace ladder
