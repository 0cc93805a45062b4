// Rows, rung 3: a cluster of blocks for each row.
//
// Idea     With fewer rows than the card holds blocks, a row must be shared out. The blocks of a cluster run at the
//          same time on neighbouring multiprocessors and can write into one another's shared memory: partial results
//          meet there, without a workspace, an atomic or a second launch.
// Changed  against the rung before: CLUSTER blocks sweep over a row together; each puts its result into the first one's
//          shared memory (DSMEM), and after a barrier of the cluster that one adds them up.
// Tile     8 blocks of 256 threads, 8 x 32 KiB of a row in flight.
// Shows    few long rows as fast as many; with many rows the barrier of a cluster is one more thing to wait for.
// Order    fixed: the result is the same in every run.
// Sizes    any M (up to 2^31 / CLUSTER) and N >= 1. Compute capability 9.0 or later.
#include "hopper.cuh"
#include "op.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef LOADS
#define LOADS 8
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 4
#endif
#ifndef CLUSTER
#define CLUSTER 8
#endif

namespace {

static_assert(CLUSTER <= 8, "larger clusters are not portable");

__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    cluster_row(const float *__restrict__ x, float *__restrict__ y, int64_t N) {
#if __CUDA_ARCH__ >= 900
    __shared__ float partial[THREADS / 32];
    __shared__ float results[CLUSTER];  // of all blocks, in the first one's memory
    ladder::arrive_in_cluster();        // before anybody writes into a block's memory, that block must have begun
    const unsigned rank = ladder::rank_in_cluster();
    const int64_t row = blockIdx.x / CLUSTER;
    const float value = ladder::sweep_row<THREADS, LOADS>(x + row * N, N, threadIdx.x, rank, CLUSTER);
    const float total = ladder::block_reduce<THREADS>(value, partial);
    ladder::wait_for_cluster();
    if (threadIdx.x == 0) ladder::store_in_block(results + rank, 0, total);
    ladder::release_in_cluster();
    ladder::wait_for_cluster();
    if (rank != 0 || threadIdx.x >= 32) return;
    const float all = ladder::warp_reduce(threadIdx.x < CLUSTER ? results[threadIdx.x] : ladder::Op::identity());
    if (threadIdx.x == 0) y[row] = all;
#endif
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->N < 1 || args->M < 1 || args->M > INT32_MAX / CLUSTER) return cudaErrorInvalidValue;
    cudaLaunchAttribute shape = {};
    shape.id = cudaLaunchAttributeClusterDimension;
    shape.val.clusterDim = {CLUSTER, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(args->M * CLUSTER));
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &shape;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, cluster_row, args->x, args->y, args->N);
}
