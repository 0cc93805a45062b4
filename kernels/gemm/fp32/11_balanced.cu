// Rung 11: persistent blocks, and the last two rounds cut along k, so that all multiprocessors end together.
//
// Idea     Tiles of 128 x 256 are few: at 4096, 512 of them are 3.88 rounds of 132 blocks, so in the fourth 16
//          multiprocessors have nothing to do; at 8192, 15.5 rounds take 16. FMAs are not short of power, they run at
//          1.98 GHz: what is idle is lost. And a block that ends leaves its multiprocessor with an empty ring: the next
//          one sets up barriers, and waits for its first tiles from L2 or DRAM, while no FMA runs.
// Changed  against 10_register_banks, whose main loop it keeps:
//          - a block a multiprocessor; it walks over its tiles, whole ones first, then its equal share of what is left
//            after the last but two rounds: a range of steps along k, which begins in the middle of a tile and ends in
//            the middle of another (common/balanced.cuh). Sums of the first part go through L2 to the block that has
//            the beginning of that tile, long before it wants them (common/hand_over.cuh);
//          - copies run on from tile to tile: while a tile of C is stored, the first steps of the next one land.
// Model    At 4096, 512 * 128 steps of 8192 FMA cycles on 132 blocks are 496.5 each in place of 512, 3.0 % less; at
//          8192 3972 in place of 4096, 3.0 %. Handing over writes and reads 128 KB a block, 64 bytes a cycle: 4096
//          cycles, half a step. What the ring that never empties saves comes on top.
// Tile     BM x BN x BK = 128 x 256 x 32, 256 threads, warps of 64 x 64, 4 stages: all as before.
// Sizes    any M, N, K >= 1, layouts nn and nt: see Shape. Needs compute capability 9.0 for the copy engine. Where
//          tiles stick out, there is but one round, or rounds are full, no tile is cut: then there are as few blocks as
//          need no more rounds. One plan serves one launch at a time.
#include "gemm.h"

#include <type_traits>

#include "../../common/balanced.cuh"
#include "../../common/hand_over.cuh"
#include "../../common/mbarrier.cuh"
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
#define BURSTS 2  // in how many portions a thread issues its copies of a tile
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
constexpr int kAhead = STAGES - 2;     // tiles: what a stage held has been read by all warps, two tiles later
constexpr int kVectors = TM * TN / 4;  // of four sums a thread
// Steps along k that writing and reading a tile of sums takes, 64 bytes a cycle.
constexpr int kHandOverSteps = (2 * BM * BN * 4 / 64 + BM * BN * BK / 128 - 1) / (BM * BN * BK / 128);
static_assert(kBytesA % 128 == 0, "B follows A");
static_assert(MIN_BLOCKS * (kSharedBytes + 2048) <= 228 * 1024, "the stages must fit in shared memory");

// Whole: sizes are multiples of the tile. Edge: tiles may stick out, but rows of B suit the copy engine. Any: any size.
enum Shape { kWhole, kEdge, kAny };

// The tiles that are shared along k: the first of them, and where blocks hand over sums and say that they have.
struct Shared {
    int first = 0;
    float4 *sums = nullptr;     // for each block and warp, kVectors rows of 32 lanes
    uint32_t *flags = nullptr;  // for each block and warp; all 0 between two launches
};

// Tiles in bands of GROUP rows, walked column by column: see raster.cuh. In 32 bits, as it comes between two tiles.
struct Place {
    int m, n;

    __device__ __forceinline__ Place(unsigned index, unsigned tiles_m, unsigned tiles_n) {
        const unsigned band = GROUP * tiles_n, first = index / band * GROUP, inside = index % band;
        const unsigned height = tiles_m - first < GROUP ? tiles_m - first : GROUP;
        m = static_cast<int>(first + inside % height), n = static_cast<int>(inside / height);
    }
};

template <Shape kShape>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    balanced(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C,
             const __grid_constant__ CUtensorMap map_b, int64_t M, int64_t N, int K, int tiles_m, int tiles_n,
             int workers, const Shared together) {
    constexpr bool kEngine = !kTransposeB && kShape != kAny;  // who copies B
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ __align__(8) uint64_t barriers[2 * STAGES];
    const uint32_t base = ladder::kept(ladder::shared_address(shared));
    const uint32_t filled = ladder::kept(ladder::shared_address(barriers));  // one a stage;
    constexpr uint32_t kRead = 8 * STAGES;                                   // `read` lies so far behind `filled`

    // The same in all lanes, and known to be: what depends on it branches and computes once a warp.
    const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32), 0), lane = threadIdx.x % 32;

    // Where this block multiplies, and where it copies, which is kAhead steps ahead.
    const int k_tiles = (K + BK - 1) / BK;
    constexpr bool kShares = kShape == kWhole;  // at edges registers are short
    ladder::Walk<kShares> at(blockIdx.x, workers, tiles_m * tiles_n, together.first, k_tiles), ahead = at;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            ladder::barrier_init(filled + 8 * stage, kThreads + (kEngine ? 1 : 0));
            ladder::barrier_init(filled + kRead + 8 * stage, kWarps);
        }
        ladder::publish_barriers();
    }
    __syncthreads();

    ladder::Transposer<BM, kRowA, BK, kThreads, kShape == kWhole> copy_a;
    std::conditional_t<kTransposeB, ladder::Transposer<BN, kRowB, BK, kThreads, kShape == kWhole>,
                       ladder::Elements<BN, BK, kThreads>>
        copy_b;
    constexpr int kCopiesA = decltype(copy_a)::kCopies, kCopiesB = kEngine ? 0 : decltype(copy_b)::kCopies;

    // The part-th of kParts portions of this thread's copies of a tile.
    const auto copy = [&](uint32_t to, int part, int parts, bool wanted) {
#pragma unroll
        for (int i = part * kCopiesA / parts; i < (part + 1) * kCopiesA / parts; ++i) copy_a.copy(to, i, wanted);
#pragma unroll
        for (int i = part * kCopiesB / parts; i < (part + 1) * kCopiesB / parts; ++i)
            copy_b.copy(to + kBytesA, i, wanted);
    };
    int step = 0, column = 0;  // to be copied next: along k, and of B
    int waiting = 0;           // steps that are copied, or on their way, and not yet multiplied
    const auto go_to_tile = [&] {
        const Place tile(ahead.tile, tiles_m, tiles_n);
        step = ahead.from, column = tile.n * BN;
        copy_a.go_to(A, int64_t{tile.m} * BM, M, K, step * BK);
        copy_b.go_to(B, int64_t{tile.n} * BN, N, K, step * BK);
    };
    const auto next_step = [&] {
        if (++step < ahead.to) {
            copy_a.next_tile();
            copy_b.next_tile();
        } else {
            ahead.advance();
            if (ahead.more()) go_to_tile();
        }
    };
    // What the first warp orders of the copy engine.
    const auto order = [&](uint32_t to, uint32_t barrier) {
        if (kEngine && warp == 0 && ahead.more()) {
            ladder::arrive_expecting(barrier, kBytesB);
            ladder::load_tile(to + kBytesA, map_b, barrier, column, step * BK);
        }
    };

    go_to_tile();
#pragma unroll
    for (int stage = 0; stage < kAhead; ++stage) {
        order(base + stage * kStage, filled + 8 * stage);
        copy(base + stage * kStage, 0, 1, ahead.more());
        ladder::arrive_when_copied(filled + 8 * stage);
        if (ahead.more()) {
            ++waiting;
            next_step();
        }
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
    for (; at.more(); at.advance()) {
        for (int left = at.to - at.from; left > 0; --left) {
            uint32_t offset = from.stage * kStage;
            const uint32_t to = base + into.stage * kStage;
            const bool wanted = ahead.more();
            ladder::wait_phase(filled + kRead + 8 * into.stage, into.parity ^ 1);
            order(to, filled + 8 * into.stage);
#pragma unroll
            for (int k = 0; k < BK; ++k) {
                constexpr int kEvery = (BK - 1) / BURSTS;
                if (k % kEvery == 0 && k / kEvery < BURSTS) copy(to, k / kEvery, BURSTS, wanted);
                if (k == BK - 1) {  // step to the next stage
                    // Also where nothing was to be copied: then nobody waits for it.
                    ladder::arrive_when_copied(filled + 8 * into.stage);
                    if (wanted) next_step();
                    waiting += wanted - 1;
                    __syncwarp();
                    ladder::arrive(filled + kRead + 8 * from.stage);
                    from.advance();
                    into.advance();
                    offset = from.stage * kStage;
                    if (waiting > 0) ladder::wait_phase(filled + 8 * from.stage, from.parity);
                }
                // Read for the next k, perhaps of the next tile, while this one is multiplied. (After the last step:
                // stale values, never used.)
                const int next = (k + 1) % BK;
                ladder::read_fragment<TM, kLaneM>(a[(k + 1) % 2], read_a + offset + next * kRowA * 4);
                ladder::read_fragment<TN, kLaneN>(b[(k + 1) % 2], read_b + offset + next * kRowB * 4);
                multiply(a[k % 2], b[k % 2]);
            }
        }

        // A 16-byte store wants four consecutive registers, and by way of it so does acc. An addition in between (which
        // -0 would notice, so it is not optimised away) leaves acc where ptxas likes it.
        const auto four = [&](int i, int j) {
            return make_float4(acc[i][j] + 0.0f, acc[i][j + 1] + 0.0f, acc[i][j + 2] + 0.0f, acc[i][j + 3] + 0.0f);
        };
        // Among those that hand over. Kept, here and below: what depends on it would be computed before the loop, for
        // which registers are short.
        const uint32_t own = ladder::kept(blockIdx.x * kWarps + warp);
        if (at.gives()) {  // to the block after this one
            float4 *sums = together.sums + own * (kVectors * 32) + lane;
#pragma unroll
            for (int v = 0; v < kVectors; ++v) ladder::give_words(sums + v * 32, four(v * 4 / TN, v * 4 % TN));
            ladder::raise_flag(together.flags + own);
        } else {
            if (at.takes()) {  // from the one before it
                const float4 *sums = together.sums + (own - kWarps) * (kVectors * 32) + lane;
                ladder::wait_given(together.flags + own - kWarps);
#pragma unroll
                for (int v = 0; v < kVectors; ++v) {
                    const float4 given = ladder::take_words(sums + v * 32);
                    float *sum = acc[v * 4 / TN] + v * 4 % TN;
                    sum[0] += given.x, sum[1] += given.y, sum[2] += given.z, sum[3] += given.w;
                    if (v % 4 == 3) __syncwarp();  // no more are on their way: registers
                }
                ladder::lower_flag(together.flags + own - kWarps);
            }
            const Place tile(at.tile, tiles_m, tiles_n);
            const int64_t first_row = int64_t{tile.m} * BM + ladder::kept(my_row);
            const int64_t first_col = int64_t{tile.n} * BN + ladder::kept(my_col);
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                const int64_t row = first_row + i / 4 * kLaneM + i % 4;
#pragma unroll
                for (int j = 0; j < TN; j += 4) {
                    const int64_t col = first_col + j / 4 * kLaneN;
                    ladder::store4<kShape == kWhole>(C + row * N + col, four(i, j), row < M, N - col);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; ++j) acc[i][j] = 0.0f;
    }
}

struct Plan {
    CUtensorMap b;
    bool engine = false;  // whether the copy engine takes B
    int tiles_m = 0, tiles_n = 0, workers = 0;
    Shared together;

    ~Plan() {
        if (together.sums != nullptr) cudaFree(together.sums);
        if (together.flags != nullptr) cudaFree(together.flags);
    }
};

template <Shape kShape>
static cudaError_t start(const Args *args, const Plan &plan, cudaStream_t stream) {
    const auto kernel = balanced<kShape>;
    // More than 48 KB of shared memory must be asked for.
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<plan.workers, kThreads, kSharedBytes, stream>>>(args->A, args->B, args->C, plan.b, args->M, args->N,
                                                             static_cast<int>(args->K), plan.tiles_m, plan.tiles_n,
                                                             plan.workers, plan.together);
    return cudaGetLastError();
}

static bool aligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

static Shape shape_of(const Args &args, const Plan &plan) {
    if (!plan.engine && !kTransposeB) return kAny;
    return args.M % BM == 0 && args.N % BN == 0 && args.K % BK == 0 && aligned(args.C) ? kWhole : kEdge;
}

// How many blocks there are, and which tiles they share.
static cudaError_t divide(Plan *plan, const Args &args) {
    const int64_t tiles_m = (args.M + BM - 1) / BM, tiles_n = (args.N + BN - 1) / BN;
    if (tiles_m * tiles_n > INT32_MAX / 2 || tiles_n > INT32_MAX / GROUP || args.K > INT32_MAX - STAGES * BK)
        return cudaErrorInvalidValue;
    int device = 0, multiprocessors = 0;
    if (const cudaError_t error = cudaGetDevice(&device)) return error;
    if (const cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device))
        return error;
    plan->tiles_m = static_cast<int>(tiles_m), plan->tiles_n = static_cast<int>(tiles_n);
    const int tiles = plan->tiles_m * plan->tiles_n, steps = static_cast<int>((args.K + BK - 1) / BK);
    const int most = multiprocessors * MIN_BLOCKS;
    const bool shares = shape_of(args, *plan) == kWhole;
    plan->together.first = shares ? ladder::first_shared(tiles, steps, most, kHandOverSteps) : tiles;
    plan->workers = plan->together.first < tiles ? most : ladder::even_workers(tiles, most);
    if (plan->together.first == tiles) return cudaSuccess;
    const size_t warps = static_cast<size_t>(most) * kWarps;
    if (const cudaError_t error = cudaMalloc(&plan->together.sums, warps * kVectors * 32 * sizeof(float4)))
        return error;
    if (const cudaError_t error = cudaMalloc(&plan->together.flags, warps * sizeof(uint32_t))) return error;
    if (const cudaError_t error = cudaMemset(plan->together.flags, 0, warps * sizeof(uint32_t))) return error;
    return cudaStreamSynchronize(cudaStreamLegacy);
}

static cudaError_t fill(Plan *plan, const Args &args) {
    plan->engine = !kTransposeB && args.N % 4 == 0 && aligned(args.B);
    if (plan->engine) {
        const ladder::TiledMatrix b{
            CU_TENSOR_MAP_DATA_TYPE_FLOAT32,   4, args.B, args.K, args.N, BK, BN, CU_TENSOR_MAP_SWIZZLE_NONE,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
        if (const cudaError_t error = ladder::make_map(&plan->b, b)) return error;
    }
    return divide(plan, args);
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    Plan *made = new Plan{};
    const cudaError_t error = fill(made, *args);
    if (error == cudaSuccess)
        *plan = made;
    else
        delete made;
    return error;
}

extern "C" cudaError_t launch(const Args *args, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    switch (shape_of(*args, plan)) {
        case kWhole:
            return start<kWhole>(args, plan, stream);
        case kEdge:
            return start<kEdge>(args, plan, stream);
        default:
            return start<kAny>(args, plan, stream);
    }
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
