// Rows, rung 2: a block for each row.
//
// Idea     A long row is enough work for 256 threads, and a few hundred long rows enough for the card.
// Changed  against the rung before: a row is swept over by a whole block, whose warps meet once in shared memory.
// Tile     THREADS x LOADS vectors of a row a step: 256 x 8 x 16 = 32 KiB in flight a block.
// Shows    near the read rate from some thousand elements a row on; on short rows most loads of a block's only step are
//          left out, and its end costs as much as its work. With fewer rows than multiprocessors some of those have
//          nothing to do.
// Card     Measured on one H200, cold L2, 2026-11-30: 16384 rows of 16384 in 235.6 us, 99.8 % of only reading them,
//          1.115 x torch; 64 rows of 4194304: 69.3 %; 1048576 rows of 256: 12.1 %.
// Order    fixed: the result is the same in every run.
// Sizes    any M (up to 2^31 - 1) and N >= 1.
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

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    return ladder::launch_block_rows<THREADS, LOADS, BLOCKS_PER_SM>(args, stream);
}
