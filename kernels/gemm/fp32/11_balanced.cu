// Rung 11: persistent blocks whose warps keep in step, and the last two rounds cut along k.
//
// Idea     The profile of 10_register_banks at 4096: a multiprocessor is busy for 5.01 M cycles on average, for 5.39 M
//          at worst. 512 tiles of 128 x 256 are 3.88 rounds of 132, which take 4: that is 3 %. The rest is that tiles
//          differ: the slowest multiprocessors with three tiles and with four took 1.35 M cycles a tile, the mean is
//          1.29 M. In 09_double_buffer and in cuBLAS warps meet at a barrier in each step, and no tile is slower than
//          another. So it seems that warps which nothing holds together fall into a slow gait: two take turns at a
//          scheduler; at one place of the loop they fetch its instructions once (70 KB a step), apart they do it twice.
//          Waits for instructions are fewest where the loop begins and where warps queue for copies, then double.
// Changed  against 10_register_banks:
//          - warps meet once a step of 32 k (MEETINGS, MEET_ALL);
//          - a block a multiprocessor; it walks over its tiles, whole ones first, then its equal share of what is left
//            after the last but two rounds: a range of steps along k, which begins in the middle of a tile and ends in
//            the middle of another (common/balanced.cuh). Sums of the first part go through L2 to the block that has
//            the beginning of that tile, long before it wants them (common/hand_over.cuh);
//          - copies run on from tile to tile: while a tile of C is stored, the first steps of the next one land. The
//            main loop knows nothing of it: it runs up to where a part begins, to be copied or to be multiplied;
//          - rows of A are read for the next k into the same registers, once those of this k have been multiplied.
// Model    At 4096, 512 * 128 steps on 132 blocks are 496.5 each in place of 512, at 8192 3972 in place of 4096. A step
//          is 8192 FMA cycles, 8766 with all instructions; rung 10 needs about 9640 in its quick gait, 10540 in the
//          slow one: 2.42 or 2.65 ms at 4096. cuBLAS: 2.69.
// Lost     The first form of this rung came to 0.866 to 0.881 at 4096 and 0.93 at 8192. Its main loop looked after its
//          parts itself; ptxas then read fragments 4 instructions before their use, not 64, so that each of the 32 k of
//          a step waited for shared memory. (Rung 10 has 44 such reads a step with BURSTS 1, and 3 with BURSTS 2.)
//          tests/emulated/test_register_banks.py counts them.
// Tile     BM x BN x BK = 128 x 256 x 32, 256 threads, warps of 64 x 64, 4 stages: all as before.
// Sizes    any M, N, K >= 1, layouts nn and nt: see Shape. Needs compute capability 9.0 for the copy engine. Where
//          tiles stick out, a block has one. Where there is but one round, or rounds are full, no tile is cut: then
//          there are as few blocks as need no more rounds. One plan serves one launch at a time.
#include "gemm.h"

#include <type_traits>

#include "../../common/hand_over.cuh"
#include "../../common/mbarrier.cuh"
#include "../../common/tensor_map.cuh"
#include "../../common/tma.cuh"
#include "../../common/vectors.cuh"
#include "copies.cuh"
#include "parts.cuh"

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
#ifndef MEET_ALL
#define MEET_ALL 1  // 0: only those of a scheduler
#endif
#ifndef WHOLE
#define WHOLE 0  // 1: a block has one tile, as in the rung before
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
static_assert(BN <= 256 && BK <= 256, "one order of the copy engine takes 256 elements each way");
static_assert(STAGES >= 3, "one stage is read, one was read, and others are filled");
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
constexpr int kAhead = STAGES - 2;     // tiles: what a stage held has been read by all warps, two tiles later
constexpr int kVectors = TM * TN / 4;  // of four sums a thread
// Steps along k that writing and reading a tile of sums takes, 64 bytes a cycle.
constexpr int kHandOverSteps = (2 * BM * BN * 4 / 64 + BM * BN * BK / 128 - 1) / (BM * BN * BK / 128);
constexpr int kSchedulers = 4;  // of a multiprocessor; warp w is on the (w % 4)-th
constexpr int kMeetEvery = MEETINGS > 0 ? BK / MEETINGS : BK;
static_assert(kWarps % kSchedulers == 0, "as many warps on each scheduler");
static_assert(kMeetEvery * (MEETINGS > 0 ? MEETINGS : 1) == BK, "at whole values of k");
static_assert(kBytesA % 128 == 0, "B follows A");
static_assert(MIN_BLOCKS * (kSharedBytes + 2048) <= 228 * 1024, "the stages must fit in shared memory");

// Whole: sizes are multiples of the tile. Edge: tiles may stick out, but rows of B suit the copy engine. Any: any size.
enum Shape { kWhole, kEdge, kAny };

template <Shape kShape>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    balanced(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C,
             const __grid_constant__ CUtensorMap map_b, int64_t M, int64_t N, int K, int tiles_m, int tiles_n,
             int workers, const ladder::SharedTiles together) {
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
    constexpr bool kStays = kShape == kWhole;  // at edges registers are short
    ladder::Walk<kStays> at(blockIdx.x, workers, tiles_m * tiles_n, together.first, k_tiles), ahead = at;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            ladder::barrier_init(filled + 8 * stage, kThreads + (kEngine ? 1 : 0));
            ladder::barrier_init(filled + kRead + 8 * stage, kWarps);
        }
        ladder::publish_barriers();
    }
    __syncthreads();

    constexpr bool kInside = kShape == kWhole;
    constexpr auto kKeeps = kTransposeB ? ladder::kNothing : kInside ? ladder::kAddresses : ladder::kOffsets;
    ladder::Transposer<BM, kRowA, BK, kThreads, kInside, kKeeps> copy_a;
    std::conditional_t<kTransposeB, ladder::Transposer<BN, kRowB, BK, kThreads, kInside, kKeeps>,
                       ladder::Elements<BN, BK, kThreads>>
        copy_b;
    constexpr int kCopiesA = decltype(copy_a)::kCopies, kCopiesB = kEngine ? 0 : decltype(copy_b)::kCopies;

    // So that warps keep in step: see above.
    const auto meet = [&] {
        if (!MEET_ALL) return ladder::named_barrier_sync(1 + warp % kSchedulers, kThreads / kSchedulers);
        __syncthreads();
    };
    // The part-th of kParts portions of this thread's copies of a tile.
    const auto copy = [&](uint32_t to, int part, int parts, bool wanted) {
#pragma unroll
        for (int i = part * kCopiesA / parts; i < (part + 1) * kCopiesA / parts; ++i) copy_a.copy(to, i, wanted);
#pragma unroll
        for (int i = part * kCopiesB / parts; i < (part + 1) * kCopiesB / parts; ++i)
            copy_b.copy(to + kBytesA, i, wanted);
    };
    // To be copied next: a column of B, and k. `to_copy` steps of this part are left.
    int column = 0, k = 0, to_copy = 0;
    const auto go_to_part = [&] {
        const ladder::Place<GROUP> tile(ahead.tile, tiles_m, tiles_n);
        column = tile.n * BN, k = ahead.from * BK, to_copy = ahead.to - ahead.from;
        copy_a.go_to(A, int64_t{tile.m} * BM, M, K, k);
        copy_b.go_to(B, int64_t{tile.n} * BN, N, K, k);
    };
    const auto next_step = [&] {
        copy_a.next_tile();
        copy_b.next_tile();
        k += BK;
    };
    const auto next_part = [&] {
        if constexpr (kStays) {
            ahead.advance();
            if (ahead.more()) go_to_part();
        }
    };
    // What the first warp orders of the copy engine. Where nothing is left, it arrives all the same, as the threads do:
    // the ring goes on to the end, and nobody has to ask whether there is something to wait for.
    const auto order = [&](uint32_t to, uint32_t barrier, bool wanted) {
        if (!kEngine || warp != 0) return;
        if (!wanted) return ladder::arrive(barrier);
        ladder::arrive_expecting(barrier, kBytesB);
        ladder::load_tile(to + kBytesA, map_b, barrier, column, k);
    };

    go_to_part();
#pragma unroll
    for (int stage = 0; stage < kAhead; ++stage) {
        const bool wanted = to_copy > 0;
        order(base + stage * kStage, filled + 8 * stage, wanted);
        copy(base + stage * kStage, 0, 1, wanted);
        ladder::arrive_when_copied(filled + 8 * stage);
        next_step();
        if (wanted && --to_copy == 0) next_part();
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
    into.stage = kAhead;
    ladder::wait_phase(filled, 0);
#pragma unroll
    for (int row = 0; row < TM; row += 4) read_rows(row, 0);
    ladder::read_fragment<TN, kLaneN>(b[0], read_b);
    for (int left = at.to - at.from; left > 0;) {
        // Up to where the next part begins, to be copied or to be multiplied: in this loop, none of that is asked.
        const bool wanted = to_copy > 0;
        int run = wanted && to_copy < left ? to_copy : left;
        left -= run;
        if (wanted) to_copy -= run;
        for (; run > 0; --run) {
            uint32_t offset = from.stage * kStage;
            const uint32_t to = base + into.stage * kStage;
            ladder::wait_phase(filled + kRead + 8 * into.stage, into.parity ^ 1);
            order(to, filled + 8 * into.stage, wanted);
#pragma unroll
            for (int i = 0; i < BK; ++i) {
                if (MEETINGS > 0 && i % kMeetEvery == 0) meet();
                constexpr int kEvery = (BK - 1) / BURSTS;
                if (i % kEvery == 0 && i / kEvery < BURSTS) copy(to, i / kEvery, BURSTS, wanted);
                // At once, or else ptxas computes the next addresses before the last copies, and keeps both.
                if (BURSTS > 1 && i == (BURSTS - 1) * kEvery) next_step();
                if (i == BK - 1) {  // step to the next stage
                    ladder::arrive_when_copied(filled + 8 * into.stage);
                    if (BURSTS == 1) next_step();
                    __syncwarp();
                    ladder::arrive(filled + kRead + 8 * from.stage);
                    from.advance();
                    into.advance();
                    offset = from.stage * kStage;
                    ladder::wait_phase(filled + 8 * from.stage, from.parity);
                }
                // Read for the next k, while this one is multiplied. (After the last step: stale values, never used.)
                const int next = (i + 1) % BK;
                ladder::read_fragment<TN, kLaneN>(b[(i + 1) % 2], read_b + offset + next * kRowB * 4);
#pragma unroll
                for (int row = 0; row < TM; row += 4) {
                    multiply(row, b[i % 2]);
                    read_rows(row, offset + next * kRowA * 4);
                }
            }
        }
        if (wanted && to_copy == 0) next_part();
        if (left > 0) continue;

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
            const ladder::Place<GROUP> tile(at.tile, tiles_m, tiles_n);
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
        if constexpr (kStays) {
            at.advance();
            if (at.more()) left = at.to - at.from;
        }
    }
}

struct Plan {
    CUtensorMap b;
    bool engine = false;  // whether the copy engine takes B
    ladder::Division tiles;
};

template <Shape kShape>
static cudaError_t start(const Args *args, const Plan &plan, cudaStream_t stream) {
    const auto kernel = balanced<kShape>;
    // More than 48 KB of shared memory must be asked for.
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    const ladder::Division &tiles = plan.tiles;
    kernel<<<tiles.workers, kThreads, kSharedBytes, stream>>>(args->A, args->B, args->C, plan.b, args->M, args->N,
                                                              static_cast<int>(args->K), tiles.tiles_m, tiles.tiles_n,
                                                              tiles.workers, tiles.together);
    return cudaGetLastError();
}

static bool aligned(const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

static Shape shape_of(const Args &args, const Plan &plan) {
    if (!plan.engine && !kTransposeB) return kAny;
    return args.M % BM == 0 && args.N % BN == 0 && args.K % BK == 0 && aligned(args.C) ? kWhole : kEdge;
}

static cudaError_t fill(Plan *plan, const Args &args) {
    plan->engine = !kTransposeB && args.N % 4 == 0 && aligned(args.B);
    if (plan->engine) {
        const ladder::TiledMatrix b{
            CU_TENSOR_MAP_DATA_TYPE_FLOAT32,   4, args.B, args.K, args.N, BK, BN, CU_TENSOR_MAP_SWIZZLE_NONE,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
        if (const cudaError_t error = ladder::make_map(&plan->b, b)) return error;
    }
    const int64_t tiles_m = (args.M + BM - 1) / BM, tiles_n = (args.N + BN - 1) / BN;
    if (tiles_n > INT32_MAX / GROUP || args.K > INT32_MAX - STAGES * BK) return cudaErrorInvalidValue;
    const bool stays = !WHOLE && shape_of(args, *plan) == kWhole;
    return plan->tiles.divide(tiles_m, tiles_n, (args.K + BK - 1) / BK, MIN_BLOCKS, kWarps, kVectors, kHandOverSteps,
                              stays);
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    Plan *made = new Plan{};
    const cudaError_t error = fill(made, *args);
    if (error != cudaSuccess) return delete made, error;
    *plan = made;
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
