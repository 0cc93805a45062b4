// Rung 2: the same tree, halves instead of neighbours.
//
// Idea     In each round the first half of the threads takes what the second half holds: thread t adds the element t +
//          distance, with the distance halved from 512 down.
// Changed  against the rung before: which threads work. The active ones are neighbours, so that whole warps work or
//          rest, and only the last five rounds have warps with idle lanes; no remainder is computed; and the lanes of a
//          warp read neighbouring words of shared memory.
// Tile     1024 threads and elements a block, as before.
// Shows    fewer instructions, more threads in each: 16 + 8 + 4 + 2 + 1 warps add, then one for each of 5 rounds, 36
//          instead of 191. What is left: ten barriers for each element that a thread loads, and one load in flight.
// Card     Measured on one H200, cold L2, 2026-11-30: 4 GiB in 6.69 ms, 0.64 TB/s, 13.9 % of only reading them.
// Order    fixed: the result is the same in every run.
// Sizes    one row (M = 1) of any length.
#include "tree.cuh"

namespace {

constexpr int kThreads = 1024;

__global__ void __launch_bounds__(kThreads)
    sequential(const float *__restrict__ x, float *__restrict__ partials, int64_t count) {
    __shared__ float s[kThreads];
    const unsigned t = threadIdx.x;
    const int64_t i = int64_t(blockIdx.x) * kThreads + t;
    s[t] = i < count ? x[i] : ladder::Op::identity();
    __syncthreads();
#pragma unroll 1
    for (unsigned distance = kThreads / 2; distance > 0; distance /= 2) {
        if (t < distance) s[t] = ladder::Op::apply(s[t], s[t + distance]);
        __syncthreads();
    }
    if (t == 0) partials[blockIdx.x] = s[0];
}

}  // namespace

extern "C" size_t workspace_bytes(const Args *args) { return sizeof(float) * ladder::pieces_of(args->N, kThreads); }

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    return ladder::launch_tree(sequential, args, kThreads, kThreads, stream);
}
