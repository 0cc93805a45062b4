// Rung 1: the formula as it is written. Three passes over the row: its maximum, the sum, the quotients.
//
// Idea     y = e^(x - m) / sum of e^(x - m), with m the row's largest value, so that nothing overflows. A block
//          takes a row; its threads stride over it, which makes every access of a warp contiguous.
// Bytes    Three reads and a write where one of each would do: 2.0 times the least. The second and third read find
//          the row in L1 or L2 if it is short: at N = 8192, FP32, eight blocks of 32 KiB fill the L1 of a
//          multiprocessor.
// Limit    each pass ends in a reduction at which all wait, with nothing in flight, and a thread has as many 4-byte
//          loads in flight as the compiler unrolls.
// Chain    of additions in a thread: N / 256.
// Sizes    any.
#include "tally.cuh"

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    three_passes(const Element *__restrict__ x, Element *__restrict__ y, int64_t N) {
    __shared__ float partial[2][32];
    const Element *from = x + blockIdx.x * N;
    Element *to = y + blockIdx.x * N;

    float largest = -ladder::kInfinity;
    for (int64_t i = threadIdx.x; i < N; i += kThreads) largest = fmaxf(largest, ladder::to_float(from[i]));
    largest = ladder::block_reduce<ladder::Max>(largest, partial[0]);

    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < N; i += kThreads) sum += exp_of(ladder::to_float(from[i]) - largest);
    const float scale = 1.0f / ladder::block_reduce<ladder::Sum>(sum, partial[1]);

    for (int64_t i = threadIdx.x; i < N; i += kThreads) {
        to[i] = ladder::from_float<Element>(exp_of(ladder::to_float(from[i]) - largest) * scale);
    }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    if (args->T > INT32_MAX) return cudaErrorInvalidValue;
    three_passes<<<static_cast<unsigned>(args->T), kThreads, 0, stream>>>(args->x, args->y, args->N);
    return cudaGetLastError();
}
