// Rung 6: a warp a row. No barrier, no shared memory.
//
// Changed  against the rung before: at N = 1024 a block of one warp's work still pays for a launch and two barriers a
//          row. Here eight warps of a block take eight rows; the reductions are shuffles alone, and a warp that waits
//          for memory holds up nobody.
// Tile     8 rows a block of 256 threads, 32 elements a lane: 8 vectors of FP32, or 4 of BF16. 64 registers a thread:
//          32 warps a multiprocessor, 32 * 4 KiB = 128 KiB of reads in flight.
// Card     One H200, cold L2, 2026-11-30, share of a copy of the same bytes: 98.0 % in FP32 at N = 1024, where rung 5, a
//          block of one warp a row, has 100.0 %: with eight rows a block the next eight wait for the slowest.
// Chain    of additions in a lane: 32.
// Sizes    N up to 1024. Rows that do not begin on 16 bytes go element by element.
#include "tally.cuh"

constexpr int kEach = 32;
constexpr int kThreads = 256;
constexpr int kRows = kThreads / 32;

template <int kWidth>
__global__ void __launch_bounds__(kThreads, 4)
    warp_row(const Element *__restrict__ x, Element *__restrict__ y, int64_t T, int64_t N) {
    constexpr int kVectors = kEach / kWidth;
    using Vector = ladder::Pack<Element, kWidth>;
    const int64_t row = blockIdx.x * static_cast<int64_t>(kRows) + threadIdx.x / 32;
    if (row >= T) return;  // the whole warp
    const Element *from = x + row * N;
    Element *to = y + row * N;
    const int columns = static_cast<int>(N), first = threadIdx.x % 32 * kWidth;
    constexpr int kStep = 32 * kWidth;

    typename Vector::Bits bits[kVectors];
    ladder::load_row<Element, kWidth>(bits, from, columns, first, kStep, -ladder::kInfinity);  // e^-inf is 0
    float values[kVectors][kWidth];
    float largest = -ladder::kInfinity;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        Vector::unpack(bits[v], values[v]);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) largest = fmaxf(largest, values[v][i]);
    }
    largest = ladder::warp_reduce<ladder::Max>(largest);

    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            values[v][i] = exp_of(values[v][i] - largest);
            sum += values[v][i];
        }
    }
    const float scale = 1.0f / ladder::warp_reduce<ladder::Sum>(sum);

    ladder::store_scaled<Element, kWidth>(to, values, scale, columns, first, kStep);
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    const int64_t blocks = (args->T + kRows - 1) / kRows;
    if (blocks > INT32_MAX || args->N > 32 * kEach) return cudaErrorInvalidValue;
    const unsigned grid = static_cast<unsigned>(blocks);
    if (ladder::rows_aligned(args->x, args->y, args->N))
        warp_row<ladder::kVector<Element>><<<grid, kThreads, 0, stream>>>(args->x, args->y, args->T, args->N);
    else
        warp_row<1><<<grid, kThreads, 0, stream>>>(args->x, args->y, args->T, args->N);
    return cudaGetLastError();
}
