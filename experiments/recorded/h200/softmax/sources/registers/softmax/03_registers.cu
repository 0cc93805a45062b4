// Rung 3: one pass. The block keeps its row in registers.
//
// Changed  against the rung before: up to 32 elements of the row stay in the registers of each thread from the only
//          read to the write, so the maximum can be found first and the sum after it without reading again, and one
//          exponential an element is enough.
// Bytes    One read, one write: the least.
// Tile     N / 32 threads a block (at most 1024) and 32 elements each: N = 8192 takes 256 threads. 64 registers a
//          thread leave room for 1024 threads a multiprocessor: 1024 * 32 * 4 B = 128 KiB in flight, where about
//          2.1 TB/s * 1 us / 132 = 16 KB of reads are needed to cover a latency of about a microsecond.
// Limit    loads and stores of 4 bytes (2 in bf16): 32 of each a thread, and as many address computations.
// Chain    of additions in a thread: 32.
// Sizes    N up to 32768.
#include "tally.cuh"

constexpr int kEach = 32;  // elements a thread
constexpr int kMostThreads = 1024;

__global__ void __launch_bounds__(kMostThreads)
    registers(const Element *__restrict__ x, Element *__restrict__ y, int64_t N) {
    __shared__ float partial[2][32];
    const Element *from = x + blockIdx.x * N;
    Element *to = y + blockIdx.x * N;
    const int columns = static_cast<int>(N), threads = blockDim.x;

    float values[kEach];
#pragma unroll
    for (int v = 0; v < kEach; ++v) {
        const int column = v * threads + threadIdx.x;
        values[v] = column < columns ? ladder::to_float(from[column]) : -ladder::kInfinity;  // e^-inf is 0
    }
    float largest = -ladder::kInfinity;
#pragma unroll
    for (int v = 0; v < kEach; ++v) largest = fmaxf(largest, values[v]);
    largest = ladder::block_reduce<ladder::Max>(largest, partial[0]);

    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < kEach; ++v) {
        values[v] = exp_of(values[v] - largest);
        sum += values[v];
    }
    const float scale = 1.0f / ladder::block_reduce<ladder::Sum>(sum, partial[1]);

#pragma unroll
    for (int v = 0; v < kEach; ++v) {
        const int column = v * threads + threadIdx.x;
        if (column < columns) to[column] = ladder::from_float<Element>(values[v] * scale);
    }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    if (args->T > INT32_MAX || args->N > kEach * kMostThreads) return cudaErrorInvalidValue;
    const unsigned threads = ladder::threads_for(args->N, kEach);
    registers<<<static_cast<unsigned>(args->T), threads, 0, stream>>>(args->x, args->y, args->N);
    return cudaGetLastError();
}
