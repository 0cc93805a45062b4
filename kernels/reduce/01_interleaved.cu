// Rung 1: a tree in shared memory, neighbours first.
//
// Idea     A block reads one element a thread into shared memory. In round r = 0, 1, ... every thread whose number is a
//          multiple of 2^(r+1) takes the element 2^r to its right: log2 of the block's size rounds, a barrier after
//          each.
// Tile     1024 threads and elements a block, one partial result each. A second launch of one block adds the partials.
// Shows    divergence. The active threads are spread over all warps: in round 0 half of the lanes of each of 32 warps,
//          in round 4 one lane of each, from then on one lane of every second warp, and so on. A warp with one active
//          lane takes as long as a full one: 5 x 32 + 31 = 191 warps add, where 36 would do (next rung). See threads
//          per instruction, and the bytes from DRAM beside what it could deliver.
// Card     Measured on one H200, cold L2, 2026-11-30: 4 GiB in 14.59 ms, 0.29 TB/s, 6.4 % of only reading them.
// Order    fixed: the result is the same in every run.
// Sizes    one row (M = 1) of any length.
#include "tree.cuh"

namespace {

constexpr int kThreads = 1024;

__global__ void __launch_bounds__(kThreads)
    interleaved(const float *__restrict__ x, float *__restrict__ partials, int64_t count) {
    __shared__ float s[kThreads];
    const unsigned t = threadIdx.x;
    const int64_t i = int64_t(blockIdx.x) * kThreads + t;
    s[t] = i < count ? x[i] : ladder::Op::identity();
    __syncthreads();
#pragma unroll 1
    for (unsigned distance = 1; distance < kThreads; distance *= 2) {
        if (t % (2 * distance) == 0) s[t] = ladder::Op::apply(s[t], s[t + distance]);
        __syncthreads();
    }
    if (t == 0) partials[blockIdx.x] = s[0];
}

}  // namespace

extern "C" size_t workspace_bytes(const Args *args) { return sizeof(float) * ladder::pieces_of(args->N, kThreads); }

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    return ladder::launch_tree(interleaved, args, kThreads, kThreads, stream);
}
