// Rung 6: one atomic a block instead of a second stage.
//
// Idea     The second launch of rung 5 starts a kernel for a few hundred numbers. Let each block add its result to y
//          itself.
// Changed  against the rung before: the end. An atomic a block, and no second kernel; but y must hold the operation's
//          starting value before, which is this launch's own work: a 4-byte fill of y, counted in its time.
// Tile     as in rung 5; or, with TILES, more blocks than the card holds, which then share out what is uneven.
// Shows    time down by the second launch less the fill; atomics in L2, one a block.
// Card     Measured on one H200, cold L2, 2026-11-30: 4 GiB in 938.5 us, 4.58 TB/s, 99.1 % of only reading them, where
//          CUB took 945.1 and torch 978.8. With TILES 4 and 512 threads 930.8 us, 99.9 %. TILES 1 fails the check: 65536
//          results or more, one after the other into one float.
// Order    NOT fixed for sums: blocks arrive as they please, and FP32 addition is not associative, so that the last
//          bits may differ from run to run. (The maximum is the same in any order.)
// Sizes    one row (M = 1) of any length; the array begins on 16 bytes.
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
#ifndef TILES
#define TILES 0  // of THREADS x LOADS vectors for each block; 0: a grid that fills the card once, whatever comes of it
#endif

namespace {

__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    one_atomic(const float *__restrict__ x, float *__restrict__ y, int64_t count) {
    __shared__ float partial[THREADS / 32];
    const float value = ladder::block_reduce<THREADS>(
        ladder::sweep<THREADS, LOADS>(x, count, threadIdx.x, blockIdx.x, gridDim.x), partial);
    if (threadIdx.x == 0) ladder::Op::atomic(y, value);
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->M != 1 || args->N < 1) return cudaErrorInvalidValue;
    if (!ladder::on_16_bytes(args->x)) return cudaErrorMisalignedAddress;
    const cudaError_t cleared = cudaMemsetAsync(args->y, ladder::Op::kStartByte, sizeof(float), stream);
    if (cleared != cudaSuccess) return cleared;
    const int64_t tiles = args->N / (4 * int64_t(THREADS) * LOADS);
    const int64_t blocks =
        TILES > 0 ? tiles / (TILES > 0 ? TILES : 1) + 1 : ladder::resident_blocks(BLOCKS_PER_SM, tiles);
    if (blocks > INT32_MAX) return cudaErrorInvalidValue;
    one_atomic<<<static_cast<unsigned>(blocks), THREADS, 0, stream>>>(args->x, args->y, args->N);
    return cudaGetLastError();
}
