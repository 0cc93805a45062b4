// Lessons: a thread tile too large, registers too few, a loop not unrolled.
//
// One kernel, rung 7 of the ladder, with two parameters and no __launch_bounds__: a kernel that has them ignores
// -maxrregcount, which is one of the lessons. The experiment caps the registers by that flag instead.
//
// good        8 x 8 sums a thread, -maxrregcount=128 (two blocks a multiprocessor), the loop over k unrolled: 64 FFMA
//             for 4 reads and nothing else.
// TM=TN=16    256 sums a thread, where a thread has at most 255 registers. Twice the reuse of 8 x 8 on paper. Shown by:
//             spill bytes (ptxas), local loads and stores (SASS: LDL, STL), local-memory instructions and L1 traffic
//             (ncu), and the share of FFMA in the mix. Threads are 64 a block so that the block tile stays the same.
// -maxrregcount=64
//             asks for 4 blocks a multiprocessor, and gets them: occupancy 50 %, twice that of the good variant, and
//             slower by far. 64 sums and their operands do not fit into 64 registers: the same counters as above.
//             Occupancy is a means.
// UNROLL      steps of k a loop iteration. 1: the address and loop arithmetic of each step is executed, reads cannot be
//             started ahead of the FFMAs of the step before. 4: most of that is gone. BK (full): all of it, and
//             offsets become immediates. Shown by: executed instructions for each FFMA, short_scoreboard stalls (the
//             reads waited for); against it stands the size of the code (SASS instructions, no_instruction stalls).
// Tile        BM x BN x BK = 128 x 128 x 16; (128 / TM)(128 / TN) threads.
// Sizes       any M, N, K >= 1; layouts nn and nt.
#include "gemm.h"

#include "../../common/staged_tile.cuh"
#include "../../common/vectors.cuh"

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
#ifndef UNROLL
#define UNROLL BK
#endif

constexpr int kUnroll = UNROLL;
constexpr int kThreadsM = BM / TM;
constexpr int kThreadsN = BN / TN;
constexpr int kThreads = kThreadsM * kThreadsN;

static_assert(kUnroll >= 1 && BK % kUnroll == 0, "whole iterations");
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

template <bool kWhole>
__global__ void inner_loop(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M,
                           int64_t N, int64_t K, int64_t blocks_n) {
    __shared__ __align__(16) float As[BK * kRowA];
    __shared__ __align__(16) float Bs[BK * kRowB];

    const int64_t first_row = blockIdx.x / blocks_n * BM, first_col = blockIdx.x % blocks_n * BN;
    const int my_row = threadIdx.x / kThreadsN * 4;
    const int my_col = threadIdx.x % kThreadsN * 4;

    ladder::StagedTile<BM, BK, kThreads, kRowA, true, 2, kWhole> tile_a(A, K, first_row, M);
    ladder::StagedTile<BN, BK, kThreads, kRowB, kTransposeB, 2, kWhole> tile_b(B, kTransposeB ? K : N, first_col, N);

    constexpr int kSteps = kWhole ? kUnroll : 1;  // the guarded kernel is not looked at, and compiles faster
    float acc[TM][TN] = {};
    for (int64_t left = K; left > 0; left -= BK) {
        tile_a.load(left);
        tile_b.load(left);
        tile_a.store(As);
        tile_b.store(Bs);
        __syncthreads();
#pragma unroll kSteps
        for (int k = 0; k < BK; ++k) {
            float a[TM], b[TN];
            ladder::read_fragment<TM, kSpanM>(a, As + k * kRowA + my_row);
            ladder::read_fragment<TN, kSpanN>(b, Bs + k * kRowB + my_col);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int64_t row = first_row + my_row + i / 4 * kSpanM + i % 4;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int64_t col = first_col + my_col + j / 4 * kSpanN;
            const float4 four = make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
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
    const auto kernel = whole ? inner_loop<true> : inner_loop<false>;
    kernel<<<static_cast<unsigned>(blocks_m * blocks_n), kThreads, 0, stream>>>(args->A, args->B, args->C, args->M,
                                                                                args->N, args->K, blocks_n);
    return cudaGetLastError();
}
