// A ring of stages in shared memory between one producer and its consumers: tiles of A and B, and two barriers for
// each.
#pragma once
#include "../../common/async_copy.cuh"
#include "../../common/mbarrier.cuh"
#include "operands.cuh"

namespace ladder {

// filled: the copies of a stage have landed (1 arrival, of the producer, and the bytes that it announces).
// freed: its readers are done with it. What wgmma reads, a warp has read only when that warp has waited for its
// products, so each consumer warp arrives: one lane of it, at the barrier of each producer that writes into its stages.
template <int kStages, int kRowsA, int kRowsB>
struct Ring {
    static constexpr int kBytesA = tile_bytes(kRowsA), kBytesB = tile_bytes(kRowsB);
    static constexpr int kStageBytes = kBytesA + kBytesB;
    static constexpr int kBarrierBytes = 2 * 8 * kStages;
    static constexpr int kBytes = kStages * kStageBytes;  // the barriers come where the kernel puts them
    static_assert(kBytesA % kSwizzlePattern == 0 && kBytesB % kSwizzlePattern == 0, "tiles begin with the pattern");

    using Place = RingPlace<kStages>;
    static constexpr uint64_t kStageStep = kStageBytes / 16;  // in a descriptor

    uint32_t tiles, barriers;  // addresses

    __device__ __forceinline__ uint32_t tile_a(uint32_t stage) const { return tiles + stage * kStageBytes; }
    __device__ __forceinline__ uint32_t tile_b(uint32_t stage) const { return tile_a(stage) + kBytesA; }
    __device__ __forceinline__ uint32_t filled(uint32_t stage) const { return barriers + stage * 8; }
    __device__ __forceinline__ uint32_t freed(uint32_t stage) const { return barriers + (kStages + stage) * 8; }

    // By one thread; publish_barriers is in it, a barrier of all threads must follow.
    __device__ __forceinline__ void init(uint32_t arrivals_to_free) const {
#pragma unroll
        for (int stage = 0; stage < kStages; ++stage) {
            barrier_init(filled(stage), 1);
            barrier_init(freed(stage), arrivals_to_free);
        }
        publish_barriers();
    }
};

// The products of one warpgroup over one stage: d (64 x N) += A B^T; the descriptors are those of the tile's first k.
template <int kCount>
__device__ __forceinline__ void multiply_stage(float (&d)[kCount], uint64_t a, uint64_t b, bool add) {
#pragma unroll
    for (int step = 0; step < kStepsK; ++step)
        Multiply::multiply(d, a + step * kStepAlongK, b + step * kStepAlongK, add || step > 0);
}

}  // namespace ladder
