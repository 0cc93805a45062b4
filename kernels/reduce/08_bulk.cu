// Rung 8: the copies into shared memory run by themselves.
//
// Idea     A load in flight costs the registers that it will fill, and its thread waits for it. The TMA unit copies
//          many KiB from one instruction of one thread, and an mbarrier counts the bytes as they land: what is in
//          flight is bounded by shared memory alone, and always the same, with no gap between one batch of loads and
//          the next.
// Changed  against rung 7: a ring of STAGES buffers of STAGE_BYTES each, refilled as soon as the block has read one.
// Tile     32 KiB a stage, 6 stages: 192 KiB in flight, one block on a multiprocessor. A thread reads 16 bytes at a
//          time, its neighbours the next 16: no bank is asked twice.
// Shows    UBLKCP instead of LDG in SASS; stalls move from long scoreboard to the wait for the mbarrier.
// Card     Measured on one H200, cold L2, 2026-11-30: 4 GiB in 936.0 us, 99.3 % of only reading them, where CUB took
//          945.1; in another run 936.4, with 12 stages of 16 KiB 940.4, with 24 of 8 KiB 946.
// Order    fixed: the result is the same in every run.
// Sizes    one row (M = 1) of any length; the array begins on 16 bytes. Compute capability 9.0 or later.
#include "../common/async_copy.cuh"
#include "../common/bulk_copy.cuh"
#include "last_block.cuh"

#ifndef THREADS
#define THREADS 512
#endif
#ifndef STAGES
#define STAGES 6
#endif
#ifndef STAGE_BYTES
#define STAGE_BYTES 32768
#endif

namespace {

constexpr int kStageFloats = STAGE_BYTES / 4;
constexpr int kReads = STAGE_BYTES / 16 / THREADS;  // 16-byte reads of a thread in one stage
static_assert(kReads * 16 * THREADS == STAGE_BYTES, "a stage is whole rounds of the block");

__global__ void __launch_bounds__(THREADS, 1)
    bulk(const float *__restrict__ x, float *y, float *partials, unsigned *counter, int64_t count) {
#if __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) float4 ring[];
    __shared__ __align__(8) uint64_t full[STAGES];
    __shared__ float partial[THREADS / 32];
    const int64_t stages =
        count / kStageFloats;  // whole ones of the array, of which this block takes every gridDim.x-th
    const int64_t mine = stages > blockIdx.x ? (stages - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
    const auto fill = [&](int64_t n) {  // this block's n-th stage
        const unsigned slot = static_cast<unsigned>(n % STAGES);
        const uint32_t landed = ladder::shared_address(full + slot);
        ladder::arrive_expecting_alone(landed, STAGE_BYTES);
        ladder::bulk_copy(ladder::shared_address(ring + slot * (STAGE_BYTES / 16)),
                          x + (blockIdx.x + n * gridDim.x) * kStageFloats, STAGE_BYTES, landed);
    };
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) ladder::barrier_init(ladder::shared_address(full + i), 1);
        ladder::fence_barriers();
        for (int64_t n = 0; n < STAGES && n < mine; ++n) fill(n);
    }
    __syncthreads();
    ladder::Four sum = ladder::Four::identity();
    unsigned slot = 0, parity = 0;
    for (int64_t n = 0; n < mine; ++n) {
        ladder::wait_phase(ladder::shared_address(full + slot), parity);
        const float4 *stage = ring + slot * (STAGE_BYTES / 16) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < kReads; ++i) sum.take(stage[i * THREADS]);
        __syncthreads();  // everybody has read the stage: it may be overwritten
        if (threadIdx.x == 0 && n + STAGES < mine) fill(n + STAGES);
        if (++slot == STAGES) slot = 0, parity ^= 1;
    }
    const int64_t done = stages * kStageFloats;  // less than a stage is left
    float value = ladder::sweep<THREADS, 1>(x + done, count - done, threadIdx.x, blockIdx.x, gridDim.x);
    value = ladder::Op::apply(value, sum.all());
    ladder::reduce_in_last_block<THREADS>(ladder::block_reduce<THREADS>(value, partial), partial, partials, counter, y);
#endif
}

unsigned blocks_for(int64_t count) { return ladder::resident_blocks(1, count / kStageFloats); }

}  // namespace

extern "C" size_t workspace_bytes(const Args *args) {
    return ladder::kCounterBytes + sizeof(float) * blocks_for(args->N);
}

extern "C" cudaError_t prepare(const Args *args, void **) {
    const cudaError_t allowed =
        cudaFuncSetAttribute(bulk, cudaFuncAttributeMaxDynamicSharedMemorySize, STAGES * STAGE_BYTES);
    return allowed != cudaSuccess ? allowed : ladder::clear_counter(args);
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->M != 1 || args->N < 1) return cudaErrorInvalidValue;
    if (!ladder::on_16_bytes(args->x)) return cudaErrorMisalignedAddress;
    unsigned *counter = static_cast<unsigned *>(args->workspace);
    float *partials = reinterpret_cast<float *>(static_cast<char *>(args->workspace) + ladder::kCounterBytes);
    bulk<<<blocks_for(args->N), THREADS, STAGES * STAGE_BYTES, stream>>>(args->x, args->y, partials, counter, args->N);
    return cudaGetLastError();
}
