// Rung 9: nothing waits. Asynchronous copies into a ring of stages, fragments read ahead.
//
// Idea     An FFMA kernel is bound by what its warps issue: each instruction that is no FFMA costs a slot, each stall
//          several. The rungs before cut the instructions; this one cuts the waiting. The next K tiles are on their
//          way from memory, and the next k is on its way from shared memory, while this k is multiplied.
// Changed  against the rung before, the same two-buffer idea at each level:
//          - cp.async fills a ring of STAGES tiles in shared memory without passing through registers, STAGES - 1 tiles
//            ahead; one barrier a tile, where there were two;
//          - fragments of the next k are read into registers before the FFMAs of this one;
//          - and, as blocks now run at the pace of L2, they walk over C in bands, so that neighbours share operands.
// Tile     BM x BN x BK = 128 x 128 x 16, 128 threads, two blocks a multiprocessor: one computes while the other
//          waits at its barrier. Shared memory 4 * 16 * (132 + 128) * 4 B = 65 KB a block; registers 128 accumulators
//          + 2 * (8 + 16) operands + addresses = 214, no spills. Reuse 2 * 128 * 128 / 256 = 128 FLOP per element
//          loaded. At 4096: 1024 tiles = 3.88 waves of 264.
// Banks    Reads: neighbouring lanes read neighbouring vectors of one row, or the same vector. Copies: see kPad.
// Measured H200, cold L2, 4096, median of 20 to 30, ratio to cuBLAS FP32 in the same process: 0.927 and 0.922 on two
//          cards; without FREE_ACCUMULATORS 0.923; 128 x 256 x 16 with one block of 256 threads 0.918.
// Limit    The register file, as far as times and SASS of 30 variants tell: it seems to deliver one even- and one
//          odd-numbered register a cycle, where FFMA wants three operands. `.reuse` saves one, and the other two should
//          differ in parity: otherwise the dispatch stalls. Vector reads and stores tie the parity of b[j] and
//          acc[i][j] to j: 32 % of the FFMAs ask for two of one parity. FREE_ACCUMULATORS unties the latter: 27 %.
//          Tried: A kept row-major in shared memory, four k a read, 16-byte copies: 7 % fewer instructions but 0.894,
//          since a[i] then has the parity of k: 42 % conflict, dispatch stalls of 0.46 cycles an issue (ncu; cuBLAS
//          0.10). Its copies bunched or spread over k: 0.82 to 0.89, by the registers that ptxas happens to choose.
// Sizes    any M, N, K >= 1, layouts nn and nt: see Shape.
#include "gemm.h"

#include "../../common/async_copy.cuh"
#include "../../common/raster.cuh"
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
#define MIN_BLOCKS 2
#endif
#ifndef FREE_ACCUMULATORS
#define FREE_ACCUMULATORS 1
#endif
#ifndef GROUP
#define GROUP 16
#endif

// block tile > warp tile > thread tile
constexpr int kWarpsN = BN / WN;
constexpr int kThreads = 32 * (BM / WM) * kWarpsN;
constexpr int kLanesM = WM / TM;
constexpr int kLanesN = WN / TN;
constexpr int kLaneM = 4 * kLanesM;  // a lane owns 4 rows out of each kLaneM of its warp, and 4 columns
constexpr int kLaneN = 4 * kLanesN;  // out of each kLaneN: neighbours read neighbouring 16-byte vectors

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must divide the block tile");
static_assert(kLanesM * kLanesN == 32 && WM % TM == 0 && WN % TN == 0, "32 thread tiles must make a warp tile");
static_assert(TM % 4 == 0 && TN % 4 == 0, "thread tiles consist of 16-byte vectors");
static_assert(kLanesM % 2 == 0 && kLanesN % 2 == 0, "see lane_row and lane_col");
static_assert(BK % 8 == 0, "the transposing copy works on 8 values of k");
static_assert(STAGES >= 2, "one stage is read while another is filled");

// A is stored K-major (row k holds BM values of m), since a thread wants 4 values of m at one k in one read. The copy
// transposes with 4-byte cp.async: 8 values of k times 4 of m by a warp, so a row needs 4 words of padding for them
// to meet 32 different banks. B in nn is K-major as it is, and copied 16 bytes at a time; in nt it is treated like A.
constexpr int kPad = 4;
constexpr int kRowA = BM + kPad;
#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposeB = true;
#else
constexpr bool kTransposeB = false;
#endif
constexpr int kRowB = BN + (kTransposeB ? kPad : 0);
constexpr int kStage = BK * (kRowA + kRowB);  // floats
constexpr int kSharedBytes = STAGES * kStage * static_cast<int>(sizeof(float));
static_assert(MIN_BLOCKS * (kSharedBytes + 1024) <= 228 * 1024, "the stages must fit in shared memory");

// Whole: sizes are multiples of the tile and rows of B are 16-byte aligned; no test in the main loop.
// Edge:  as aligned, but tiles may stick out; copies outside write zeros.
// Any:   any size, 4-byte copies only.
enum Shape { kWhole, kEdge, kAny };

// Copies of one operand for one K tile, `kPasses` by each thread. The constructor finds the thread's place.
template <int kExtent, int kRow, bool kTranspose, Shape kShape>
struct Copier {
    static constexpr int kBytes = (kTranspose || kShape == kAny) ? 4 : 16;
    static constexpr int kWidth = kBytes / 4;
    static constexpr int kPasses = kExtent * BK / kWidth / kThreads;
    // A pass moves kThreads / 8 values of m (or n) when it transposes, else kThreads / (kExtent / kWidth) of k.
    static constexpr int kPerRow = kTranspose ? 8 : kExtent / kWidth;
    static constexpr int kStep = kThreads / kPerRow;
    static constexpr int kPassesPerSlice = kTranspose ? kExtent / kStep : kPasses;
    static_assert(kExtent * BK % (kWidth * kThreads) == 0 && kThreads % kPerRow == 0, "whole passes");
    static_assert(!kTranspose || kExtent % kStep == 0, "whole passes");

    const float *from;  // this thread's first element in the K tile to be copied next
    int64_t stride;     // elements between rows in global memory
    int64_t limit;      // rows (or columns) of the matrix from this thread's first on
    int minor, major;   // minor: along the contiguous direction of global memory

    __device__ Copier(const float *matrix, int64_t stride, int64_t first, int64_t extent)
        : stride(stride), minor(threadIdx.x % kPerRow * kWidth), major(threadIdx.x / kPerRow) {
        if constexpr (kTranspose) {  // rows of global memory are m, contiguous in k
            from = matrix + (first + major) * stride + minor;
            limit = extent - first - major;
        } else {  // rows of global memory are k, contiguous in n
            from = matrix + major * stride + first + minor;
            limit = extent - first - minor;
        }
    }

    // The part-th of kParts shares of the tile; `depth` is K minus the tile's first k.
    template <int kParts>
    __device__ __forceinline__ void copy(uint32_t stage, int part, int64_t depth) const {
#pragma unroll
        for (int pass = part * kPasses / kParts; pass < (part + 1) * kPasses / kParts; ++pass) {
            const float *source;
            uint32_t target;
            bool inside = true;
            if constexpr (kTranspose) {
                const int step = pass % kPassesPerSlice * kStep, slice = pass / kPassesPerSlice * 8;
                source = from + step * stride + slice;
                target = stage + ((minor + slice) * kRow + major + step) * 4;
                if (kShape != kWhole) inside = step < limit && minor + slice < depth;
            } else {
                const int step = pass * kStep;
                source = from + step * stride;
                target = stage + ((major + step) * kRow + minor) * 4;
                if (kShape != kWhole) inside = 0 < limit && major + step < depth;
            }
            if constexpr (kShape == kWhole)
                ladder::copy_async<kBytes>(target, source);
            else
                ladder::copy_async_or_zero<kBytes>(target, inside ? source : from, inside);
        }
    }

    __device__ __forceinline__ void next_tile() { from += kTranspose ? BK : BK * stride; }
};

template <Shape kShape>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    double_buffer(const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int64_t M, int64_t N,
                  int64_t K, int64_t tiles_m, int64_t tiles_n) {
    extern __shared__ __align__(16) float shared[];

    const ladder::Tile tile = ladder::grouped_tile<GROUP>(blockIdx.x, tiles_m, tiles_n);
    const int64_t first_row = tile.m * BM, first_col = tile.n * BN;

    // Lanes are numbered so that lane and lane ^ 1 share their rows, lane and lane ^ 2 their columns: a 16-byte read
    // takes one wavefront for 16 lanes, instead of one for 8, where such pairs read the same vector.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int lane_row = lane / 2 % kLanesM, lane_col = lane / (2 * kLanesM) * 2 + lane % 2;
    const int my_row = warp / kWarpsN * WM + lane_row * 4;
    const int my_col = warp % kWarpsN * WN + lane_col * 4;

    Copier<BM, kRowA, true, kShape> copy_a(A, K, first_row, M);
    Copier<BN, kRowB, kTransposeB, kShape> copy_b(B, kTransposeB ? K : N, first_col, N);
    const uint32_t shared_base = ladder::shared_address(shared);
    const int64_t k_tiles = (K + BK - 1) / BK;

    // Fill all stages but one. A group is committed for each tile, empty ones too, so that counts stay simple.
    int64_t depth = K;  // what is left of K, seen from the tile to be copied next
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < k_tiles) {
            const uint32_t to = shared_base + stage * kStage * 4;
            copy_a.template copy<1>(to, 0, depth);
            copy_b.template copy<1>(to + BK * kRowA * 4, 0, depth);
        }
        copy_a.next_tile();
        copy_b.next_tile();
        depth -= BK;
        ladder::commit_copies();
    }
    ladder::wait_copies<STAGES - 2>();
    __syncthreads();

    float acc[TM][TN] = {};
    float a[2][TM], b[2][TN];  // fragments of this k and of the next
    const float *read = shared;
    ladder::read_fragment<TM, kLaneM>(a[0], read + my_row);
    ladder::read_fragment<TN, kLaneN>(b[0], read + BK * kRowA + my_col);
    int read_stage = 0, write_stage = STAGES - 1;

    for (int64_t k_tile = 0; k_tile < k_tiles; ++k_tile) {
        const bool more = k_tile + STAGES - 1 < k_tiles;
        const uint32_t to = shared_base + write_stage * kStage * 4;
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            // The copies for STAGES - 1 tiles ahead, spread over the tile. They overwrite the stage that was read in
            // the last round; the barrier at its end came after everybody's last read of it.
            if (more) {
                copy_a.template copy<BK>(to, k, depth);
                copy_b.template copy<BK>(to + BK * kRowA * 4, k, depth);
            }
            if (k == BK - 1) {  // step to the next stage: its copies must have landed, for all threads
                ladder::commit_copies();
                ladder::wait_copies<STAGES - 2>();
                __syncthreads();
                read_stage = read_stage + 1 == STAGES ? 0 : read_stage + 1;
                write_stage = write_stage + 1 == STAGES ? 0 : write_stage + 1;
                read = shared + read_stage * kStage;
            }
            // Read for the next k while the FMAs of this one run. (After the last tile it reads zeros or stale
            // values, which are never used.)
            const int next = (k + 1) % BK;
            ladder::read_fragment<TM, kLaneM>(a[(k + 1) % 2], read + next * kRowA + my_row);
            ladder::read_fragment<TN, kLaneN>(b[(k + 1) % 2], read + BK * kRowA + next * kRowB + my_col);
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int j = 0; j < TN; ++j) acc[i][j] += a[k % 2][i] * b[k % 2][j];
        }
        copy_a.next_tile();
        copy_b.next_tile();
        depth -= BK;
    }

#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int64_t row = first_row + my_row + i / 4 * kLaneM + i % 4;
#pragma unroll
        for (int j = 0; j < TN; j += 4) {
            const int64_t col = first_col + my_col + j / 4 * kLaneN;
            float *to = C + row * N + col;
            if constexpr (kShape == kWhole) {
                // A 16-byte store wants four consecutive registers, and by way of it so does acc. An addition in
                // between (which -0 would notice, so it is not optimised away) leaves acc where ptxas likes it.
                const auto value = [&](int e) { return FREE_ACCUMULATORS ? acc[i][j + e] + 0.0f : acc[i][j + e]; };
                *reinterpret_cast<float4 *>(to) = make_float4(value(0), value(1), value(2), value(3));
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
    if (tiles_m * tiles_n > INT32_MAX) return cudaErrorInvalidValue;
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
    // 16-byte accesses: to B where it is not transposed, and to C.
    const bool vectors = args->N % 4 == 0 && aligned(args->B) && aligned(args->C);
    const bool whole = args->M % BM == 0 && args->N % BN == 0 && args->K % BK == 0;
    if (vectors && whole) return start<kWhole>(args, stream);
    if constexpr (!kTransposeB)  // in nt the copies are of 4 bytes anyhow
        if (vectors) return start<kEdge>(args, stream);
    return start<kAny>(args, stream);
}
