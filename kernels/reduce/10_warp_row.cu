// Rows, rung 1: a warp for each row.
//
// Idea     A row's reduction needs no shared memory and no barrier where one warp does all of it: lanes sweep over the
//          row in 16-byte loads, then five shuffles. Short rows leave most of a block idle; a warp is the smallest
//          unit.
// Tile     THREADS / 32 rows a block; LOADS x 512 bytes of a row in flight a warp. Rows that begin between 16-byte
//          boundaries (N no multiple of 4) peel up to three floats at each end.
// Shows    the best choice where a row has a few hundred elements and there are many rows. On few long rows there are
//          not enough warps to fill the card: next rung.
// Order    fixed: the result is the same in every run.
// Sizes    any M and N >= 1.
#include "op.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef LOADS
#define LOADS 4
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 5
#endif

namespace {

constexpr int64_t kRows = THREADS / 32;

__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    warp_row(const float *__restrict__ x, float *__restrict__ y, int64_t M, int64_t N) {
    const int64_t row = blockIdx.x * kRows + threadIdx.x / 32;
    if (row >= M) return;  // the whole warp
    const unsigned lane = threadIdx.x % 32;
    const float value = ladder::warp_reduce(ladder::sweep_row<32, LOADS>(x + row * N, N, lane, 0, 1));
    if (lane == 0) y[row] = value;
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks = (args->M + kRows - 1) / kRows;
    if (args->N < 1 || blocks < 1 || blocks > INT32_MAX) return cudaErrorInvalidValue;
    warp_row<<<static_cast<unsigned>(blocks), THREADS, 0, stream>>>(args->x, args->y, args->M, args->N);
    return cudaGetLastError();
}
