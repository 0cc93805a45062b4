// Rung 14: a ring of cp.async stages and fragments read ahead, so that the tensor cores do not wait for memory.
//
// Idea     Work on three levels at once: copies for a tile several rounds ahead, ldmatrix for the next step of 16, mma
//          for this one.
// Changed  against 13_mma_swizzle: three tiles are in flight, not one; two sets of fragment registers; the copies are
//          spread over the steps of a round. And room for it: a tile of 128 x 256, one block a multiprocessor.
// Tile     BM x BN x BK = 128 x 256 x 32, 8 warps of 64 x 64; shared memory 4 * (128 * 32 + 32 * 256) * 2 B = 96 KB;
//          registers 128 accumulators + 2 * (16 + 16) fragments + addresses = 230, no spills: one block a
//          multiprocessor. Reuse 2 * 128 * 256 / 384 = 171 FLOP per element loaded. At 4096: 512 tiles = 3.88 waves.
// Measured H200, cold L2, 4096, median of 50, ratio to cuBLAS BF16 in the same process: nn 0.622
//          (285 us, 482 TFLOP/s). BK = 64: nn 0.603, nt 0.623; 256 x 128 x 32 with 6 stages 0.620; 128 x 128 x 32, two
//          blocks, 0.589. By ncu, with 6 stages: tensor pipe 80 % active at 1.73 GHz, no bank conflicts.
// Tried    Six stages with a barrier split into arrive and wait (mbarrier), so that warps may drift apart, and row-first
//          copies: 0.587, and 0.561 with the plain barrier and those copies. Warp tiles of 64 x 96: 0.448 (spills).
// Limit    Hopper executes mma.sync at two thirds of the rate of wgmma (counters: 360448 against 540672 operations a
//          cycle), and a 64 x 64 warp tile reads 4 KB of shared memory for each 32 mma. Both walls fall with wgmma.
// Banks    An XOR swizzle puts the same vector of 8 consecutive rows into 8 bank groups: see Tiled.
// Sizes    any M, N, K >= 1, layouts nn and nt: see Shape.
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
#define BK 32
#endif
#ifndef WM
#define WM 64
#endif
#ifndef WN
#define WN 64
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef COPY_PARTS
#define COPY_PARTS (BK / 16)
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif
#ifndef GROUP
#define GROUP 16
#endif

constexpr int kWarpsN = BN / WN;
constexpr int kThreads = 32 * (BM / WM) * kWarpsN;
constexpr int kFragmentsM = WM / 16;  // of 16 x 16 of A a warp
constexpr int kPairsN = WN / 16;      // of two 16 x 8 fragments of B a warp

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must divide the block tile");
static_assert(WM % 16 == 0 && WN % 64 == 0, "mma is 16 x 8; the epilogue moves rows of 128 bytes");
static_assert(BK == 32 || BK % 64 == 0, "see Tiled");
static_assert(BN % 64 == 0, "see Tiled");
static_assert(COPY_PARTS >= 1 && COPY_PARTS <= BK / 16, "a share of the copies at each step, at most");
static_assert(STAGES >= 2, "one stage is read while another is filled");

// Whole: sizes are multiples of the tile, rows 16-byte aligned: no test in the main loop.
// Edge:  aligned, but tiles may stick out of the matrices; what lies outside is filled with zeros.
// Any:   any size and alignment, element by element (slow).
enum Shape { kWhole, kEdge, kAny };

// A tile of kRows x kColumns in shared memory as 16-byte vectors of 8 elements. ldmatrix reads the same vector of 8
// consecutive rows in one wavefront, so those 8 must lie in the 8 different bank groups of 16 bytes: the row number,
// counted in units of 128 bytes, is XORed into the vector number. The copies write whole rows: no conflict either.
template <int kRows, int kColumns>
struct Tiled {
    static constexpr int kVectors = kColumns / 8;  // a row
    static constexpr int kBytes = kRows * kColumns * 2;
    static_assert(kVectors == 4 || kVectors % 8 == 0, "rows of 64 bytes or multiples of 128 bytes");

    static __device__ __forceinline__ uint32_t offset(int row, int vector) {
        const int twist = kVectors == 4 ? row / 2 % 4 : row % 8;
        return (row * kVectors + (vector ^ twist)) * 16;
    }

    // What a thread copies of such a tile: kPasses vectors of one column, kStep rows apart.
    static constexpr int kStep = kThreads / kVectors;
    static constexpr int kPasses = kRows / kStep;
    static_assert(kThreads % kVectors == 0 && kRows % kStep == 0, "whole passes");
    static_assert(kStep % 8 == 0, "the swizzle must be the same in all passes");
};

using TileA = Tiled<BM, BK>;
#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposedB = true;  // B is N x K: its tile has a row for each n
using TileB = Tiled<BN, BK>;
#else
constexpr bool kTransposedB = false;
using TileB = Tiled<BK, BN>;
#endif
constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
constexpr int kSharedBytes = STAGES * kStageBytes;
static_assert(MIN_BLOCKS * (kSharedBytes + 1024) <= 228 * 1024, "the stages must fit in shared memory");
static_assert(BM * BN * 2 <= kSharedBytes, "the epilogue passes C through the stages");

template <class Tile, Shape kShape>
struct Copier {
    const __nv_bfloat16 *from;  // this thread's first vector, in the tile to be copied next
    uint32_t to;                // its place in the tile
    int64_t pitch;              // between rows of the matrix
    int row, column;            // of the first element, in the tile

    // `origin` is the first element of the tile in the matrix.
    __device__ Copier(const __nv_bfloat16 *origin, int64_t pitch)
        : pitch(pitch), row(threadIdx.x / Tile::kVectors), column(threadIdx.x % Tile::kVectors * 8) {
        from = origin + row * pitch + column;
        to = Tile::offset(row, column / 8);
    }

    // The part-th of `parts` shares of the tile; rows and columns of the matrix are left from the tile's origin on.
    __device__ __forceinline__ void copy(uint32_t tile, int part, int parts, int64_t rows, int64_t columns) const {
#pragma unroll
        for (int pass = part * Tile::kPasses / parts; pass < (part + 1) * Tile::kPasses / parts; ++pass) {
            const int step = pass * Tile::kStep;
            const __nv_bfloat16 *source = from + step * pitch;
            const uint32_t target = tile + to + step * Tile::kVectors * 16;
            if constexpr (kShape == kWhole) {
                ladder::copy_async<16>(target, source);
            } else if constexpr (kShape == kEdge) {
                const bool inside = row + step < rows && column < columns;
                ladder::copy_async_or_zero<16>(target, inside ? source : from, inside);
            } else {
                const auto *words = reinterpret_cast<const uint16_t *>(source);
                uint32_t pair[4] = {};
#pragma unroll
                for (int e = 0; e < 8; ++e)
                    if (row + step < rows && column + e < columns)
                        pair[e / 2] |= static_cast<uint32_t>(words[e]) << (e % 2 * 16);
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(pair[0]), "r"(pair[1]),
                             "r"(pair[2]), "r"(pair[3])
                             : "memory");
            }
        }
    }
};

// Four 8 x 8 matrices; lanes 8 i to 8 i + 7 give the addresses of the rows of the i-th, which arrives in fragment[i].
__device__ __forceinline__ void load_matrices(uint32_t (&fragment)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(address)
                 : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(uint32_t (&fragment)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(address)
                 : "memory");
}

// acc (16 x 8, FP32) += a (16 x 16) * b (16 x 8)
__device__ __forceinline__ void multiply(float (&acc)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <Shape kShape>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    mma_multistage(const __nv_bfloat16 *__restrict__ A, const __nv_bfloat16 *__restrict__ B,
                   __nv_bfloat16 *__restrict__ C, int64_t M, int64_t N, int64_t K, int64_t tiles_m, int64_t tiles_n) {
    extern __shared__ __align__(128) unsigned char shared[];

    const ladder::Tile tile = ladder::grouped_tile<GROUP>(blockIdx.x, tiles_m, tiles_n);
    const int64_t first_row = tile.m * BM, first_col = tile.n * BN;
    const int64_t rows = M - first_row, cols = N - first_col;  // of the matrix, from this tile on

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / kWarpsN * WM, warp_col = warp % kWarpsN * WN;

    Copier<TileA, kShape> copy_a(A + first_row * K, K);
    Copier<TileB, kShape> copy_b(kTransposedB ? B + first_col * K : B + first_col, kTransposedB ? K : N);
    const uint32_t stages = ladder::shared_address(shared);
    const int k_tiles = static_cast<int>((K + BK - 1) / BK);

    int64_t depth = K;  // what is left of K, seen from the tile to be copied next
    const auto copy = [&](uint32_t stage, int part, int parts) {
        copy_a.copy(stage, part, parts, rows, depth);
        copy_b.copy(stage + TileA::kBytes, part, parts, kTransposedB ? cols : depth, kTransposedB ? depth : cols);
    };
    const auto next_tile = [&] {
        copy_a.from += BK;
        copy_b.from += kTransposedB ? BK : BK * N;
        depth -= BK;
    };

    // Fill all stages but one. A group is committed for each, be it empty, so that the counts stay simple.
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < k_tiles) copy(stages + stage * kStageBytes, 0, 1);
        ladder::commit_copies();
        next_tile();
    }
    ladder::wait_copies<STAGES - 2>();
    __syncthreads();

    float acc[kFragmentsM][2 * kPairsN][4] = {};
    uint32_t a[2][kFragmentsM][4], b[2][kPairsN][4];  // fragments of this step and of the next
    constexpr int kSteps = BK / 16;

    const auto load_fragments = [&](uint32_t stage, int step) {
#pragma unroll
        for (int i = 0; i < kFragmentsM; ++i)  // matrices: rows 0-7 and 8-15, then the same for k 8-15
            load_matrices(a[step % 2][i], stage + TileA::offset(warp_row + i * 16 + lane % 16, step * 2 + lane / 16));
#pragma unroll
        for (int j = 0; j < kPairsN; ++j) {  // matrices: k 0-7 and 8-15, then the same for columns 8-15
            if constexpr (kTransposedB)
                load_matrices(b[step % 2][j],
                              stage + TileA::kBytes +
                                  TileB::offset(warp_col + j * 16 + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
            else
                load_matrices_transposed(
                    b[step % 2][j],
                    stage + TileA::kBytes + TileB::offset(step * 16 + lane % 16, warp_col / 8 + j * 2 + lane / 16));
        }
    };
    load_fragments(stages, 0);

    int read_stage = 0;
    uint32_t read = stages, write = stages + (STAGES - 1) * kStageBytes;
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        const bool more = k_tile < k_tiles - (STAGES - 1);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            // Copies for the tile STAGES - 1 ahead, a share at each step. They overwrite the stage of the last round;
            // the barrier at its end came after everybody's last read of it.
            if (step < COPY_PARTS && more) copy(write, step, COPY_PARTS);
            if (step == kSteps - 1) {  // on to the next stage, once its copies have landed for all threads
                ladder::commit_copies();
                ladder::wait_copies<STAGES - 2>();
                __syncthreads();
                write = stages + read_stage * kStageBytes;
                read_stage = read_stage + 1 == STAGES ? 0 : read_stage + 1;
                read = stages + read_stage * kStageBytes;
            }
            // Fragments for the next step, while the tensor cores work on this one. (After the last tile this fetches
            // stale values that nobody uses.)
            load_fragments(read, (step + 1) % kSteps);
#pragma unroll
            for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
                for (int j = 0; j < 2 * kPairsN; ++j) {
                    const int n = i % 2 ? 2 * kPairsN - 1 - j : j;  // to and fro: the last fragment of B is used again
                    multiply(acc[i][n], a[step % 2][i], b[step % 2][n / 2][n % 2 * 2],
                             b[step % 2][n / 2][n % 2 * 2 + 1]);
                }
        }
        next_tile();
    }

    // C goes through shared memory, a private piece for each warp, so that it leaves in rows of 128 bytes and not in
    // pieces of 4. The same swizzle keeps both sides free of conflicts.
    ladder::wait_copies<0>();
    __syncthreads();
    using TileC = Tiled<WM, WN>;
    unsigned char *mine = shared + warp * TileC::kBytes;
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
        for (int n = 0; n < 2 * kPairsN; ++n)
#pragma unroll
            for (int half = 0; half < 2;
                 ++half)  // the lane's elements: rows lane / 4 and + 8, columns 2 (lane % 4) + 0, 1
                *reinterpret_cast<__nv_bfloat162 *>(mine + TileC::offset(i * 16 + half * 8 + lane / 4, n) +
                                                    lane % 4 * 4) =
                    __floats2bfloat162_rn(acc[i][n][2 * half], acc[i][n][2 * half + 1]);
    __syncwarp();
#pragma unroll
    for (int v = lane; v < WM * WN / 8; v += 32) {
        const int row = v / (WN / 8), vector = v % (WN / 8), col = vector * 8;
        const uint4 values = *reinterpret_cast<const uint4 *>(mine + TileC::offset(row, vector));
        __nv_bfloat16 *to = C + (first_row + warp_row + row) * N + first_col + warp_col + col;
        if constexpr (kShape == kAny) {
            const auto *value = reinterpret_cast<const __nv_bfloat16 *>(&values);
#pragma unroll
            for (int e = 0; e < 8; ++e)
                if (warp_row + row < rows && warp_col + col + e < cols) to[e] = value[e];
        } else {
            if (kShape == kWhole || (warp_row + row < rows && warp_col + col < cols))
                *reinterpret_cast<uint4 *>(to) = values;
        }
    }
}

template <Shape kShape>
static cudaError_t start(const Args *args, cudaStream_t stream) {
    const int64_t tiles_m = (args->M + BM - 1) / BM, tiles_n = (args->N + BN - 1) / BN;
    if (tiles_m * tiles_n > INT32_MAX || args->K / BK >= INT32_MAX) return cudaErrorInvalidValue;
    const auto kernel = mma_multistage<kShape>;
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
        args->K % 8 == 0 && args->N % 8 == 0 && aligned(args->A) && aligned(args->B) && aligned(args->C);
    if (!vectors) return start<kAny>(args, stream);
    if (args->M % BM == 0 && args->N % BN == 0 && args->K % BK == 0) return start<kWhole>(args, stream);
    return start<kEdge>(args, stream);
}
