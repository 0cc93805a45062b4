// Rung 3: mean and variance in one pass, without cancellation.
//
// Changed  against the rung before: one pass finds both. The tempting formula, E[x^2] - E[x]^2, subtracts two large
//          numbers: at a mean of 10^4 and a deviation of 1, FP32 holds the squares in steps of 8, and the variance
//          comes out as 0, 8 or -8. Welford's update (Technometrics 4(3), 1962) carries the mean so far and the sum
//          of squared distances from it, which never cancel:
//              mean' = mean + (x - mean) / n          squares' = squares + (x - mean) (x - mean')
//          Threads join theirs by Chan's formula (norm/moments.cuh).
// Bytes    Two reads, of which the second comes from L1 or L2, and a write.
// Limit    each element waits for the one before it: the update is a chain of dependent operations. 1 / n comes from
//          several instructions, as it is rounded correctly.
// Chain    of updates in a thread: N / 256.
// Sizes    any.
#include "../norm/scalar_rows.cuh"
#include "layernorm.h"

using Element = std::remove_pointer_t<decltype(Args::y)>;
using namespace ladder;

__global__ void __launch_bounds__(kRowThreads)
    welford(const Element *__restrict__ x, const Element *__restrict__ w, const Element *__restrict__ b,
            Element *__restrict__ y, int64_t N, float eps) {
    __shared__ Moments parts[kRowThreads / 32];
    const Element *from = x + blockIdx.x * N;
    Element *to = y + blockIdx.x * N;

    Moments own = {};
    for (int64_t i = threadIdx.x; i < N; i += kRowThreads) {
        const float value = to_float(from[i]), apart = value - own.mean;
        own.count += 1.0f;
        own.mean += apart * __frcp_rn(own.count);
        own.squares += apart * (value - own.mean);
    }
    own = warp_merge<true>(own);
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) parts[warp] = own;
    __syncthreads();
    const Moments row = join_parts<true, 1>(parts, kRowThreads / 32, N);

    const float inverse = inverse_deviation(row.squares, N, eps);
    for (int64_t i = threadIdx.x; i < N; i += kRowThreads) {
        const float normal = (to_float(from[i]) - row.mean) * inverse;
        to[i] = from_float<Element>(normal * to_float(w[i]) + to_float(b[i]));
    }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->T == 0 || args->N == 0) return cudaSuccess;
    if (args->T > INT32_MAX) return cudaErrorInvalidValue;
    welford<<<static_cast<unsigned>(args->T), kRowThreads, 0, stream>>>(args->x, args->w, args->b, args->y, args->N,
                                                                        args->eps);
    return cudaGetLastError();
}
