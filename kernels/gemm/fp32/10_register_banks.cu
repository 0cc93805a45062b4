// Rung 10: PLACEHOLDER HEAD
#include "gemm.h"

#include "../../common/async_copy.cuh"
#include "../../common/mbarrier.cuh"
#include "../../common/raster.cuh"
#include "../../common/tensor_map.cuh"
#include "../../common/tma.cuh"
#include "../../common/vectors.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 256
#endif
#ifndef BK
#define BK 16
#endif
#ifndef WM
#define WM 64
#endif
#ifndef WN
#define WN 64
#endif
#ifndef TM
#define TM 8
#endif
#ifndef TN
#define TN 16
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
#ifndef ORDER
#define ORDER 0
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
static_assert(STAGES >= 3, "one stage is read while another is filled");

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

// Whole: sizes are multiples of the tile. Edge: tiles may stick out, rows of B and C are 16-byte aligned. Any: any size.
enum Shape { kWhole, kEdge, kAny };

// Copies kExtent values of m (or n) times BK of k, contiguous along k in global memory, to rows of kExtent in shared
// memory, 4 bytes a copy: 8 values of k times 4 of m by a warp, so that whole sectors are read, and 32 banks written.
template <int kExtent, int kRow, bool kInside>
struct Transposer {
    static constexpr int kStep = kThreads / 8;  // values of m that the block copies at once
    static constexpr int kRows = kExtent / kStep;
    static constexpr int kCopies = kRows * BK / 8;
    static_assert(kExtent % kStep == 0, "whole passes");

    const float *from[kRows];
    int64_t limit;
    int depth;  // K minus this thread's k in the tile to be copied next
    uint32_t target;

    __device__ Transposer(const float *matrix, int64_t first, int64_t extent, int K)
        : limit(extent - first - threadIdx.x / 8),
          depth(K - threadIdx.x % 8),
          target((threadIdx.x % 8 * kRow + threadIdx.x / 8) * 4) {
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
            // A row that does not exist is replaced by one that does: nothing is read there, but the address is legal.
            const int64_t at = kInside || row * kStep < limit ? first + threadIdx.x / 8 + row * kStep : 0;
            from[row] = matrix + at * K + threadIdx.x % 8;
        }
    }

    __device__ __forceinline__ void copy(uint32_t tile, int index, uint32_t wanted) const {
        const int row = index % kRows, slice = index / kRows * 8;
        const uint32_t to = tile + target + (slice * kRow + row * kStep) * 4;
        if constexpr (kInside) {
            ladder::copy_async_if<4>(to, from[row] + slice, wanted);
        } else {
            const bool inside = row * kStep < limit && slice < depth;  // nothing of a tile that is not wanted is
            ladder::copy_async_or_zero<4>(to, from[row] + slice, inside);
        }
    }

    __device__ __forceinline__ void next_tile() {
#pragma unroll
        for (int row = 0; row < kRows; ++row)
            from[row] += BK;
        depth -= BK;
    }
};

// Copies BK rows of B in nn element by element, for sizes that the copy engine does not take.
struct Elements {
    static constexpr int kStep = kThreads / BN > 0 ? kThreads / BN : 1;  // rows at once
    static constexpr int kPerRow = kThreads < BN ? BN / kThreads : 1;    // copies of a thread in a row
    static constexpr int kCopies = BK / kStep * kPerRow;
    static_assert(kThreads % BN == 0 || BN % kThreads == 0, "whole rows");

    const float *matrix;
    int64_t N, column;
    int K, k = 0;

    __device__ Elements(const float *matrix, int64_t N, int64_t first, int K)
        : matrix(matrix), N(N), column(first + threadIdx.x % BN), K(K) {}

    __device__ __forceinline__ void copy(uint32_t tile, int index, uint32_t) const {
        const int row = index / kPerRow * kStep + threadIdx.x / BN, on = index % kPerRow * kThreads;
        const bool inside = k + row < K && column + on < N;
        ladder::copy_async_or_zero<4>(tile + (row * BN + threadIdx.x % BN + on) * 4,
                                      inside ? matrix + (k + row) * N + column + on : matrix, inside);
    }

    __device__ __forceinline__ void next_tile() { k += BK; }
};

// 16-byte reads from a 32-bit address in shared memory; what follows a barrier stays behind it.
template <int kCount, int kSpan>
__device__ __forceinline__ void read_fragment(float (&fragment)[kCount], uint32_t shared) {
#pragma unroll
    for (int v = 0; v < kCount; v += 4)
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(fragment[v]), "=f"(fragment[v + 1]), "=f"(fragment[v + 2]), "=f"(fragment[v + 3])
                     : "r"(shared + v * kSpan)
                     : "memory");
}

// Makes a value one that the compiler keeps in a register instead of computing it anew where it is used.
__device__ __forceinline__ uint32_t kept(uint32_t value) {
    asm volatile("mov.b32 %0, %0;" : "+r"(value));
    return value;
}

template <Shape kShape>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    register_banks(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C,
                   const __grid_constant__ CUtensorMap map_b, int64_t M, int64_t N, int K, int tiles_m, int tiles_n) {
    constexpr bool kEngine = !kTransposeB && kShape != kAny;  // B by the copy engine
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ __align__(8) uint64_t barriers[2 * STAGES];
    const uint32_t base = kept(ladder::shared_address(shared));
    const uint32_t filled = kept(ladder::shared_address(barriers));  // one a stage, and
    constexpr uint32_t kRead = 8 * STAGES;                           // so far behind it, another

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

    Transposer<BM, kRowA, kShape == kWhole> copy_a(A, first_row, M, K);
    auto copy_b = [&] {
        if constexpr (kTransposeB)
            return Transposer<BN, kRowB, kShape == kWhole>(B, first_col, N, K);
        else
            return Elements(B, N, first_col, K);
    }();
    constexpr int kCopiesA = decltype(copy_a)::kCopies, kCopiesB = kEngine ? 0 : decltype(copy_b)::kCopies;

    // The part-th of `parts` shares of this thread's copies of a tile, and what one thread orders of the copy engine.
    const auto copy = [&](uint32_t to, int part, int parts, uint32_t wanted) {
#pragma unroll
        for (int i = part * kCopiesA / parts; i < (part + 1) * kCopiesA / parts; ++i) copy_a.copy(to, i, wanted);
        if constexpr (!kEngine)
#pragma unroll
            for (int i = part * kCopiesB / parts; i < (part + 1) * kCopiesB / parts; ++i)
                copy_b.copy(to + kBytesA, i, wanted);
    };
    const auto order = [&](uint32_t to, uint32_t barrier, int k_tile) {
        if (kEngine && threadIdx.x == 0 && k_tile < k_tiles) {
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
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int lane_row = lane / 2 % kLanesM, lane_col = lane / (2 * kLanesM) * 2 + lane % 2;
    const int my_row = warp / kWarpsN * WM + lane_row * 4;
    const int my_col = warp % kWarpsN * WN + lane_col * 4;
    const uint32_t read_a = kept(base + my_row * 4), read_b = kept(base + kBytesA + my_col * 4);

    float acc[TM][TN] = {};
    float a[2][TM] = {}, b[2][TN] = {};  // fragments of two values of k
    // acc += a b for one k, in the order that ptxas turns into the fewest bank conflicts.
    const auto multiply = [&](const float(&x)[TM], const float(&y)[TN]) {
#if ORDER == 0
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; ++j) {
                const int jj = i % 2 ? TN - 1 - j : j;
                acc[i][jj] += x[i] * y[jj];
            }
#elif ORDER == 1
#pragma unroll
        for (int j = 0; j < TN; ++j)
#pragma unroll
            for (int i = 0; i < TM; ++i) {
                const int ii = j % 2 ? TM - 1 - i : i;
                acc[ii][j] += x[ii] * y[j];
            }
#elif ORDER == 2
#pragma unroll
        for (int i = 0; i < TM; ++i)
#pragma unroll
            for (int j = 0; j < TN; ++j) acc[i][j] += x[i] * y[j];
#else
#pragma unroll
        for (int j = 0; j < TN; ++j)
#pragma unroll
            for (int i = 0; i < TM; ++i) acc[i][j] += x[i] * y[j];
#endif
    };

    ladder::RingPlace<STAGES> from, into;
    into.stage = kAhead;
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        const uint32_t offset = from.stage * kStage, to = base + into.stage * kStage;
        const uint32_t wanted = k_tile + kAhead < k_tiles;
        ladder::wait_phase(filled + 8 * from.stage, from.parity);
        ladder::wait_phase(filled + kRead + 8 * into.stage, into.parity ^ 1);
        order(to, filled + 8 * into.stage, k_tile + kAhead);
        read_fragment<TM, kLaneM>(a[0], read_a + offset);
        read_fragment<TN, kLaneN>(b[0], read_b + offset);
        multiply(a[1], b[1]);  // the last k of the tile before; in the first round zeros
#pragma unroll
        for (int k = 0; k < BK - 1; ++k) {
            read_fragment<TM, kLaneM>(a[(k + 1) % 2], read_a + offset + (k + 1) * kRowA * 4);
            read_fragment<TN, kLaneN>(b[(k + 1) % 2], read_b + offset + (k + 1) * kRowB * 4);
            copy(to, k, BK - 1, wanted);
            multiply(a[k % 2], b[k % 2]);
        }
        ladder::arrive_when_copied(filled + 8 * into.stage);
        copy_a.next_tile();
        copy_b.next_tile();
        __syncwarp();
        if (lane == 0) ladder::arrive(filled + kRead + 8 * from.stage);
        from.advance();
        into.advance();
    }
    multiply(a[1], b[1]);

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
};

template <Shape kShape>
static cudaError_t start(const Args *args, const Plan &plan, cudaStream_t stream) {
    const int64_t tiles_m = (args->M + BM - 1) / BM, tiles_n = (args->N + BN - 1) / BN;
    if (tiles_m * tiles_n > INT32_MAX || args->K > INT32_MAX - BK * STAGES) return cudaErrorInvalidValue;
    const auto kernel = register_banks<kShape>;
    // More than 48 KB of shared memory must be asked for.
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<static_cast<unsigned>(tiles_m * tiles_n), kThreads, kSharedBytes, stream>>>(
        args->A, args->B, args->C, plan.b, args->M, args->N, static_cast<int>(args->K), static_cast<int>(tiles_m),
        static_cast<int>(tiles_n));
    return cudaGetLastError();
}

extern "C" cudaError_t launch(const Args *args, void *plan, cudaStream_t stream) {
    const Plan &p = *static_cast<const Plan *>(plan);
    return start<kWhole>(args, p, stream);
}
