// Rung 11: warps in step. Those of a block meet once in 32 k, and one barrier of the ring goes.
//
// Idea     In 10_register_banks nothing holds the warps of a block together but the data that they wait for, and with its
//          copies in two portions a step tiles took 1.29 M cycles on average and 1.35 M on the slowest multiprocessors, which
//          decide. In 09_double_buffer and in cuBLAS, whose warps meet in each step, no tile is slower than another.
//          Spreading the copies over four portions then did most of what this rung was for; it is still the better form.
// Changed  against the rung before:
//          - __syncthreads where a step of BK begins. Whoever has passed it knows that nobody reads the stage of the
//            step before any more: `read` and the wait for it go, and tiles are ordered STAGES - 1 ahead, not - 2;
//          - one fragment of A, not two: four rows of it are read for the next k once they have been multiplied;
//          - half of a step's last products before the wait for the next stage, half after it.
// Late     What ptxas makes of that hangs on the order of the text. Of the 192 reads of fragments a step, so many are
//          used less than 16 and 32 instructions after them (a read takes some thirty cycles):
//                                                      16  32   FFMAs that wait for registers   instructions
//          10_register_banks, BURSTS 4                  4   7   357 of 4096                     4381
//          BURSTS 4                                     2   3   344                             4371
//          BURSTS 2                                     1   3   373                             4365
//          BURSTS 2, all products after the wait        4   6   348                             4365
//          BURSTS 2, B read before A                   54  60   220                             4365
//          BURSTS 1: copies of a tile at once          40  40   241                             4362
//          BURSTS 8                                     0       325                             4383
//          tests/emulated/test_register_banks.py counts.
// Model    a cycle an instruction and one more for each such FFMA, two warps a scheduler: 9430 cycles a step, of which
//          8192 are FFMAs. 512 tiles of 128 steps in four rounds of 132 are 4.83 M cycles, 2.44 ms at 1.98 GHz.
// Measured H200, cold L2, median, ratio to cuBLAS FP32 in the same process; single at 4096 and 8192, sustained at both:
//            BURSTS 4 (recorded: 1.029)            1.026  1.051    1.022  1.050
//            BURSTS 8                              1.028  1.050    1.025  1.050
//            BURSTS 16                             1.028  1.054    1.024  1.054
//            MEETINGS 2                            1.027  1.050    1.023  1.050
//            BK 16, six stages                     1.027  1.037    1.022  1.036
//            10_register_banks (recorded: 1.023)   1.021  1.044    1.017  1.044
//          and in the run before that, where BURSTS 4 was at 1.029, 1.055, 1.027, 1.054:
//            BURSTS 2                              0.974  1.031    0.974  1.031
//            BURSTS 2, three stages                0.982  1.031    0.978  1.032
//          The model has 0.5 % between 4 and 2 portions. The rest is probably the queue of the memory pipe, in which reads of
//          fragments stand behind copies: warps wait for a place in it for 0.055 cycles an instruction with BURSTS 2 and for
//          0.011 with 4 (mio_throttle). The next wait is for instructions (70 KB a step; 0.17 cycles each, cuBLAS 0.02), but
//          a loop of half the size is no faster.
//          The form before this one (both barriers of the ring, BURSTS 2): 1.011 and 1.033; without meeting 1.000 and 1.037.
// Lost     The form that was measured, in blocks that stay, the last two rounds of tiles cut along k into equal shares,
//          sums handed over through L2: 0.887 and 0.955, though a block has 496.5 steps in place of 512 (3972 of 4096).
//          It was the same binary, started with other numbers. docs/kernels.md says what that excludes.
// Tile     BM x BN x BK = 128 x 256 x 32, 256 threads, one block a multiprocessor, warps of 64 x 64: as before. 190
//          registers in nn, 212 in nt, no spills in whole tiles; where tiles stick out, nt spills 8 bytes. 4 stages of 48.5 KB.
// Sizes    any M, N, K >= 1, layouts nn and nt: see Shape. Needs compute capability 9.0 for the copy engine.
#include "gemm.h"

#include <type_traits>

#include "../../common/mbarrier.cuh"
#include "../../common/raster.cuh"
#include "../../common/tensor_map.cuh"
#include "../../common/tma.cuh"
#include "../../common/vectors.cuh"
#include "copies.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 256
#endif
#ifndef BK
#define BK 32
#endif
#ifndef WM
#define WM 64
#endif
#ifndef WN
#define WN 64
#endif
#ifndef TM
#define TM 16
#endif
#ifndef TN
#define TN 8
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif
#ifndef GROUP
#define GROUP 16
#endif
#ifndef MEETINGS
#define MEETINGS 1  // how often in a step warps wait for one another
#endif
#ifndef BURSTS
#define BURSTS 4  // in how many portions a thread issues its copies of a tile
#endif

// block tile > warp tile > thread tile
constexpr int kWarpsN = BN / WN;
constexpr int kWarps = (BM / WM) * kWarpsN;
constexpr int kThreads = 32 * kWarps;
constexpr int kLanesM = WM / TM;
constexpr int kLanesN = WN / TN;
constexpr int kLaneM = 4 * kLanesM;  // a lane owns 4 rows out of each kLaneM of its warp, and 4 columns
constexpr int kLaneN = 4 * kLanesN;  // out of each kLaneN: neighbours read neighbouring 16-byte vectors

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must divide the block tile");
static_assert(kLanesM * kLanesN == 32 && WM % TM == 0 && WN % TN == 0, "32 thread tiles must make a warp tile");
static_assert(TM % 4 == 0 && TN % 4 == 0, "thread tiles consist of 16-byte vectors");
static_assert(kLanesM % 2 == 0 && kLanesN % 2 == 0, "see lane_row and lane_col");
static_assert(BK % 8 == 0, "the transposing copy works on 8 values of k");
static_assert(BN <= 256 && BK <= 256, "one order of the copy engine takes 256 elements each way");
static_assert(STAGES >= 2, "one stage is read, and others are filled");
static_assert(BURSTS >= 1 && BURSTS < BK, "a portion at a value of k, none at the last");

constexpr int kPad = 4, kRowA = BM + kPad;
#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposeB = true;
#else
constexpr bool kTransposeB = false;
#endif
constexpr int kRowB = BN + (kTransposeB ? kPad : 0);
constexpr int kBytesA = BK * kRowA * 4, kBytesB = BK * kRowB * 4;
constexpr int kStage = (kBytesA + kBytesB + 127) / 128 * 128;  // the copy engine wants tiles at multiples of 128 bytes
constexpr int kSharedBytes = STAGES * kStage;
constexpr int kAhead = STAGES - 1;  // tiles
constexpr int kMeetEvery = BK / MEETINGS;
static_assert(MEETINGS >= 1 && kMeetEvery * MEETINGS == BK, "at whole values of k");
static_assert(kBytesA % 128 == 0, "B follows A");
static_assert(MIN_BLOCKS * (kSharedBytes + 2048) <= 228 * 1024, "the stages must fit in shared memory");

// Whole: sizes are multiples of the tile. Edge: tiles may stick out, but rows of B suit the copy engine. Any: any size.
enum Shape { kWhole, kEdge, kAny };

template <Shape kShape>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    in_step(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C,
            const __grid_constant__ CUtensorMap map_b, int64_t M, int64_t N, int K, int64_t tiles_m, int64_t tiles_n) {
    constexpr bool kEngine = !kTransposeB && kShape != kAny;  // who copies B
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ __align__(8) uint64_t barriers[STAGES];
    const uint32_t base = ladder::kept(ladder::shared_address(shared));
    const uint32_t filled = ladder::kept(ladder::shared_address(barriers));  // one a stage

    // The same in all lanes, and known to be: what depends on it branches and computes once a warp.
    const int warp = ladder::warp_in_block(), lane = threadIdx.x % 32;

    const ladder::Tile tile = ladder::grouped_tile<GROUP>(blockIdx.x, tiles_m, tiles_n);
    const int64_t first_row = tile.m * BM, first_col = tile.n * BN;
    const int k_tiles = (K + BK - 1) / BK;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage)
            ladder::barrier_init(filled + 8 * stage, kThreads + (kEngine ? 1 : 0));
        ladder::publish_barriers();
    }
    __syncthreads();

    ladder::Transposer<BM, kRowA, BK, kThreads, kShape == kWhole> copy_a(A, first_row, M, K);
    std::conditional_t<kTransposeB, ladder::Transposer<BN, kRowB, BK, kThreads, kShape == kWhole>,
                       ladder::Elements<BN, BK, kThreads>>
        copy_b(B, first_col, N, K);
    constexpr int kCopiesA = decltype(copy_a)::kCopies, kCopiesB = kEngine ? 0 : decltype(copy_b)::kCopies;

    // The part-th of kParts portions of this thread's copies of a tile.
    const auto copy = [&](uint32_t to, int part, int parts, bool wanted) {
#pragma unroll
        for (int i = part * kCopiesA / parts; i < (part + 1) * kCopiesA / parts; ++i) copy_a.copy(to, i, wanted);
#pragma unroll
        for (int i = part * kCopiesB / parts; i < (part + 1) * kCopiesB / parts; ++i)
            copy_b.copy(to + kBytesA, i, wanted);
    };
    const auto next_tile = [&] {
        copy_a.next_tile();
        copy_b.next_tile();
    };
    // What the first warp orders of the copy engine.
    const auto order = [&](uint32_t to, uint32_t barrier, int k_tile) {
        if (kEngine && warp == 0 && k_tile < k_tiles) {
            ladder::arrive_expecting(barrier, kBytesB);
            ladder::load_tile(to + kBytesA, map_b, barrier, static_cast<int>(first_col), k_tile * BK);
        }
    };

#pragma unroll
    for (int stage = 0; stage < kAhead; ++stage) {
        order(base + stage * kStage, filled + 8 * stage, stage);
        copy(base + stage * kStage, 0, 1, stage < k_tiles);
        ladder::arrive_when_copied(filled + 8 * stage);
        next_tile();
    }

    // Lanes l and l ^ 1 share their rows, l and l ^ 2 their columns: a 16-byte read takes a wavefront for 16 lanes.
    const int lane_row = lane / 2 % kLanesM, lane_col = lane / (2 * kLanesM) * 2 + lane % 2;
    const int my_row = warp / kWarpsN * WM + lane_row * 4;
    const int my_col = warp % kWarpsN * WN + lane_col * 4;
    const uint32_t read_a = ladder::kept(base + my_row * 4), read_b = ladder::kept(base + kBytesA + my_col * 4);

    float acc[TM][TN] = {};
    // Fragments: b of this k and of the next; a of this k, where rows that have been multiplied are read for the next.
    float a[TM], b[2][TN];
    // Four rows: even columns, then odd ones, in the next row backwards. ptxas keeps to this order but for details.
    const auto multiply = [&](int first, const float (&y)[TN]) {
#pragma unroll
        for (int i = first; i < first + 4; ++i)
#pragma unroll
            for (int turn = 0; turn < TN; ++turn) {
                const int at = i % 2 ? TN - 1 - turn : turn;
                const int j = at < TN / 2 ? 2 * at : 2 * at - TN + 1;
                acc[i][j] += a[i] * y[j];
            }
    };
    const auto read_rows = [&](int first, uint32_t at) {
        float four[4];
        ladder::read_fragment<4, 4>(four, read_a + at + first * kLaneM);
        for (int e = 0; e < 4; ++e) a[first + e] = four[e];
    };

    ladder::RingPlace<STAGES> from, into;
    into.stage = kAhead;  // and from then on that which was read in the step before
    ladder::wait_phase(filled, 0);
#pragma unroll
    for (int row = 0; row < TM; row += 4) read_rows(row, 0);
    ladder::read_fragment<TN, kLaneN>(b[0], read_b);
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        uint32_t offset = from.stage * kStage;
        const uint32_t to = base + into.stage * kStage, copied = filled + 8 * into.stage;
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k % kMeetEvery == 0) __syncthreads();  // the first: nobody reads that stage any more
            if (k == 0) order(to, copied, k_tile + kAhead);
            constexpr int kEvery = (BK - 1) / BURSTS;
            if (k % kEvery == 0 && k / kEvery < BURSTS) copy(to, k / kEvery, BURSTS, k_tile + kAhead < k_tiles);
            // At once, or else ptxas computes the next addresses before the last copies, and keeps both.
            if (k == (BURSTS - 1) * kEvery) next_tile();
            const int early = k == BK - 1 ? TM / 2 : 0;  // rows multiplied before the step, the rest after it
#pragma unroll
            for (int row = 0; row < early; row += 4) multiply(row, b[k % 2]);
            if (k == BK - 1) {  // step to the next stage
                // Also where nothing was to be copied: then nobody waits for it.
                ladder::arrive_when_copied(copied);
                from.advance();
                into.advance();
                offset = from.stage * kStage;
                if (k_tile + 1 < k_tiles) ladder::wait_phase(filled + 8 * from.stage, from.parity);
            }
            // Read for the next k, four rows as soon as they are multiplied. (After the last tile: stale values, never
            // used.) The order is for ptxas: see above.
            const int next = (k + 1) % BK;
#pragma unroll
            for (int row = 0; row < TM; row += 4) {
                if (row >= early) multiply(row, b[k % 2]);
                read_rows(row, offset + next * kRowA * 4);
                if (row == 0) ladder::read_fragment<TN, kLaneN>(b[(k + 1) % 2], read_b + offset + next * kRowB * 4);
            }
        }
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int64_t row = first_row + my_row + i / 4 * kLaneM + i % 4;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int64_t col = first_col + my_col + j / 4 * kLaneN;
            // A 16-byte store wants four consecutive registers, and by way of it so does acc. An addition in between
            // (which -0 would notice, so it is not optimised away) leaves acc where ptxas likes it.
            const auto value = [&](int e) { return acc[i][j + e] + 0.0f; };
            ladder::store4<kShape == kWhole>(C + row * N + col, make_float4(value(0), value(1), value(2), value(3)),
                                             row < M, N - col);
        }
    }
}

struct Plan {
    CUtensorMap b;
    bool engine = false;  // whether the copy engine takes B
};

template <Shape kShape>
static cudaError_t start(const Args *args, const Plan &plan, cudaStream_t stream) {
    const int64_t tiles_m = (args->M + BM - 1) / BM, tiles_n = (args->N + BN - 1) / BN;
    if (tiles_m * tiles_n > INT32_MAX || args->K > INT32_MAX - STAGES * BK) return cudaErrorInvalidValue;
    const auto kernel = in_step<kShape>;
    // More than 48 KB of shared memory must be asked for.
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<static_cast<unsigned>(tiles_m * tiles_n), kThreads, kSharedBytes, stream>>>(
        args->A, args->B, args->C, plan.b, args->M, args->N, static_cast<int>(args->K), tiles_m, tiles_n);
    return cudaGetLastError();
}

static bool aligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    Plan made{};
    made.engine = !kTransposeB && args->N % 4 == 0 && aligned(args->B);
    if (made.engine) {
        const ladder::TiledMatrix b{
            CU_TENSOR_MAP_DATA_TYPE_FLOAT32,   4, args->B, args->K, args->N, BK, BN, CU_TENSOR_MAP_SWIZZLE_NONE,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
        if (const cudaError_t error = ladder::make_map(&made.b, b)) return error;
    }
    *plan = new Plan(made);
    return cudaSuccess;
}

extern "C" cudaError_t launch(const Args *args, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    const bool whole = args->M % BM == 0 && args->N % BN == 0 && args->K % BK == 0 && aligned(args->C);
    if (whole && (plan.engine || kTransposeB)) return start<kWhole>(args, plan, stream);
    if (plan.engine || kTransposeB) return start<kEdge>(args, plan, stream);
    return start<kAny>(args, plan, stream);
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
