// Rung 8: a level between block and thread, the warp tile.
//
// Idea     What one warp reads from shared memory is what its 32 thread tiles span. 2 x 16 thread tiles span 16 x 128
//          of C: 144 values a k for 2048 FMAs; a squarer warp tile of 32 x 64 needs 96. Squarer means fewer wavefronts.
// Changed  against the rung before: lanes are numbered so that 4 x 8 of them form a warp tile WM x WN.
// Tile     BM x BN x BK = 128 x 128 x 16, eight warps of 32 x 64, 8 x 8 a thread; two blocks a multiprocessor. Shared
//          memory 16.25 KB a block, 64 accumulators a thread, no spills.
// Shows    shared-memory wavefronts for each FFMA.
// Measured H200, cold L2, 4096, median of 20, ratio to cuBLAS FP32 in the same process: 0.860 (3129 us). Four warps of
//          64 x 64 with 8 x 16 a thread have more FFMA among their instructions (93 %), half the warps, and 0.772.
// Limit    All warps of a block wait for its K tile: loads, stores, barrier, FFMAs, barrier, in turn. Only the other
//          block of the multiprocessor works meanwhile. The next rung overlaps them inside a block.
// Sizes    any M, N, K >= 1: whole tiles with aligned rows take vectors, others single elements; layouts nn and nt.
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
#ifndef WM
#define WM 32
#endif
#ifndef WN
#define WN 64
#endif
#ifndef TM
#define TM 8
#endif
#ifndef TN
#define TN 8
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2  // blocks a multiprocessor should hold: one computes while the other waits for its tiles
#endif

// block tile > warp tile > thread tile
constexpr int kWarpsN = BN / WN;
constexpr int kThreads = 32 * (BM / WM) * kWarpsN;
constexpr int kLanesM = WM / TM;
constexpr int kLanesN = WN / TN;
constexpr int kSpanM = 4 * kLanesM;  // a lane owns 4 rows out of each kSpanM of its warp, and 4 columns out of each
constexpr int kSpanN = 4 * kLanesN;  // kSpanN: neighbouring lanes read neighbouring vectors

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must divide the block tile");
static_assert(kLanesM * kLanesN == 32 && WM % TM == 0 && WN % TN == 0, "32 thread tiles must make a warp tile");
static_assert(TM % 4 == 0 && TN % 4 == 0, "thread tiles consist of 16-byte vectors");
static_assert(kLanesM % 2 == 0 && kLanesN % 2 == 0, "see lane_row and lane_col");
static_assert(BK % 8 == 0, "the transposing copy works on 8 values of k");
static_assert((BM + BN + 8) * BK * 4 <= 48 * 1024, "static shared memory ends at 48 KB");

#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposeB = true;  // B is contiguous along k, like A
#else
constexpr bool kTransposeB = false;
#endif
constexpr int kPad = 4;
constexpr int kRowA = BM + kPad;
constexpr int kRowB = BN + (kTransposeB ? kPad : 0);

template <bool kWhole>
__global__ void __launch_bounds__(kThreads, kWhole ? MIN_BLOCKS : 1)
    warp_tile(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int64_t N,
              int64_t K, int64_t blocks_n) {
    __shared__ __align__(16) float As[BK * kRowA];
    __shared__ __align__(16) float Bs[BK * kRowB];

    const int64_t first_row = blockIdx.x / blocks_n * BM, first_col = blockIdx.x % blocks_n * BN;
    // Lanes are numbered so that lane and lane ^ 1 share their rows, lane and lane ^ 2 their columns: a 16-byte read
    // takes one wavefront for 16 lanes, instead of one for 8, where such pairs read the same vector.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int lane_row = lane / 2 % kLanesM, lane_col = lane / (2 * kLanesM) * 2 + lane % 2;
    const int my_row = warp / kWarpsN * WM + lane_row * 4;
    const int my_col = warp % kWarpsN * WN + lane_col * 4;

    ladder::StagedTile<BM, BK, kThreads, kRowA, true, 2, kWhole> tile_a(A, K, first_row, M);
    ladder::StagedTile<BN, BK, kThreads, kRowB, kTransposeB, 2, kWhole> tile_b(B, kTransposeB ? K : N, first_col, N);

    float acc[TM][TN] = {};
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
    const auto kernel = whole ? warp_tile<true> : warp_tile<false>;
    kernel<<<static_cast<unsigned>(blocks_m * blocks_n), kThreads, 0, stream>>>(args->A, args->B, args->C, args->M,
                                                                                args->N, args->K, blocks_n);
    return cudaGetLastError();
}
