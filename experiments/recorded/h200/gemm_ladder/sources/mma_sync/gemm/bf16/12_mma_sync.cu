// Rung 12: tensor cores through mma.sync, fed by ldmatrix: wmma with the lid off.
//
// Idea     One warp-wide mma.sync m16n8k16 does 2048 multiply-adds on operands in registers, and PTX says which lane
//          holds which element (mma.cuh). So the program decides what is loaded when, by ldmatrix, which moves four
//          8 x 8 matrices from shared memory into that layout at once (.trans where B is contiguous along n), and C
//          leaves straight from the accumulators.
// Changed  against 11_wmma_shared: wmma's fragments, loads and stores are replaced by PTX. Tiles, padding, copies and
//          stages are the same; shared memory for the epilogue is gone.
// Tile     BM x BN x BK = 128 x 128 x 64, 4 warps of 64 x 64; a stage is 128 * 144 + 64 * 272 B = 35 KB (nn), two of
//          them 70 KB; 128 registers of accumulators a lane, two blocks a multiprocessor. A warp reads
//          (64 + 64) * 16 * 2 B = 4 KB of shared memory for 32 mma.
// Banks    PAD = 8 elements shift each row by 4 banks: the 8 rows of 16 bytes that ldmatrix reads at once lie in 8
//          different groups of 4 banks. PAD = 0 shows what happens without: an 8-way conflict.
// Measured H200, cold L2, 4096, median of 20, ratio to cuBLAS BF16 in the same process: 0.415 (427 us), PAD = 0: 0.143.
//          Slower than the rung before by 3 %, whose LDSM it shares: what is new is control, which the next rungs use,
//          while C leaves in pieces of 4 bytes.
// Limit    Padding costs 6 % (128 columns) to 12 % (64 columns) of the shared memory and breaks the 128-byte alignment
//          of rows. A lane stores 4 bytes of C, four lanes 16: half a sector.
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
#ifndef PAD
#define PAD 8
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
static_assert(WM % 16 == 0 && WN % 16 == 0, "mma is 16 x 8, B comes in pairs");
static_assert(BK % 16 == 0 && PAD % 8 == 0, "mma is 16 deep; vectors of 8 elements");
static_assert(STAGES >= 2, "one stage is read while another is filled");

// A tile of kRows x kColumns in shared memory, PAD elements between the rows.
template <int kRows_, int kColumns>
struct Padded {
    static constexpr int kRows = kRows_;
    static constexpr int kVectors = kColumns / 8;  // a row
    static constexpr int kRowBytes = (kColumns + PAD) * 2;
    static constexpr int kBytes = kRows * kRowBytes;

    static __device__ __forceinline__ uint32_t offset(int row, int vector) { return row * kRowBytes + vector * 16; }
};

using TileA = Padded<BM, BK>;
#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposedB = true;  // B is N x K: its tile has a row for each n
using TileB = Padded<BN, BK>;
#else
constexpr bool kTransposedB = false;
using TileB = Padded<BK, BN>;
#endif
constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
constexpr int kSharedBytes = STAGES * kStageBytes;
static_assert(MIN_BLOCKS * (kSharedBytes + 1024) <= 228 * 1024, "the stages must fit in shared memory");

template <Shape kShape>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    mma_sync(const __nv_bfloat16 *__restrict__ A, const __nv_bfloat16 *__restrict__ B, __nv_bfloat16 *__restrict__ C,
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

    // The lane's elements of a 16 x 8 result: rows lane / 4 and 8 more, columns 2 (lane % 4) and the next.
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = warp_row + i * 16 + half * 8 + lane / 4;
            if (kShape != ladder::kWhole && row >= rows) continue;
#pragma unroll
            for (int n = 0; n < 2 * kPairsN; ++n) {
                const int col = warp_col + n * 8 + lane % 4 * 2;
                ladder::store<kShape>(C + (first_row + row) * N + first_col + col,
                                      ladder::pack(acc[i][n][2 * half], acc[i][n][2 * half + 1]), cols - col);
            }
        }
}

template <Shape kShape>
static cudaError_t start(const Args *args, cudaStream_t stream) {
    const int64_t tiles_m = (args->M + BM - 1) / BM, tiles_n = (args->N + BN - 1) / BN;
    if (tiles_m * tiles_n > INT32_MAX || args->K / BK >= INT32_MAX) return cudaErrorInvalidValue;
    const auto kernel = mma_sync<kShape>;
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
