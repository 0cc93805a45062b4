// The same step read once: a row lives in the registers of its block.
//
// Idea     each thread loads 16 bytes (8 bfloat16) at a time of x and res, keeps the sums as floats through both
//          reductions, and writes 16 bytes of res and 8 of y. Nothing is read twice, shared memory holds one number a
//          warp.
// What is  a block waits at two barriers with its loads done; other blocks of the multiprocessor must fill that time.
// wrong
// Sizes    any T up to 2^31 - 1, H up to 8 x 8 x THREADS. Rows that do not begin on 16 bytes (H % 8 != 0) are read and
//          written element by element: right, and slow.
#include "rmsnorm_quant.h"

#ifndef THREADS
#define THREADS 256
#endif

static_assert(THREADS % 32 == 0 && THREADS <= 1024, "whole warps, at most 1024 threads");

namespace {

constexpr int WIDTH = 8;           // elements of a 16-byte access
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
__device__ float reduce(float value, float *partial) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value = Op::apply(value, __shfl_xor_sync(0xffffffffu, value, offset));
    }
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
#pragma unroll
    for (int warp = 1; warp < THREADS / 32; ++warp) value = Op::apply(value, partial[warp]);
    return value;
}

// A chunk of a row as floats; what lies behind the row's end is zero, which neither reduction sees.
template <bool ALIGNED>
__device__ void load(float (&chunk)[WIDTH], const __nv_bfloat16 *row, int64_t column, int64_t columns) {
    if (ALIGNED) {
        const uint4 bits = column < columns ? *reinterpret_cast<const uint4 *>(row + column) : make_uint4(0, 0, 0, 0);
        const unsigned words[WIDTH / 2] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int i = 0; i < WIDTH / 2; ++i) {  // a bfloat16 is the upper half of a float
            chunk[2 * i] = __uint_as_float(words[i] << 16);
            chunk[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
        }
    } else {
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) chunk[i] = column + i < columns ? __bfloat162float(row[column + i]) : 0.0f;
    }
}

__device__ unsigned pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const unsigned *>(&pair);
}

template <int CHUNKS, bool ALIGNED>
__global__ void __launch_bounds__(THREADS)
    vectorised(const __nv_bfloat16 *__restrict__ x, __nv_bfloat16 *__restrict__ res,
               const __nv_bfloat16 *__restrict__ w, __nv_fp8_e4m3 *__restrict__ y, float *__restrict__ s,
               int64_t columns, float eps) {
    __shared__ float partial[2][THREADS / 32];  // one for each reduction: no barrier between them
    const int64_t first = blockIdx.x * columns;
    float h[CHUNKS][WIDTH];

    float squares = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
        const int64_t column = (c * THREADS + static_cast<int64_t>(threadIdx.x)) * WIDTH;
        float b[WIDTH];
        load<ALIGNED>(h[c], x + first, column, columns);
        load<ALIGNED>(b, res + first, column, columns);
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            h[c][i] += b[i];
            squares += h[c][i] * h[c][i];
        }
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {  // after all loads: a store between them would hold the next ones back
        const int64_t column = (c * THREADS + static_cast<int64_t>(threadIdx.x)) * WIDTH;
        if (ALIGNED) {
            const uint4 sum = make_uint4(pack(h[c][0], h[c][1]), pack(h[c][2], h[c][3]), pack(h[c][4], h[c][5]),
                                         pack(h[c][6], h[c][7]));
            if (column < columns) *reinterpret_cast<uint4 *>(res + first + column) = sum;
        } else {
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                if (column + i < columns) res[first + column + i] = __float2bfloat16(h[c][i]);
            }
        }
    }
    const float scale = rsqrtf(reduce<Sum>(squares, partial[0]) / static_cast<float>(columns) + eps);

    float largest = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
        const int64_t column = (c * THREADS + static_cast<int64_t>(threadIdx.x)) * WIDTH;
        float weight[WIDTH];
        load<ALIGNED>(weight, w, column, columns);
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            h[c][i] *= scale * weight[i];
            largest = fmaxf(largest, fabsf(h[c][i]));
        }
    }
    const float step = fmaxf(reduce<Max>(largest, partial[1]), LEAST_MAXIMUM) / LARGEST;
    if (threadIdx.x == 0) s[blockIdx.x] = step;

    const float inverse = 1.0f / step;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
        const int64_t column = (c * THREADS + static_cast<int64_t>(threadIdx.x)) * WIDTH;
        if (ALIGNED) {
            if (column >= columns) continue;
            const __nv_fp8x4_e4m3 low(
                make_float4(h[c][0] * inverse, h[c][1] * inverse, h[c][2] * inverse, h[c][3] * inverse));
            const __nv_fp8x4_e4m3 high(
                make_float4(h[c][4] * inverse, h[c][5] * inverse, h[c][6] * inverse, h[c][7] * inverse));
            *reinterpret_cast<uint2 *>(y + first + column) = make_uint2(low.__x, high.__x);
        } else {
#pragma unroll
            for (int i = 0; i < WIDTH; ++i) {
                if (column + i < columns) y[first + column + i] = __nv_fp8_e4m3(h[c][i] * inverse);
            }
        }
    }
}

template <int CHUNKS>
void start(const Args *args, cudaStream_t stream) {
    const unsigned rows = static_cast<unsigned>(args->T);
    auto kernel = args->H % WIDTH == 0 ? vectorised<CHUNKS, true> : vectorised<CHUNKS, false>;
    kernel<<<rows, THREADS, 0, stream>>>(args->x, args->res, args->w, args->y, args->s, args->H, args->eps);
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t chunks = (args->H + WIDTH * THREADS - 1) / (WIDTH * THREADS);
    if (chunks > 8 || args->T > INT32_MAX) return cudaErrorInvalidValue;
    if (chunks <= 1)
        start<1>(args, stream);
    else if (chunks <= 2)
        start<2>(args, stream);
    else if (chunks <= 4)
        start<4>(args, stream);
    else
        start<8>(args, stream);
    return cudaGetLastError();
}
