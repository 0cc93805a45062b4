// Rung 13: rows of shared memory swizzled instead of padded.
//
// Idea     Where a vector of 16 bytes lies in its row depends on the row: its number is XORed with the row's. A column
//          of vectors then winds through all bank groups, as with padding, but rows keep their length: nothing is
//          wasted, and every row begins at a multiple of 64 or 128 bytes.
// Changed  against 12_mma_sync: Swizzled in place of Padded. C, too, passes through shared memory in this form, so that
//          it leaves in 16-byte vectors, rows of 128 bytes, and not in pieces of 4 bytes. All else is the same.
// Tile     BM x BN x BK = 128 x 128 x 64, 4 warps of 64 x 64; a stage is (128 * 64 + 64 * 128) * 2 B = 32 KB against 35
//          padded, two of them 64 KB; two blocks a multiprocessor.
// Banks    ldmatrix reads the same vector of 8 consecutive rows at once. Rows of 128 bytes: the 8 rows give 8 different
//          values to XOR, 8 vectors of 4 banks, no conflict. Rows of 64 bytes: two rows fill 128 bytes, so the row
//          number is counted in pairs. The copies write the vectors of a row, in another order: no conflict. The
//          epilogue writes 4 bytes of 8 rows (8 groups, 4 lanes in each) and reads whole rows: none.
// Measured H200, cold L2, 4096, median of 20, ratio to cuBLAS BF16 in the same process: 0.546 (326 us); a third stage
//          changes nothing.
// Limit    still one stage in flight while one is read, and fragments that are loaded and used in the same breath: the
//          tensor cores stand still at each barrier and at the beginning of each step.
// Sizes    any M, N, K >= 1, layouts nn and nt: see Shape in staging.cuh.
#include "gemm.h"
#include "staging.cuh"

#include "../../common/mma.cuh"
#include "../../common/raster.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 128
#endif
#ifndef BK
#define BK 64
#endif
#ifndef WM
#define WM 64
#endif
#ifndef WN
#define WN 64
#endif
#ifndef STAGES
#define STAGES 2
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2
#endif
#ifndef GROUP
#define GROUP 16
#endif

using ladder::Shape;

constexpr int kWarpsN = BN / WN;
constexpr int kThreads = 32 * (BM / WM) * kWarpsN;
constexpr int kFragmentsM = WM / 16;  // of 16 x 16 of A a warp
constexpr int kPairsN = WN / 16;      // of two 16 x 8 fragments of B a warp

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must divide the block tile");
static_assert(WM % 16 == 0 && WN % 64 == 0, "mma is 16 x 8; the epilogue moves rows of 128 bytes");
static_assert(BK == 32 || BK % 64 == 0, "see Swizzled");
static_assert(STAGES >= 2, "one stage is read while another is filled");

// A tile of kRows x kColumns in shared memory, its vectors of 8 elements swizzled within their rows: see Banks.
template <int kRows_, int kColumns>
struct Swizzled {
    static constexpr int kRows = kRows_;
    static constexpr int kVectors = kColumns / 8;  // a row
    static constexpr int kRowBytes = kColumns * 2;
    static constexpr int kBytes = kRows * kRowBytes;
    static_assert(kVectors % 4 == 0, "rows in multiples of 64 bytes");

    static __device__ __forceinline__ uint32_t offset(int row, int vector) {
        const int twist = kVectors % 8 ? row / 2 % 4 : row % 8;
        return row * kRowBytes + (vector ^ twist) * 16;
    }
};

using TileA = Swizzled<BM, BK>;
#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposedB = true;  // B is N x K: its tile has a row for each n
using TileB = Swizzled<BN, BK>;
#else
constexpr bool kTransposedB = false;
using TileB = Swizzled<BK, BN>;
#endif
constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
constexpr int kSharedBytes = STAGES * kStageBytes;
static_assert(MIN_BLOCKS * (kSharedBytes + 1024) <= 228 * 1024, "the stages must fit in shared memory");
static_assert(BM * BN * 2 <= kSharedBytes, "the epilogue passes C through the stages");

template <Shape kShape>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    mma_swizzle(const __nv_bfloat16 *__restrict__ A, const __nv_bfloat16 *__restrict__ B, __nv_bfloat16 *__restrict__ C,
                int64_t M, int64_t N, int64_t K, int64_t tiles_m, int64_t tiles_n) {
    extern __shared__ __align__(128) unsigned char shared[];

    const ladder::Tile tile = ladder::grouped_tile<GROUP>(blockIdx.x, tiles_m, tiles_n);
    const int64_t first_row = tile.m * BM, first_col = tile.n * BN;
    const int64_t rows = M - first_row, cols = N - first_col;  // of the matrix, from this tile on

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / kWarpsN * WM, warp_col = warp % kWarpsN * WN;

    ladder::Copier<TileA, kThreads, kShape> copy_a(A + first_row * K, K);
    ladder::Copier<TileB, kThreads, kShape> copy_b(kTransposedB ? B + first_col * K : B + first_col,
                                                   kTransposedB ? K : N);
    const uint32_t stages = ladder::shared_address(shared);
    const int k_tiles = static_cast<int>((K + BK - 1) / BK);

    int64_t depth = K;  // what is left of K, seen from the tile to be copied next
    const auto copy_next = [&](int stage, bool more) {
        const uint32_t to = stages + stage * kStageBytes;
        if (more) {
            copy_a.copy(to, 0, 1, rows, depth);
            copy_b.copy(to + TileA::kBytes, 0, 1, kTransposedB ? cols : depth, kTransposedB ? depth : cols);
        }
        ladder::commit_copies();  // a group for each tile, be it empty, so that the counts stay simple
        copy_a.from += BK;
        copy_b.from += kTransposedB ? BK : BK * N;
        depth -= BK;
    };

    // Fill all stages but one.
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) copy_next(stage, stage < k_tiles);

    float acc[kFragmentsM][2 * kPairsN][4] = {};

    int read = 0, write = STAGES - 1;
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        ladder::wait_copies<STAGES - 2>();  // this thread's copies of the tile have landed,
        __syncthreads();                    // everybody's have, and everybody has left the stage read in the last round
        copy_next(write, k_tile < k_tiles - (STAGES - 1));

        const uint32_t a_tile = stages + read * kStageBytes, b_tile = a_tile + TileA::kBytes;
#pragma unroll
        for (int step = 0; step < BK / 16; ++step) {
            uint32_t a[kFragmentsM][4], b[kPairsN][4];
#pragma unroll
            for (int i = 0; i < kFragmentsM; ++i)  // matrices: rows 0-7 and 8-15, then the same for k 8-15
                ladder::load_matrices(a[i],
                                      a_tile + TileA::offset(warp_row + i * 16 + lane % 16, step * 2 + lane / 16));
#pragma unroll
            for (int j = 0; j < kPairsN; ++j) {  // matrices: k 0-7 and 8-15, then the same for columns 8-15
                if constexpr (kTransposedB) {
                    const int row = warp_col + j * 16 + lane / 16 * 8 + lane % 8;
                    ladder::load_matrices(b[j], b_tile + TileB::offset(row, step * 2 + lane / 8 % 2));
                } else {
                    const int vector = warp_col / 8 + j * 2 + lane / 16;
                    ladder::load_matrices_transposed(b[j], b_tile + TileB::offset(step * 16 + lane % 16, vector));
                }
            }
#pragma unroll
            for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
                for (int n = 0; n < 2 * kPairsN; ++n)
                    ladder::multiply(acc[i][n], a[i], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
        }
        read = read + 1 == STAGES ? 0 : read + 1;
        write = write + 1 == STAGES ? 0 : write + 1;
    }

    // C goes through shared memory, a private piece for each warp.
    __syncthreads();
    using TileC = Swizzled<WM, WN>;
    unsigned char *mine = shared + warp * TileC::kBytes;
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
        for (int n = 0; n < 2 * kPairsN; ++n)
#pragma unroll
            for (int half = 0; half < 2; ++half) {  // rows lane / 4 and + 8, columns 2 (lane % 4) and + 1
                const uint32_t to = TileC::offset(i * 16 + half * 8 + lane / 4, n) + lane % 4 * 4;
                *reinterpret_cast<uint32_t *>(mine + to) = ladder::pack(acc[i][n][2 * half], acc[i][n][2 * half + 1]);
            }
    __syncwarp();
#pragma unroll
    for (int v = lane; v < WM * TileC::kVectors; v += 32) {
        const int line = v / TileC::kVectors, vector = v % TileC::kVectors;
        const int row = warp_row + line, col = warp_col + vector * 8;
        const uint4 values = *reinterpret_cast<const uint4 *>(mine + TileC::offset(line, vector));
        if (kShape == ladder::kWhole || row < rows)
            ladder::store<kShape>(C + (first_row + row) * N + first_col + col, values, cols - col);
    }
}

template <Shape kShape>
static cudaError_t start(const Args *args, cudaStream_t stream) {
    const int64_t tiles_m = (args->M + BM - 1) / BM, tiles_n = (args->N + BN - 1) / BN;
    if (tiles_m * tiles_n > INT32_MAX || args->K / BK >= INT32_MAX) return cudaErrorInvalidValue;
    const auto kernel = mma_swizzle<kShape>;
    // More than 48 KB of shared memory must be asked for.
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<static_cast<unsigned>(tiles_m * tiles_n), kThreads, kSharedBytes, stream>>>(
        args->A, args->B, args->C, args->M, args->N, args->K, tiles_m, tiles_n);
    return cudaGetLastError();
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    switch (ladder::shape_of(*args, BM, BN, BK)) {
        case ladder::kWhole:
            return start<ladder::kWhole>(args, stream);
        case ladder::kEdge:
            return start<ladder::kEdge>(args, stream);
        default:
            return start<ladder::kAny>(args, stream);
    }
}
