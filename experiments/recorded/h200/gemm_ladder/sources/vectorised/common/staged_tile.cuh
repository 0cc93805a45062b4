// A tile of one operand on its way through registers: global memory -> registers -> shared memory, 16 bytes a time.
#pragma once
#include <cstdint>

#include "vectors.cuh"

namespace ladder {

// kExtent values of m (or n) times kDepth of k, copied by kThreads threads. In shared memory the tile is K-major: row
// k, kRow words long, holds kExtent values of m, so that a thread reads four of them at one k as one vector.
// kTransposed: in global memory the tile is contiguous along k (A; B in nt), so each vector of four k is stored as
// four words in four rows, and neighbouring lanes take neighbouring vectors, kLanes of them side by side.
// Otherwise (B in nn) it is contiguous along n, and vectors stay vectors.
template <int kExtent, int kDepth, int kThreads, int kRow, bool kTransposed, int kLanes, bool kWhole>
class StagedTile {
    static constexpr int kPerRow = kTransposed ? kLanes : kExtent / 4;  // threads side by side along global memory
    static constexpr int kStep = kThreads / kPerRow;                    // rows of global memory in one pass
    static constexpr int kPasses = kExtent * kDepth / 4 / kThreads;
    static constexpr int kDown = kTransposed ? kExtent / kStep : kPasses;  // passes until the next kLanes vectors
    static_assert(kExtent * kDepth % (4 * kThreads) == 0 && kThreads % kPerRow == 0, "whole passes");
    static_assert(!kTransposed || (kExtent % kStep == 0 && kDepth % (4 * kLanes) == 0), "whole passes");

    const float *from_;  // this thread's first vector in the tile to be loaded next
    int64_t stride_;     // elements from one row of global memory to the next
    int64_t limit_;      // rows (kTransposed) or columns of the matrix from this thread's first on
    int minor_, major_;  // this thread's place in a pass: along and across the rows of global memory
    float4 staged_[kPasses];

  public:
    __device__ StagedTile(const float *matrix, int64_t stride, int64_t first, int64_t extent)
        : stride_(stride), minor_(threadIdx.x % kPerRow * 4), major_(threadIdx.x / kPerRow) {
        if constexpr (kTransposed) {
            from_ = matrix + (first + major_) * stride + minor_;
            limit_ = extent - first - major_;
        } else {
            from_ = matrix + major_ * stride + first + minor_;
            limit_ = extent - first - minor_;
        }
    }

    // Starts all loads of the tile and steps to the next one; `left` is K minus the tile's first k.
    __device__ __forceinline__ void load(int64_t left) {
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) {
            const int down = pass % kDown * kStep, along = pass / kDown * kLanes * 4;
            if constexpr (kTransposed)
                staged_[pass] = load4<kWhole>(from_ + down * stride_ + along, down < limit_, left - minor_ - along);
            else
                staged_[pass] = load4<kWhole>(from_ + down * stride_, major_ + down < left, limit_);
        }
        from_ += kTransposed ? kDepth : kDepth * stride_;
    }

    // Waits for the loads and stores the tile.
    __device__ __forceinline__ void store(float *shared) const {
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) {
            const int down = pass % kDown * kStep, along = pass / kDown * kLanes * 4;
            if constexpr (kTransposed) {
                float *to = shared + (minor_ + along) * kRow + major_ + down;
                to[0 * kRow] = staged_[pass].x;
                to[1 * kRow] = staged_[pass].y;
                to[2 * kRow] = staged_[pass].z;
                to[3 * kRow] = staged_[pass].w;
            } else {
                *reinterpret_cast<float4 *>(shared + (major_ + down) * kRow + minor_) = staged_[pass];
            }
        }
    }
};

}  // namespace ladder
