// Rows, rung 3: a cluster of blocks for each row.
//
// Idea     With fewer rows than the card holds blocks, a row must be shared out. The blocks of a cluster run at the
//          same time on neighbouring multiprocessors and can write into one another's shared memory: partial results
//          meet there, without a workspace, an atomic or a second launch.
// Changed  against the rung before: CLUSTER blocks sweep over a row together; each puts its result into the first one's
//          shared memory (DSMEM), and after a barrier of the cluster that one adds them up.
// Tile     4 blocks of 256 threads, 4 x 32 KiB of a row in flight.
// Shows    few long rows as fast as many; with many rows the barrier of a cluster is one more thing to wait for.
// Card     Measured on one H200, cold L2, 2026-11-30: 64 rows of 4194304 in 251.5 us, 93.6 % of only reading them,
//          1.016 x torch; 16384 rows of 16384: 91.8 %; 1048576 rows of 256: 2.3 %. In another run, for the first: 244.5
//          us, 96.5 %, with clusters of 2 94.2 %, of 8 95.1 %, and a block a row of 1024 threads 95.6 %; for the second
//          with clusters of 8 54.2 %.
// Order    fixed: the result is the same in every run.
// Sizes    any M (up to 2^31 / CLUSTER) and N >= 1. Compute capability 9.0 or later.
#include "row_kernels.cuh"

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
#define CLUSTER 4
#endif

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    return ladder::launch_cluster_rows<THREADS, LOADS, BLOCKS_PER_SM, CLUSTER>(args, stream);
}
