// Rung 2: two passes. The sum is kept while the maximum is still being found.
//
// Changed  against the rung before: a thread carries the pair (m, d), its largest value so far and the sum of
//          e^(x - m); when a larger value comes, d is scaled by e^(m - m'). Pairs of threads merge the same way, so
//          that one pass and one reduction give what took two of each (Milakov, Gimelshein, arXiv:1805.02867).
// Bytes    Two reads and a write: 1.5 times the least, 1.0 where the second read hits L1 or L2.
// Costs    two exponentials an element in the first pass; the special-function unit gives 16 a cycle and
//          multiprocessor, memory (at 4.2 TB/s each way together) asks for about 5 elements a cycle: it is not the
//          bound.
// Limit    the loop carries a dependence through an exponential, so that loads are few and far between.
// Chain    of additions and scalings in a thread: N / 256.
// Sizes    any.
#include "tally.cuh"

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) online(const Element *__restrict__ x, Element *__restrict__ y, int64_t N) {
    __shared__ Tally partial[kThreads / 32];
    const Element *from = x + blockIdx.x * N;
    Element *to = y + blockIdx.x * N;

    Tally row = {-ladder::kInfinity, 0.0f};
    for (int64_t i = threadIdx.x; i < N; i += kThreads) row = merge(row, {ladder::to_float(from[i]), 1.0f});
    row = warp_merge(row);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = row;
    __syncthreads();
    const unsigned lane = threadIdx.x % 32;
    row = warp_merge(lane < kThreads / 32 ? partial[lane] : Tally{-ladder::kInfinity, 0.0f});

    const float scale = 1.0f / row.sum;
    for (int64_t i = threadIdx.x; i < N; i += kThreads) {
        to[i] = ladder::from_float<Element>(exp_of(ladder::to_float(from[i]) - row.largest) * scale);
    }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    if (args->T > INT32_MAX) return cudaErrorInvalidValue;
    online<<<static_cast<unsigned>(args->T), kThreads, 0, stream>>>(args->x, args->y, args->N);
    return cudaGetLastError();
}
