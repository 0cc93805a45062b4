// Lesson: the sums of C belong in registers.
//
// One kernel, rung 7 of the ladder, whose sums are kept in one of three places. Nothing else differs.
//
// C_IN=REGISTERS  as it should be: an FFMA reads and writes its accumulator without a further instruction.
// C_IN=SHARED     the tile of C in shared memory, 128 x 128 x 4 B = 64 KB, read and written at each k: 1 load and 1
//                 store for each FMA. Shown by: LDS and STS for each FFMA (SASS mix), shared-memory wavefronts (2 more
//                 for each FMA of a warp), the LSU pipe busy and the FMA pipe idle, mio_throttle and short_scoreboard
//                 stalls, and shared memory as the limiter of occupancy. No bank conflict is involved: excess is 0.
// C_IN=GLOBAL     C read from and written to global memory once a K tile, K / BK times in all. Shown by: bytes through
//                 L2 (2 K / BK times the size of C on top), global store requests, LG throttle and long_scoreboard
//                 stalls. Rows of C are contiguous: not a question of coalescing.
//
// It is also the reason why a block walks over K itself: split over blocks, each would have to add to C in memory.
// Tile   BM x BN x BK = 128 x 128 x 16, 8 x 8 a thread, 256 threads, two blocks a multiprocessor.
// Sizes  any M, N, K >= 1; layouts nn and nt.
#include "gemm.h"

#include "../../common/staged_tile.cuh"
#include "../../common/vectors.cuh"

#define REGISTERS 0
#define SHARED 1
#define GLOBAL 2

#ifndef C_IN
#define C_IN REGISTERS
#endif
#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 16
#endif
#ifndef TM
#define TM 8
#endif
#ifndef TN
#define TN 8
#endif

constexpr int kThreadsM = BM / TM;
constexpr int kThreadsN = BN / TN;
constexpr int kThreads = kThreadsM * kThreadsN;

static_assert(C_IN == REGISTERS || C_IN == SHARED || C_IN == GLOBAL, "one of the three places");
static_assert(BM % TM == 0 && BN % TN == 0, "thread tiles must divide the block tile");
static_assert(TM % 4 == 0 && TN % 4 == 0, "thread tiles consist of 16-byte vectors");
static_assert(kThreads <= 1024 && kThreads % 32 == 0, "whole warps, at most 1024 threads");
static_assert(kThreadsN % 8 == 0, "eight neighbouring vectors fill the 32 banks");

#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposeB = true;
#else
constexpr bool kTransposeB = false;
#endif
constexpr int kPad = 4;
constexpr int kRowA = BM + kPad;
constexpr int kRowB = BN + (kTransposeB ? kPad : 0);
constexpr int kSpanM = 4 * kThreadsM;
constexpr int kSpanN = 4 * kThreadsN;
constexpr int kSharedBytes = (BK * (kRowA + kRowB) + (C_IN == SHARED ? BM * BN : 0)) * static_cast<int>(sizeof(float));

// load4 reads through the path for data that nobody writes, which C is not.
template <bool kWhole>
__device__ __forceinline__ float4 read_back(const float *from, bool inside, int64_t count) {
    if constexpr (kWhole) return *reinterpret_cast<const float4 *>(from);
    return ladder::load4<false>(from, inside, count);
}

template <bool kWhole>
__global__ void __launch_bounds__(kThreads, kWhole ? 2 : 1)
    accumulators(const float *__restrict__ A, const float *__restrict__ B, float *C, int64_t M, int64_t N, int64_t K,
                 int64_t blocks_n) {
    extern __shared__ __align__(16) float shared[];
    float *As = shared, *Bs = As + BK * kRowA;

    const int64_t first_row = blockIdx.x / blocks_n * BM, first_col = blockIdx.x % blocks_n * BN;
    const int my_row = threadIdx.x / kThreadsN * 4;
    const int my_col = threadIdx.x % kThreadsN * 4;

    ladder::StagedTile<BM, BK, kThreads, kRowA, true, 2, kWhole> tile_a(A, K, first_row, M);
    ladder::StagedTile<BN, BK, kThreads, kRowB, kTransposeB, 2, kWhole> tile_b(B, kTransposeB ? K : N, first_col, N);

    float acc[TM][TN] = {};
    // A thread's sums lie kThreads words apart, so that lanes are neighbours. Volatile, since the compiler would else
    // see that the sums of a K tile may stay in registers.
    volatile float *Cs = Bs + BK * kRowB + threadIdx.x;
    if constexpr (C_IN == SHARED) {
#pragma unroll
        for (int e = 0; e < TM * TN; ++e) Cs[e * kThreads] = 0.0f;
    }

    for (int64_t left = K; left > 0; left -= BK) {
        tile_a.load(left);
        tile_b.load(left);
        tile_a.store(As);
        tile_b.store(Bs);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
            ladder::read_fragment<TM, kSpanM>(a, As + k * kRowA + my_row);
            ladder::read_fragment<TN, kSpanN>(b, Bs + k * kRowB + my_col);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) {
                    if constexpr (C_IN == SHARED)
                        Cs[(i * TN + j) * kThreads] = Cs[(i * TN + j) * kThreads] + a[i] * b[j];
                    else
                        acc[i][j] += a[i] * b[j];
                }
        }
        if constexpr (C_IN == GLOBAL) {
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; j += 4) {
                    const int64_t row = first_row + my_row + i / 4 * kSpanM + i % 4;
                    const int64_t col = first_col + my_col + j / 4 * kSpanN;
                    float *to = C + row * N + col;
                    float4 four = make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
                    if (left != K) {  // the first tile finds no sum in C
                        const float4 sum = read_back<kWhole>(to, row < M, N - col);
                        four = make_float4(sum.x + four.x, sum.y + four.y, sum.z + four.z, sum.w + four.w);
                    }
                    ladder::store4<kWhole>(to, four, row < M, N - col);
#pragma unroll
                    for (int e = 0; e < 4; ++e) acc[i][j + e] = 0.0f;
                }
        }
        __syncthreads();
    }

    if constexpr (C_IN != GLOBAL) {
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; j += 4) {
                const int64_t row = first_row + my_row + i / 4 * kSpanM + i % 4;
                const int64_t col = first_col + my_col + j / 4 * kSpanN;
                float4 four;
                if constexpr (C_IN == SHARED) {
                    const volatile float *sums = Cs + (i * TN + j) * kThreads;
                    four = make_float4(sums[0], sums[kThreads], sums[2 * kThreads], sums[3 * kThreads]);
                } else {
                    four = make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
                }
                ladder::store4<kWhole>(C + row * N + col, four, row < M, N - col);
            }
    }
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t blocks_m = (args->M + BM - 1) / BM;
    const int64_t blocks_n = (args->N + BN - 1) / BN;
    if (blocks_m * blocks_n > INT32_MAX) return cudaErrorInvalidValue;
    const bool whole =
        args->M % BM == 0 && args->N % BN == 0 && args->K % BK == 0 &&
        ladder::vectors_aligned(args->A, args->B, args->C, args->K, kTransposeB ? args->K : args->N, args->N);
    const auto kernel = whole ? accumulators<true> : accumulators<false>;
    // More than 48 KB of shared memory must be asked for.
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<static_cast<unsigned>(blocks_m * blocks_n), kThreads, kSharedBytes, stream>>>(
        args->A, args->B, args->C, args->M, args->N, args->K, blocks_n);
    return cudaGetLastError();
}
