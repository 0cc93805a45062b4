// Rows, rung 1: a warp for each row.
//
// Idea     A row's reduction needs no shared memory and no barrier where one warp does all of it: lanes sweep over the
//          row in 16-byte loads, then five shuffles. Short rows leave most of a block idle; a warp is the smallest
//          unit.
// Tile     THREADS / 32 rows a block; LOADS x 512 bytes of a row in flight a warp. Rows that begin between 16-byte
//          boundaries (N no multiple of 4) peel up to three floats at each end.
// Shows    the best choice where a row has a few hundred elements and there are many rows. On few long rows there are
//          not enough warps to fill the card: next rung.
// Card     Measured on one H200, cold L2, 2026-11-30: 1048576 rows of 256 in 242.0 us, 97.6 % of only reading them,
//          1.36 x torch; 16384 rows of 16384: 94.8 %; 64 rows of 4194304: 6.9 %. In another run, for the first: 98.0 %;
//          5 blocks of 256 threads 94.5 %, 4 of them with 8 loads 78.9 %.
// Order    fixed: the result is the same in every run.
// Sizes    any M and N >= 1.
#include "row_kernels.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef LOADS
#define LOADS 4
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 10
#endif

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    return ladder::launch_warp_rows<THREADS, LOADS, BLOCKS_PER_SM>(args, stream);
}
