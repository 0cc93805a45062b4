// Rung 4: one pass, with the row in shared memory, which holds longer rows than registers.
//
// Changed  against the rung before: the row lies in shared memory as floats instead of in registers. A thread's share
//          is no longer fixed when the kernel is compiled: any N that fits, with loops.
// Bytes    One read, one write: the least. Shared memory sees each element five times (written, read for the maximum
//          or not, read, written, read): 5 * 4 B at about 4 elements a cycle is 80 B of the 128 B that it gives in
//          one.
// Tile     4 N bytes a block: N = 8192 takes 32 KiB, seven blocks a multiprocessor; N = 57344 takes 224 KiB, one
//          block. One block alone leaves memory idle while it reduces: from N = 28672 on.
// Chain    of additions in a thread: N / 512, up to 112.
// Sizes    N up to 57344 (224 of the 227 KiB that a block can have).
#include "tally.cuh"

constexpr int kThreads = 512;
constexpr int kMostColumns = 57344;

__global__ void __launch_bounds__(kThreads)
    shared_row(const Element *__restrict__ x, Element *__restrict__ y, int64_t N) {
    extern __shared__ float row[];
    __shared__ float partial[2][32];
    const Element *from = x + blockIdx.x * N;
    Element *to = y + blockIdx.x * N;
    const int columns = static_cast<int>(N);

    float largest = -ladder::kInfinity;
#pragma unroll 8
    for (int i = threadIdx.x; i < columns; i += kThreads) {
        const float value = ladder::to_float(from[i]);
        row[i] = value;  // read again by this thread alone: no barrier
        largest = fmaxf(largest, value);
    }
    largest = ladder::block_reduce<ladder::Max>(largest, partial[0]);

    float sum = 0.0f;
#pragma unroll 8
    for (int i = threadIdx.x; i < columns; i += kThreads) {
        const float value = exp_of(row[i] - largest);
        row[i] = value;
        sum += value;
    }
    const float scale = 1.0f / ladder::block_reduce<ladder::Sum>(sum, partial[1]);

#pragma unroll 8
    for (int i = threadIdx.x; i < columns; i += kThreads) to[i] = ladder::from_float<Element>(row[i] * scale);
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    if (args->T > INT32_MAX || args->N > kMostColumns) return cudaErrorInvalidValue;
    constexpr int kMostBytes = kMostColumns * static_cast<int>(sizeof(float));
    cudaError_t error = cudaFuncSetAttribute(shared_row, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute(shared_row, cudaFuncAttributePreferredSharedMemoryCarveout,
                                     cudaSharedmemCarveoutMaxShared);
    if (error != cudaSuccess) return error;
    const size_t shared = static_cast<size_t>(args->N) * sizeof(float);
    shared_row<<<static_cast<unsigned>(args->T), kThreads, shared, stream>>>(args->x, args->y, args->N);
    return cudaGetLastError();
}
