// A plain tiled product, and the same with one fault planted at a time: what compare_runs must name as the cause.
//
// good        64 x 64 x 16 tile, 256 threads, 4 x 4 sums a thread. B and C move in 16-byte vectors. A is stored
//             transposed, in rows padded by 2 words: a warp stores 16 values of k of 2 rows of A, banks 2 k + row, all
//             different.
// PAD=0       rows of 64 words: the 16 values of k of a row meet in one bank, 16-way conflicts of each store to As.
// NARROW=1    B and C move word by word. A thread owns columns 16 apart, so that accesses stay coalesced and free of
//             bank conflicts: only their width is lost (LDG, STS, LDS and STG of 32 bits for 128).
// EXTRA=n     n bytes of dynamic shared memory that nobody reads: fewer blocks fit on a multiprocessor.
// Registers   -maxrregcount=24 in the experiment: spills (a kernel with __launch_bounds__ would ignore it).
// Sizes       M and N multiples of 64, K of 16; layout nn.
#include "gemm.h"

#ifndef PAD
#define PAD 2
#endif
#ifndef NARROW
#define NARROW 0
#endif
#ifndef EXTRA
#define EXTRA 0
#endif

constexpr int kTile = 64, kDepth = 16, kThreads = 256, kOwn = 4;

__device__ inline int column(int tx, int j) { return NARROW ? tx + 16 * j : 4 * tx + j; }

__global__ void planted(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int N, int K) {
    __shared__ __align__(16) float As[kDepth][kTile + PAD];
    __shared__ __align__(16) float Bs[kDepth][kTile];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const int blocks_n = N / kTile;
    const int64_t row0 = static_cast<int64_t>(blockIdx.x / blocks_n) * kTile;
    const int64_t col0 = static_cast<int64_t>(blockIdx.x % blocks_n) * kTile;

    float sum[kOwn][kOwn] = {};
    for (int k0 = 0; k0 < K; k0 += kDepth) {
#pragma unroll
        for (int i = 0; i < 4; ++i) As[tx][ty + 16 * i] = A[(row0 + ty + 16 * i) * K + k0 + tx];
#if NARROW
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int k = t / 64 + 4 * i;
            Bs[k][t % 64] = B[(k0 + k) * static_cast<int64_t>(N) + col0 + t % 64];
        }
#else
        *reinterpret_cast<float4 *>(&Bs[ty][4 * tx]) =
            *reinterpret_cast<const float4 *>(&B[(k0 + ty) * static_cast<int64_t>(N) + col0 + 4 * tx]);
#endif
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
            float a[kOwn], b[kOwn];
#pragma unroll
            for (int i = 0; i < kOwn; ++i) a[i] = As[k][4 * ty + i];
#if NARROW
#pragma unroll
            for (int j = 0; j < kOwn; ++j) b[j] = Bs[k][column(tx, j)];
#else
            const float4 v = *reinterpret_cast<const float4 *>(&Bs[k][4 * tx]);
            b[0] = v.x, b[1] = v.y, b[2] = v.z, b[3] = v.w;
#endif
#pragma unroll
            for (int i = 0; i < kOwn; ++i)
#pragma unroll
                for (int j = 0; j < kOwn; ++j) sum[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        float *row = &C[(row0 + 4 * ty + i) * static_cast<int64_t>(N) + col0];
#if NARROW
#pragma unroll
        for (int j = 0; j < kOwn; ++j) row[column(tx, j)] = sum[i][j];
#else
        __stwb(reinterpret_cast<float4 *>(&row[4 * tx]), make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]));
#endif
    }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->M % kTile || args->N % kTile || args->K % kDepth) return cudaErrorInvalidValue;
#if EXTRA
    const cudaError_t set = cudaFuncSetAttribute(planted, cudaFuncAttributeMaxDynamicSharedMemorySize, EXTRA);
    if (set != cudaSuccess) return set;
#endif
    const int64_t blocks = args->M / kTile * (args->N / kTile);
    planted<<<static_cast<unsigned>(blocks), kThreads, EXTRA, stream>>>(
        args->A, args->B, args->C, static_cast<int>(args->N), static_cast<int>(args->K));
    return cudaGetLastError();
}
