// Source of the captured listings in ptxas/, sass/ and cuobjdump/ (CUDA 13.0.88, cuobjdump 13.5.37):
//   nvcc -std=c++17 -O3 -lineinfo -Xptxas -v -cubin ... for sm_90a and sm_80, as one shared library.
#include <cstdint>

#include <cuda_runtime.h>

template <int BM, int BN> __global__ void __launch_bounds__(256, 2) tile(float *C) {
    __shared__ float s[BM];
    s[threadIdx.x % BM] = C[threadIdx.x];
    __syncthreads();
    C[blockIdx.x] = s[BN % BM];
}
template __global__ void tile<64, 128>(float *);
template __global__ void tile<128, 64>(float *);

// A local array indexed at run time: a stack frame without a spill.
__global__ void local_array(float *out, const int *index) {
    float a[16] = {};
#pragma unroll 1
    for (int i = 0; i < 100; ++i) a[index[i] & 15] += out[i];
    for (int i = 0; i < 16; ++i) out[i] = a[i];
}

namespace {
__global__ void __maxnreg__(24) spills(const float4 *in, float4 *out) {
    float4 v[6];
    for (int i = 0; i < 6; ++i) v[i] = in[threadIdx.x + i * 256];
    __syncthreads();
    for (int i = 0; i < 6; ++i) out[threadIdx.x + i * 256] = v[5 - i];
}
}  // namespace

__global__ void asynchronous(const float4 *in, float *out) {
    extern __shared__ float4 s[];
    const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(&s[threadIdx.x]));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + threadIdx.x));
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 1].y;
}

extern "C" __attribute__((visibility("default"))) cudaError_t launch(const float *a, float *c, cudaStream_t stream) {
    spills<<<1, 256, 0, stream>>>(reinterpret_cast<const float4 *>(a), reinterpret_cast<float4 *>(c));
    return cudaGetLastError();
}
