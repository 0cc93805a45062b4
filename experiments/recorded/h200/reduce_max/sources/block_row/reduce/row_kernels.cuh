// A row's reduction by a warp, a block or a cluster, as templates: the rungs for rows, and the choice among them.
// kLoads 16-byte loads in flight a thread; kBlocks on a multiprocessor.
#pragma once
#include "../common/async_copy.cuh"
#include "../common/cluster.cuh"
#include "op.cuh"

namespace ladder {

template <int kThreads, int kLoads, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    warp_row(const float *__restrict__ x, float *__restrict__ y, int64_t M, int64_t N) {
    const int64_t row = int64_t(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
    if (row >= M) return;  // the whole warp
    const unsigned lane = threadIdx.x % 32;
    const float value = warp_reduce(sweep_row<32, kLoads>(x + row * N, N, lane, 0, 1));
    if (lane == 0) y[row] = value;
}

template <int kThreads, int kLoads, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    block_row(const float *__restrict__ x, float *__restrict__ y, int64_t N) {
    __shared__ float partial[kThreads / 32];
    const int64_t row = blockIdx.x;
    const float value = sweep_row<kThreads, kLoads>(x + row * N, N, threadIdx.x, 0, 1);
    const float total = block_reduce<kThreads>(value, partial);
    if (threadIdx.x == 0) y[row] = total;
}

template <int kThreads, int kLoads, int kBlocks, int kCluster>
__global__ void __launch_bounds__(kThreads, kBlocks)
    cluster_row(const float *__restrict__ x, float *__restrict__ y, int64_t N) {
#if __CUDA_ARCH__ >= 900
    __shared__ float partial[kThreads / 32];
    __shared__ float results[kCluster];  // of all blocks, in the first one's memory
    cluster_arrive();                    // before anybody writes into a block's memory, that block must have begun
    const unsigned rank = cluster_rank();
    const int64_t row = blockIdx.x / kCluster;
    const float value = sweep_row<kThreads, kLoads>(x + row * N, N, threadIdx.x, rank, kCluster);
    const float total = block_reduce<kThreads>(value, partial);
    cluster_wait();
    if (threadIdx.x == 0) store_remote(remote_address(shared_address(results + rank), 0), total);
    cluster_release();
    cluster_wait();
    if (rank != 0 || threadIdx.x >= 32) return;
    const float all = warp_reduce(threadIdx.x < kCluster ? results[threadIdx.x] : Op::identity());
    if (threadIdx.x == 0) y[row] = all;
#endif
}

template <int kThreads, int kLoads, int kBlocks>
cudaError_t launch_warp_rows(const Args *args, cudaStream_t stream) {
    const int64_t blocks = (args->M + kThreads / 32 - 1) / (kThreads / 32);
    if (args->N < 1 || blocks < 1 || blocks > INT32_MAX) return cudaErrorInvalidValue;
    warp_row<kThreads, kLoads, kBlocks>
        <<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(args->x, args->y, args->M, args->N);
    return cudaGetLastError();
}

template <int kThreads, int kLoads, int kBlocks>
cudaError_t launch_block_rows(const Args *args, cudaStream_t stream) {
    if (args->N < 1 || args->M < 1 || args->M > INT32_MAX) return cudaErrorInvalidValue;
    block_row<kThreads, kLoads, kBlocks>
        <<<static_cast<unsigned>(args->M), kThreads, 0, stream>>>(args->x, args->y, args->N);
    return cudaGetLastError();
}

template <int kThreads, int kLoads, int kBlocks, int kCluster>
cudaError_t launch_cluster_rows(const Args *args, cudaStream_t stream) {
    static_assert(kCluster <= 8, "larger clusters are not portable");
    if (args->N < 1 || args->M < 1 || args->M > INT32_MAX / kCluster) return cudaErrorInvalidValue;
    return launch_clusters(cluster_row<kThreads, kLoads, kBlocks, kCluster>, static_cast<unsigned>(args->M * kCluster),
                           kThreads, kCluster, 0, stream, args->x, args->y, args->N);
}

}  // namespace ladder
