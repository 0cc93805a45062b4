// Rung 10: the tensor cores by their C++ interface, nvcuda::wmma, straight from global memory.
//
// Idea     One warp-wide mma_sync multiplies a 16 x 16 by a 16 x 16 matrix: 4096 multiply-adds in two HMMA
//          instructions, where CUDA cores would need 128 warp-wide FFMA. Operands are "fragments", spread over the
//          registers of the warp in a layout that wmma keeps to itself.
// Changed  against the naive FP32 rung: a WARP owns a tile of C, not a thread one element. Nothing else: no block tile,
//          no shared memory for A and B.
// Tile     WM x WN = 16 x 16 a warp, 2 x 2 warps a block. Each step of 16 along K loads 16 x 16 of A and of B, 1 KB,
//          for one multiply: 2 * 16 * 16 / 32 = 16 FLOP per element loaded. 8 registers of accumulators a lane.
// Measured H200, cold L2, 4096, median of 20, ratio to cuBLAS BF16 in the same process: 0.036 (4870 us); 32 x 32 a warp
//          0.069.
// Limit    the loads. A lane's elements of a fragment lie on different rows, 4 bytes here and 4 there, so that a
//          warp-wide load touches 8 rows; every operand comes through L1 again for each tile that needs it. The tensor
//          cores wait.
// C        wmma hands out FP32 accumulators in its own layout; they pass through shared memory to be rounded to BF16.
// Sizes    any M, N, K >= 1, layouts nn and nt. load_matrix_sync cannot stop at an edge: where sizes are no multiples
//          of the tile or rows are not 32-byte aligned, fragments are staged in shared memory with zeros around them.
#include "gemm.h"
#include "staging.cuh"

#include <mma.h>

#ifndef WM
#define WM 16
#endif
#ifndef WN
#define WN 16
#endif
#ifndef WARPS_M
#define WARPS_M 2
#endif
#ifndef WARPS_N
#define WARPS_N 2
#endif

namespace wmma = nvcuda::wmma;

constexpr int kWarps = WARPS_M * WARPS_N;
constexpr int kFragmentsM = WM / 16, kFragmentsN = WN / 16;  // a warp
static_assert(WM % 16 == 0 && WN % 16 == 0, "wmma is 16 x 16 x 16");

#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposedB = true;  // B is N x K: a column of the fragment is a row in memory
using LayoutB = wmma::col_major;
#else
constexpr bool kTransposedB = false;
using LayoutB = wmma::row_major;
#endif
using FragmentA = wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major>;
using FragmentB = wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, LayoutB>;
using FragmentC = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

// A fragment from 16 x 16 elements in memory, of which rows x columns lie in the matrix; the rest counts as zero.
template <bool kWhole, class Fragment>
__device__ __forceinline__ void load(Fragment &fragment, __nv_bfloat16 *mine, const __nv_bfloat16 *from, int64_t pitch,
                                     int64_t rows, int64_t columns) {
    if constexpr (kWhole) {
        wmma::load_matrix_sync(fragment, from, static_cast<unsigned>(pitch));
    } else {
        __syncwarp();  // the warp has read what was staged before
        for (int e = threadIdx.x % 32; e < 16 * 16; e += 32) {
            const int row = e / 16, column = e % 16;
            mine[e] = row < rows && column < columns ? from[row * pitch + column] : __nv_bfloat16(0.0f);
        }
        __syncwarp();
        wmma::load_matrix_sync(fragment, mine, 16);
    }
}

template <bool kWhole>
__global__ void __launch_bounds__(32 * kWarps)
    wmma_global(const __nv_bfloat16 *__restrict__ A, const __nv_bfloat16 *__restrict__ B, __nv_bfloat16 *__restrict__ C,
                int64_t M, int64_t N, int64_t K, int64_t blocks_n) {
    __shared__ __align__(32) float result[kWarps][16 * 16];
    __shared__ __align__(32) __nv_bfloat16 staged[kWarps][kWhole ? 16 : 16 * 16];

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t first_row = (blockIdx.x / blocks_n * WARPS_M + warp / WARPS_N) * WM;
    const int64_t first_col = (blockIdx.x % blocks_n * WARPS_N + warp % WARPS_N) * WN;
    if (first_row >= M || first_col >= N) return;  // there is no barrier for the block below

    FragmentC acc[kFragmentsM][kFragmentsN];
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) wmma::fill_fragment(acc[i][j], 0.0f);

    for (int64_t k = 0; k < K; k += 16) {
        FragmentA a[kFragmentsM];
        FragmentB b[kFragmentsN];
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i) {
            const int64_t row = first_row + i * 16;
            load<kWhole>(a[i], staged[warp], A + row * K + k, K, M - row, K - k);
        }
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) {
            const int64_t col = first_col + j * 16;
            if constexpr (kTransposedB)
                load<kWhole>(b[j], staged[warp], B + col * K + k, K, N - col, K - k);
            else
                load<kWhole>(b[j], staged[warp], B + k * N + col, N, K - k, N - col);
        }
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
            for (int j = 0; j < kFragmentsN; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }

#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) {
            wmma::store_matrix_sync(result[warp], acc[i][j], 16, wmma::mem_row_major);
            __syncwarp();
#pragma unroll
            for (int e = lane * 4; e < 16 * 16; e += 32 * 4) {  // four neighbours a lane
                const int64_t row = first_row + i * 16 + e / 16, col = first_col + j * 16 + e % 16;
                const uint2 packed = ladder::pack(*reinterpret_cast<const float4 *>(&result[warp][e]));
                if (kWhole || row < M)
                    ladder::store<kWhole ? ladder::kWhole : ladder::kAny>(C + row * N + col, packed, N - col);
            }
            __syncwarp();
        }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks_m = (args->M + WARPS_M * WM - 1) / (WARPS_M * WM);
    const int64_t blocks_n = (args->N + WARPS_N * WN - 1) / (WARPS_N * WN);
    if (blocks_m * blocks_n > INT32_MAX) return cudaErrorInvalidValue;
    // wmma wants pointers aligned to 32 bytes, and pitches that keep them so.
    const bool whole = args->M % WM == 0 && args->N % WN == 0 && args->K % 16 == 0 && ladder::aligned(args->A, 32) &&
                       ladder::aligned(args->B, 32) && ladder::aligned(args->C, 8) && args->K <= INT32_MAX &&
                       args->N <= INT32_MAX;
    const auto kernel = whole ? wmma_global<true> : wmma_global<false>;
    kernel<<<static_cast<unsigned>(blocks_m * blocks_n), 32 * kWarps, 0, stream>>>(args->A, args->B, args->C, args->M,
                                                                                   args->N, args->K, blocks_n);
    return cudaGetLastError();
}
