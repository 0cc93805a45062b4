// Rung 9: everything overlaps. Warp tiles, 16-byte accesses, asynchronous copies, fragments read ahead.
//
// Idea     An FFMA kernel is bound by issue slots: each instruction that is no FFMA costs one, and each stall costs
//          several. So: few other instructions (large thread tile, 16-byte accesses), and nothing to wait for (the
//          next K tiles are on their way from memory, the next k is on its way from shared memory, while this k is
//          multiplied).
// Changed  against 05_tile_2d:
//          - 8 x 16 accumulators a thread: 128 FFMA for 6 shared reads of 16 bytes, where 8 x 8 took 64 for 16 of 4
//            bytes;
//          - a level between block and thread: a warp owns 64 x 64, so that its lanes read the same vectors;
//          - cp.async writes a ring of STAGES tiles in shared memory without passing through registers, one barrier a
//            tile;
//          - fragments of the next k are loaded before the FFMAs of this one;
//          - blocks walk over C in bands, so that neighbours share their operands in L2.
// Tile     BM x BN x BK = 128 x 256 x 16, 256 threads; shared memory 4 * (128 * 16 + 16 * 256) * 4 B = 96 KB;
//          registers 128 accumulators + 32 of A + 2 * 16 of B + addresses: up to 255, so one block (8 warps) a
//          multiprocessor. Reuse 2 * 128 * 256 / 384 = 171 FLOP per element loaded. At 4096: 512 tiles = 3.88 waves
//          of 132.
// A        A thread wants one k of 8 rows, but A is contiguous along k. Transposing in the copy would take 4-byte
//          cp.async (for each, ptxas also emits three dummy shared reads on sm_90a). Instead a row of A keeps its
//          order, and the thread reads FOUR k of each of its rows at once: as many 16-byte reads, used over four
//          steps.
// Banks    Reads of A: 8 neighbouring rows, one vector each, spread over all banks by an XOR swizzle. Reads of B:
//          neighbouring vectors of one row. Copies write whole rows.
// Sizes    any M, N, K >= 1, layouts nn and nt: see Shape. nt transposes B in the copy, with 4-byte cp.async.
#include "gemm.h"

#include "../../common/async_copy.cuh"
#include "../../common/raster.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 256
#endif
#ifndef BK
#define BK 8
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
#ifndef COPY_PARTS
#define COPY_PARTS 1
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif
#ifndef GROUP
#define GROUP 16
#endif

// block tile > warp tile > thread tile
constexpr int kWarpsN = BN / WN;
constexpr int kThreads = 32 * (BM / WM) * kWarpsN;
constexpr int kLanesM = WM / TM;
constexpr int kLanesN = WN / TN;

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must divide the block tile");
static_assert(WM % TM == 0 && WN % TN == 0 && kLanesM * kLanesN == 32, "32 thread tiles must make a warp tile");
static_assert(kLanesM == 4 || kLanesM == 8, "the reads of A are free of bank conflicts for 4 or 8 neighbouring rows");
static_assert(WM % 8 == 0, "the swizzle of a row must not depend on the warp");
static_assert(TN % 4 == 0, "a thread reads B and writes C in 16-byte vectors");
static_assert(BK == 8 || BK == 16 || BK == 32, "a row of A is 2, 4 or 8 vectors of 16 bytes");
static_assert(COPY_PARTS >= 1 && COPY_PARTS <= BK, "a share of the copies at each k, at most");
static_assert(STAGES >= 2, "one stage is read while another is filled");

#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposeB = true;
constexpr int kRowB = BN + 4;  // the transposing copy puts 8 values of k and 4 of n beside each other: 4 words apart
#else
constexpr bool kTransposeB = false;
constexpr int kRowB = BN;
#endif
constexpr int kTileA = BM * BK;  // floats
constexpr int kStage = kTileA + BK * kRowB;
constexpr int kSharedBytes = STAGES * kStage * static_cast<int>(sizeof(float));
static_assert(MIN_BLOCKS * (kSharedBytes + 1024) <= 228 * 1024, "the stages must fit in shared memory");

// Whole: sizes are multiples of the tile and all vectors aligned: no test in the main loop.
// Edge:  aligned, but tiles may stick out of the matrices; what lies outside is filled with zeros.
// Any:   any size and alignment, 4-byte copies.
enum Shape { kWhole, kEdge, kAny };

// Row m of the tile of A: BK floats, its 16-byte vectors exchanged so that the same vector of 8 neighbouring rows
// lies in 8 different bank groups (a row of 8 floats is a quarter of the 32 banks: four rows, then the pattern must
// shift).
__device__ __forceinline__ int swizzle(int m, int vector) { return vector ^ (m / (32 / BK) % (BK / 4)); }

// What a thread copies of a K tile of A or B: kPasses vectors, at fixed distances from its first.
enum Place { kRowsOfA, kRowsOfB, kTransposed };
template <Place kPlace, Shape kShape>
struct Copier {
    static constexpr bool kAlongK = kPlace != kRowsOfB;  // is global memory contiguous in k?
    static constexpr int kExtent = kPlace == kRowsOfA ? BM : BN;
    static constexpr int kWidth = (kPlace == kTransposed || kShape == kAny) ? 1 : 4;          // floats a copy
    static constexpr int kPerRow = kPlace == kTransposed ? 8 : (kAlongK ? BK : BN) / kWidth;  // threads side by side
    static constexpr int kStep = kThreads / kPerRow;                                          // rows a pass
    static constexpr int kSteps = (kAlongK ? kExtent : BK) / kStep;
    static constexpr int kPasses = kSteps * (kPlace == kTransposed ? BK / 8 : 1);
    static_assert(kThreads % kPerRow == 0 && (kAlongK ? kExtent : BK) % kStep == 0, "whole passes");
    static_assert(kPlace != kRowsOfA || kStep % 8 == 0, "the swizzle must be the same in all passes");

    const float *from;  // first element, in the tile to be copied next
    uint32_t to;        // its place in the stage, in bytes
    int64_t pitch;      // between rows of the matrix
    int64_t limit;      // how far the matrix goes on from the first element, across k
    int k;              // of the first element in the tile

    __device__ Copier(const float *matrix, int64_t pitch, int64_t first, int64_t extent) : pitch(pitch) {
        const int along = threadIdx.x % kPerRow * kWidth, row = threadIdx.x / kPerRow;
        from = matrix + (kAlongK ? (first + row) * pitch + along : row * pitch + first + along);
        limit = extent - first - (kAlongK ? row : along);
        k = kAlongK ? along : row;
        int place;
        if constexpr (kPlace == kRowsOfA)
            place = row * BK + swizzle(row, along / 4) * 4 + along % 4;
        else if constexpr (kPlace == kRowsOfB)
            place = kTileA + row * kRowB + along;
        else
            place = kTileA + along * kRowB + row;
        to = place * 4;
    }

    // The part-th of kParts shares. `depth` is K minus the tile's first k, looked at where tiles may stick out.
    template <int kParts>
    __device__ __forceinline__ void copy(uint32_t stage, int part, int64_t depth) const {
#pragma unroll
        for (int pass = part * kPasses / kParts; pass < (part + 1) * kPasses / kParts; ++pass) {
            const int step = pass % kSteps * kStep, slice = pass / kSteps * 8;  // slice: of k, when transposing
            const float *source = from + step * pitch + slice;
            const int shift = kPlace == kRowsOfA ? step * BK : kPlace == kRowsOfB ? step * kRowB : slice * kRowB + step;
            const uint32_t target = stage + to + shift * 4;
            if constexpr (kShape == kWhole) {
                ladder::copy_async<kWidth * 4>(target, source);
            } else {
                const bool inside = kAlongK ? step < limit && k + slice < depth : 0 < limit && k + step < depth;
                ladder::copy_async_or_zero<kWidth * 4>(target, inside ? source : from, inside);
            }
        }
    }

    __device__ __forceinline__ void next_tile() { from += kAlongK ? BK : BK * pitch; }
};

__device__ __forceinline__ void read_vector(float *to, const float *shared) {
    const float4 vector = *reinterpret_cast<const float4 *>(shared);
    to[0] = vector.x, to[1] = vector.y, to[2] = vector.z, to[3] = vector.w;
}

template <Shape kShape>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    double_buffer(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int64_t N,
                  int64_t K, int64_t tiles_m, int64_t tiles_n) {
    extern __shared__ __align__(16) float shared[];

    const ladder::Tile tile = ladder::grouped_tile<GROUP>(blockIdx.x, tiles_m, tiles_n);
    const int64_t first_row = tile.m * BM, first_col = tile.n * BN;

    // A thread owns rows my_row + i * kLanesM and columns my_col + v * kLanesN * 4 + 0..3, so neighbouring lanes
    // read neighbouring vectors. Lanes are numbered so that lane and lane ^ 1 share their rows, lane and lane ^ 2
    // their columns: then one wavefront serves 16 lanes of a 16-byte read, otherwise 8.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int lane_row = lane / 2 % kLanesM;
    const int my_row = warp / kWarpsN * WM + lane_row;
    const int my_col = warp % kWarpsN * WN + (lane / (2 * kLanesM) * 2 + lane % 2) * 4;

    Copier<kRowsOfA, kShape> copy_a(A, K, first_row, M);
    Copier<kTransposeB ? kTransposed : kRowsOfB, kShape> copy_b(B, kTransposeB ? K : N, first_col, N);
    const uint32_t stages = ladder::shared_address(shared);
    const int k_tiles = static_cast<int>((K + BK - 1) / BK);

    // Fill all stages but one. A group is committed for each, be it empty, so that the counts stay simple.
    int64_t depth = K;
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < k_tiles) {
            copy_a.template copy<1>(stages + stage * kStage * 4, 0, depth);
            copy_b.template copy<1>(stages + stage * kStage * 4, 0, depth);
        }
        ladder::commit_copies();
        copy_a.next_tile();
        copy_b.next_tile();
        depth -= BK;
    }
    ladder::wait_copies<STAGES - 2>();
    __syncthreads();

    float acc[TM][TN] = {};
    float a[TM][4];  // four values of k from each row
    float b[2][TN];  // this k and the next
    const float *read = shared;
    int read_stage = 0;
    uint32_t write = stages + (STAGES - 1) * kStage * 4;
    const auto read_a = [&](int i, int k) {
        // The swizzle looks at the row modulo 8 only, which `|` gives in a form that splits into constant and lane.
        const int vector = swizzle(lane_row | i * kLanesM % 8, k / 4);
        read_vector(a[i], read + (my_row + i * kLanesM) * BK + vector * 4);
    };
    const auto read_b = [&](int k) {
#pragma unroll
        for (int v = 0; v < TN / 4; ++v)
            read_vector(&b[k % 2][v * 4], read + kTileA + k * kRowB + my_col + v * kLanesN * 4);
    };
#pragma unroll
    for (int i = 0; i < TM; ++i) read_a(i, 0);
    read_b(0);

    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        const bool more = k_tile < k_tiles - (STAGES - 1);
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            // Copies for the tile STAGES - 1 ahead, a share at each k. They overwrite the stage of the last round;
            // the barrier at its end came after everybody's last read of it.
            if (k < COPY_PARTS && more) {
                copy_a.template copy<COPY_PARTS>(write, k, depth);
                copy_b.template copy<COPY_PARTS>(write, k, depth);
            }
            const int next = (k + 1) % BK;
            if (next == 0) {  // on to the next stage, once its copies have landed for all threads
                ladder::commit_copies();
                ladder::wait_copies<STAGES - 2>();
                __syncthreads();
                write = stages + read_stage * kStage * 4;
                read_stage = read_stage + 1 == STAGES ? 0 : read_stage + 1;
                read = shared + read_stage * kStage;
            }
            // Fragments for the next k come while the FMAs of this one run. B has two buffers. A row of A is replaced
            // as soon as its four values of k are used up, and is not needed again before TM * TN FMAs have passed.
            // (After the last tile these reads fetch zeros or stale values that nobody uses.)
            read_b(next);
#pragma unroll
            for (int i = 0; i < TM; ++i) {
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] += a[i][k % 4] * b[k % 2][j];
                if (next % 4 == 0) read_a(i, next);
            }
        }
        copy_a.next_tile();
        copy_b.next_tile();
        depth -= BK;
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int64_t row = first_row + my_row + i * kLanesM;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int64_t col = first_col + my_col + j * kLanesN;
            float *to = C + row * N + col;
            if constexpr (kShape == kWhole) {
                *reinterpret_cast<float4 *>(to) = make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (row < M && col + e < N) to[e] = acc[i][j + e];
            }
        }
    }
}

template <Shape kShape>
static cudaError_t start(const Args *args, cudaStream_t stream) {
    const int64_t tiles_m = (args->M + BM - 1) / BM, tiles_n = (args->N + BN - 1) / BN;
    if (tiles_m * tiles_n > INT32_MAX || args->K / BK >= INT32_MAX) return cudaErrorInvalidValue;
    const auto kernel = double_buffer<kShape>;
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
    if (!vectors) return start<kAny>(args, stream);
    if (args->M % BM == 0 && args->N % BN == 0 && args->K % BK == 0) return start<kWhole>(args, stream);
    return start<kEdge>(args, stream);
}
