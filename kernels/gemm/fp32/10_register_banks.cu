// Rung 10: the register file. FFMAs in an order in which no two operands wait for the same bank.
//
// Idea     An FFMA reads three registers. The register file delivers one with an even and one with an odd number a
//          cycle; `.reuse` keeps an operand of the FFMA before, which leaves two to be read, and costs a cycle more
//          when both are even or both odd, or when no operand is kept. In the rung before, that happens to 27 % of the
//          FFMAs: of 100 cycles, 20 wait for registers. Nobody can choose registers in CUDA C++, but ptxas can be led.
// Changed  against the rung before:
//          - the order of the products: a row a[i] is held while the columns b[j] pass, first the even ones, then the
//            odd ones, and backwards in the next row. b[j] comes as a 16-byte vector, so its parity is that of j; in
//            such a run all b[j] have one parity, and ptxas finds accumulators of the other;
//          - fewer, longer runs: 16 rows of 8 columns a thread, for two fragments of A and one of B;
//          - nothing else in the loop: B comes by the copy engine (no instruction, no address), A by 4-byte cp.async at
//            constant offsets from BM / 32 pointers. Barriers in shared memory (mbarrier) instead of __syncthreads: a
//            warp waits for data, not for other warps.
// Model    counted in the SASS of the main loop, a cycle for each instruction and one more for each FFMA with such a
//          conflict: FFMA 93.5 % of the instructions, conflicts at 8.7 % of the FFMAs (6.5 % with BURSTS 1), so the FMA pipe
//          busy in 86 % of cycles. The rung before: 86 %, 27 %, 69 %. tests/emulated/test_register_banks.py counts.
// Portions BURSTS: a thread's copies of a tile, spread over the step. With 1, ptxas reads 44 of 192 fragments a step less than
//          16 instructions before their use, with 2 and 4 three and four. With 2, warps wait for a place in the queue of the
//          memory pipe four times as long as with 4 (mio_throttle, 0.027 and 0.006 cycles an instruction), and tiles
//          take 1.29 M cycles on average, 1.35 M on the slowest multiprocessors, which decide; with 4 1.28 M and 1.30 M.
// Measured H200, cold L2, median, ratio to cuBLAS FP32 in the same process, BURSTS 4: 4096 1.023 (2633 us, 52.2 TFLOP/s;
//          recorded), 8192 1.044 (20.56 ms; fp32_tuning); with 2 0.984 and 1.041; with 1, in an earlier run, 0.954 and 0.991.
//          In the profile, the FMA pipe is busy in 82 % of the cycles in which the multiprocessor is (the rung before:
//          74 %), and dispatch stalls are hardly more frequent where the model has conflicts.
// Tile     BM x BN x BK = 128 x 256 x 32, 256 threads, one block a multiprocessor, warps of 64 x 64. Shared memory
//          4 * 32 * (132 + 256) * 4 B = 194 KB; 128 accumulators + 2 * (16 + 8) operands + addresses = 201 registers,
//          no spills. Reuse 2 * 128 * 256 / 384 = 171 FLOP per element loaded. At 4096: 512 tiles = 3.88 waves of 132.
// Banks    of shared memory: as in the rung before; B lies as the copy engine writes it, rows of BN.
// Ring     STAGES tiles. A tile is ordered STAGES - 2 tiles ahead: into the stage that was read two tiles ago, so that
//          the wait for its last reader is none. `filled` counts an arrival of each thread (its copies have landed),
//          one of the warp that orders, and the engine's bytes; `read` one of each warp.
// Sizes    any M, N, K >= 1, layouts nn and nt: see Shape. Needs compute capability 9.0 for the copy engine.
#include "gemm.h"

#include "../../common/async_copy.cuh"
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
static_assert(BK % 2 == 0 && TN % 2 == 0, "see multiply");
static_assert(BN <= 256 && BK <= 256, "one order of the copy engine takes 256 elements each way");
static_assert(STAGES >= 3, "one stage is read, one was read, and others are filled");
static_assert(BURSTS >= 1 && BURSTS < BK, "a portion at a value of k, none at the last");

constexpr int kPad = 4;
constexpr int kRowA = BM + kPad;
#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposeB = true;
#else
constexpr bool kTransposeB = false;
#endif
constexpr int kRowB = BN + (kTransposeB ? kPad : 0);
constexpr int kBytesA = BK * kRowA * 4, kBytesB = BK * kRowB * 4;
constexpr int kStage = (kBytesA + kBytesB + 127) / 128 * 128;  // the copy engine wants tiles at multiples of 128 bytes
constexpr int kSharedBytes = STAGES * kStage;
constexpr int kAhead = STAGES - 2;  // tiles: what a stage held has been read by all warps, two tiles later
static_assert(kBytesA % 128 == 0, "B follows A");
static_assert(MIN_BLOCKS * (kSharedBytes + 2048) <= 228 * 1024, "the stages must fit in shared memory");

// Whole: sizes are multiples of the tile. Edge: tiles may stick out, but rows of B suit the copy engine. Any: any size.
enum Shape { kWhole, kEdge, kAny };

template <Shape kShape>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    register_banks(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C,
                   const __grid_constant__ CUtensorMap map_b, int64_t M, int64_t N, int K, int64_t tiles_m,
                   int64_t tiles_n) {
    constexpr bool kEngine = !kTransposeB && kShape != kAny;  // who copies B
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ __align__(8) uint64_t barriers[2 * STAGES];
    const uint32_t base = ladder::kept(ladder::shared_address(shared));
    const uint32_t filled = ladder::kept(ladder::shared_address(barriers));  // one a stage;
    constexpr uint32_t kRead = 8 * STAGES;                                   // `read` lies so far behind `filled`

    // The same in all lanes, and known to be: what depends on it branches and computes once a warp.
    const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32), 0), lane = threadIdx.x % 32;

    const ladder::Tile tile = ladder::grouped_tile<GROUP>(blockIdx.x, tiles_m, tiles_n);
    const int64_t first_row = tile.m * BM, first_col = tile.n * BN;
    const int k_tiles = (K + BK - 1) / BK;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            ladder::barrier_init(filled + 8 * stage, kThreads + (kEngine ? 1 : 0));
            ladder::barrier_init(filled + kRead + 8 * stage, kWarps);
        }
        ladder::publish_barriers();
    }
    __syncthreads();

    ladder::Transposer<BM, kRowA, BK, kThreads, kShape == kWhole> copy_a(A, first_row, M, K);
    auto copy_b = [&] {
        if constexpr (kTransposeB)
            return ladder::Transposer<BN, kRowB, BK, kThreads, kShape == kWhole>(B, first_col, N, K);
        else
            return ladder::Elements<BN, BK, kThreads>(B, first_col, N, K);
    }();
    constexpr int kCopiesA = decltype(copy_a)::kCopies, kCopiesB = kEngine ? 0 : decltype(copy_b)::kCopies;

    // The part-th of kParts portions of this thread's copies of a tile.
    const auto copy = [&](uint32_t to, int part, int parts, bool wanted) {
#pragma unroll
        for (int i = part * kCopiesA / parts; i < (part + 1) * kCopiesA / parts; ++i) copy_a.copy(to, i, wanted);
#pragma unroll
        for (int i = part * kCopiesB / parts; i < (part + 1) * kCopiesB / parts; ++i)
            copy_b.copy(to + kBytesA, i, wanted);
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
        copy_a.next_tile();
        copy_b.next_tile();
    }

    // Lanes are numbered so that lane and lane ^ 1 share their rows, lane and lane ^ 2 their columns: a 16-byte read
    // takes one wavefront for 16 lanes, instead of one for 8, where such pairs read the same vector.
    const int lane_row = lane / 2 % kLanesM, lane_col = lane / (2 * kLanesM) * 2 + lane % 2;
    const int my_row = warp / kWarpsN * WM + lane_row * 4;
    const int my_col = warp % kWarpsN * WN + lane_col * 4;
    const uint32_t read_a = ladder::kept(base + my_row * 4), read_b = ladder::kept(base + kBytesA + my_col * 4);

    float acc[TM][TN] = {};
    float a[2][TM], b[2][TN];  // fragments of this k and of the next
    // One k: even columns, then odd ones, in the next row backwards. ptxas keeps to this order but for details.
    const auto multiply = [&](const float (&x)[TM], const float (&y)[TN]) {
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int turn = 0; turn < TN; ++turn) {
                const int at = i % 2 ? TN - 1 - turn : turn;
                const int j = at < TN / 2 ? 2 * at : 2 * at - TN + 1;
                acc[i][j] += x[i] * y[j];
            }
    };

    ladder::RingPlace<STAGES> from, into;
    into.stage = kAhead;
    ladder::wait_phase(filled, 0);
    ladder::read_fragment<TM, kLaneM>(a[0], read_a);
    ladder::read_fragment<TN, kLaneN>(b[0], read_b);
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        uint32_t offset = from.stage * kStage;
        const uint32_t to = base + into.stage * kStage;
        ladder::wait_phase(filled + kRead + 8 * into.stage, into.parity ^ 1);
        order(to, filled + 8 * into.stage, k_tile + kAhead);
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            constexpr int kEvery = (BK - 1) / BURSTS;
            if (k % kEvery == 0 && k / kEvery < BURSTS) copy(to, k / kEvery, BURSTS, k_tile + kAhead < k_tiles);
            if (k == BK - 1) {  // step to the next stage
                // Also where nothing was to be copied: then nobody waits for it.
                ladder::arrive_when_copied(filled + 8 * into.stage);
                copy_a.next_tile();
                copy_b.next_tile();
                __syncwarp();
                ladder::arrive(filled + kRead + 8 * from.stage);
                from.advance();
                into.advance();
                offset = from.stage * kStage;
                if (k_tile + 1 < k_tiles) ladder::wait_phase(filled + 8 * from.stage, from.parity);
            }
            // Read for the next k while this one is multiplied. (After the last tile: stale values, never used.)
            const int next = (k + 1) % BK;
            ladder::read_fragment<TM, kLaneM>(a[(k + 1) % 2], read_a + offset + next * kRowA * 4);
            ladder::read_fragment<TN, kLaneN>(b[(k + 1) % 2], read_b + offset + next * kRowB * 4);
            multiply(a[k % 2], b[k % 2]);
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
    const auto kernel = register_banks<kShape>;
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
