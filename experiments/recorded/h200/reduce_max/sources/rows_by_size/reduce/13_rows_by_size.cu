// Rows, rung 4: whoever fits the matrix.
//
// Changed  against the rungs before: nothing but the choice, made by the host from M and N.
// Table    N to WARP_MOST                                 a warp a row, 4 rows a block
//          fewer than FEW rows for each multiprocessor    a cluster of 4 blocks a row
//          else                                           a block a row
//          Defaults 2 and 4096. 64 rows of 4194304: a block a row leaves half of the multiprocessors without one.
//          1048576 rows of 256: a block has 8192 elements in flight and finds 256. Where between them a block overtakes a
//          warp was not measured.
// Order    fixed: the result is the same in every run.
// Sizes    any M and N >= 1 of which the choice has blocks enough: M up to 2^31 - 1 where N > WARP_MOST. Compute
//          capability 9.0 or later.
#include "row_kernels.cuh"

#ifndef WARP_MOST
#define WARP_MOST 4096
#endif
#ifndef FEW
#define FEW 2
#endif

namespace {

int multiprocessors() {
    int device = 0, count = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->N <= WARP_MOST) return ladder::launch_warp_rows<128, 4, 10>(args, stream);
    if (args->M < int64_t(FEW) * multiprocessors()) return ladder::launch_cluster_rows<256, 8, 4, 4>(args, stream);
    return ladder::launch_block_rows<256, 8, 4>(args, stream);
}
