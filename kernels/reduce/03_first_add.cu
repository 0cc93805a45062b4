// Rung 3: the first addition happens on the way in.
//
// Idea     Half of the threads of rung 2 never add anything. Let each thread load several elements and reduce them in
//          registers before the tree begins.
// Changed  against the rung before: LOADS elements a thread (1024 apart, so that each load of a warp is 128
//          neighbouring bytes); a block covers LOADS times as much, and there are as many times fewer trees and
//          barriers.
// Tile     1024 threads, LOADS x 1024 elements a block. All loads of a thread are issued before the first is used, so
//          that LOADS x 4 bytes a thread are in flight: with two blocks on a multiprocessor 2048 x 16 = 32 KiB.
// Shows    barriers for each byte down by LOADS; bytes from DRAM up by about as much.
// Card     Measured on one H200, cold L2, 2026-11-30: 4 GiB in 1.96 ms, 2.19 TB/s, 47.4 % of only reading them.
// Order    fixed: the result is the same in every run.
// Sizes    one row (M = 1) of any length.
#include "tree.cuh"

#ifndef LOADS
#define LOADS 4
#endif

namespace {

constexpr int kThreads = 1024;
constexpr int64_t kPiece = int64_t(LOADS) * kThreads;

__global__ void __launch_bounds__(kThreads)
    first_add(const float *__restrict__ x, float *__restrict__ partials, int64_t count) {
    __shared__ float s[kThreads];
    const unsigned t = threadIdx.x;
    const int64_t first = int64_t(blockIdx.x) * kPiece + t;
    float v[LOADS];
#pragma unroll
    for (int j = 0; j < LOADS; ++j)
        v[j] = first + j * kThreads < count ? x[first + j * kThreads] : ladder::Op::identity();
    float value = v[0];
#pragma unroll
    for (int j = 1; j < LOADS; ++j) value = ladder::Op::apply(value, v[j]);
    s[t] = value;
    __syncthreads();
#pragma unroll 1
    for (unsigned distance = kThreads / 2; distance > 0; distance /= 2) {
        if (t < distance) s[t] = ladder::Op::apply(s[t], s[t + distance]);
        __syncthreads();
    }
    if (t == 0) partials[blockIdx.x] = s[0];
}

}  // namespace

extern "C" size_t workspace_bytes(const Args *args) { return sizeof(float) * ladder::pieces_of(args->N, kPiece); }

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    return ladder::launch_tree(first_add, args, kThreads, kPiece, stream);
}
