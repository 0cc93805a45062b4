// FP32 products on the tensor cores, rung 1: each number as two TF32 halves, each product as three (mma.sync).
//
// Idea     The FMA pipes do 256 FP32 operations a cycle and multiprocessor, the tensor cores 2048 in TF32 (by mma.sync
//          about two thirds of that). Three TF32 products make one that is nearly as good as FP32: see common/tf32.cuh.
//          It is another contract than fp32: the error is bounded by that of FP32 times four, not equal to it.
// Changed  against mma_multistage of BF16: 4-byte operands, which ldmatrix does not transpose, so that fragments are
//          read word by word; each is split in registers after it is read.
// Sums     Tensor cores add with truncation, which is off to one side: in the model of tests/unit/test_problem_gemm.py,
//          over 4096 values of k, that is 16 times the error of FP32, and half of it with PROMOTE. So they add up
//          PROMOTE tiles of BK (128 values of k) at most, and FADD, which rounds to nearest, adds that to the sum
//          proper: a second set of accumulators, and 4 FADD for each 12 * PROMOTE products. The small products come
//          first, while the partial sum is small.
// Tile     BM x BN x BK = 128 x 128 x 32, eight warps of 64 x 32: 2 * 64 accumulators a thread. Shared memory 4 stages
//          * (128 * 36 + 32 * 136) * 4 B = 140 KB, one block a multiprocessor.
// Banks    A: rows of BK + 4 words, so that 8 rows times 4 columns of a fragment lie in 32 banks; B: rows of BN + 8,
//          for 4 rows times 8 columns.
// Measured 1.134 of cuBLAS FP32 at 4096 and 1.141 at 8192 (H200, one process, single cold launches; recorded): 58.1 and
//          57.7 TFLOP/s. Without promotion 1.149 and 1.157: the additions in FP32 cost 1.3 and 1.4 %.
// Limit    mma.sync: at two thirds of wgmma's rate, 325 TFLOP/s of TF32 (measured, 1.82 GHz) are 108 of these.
// Sizes    any M, N, K >= 1, layout nn: rows that are multiples of 16 bytes are copied so, others element by element.
#include "gemm.h"

#include "../../common/async_copy.cuh"
#include "../../common/raster.cuh"
#include "../../common/tf32.cuh"

#ifdef GEMM_LAYOUT_NT
#error "layout nn only"
#endif

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 32
#endif
#ifndef WM
#define WM 64
#endif
#ifndef WN
#define WN 32
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef PROMOTE
#define PROMOTE 4
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif
#ifndef GROUP
#define GROUP 16
#endif

constexpr int kWarpsN = BN / WN;
constexpr int kThreads = 32 * (BM / WM) * kWarpsN;
constexpr int kFragmentsM = WM / 16, kFragmentsN = WN / 8;
constexpr int kRowA = BK + 4, kRowB = BN + 8;
constexpr int kStage = BM * kRowA + BK * kRowB;  // floats
constexpr int kSharedBytes = STAGES * kStage * static_cast<int>(sizeof(float));

static_assert(BM % WM == 0 && BN % WN == 0 && WM % 16 == 0 && WN % 8 == 0, "fragments make warp tiles make the tile");
static_assert(BK % 8 == 0 && BK % 32 == 0 && BN % 32 == 0, "see Banks");
static_assert(STAGES >= 2 && PROMOTE >= 1, "one stage is read while another is filled");

// Copies kRows x kColumns of a row-major matrix, kWidth elements at a time, to rows of kRow in shared memory.
template <int kRows, int kColumns, int kRow, int kWidth>
struct Copier {
    static constexpr int kPerRow = kColumns / kWidth;
    static constexpr int kStep = kThreads / kPerRow;
    static constexpr int kCopies = kRows / kStep;
    static_assert(kThreads % kPerRow == 0 && kRows % kStep == 0, "whole passes");

    const float *matrix;
    int64_t rows, columns, row, column;  // of the matrix; and this thread's first element

    __device__ Copier(const float *matrix, int64_t rows, int64_t columns, int64_t first_row, int64_t first_column)
        : matrix(matrix),
          rows(rows),
          columns(columns),
          row(first_row + threadIdx.x / kPerRow),
          column(first_column + threadIdx.x % kPerRow * kWidth) {}

    // The tile `down` rows and `along` columns from the first; what lies outside of the matrix is zero.
    __device__ __forceinline__ void copy(uint32_t tile, int64_t down, int64_t along) const {
        const uint32_t to = tile + (threadIdx.x / kPerRow * kRow + threadIdx.x % kPerRow * kWidth) * 4;
#pragma unroll
        for (int i = 0; i < kCopies; ++i) {
            const int64_t at = row + down + i * kStep;
            const bool inside = at < rows && column + along < columns;
            ladder::copy_async_or_zero<4 * kWidth>(to + i * kStep * kRow * 4,
                                                   inside ? matrix + at * columns + column + along : matrix, inside);
        }
    }
};

template <int kWidth>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    mma_sync(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int64_t N,
             int64_t K, int64_t tiles_m, int64_t tiles_n) {
    extern __shared__ __align__(16) float shared[];
    const ladder::Tile tile = ladder::grouped_tile<GROUP>(blockIdx.x, tiles_m, tiles_n);
    const int64_t first_row = tile.m * BM, first_col = tile.n * BN;
    const uint32_t base = ladder::shared_address(shared);
    const int64_t k_tiles = (K + BK - 1) / BK;

    const Copier<BM, BK, kRowA, kWidth> copy_a(A, M, K, first_row, 0);
    const Copier<BK, BN, kRowB, kWidth> copy_b(B, K, N, 0, first_col);
    const auto copy = [&](int64_t k_tile, int stage) {
        if (k_tile < k_tiles) {
            const uint32_t to = base + stage * kStage * 4;
            copy_a.copy(to, 0, k_tile * BK);
            copy_b.copy(to + BM * kRowA * 4, k_tile * BK, 0);
        }
        ladder::commit_copies();  // a group for each tile, empty ones too, so that counts stay simple
    };
    for (int stage = 0; stage < STAGES - 1; ++stage) copy(stage, stage);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / kWarpsN * WM, warp_col = warp % kWarpsN * WN;
    const int my_a = (warp_row + lane / 4) * kRowA + lane % 4;
    const int my_b = BM * kRowA + lane % 4 * kRowB + warp_col + lane / 4;

    float acc[kFragmentsM][kFragmentsN][4] = {}, part[kFragmentsM][kFragmentsN][4] = {};
    const auto promote = [&] {
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
            for (int j = 0; j < kFragmentsN; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    acc[i][j][e] += part[i][j][e];
                    part[i][j][e] = 0.0f;
                }
    };

    int stage = 0, until_promotion = PROMOTE;
    for (int64_t k_tile = 0; k_tile < k_tiles; ++k_tile) {
        ladder::wait_copies<STAGES - 2>();
        __syncthreads();  // the tile is there, and the one before has been read by everybody
        copy(k_tile + STAGES - 1, stage == 0 ? STAGES - 1 : stage - 1);
        const float *from = shared + stage * kStage;
#pragma unroll
        for (int k = 0; k < BK; k += 8) {
            uint32_t a[2][kFragmentsM][4], b[2][kFragmentsN][2];  // high, low
            const auto split = [](float x, uint32_t &high, uint32_t &low) {
                const ladder::SplitTf32 both = ladder::split_tf32(x);
                high = both.high;
                low = both.low;
            };
#pragma unroll
            for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    split(from[my_a + (16 * i + e % 2 * 8) * kRowA + k + e / 2 * 4], a[0][i][e], a[1][i][e]);
#pragma unroll
            for (int j = 0; j < kFragmentsN; ++j)
#pragma unroll
                for (int e = 0; e < 2; ++e) split(from[my_b + (k + 4 * e) * kRowB + 8 * j], b[0][j][e], b[1][j][e]);
#pragma unroll
            for (int product = 0; product < 3; ++product)  // low high, high low, high high: no two in a row wait
#pragma unroll
                for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
                    for (int j = 0; j < kFragmentsN; ++j)
                        ladder::multiply_tf32(part[i][j], a[product == 0][i], b[product == 1][j]);
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        if (--until_promotion == 0) {
            promote();
            until_promotion = PROMOTE;
        }
    }
    promote();

#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int64_t row = first_row + warp_row + 16 * i + lane / 4 + 8 * half;
                const int64_t col = first_col + warp_col + 8 * j + lane % 4 * 2;
                float *to = C + row * N + col;
                if (kWidth == 4 && row < M && col < N) {  // N is a multiple of 4
                    *reinterpret_cast<float2 *>(to) = make_float2(acc[i][j][2 * half], acc[i][j][2 * half + 1]);
                } else if (kWidth == 1 && row < M) {
                    if (col < N) to[0] = acc[i][j][2 * half];
                    if (col + 1 < N) to[1] = acc[i][j][2 * half + 1];
                }
            }
}

template <int kWidth>
static cudaError_t start(const Args *args, cudaStream_t stream) {
    const int64_t tiles_m = (args->M + BM - 1) / BM, tiles_n = (args->N + BN - 1) / BN;
    if (tiles_m * tiles_n > INT32_MAX) return cudaErrorInvalidValue;
    const auto kernel = mma_sync<kWidth>;
    // More than 48 KB of shared memory must be asked for.
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<static_cast<unsigned>(tiles_m * tiles_n), kThreads, kSharedBytes, stream>>>(
        args->A, args->B, args->C, args->M, args->N, args->K, tiles_m, tiles_n);
    return cudaGetLastError();
}

static bool aligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const bool vectors =
        args->K % 4 == 0 && args->N % 4 == 0 && aligned(args->A) && aligned(args->B) && aligned(args->C);
    return vectors ? start<4>(args, stream) : start<1>(args, stream);
}
