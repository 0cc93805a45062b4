// Existing code, as a serving library may hold it: its own host function, and nothing here knows of kernel-ladder.
// The experiment calls it with `call: rmsnorm_quant(x, res, w, y, s, T, H, eps, stream)`.
//
// One block a row, three passes: add and store the residual, norm and largest value, quantise. Each later pass reads the
// row again, from L1 or L2 where it still lies there.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int THREADS = 256;
constexpr float LARGEST = 448.0f;  // of e4m3
constexpr float LEAST_MAXIMUM = 1e-10f;

struct Sum {
    __device__ static float apply(float a, float b) { return a + b; }
};
struct Max {
    __device__ static float apply(float a, float b) { return fmaxf(a, b); }
};

// The reduction of one value a thread over the block, known to all threads.
template <class Op>
__device__ float reduce(float value) {
    __shared__ float partial[THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) {
        value = Op::apply(value, __shfl_xor_sync(0xffffffffu, value, offset));
    }
    __syncthreads();  // the shared array may still be read from the reduction before
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
    for (int warp = 1; warp < THREADS / 32; ++warp) value = Op::apply(value, partial[warp]);
    return value;
}

__global__ void __launch_bounds__(THREADS)
    rmsnorm_quant_kernel(const __nv_bfloat16 *__restrict__ x, __nv_bfloat16 *__restrict__ res,
                         const __nv_bfloat16 *__restrict__ w, __nv_fp8_e4m3 *__restrict__ y, float *__restrict__ s,
                         int64_t columns, float eps) {
    extern __shared__ float row[];  // h before it is rounded: the norm is of the exact sum
    const int64_t first = blockIdx.x * columns;

    float squares = 0.0f;
    for (int64_t i = threadIdx.x; i < columns; i += THREADS) {
        const float h = __bfloat162float(x[first + i]) + __bfloat162float(res[first + i]);
        res[first + i] = __float2bfloat16(h);
        row[i] = h;
        squares += h * h;
    }
    const float scale = rsqrtf(reduce<Sum>(squares) / static_cast<float>(columns) + eps);

    float largest = 0.0f;
    for (int64_t i = threadIdx.x; i < columns; i += THREADS) {
        row[i] *= scale * __bfloat162float(w[i]);
        largest = fmaxf(largest, fabsf(row[i]));
    }
    const float step = fmaxf(reduce<Max>(largest), LEAST_MAXIMUM) / LARGEST;
    if (threadIdx.x == 0) s[blockIdx.x] = step;

    for (int64_t i = threadIdx.x; i < columns; i += THREADS) y[first + i] = __nv_fp8_e4m3(row[i] / step);
}

}  // namespace

cudaError_t rmsnorm_quant(const __nv_bfloat16 *x, __nv_bfloat16 *res, const __nv_bfloat16 *w, __nv_fp8_e4m3 *y,
                          float *s, int64_t rows, int64_t columns, float eps, cudaStream_t stream) {
    const size_t shared = columns * sizeof(float);  // a little of the 48 KiB is taken by the reductions
    if (columns > 12000 || rows > INT32_MAX) return cudaErrorInvalidValue;
    rmsnorm_quant_kernel<<<static_cast<unsigned>(rows), THREADS, shared, stream>>>(x, res, w, y, s, columns, eps);
    return cudaGetLastError();
}
