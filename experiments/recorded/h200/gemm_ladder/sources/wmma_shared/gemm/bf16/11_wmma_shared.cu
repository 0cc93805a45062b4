// Rung 11: wmma fed from shared memory: block tiles, padded rows, asynchronous copies.
//
// Idea     A block loads its tiles of A and B once and all its warps read their fragments from shared memory. cp.async
//          fills the next stage in 16-byte pieces, without passing through registers, while the tensor cores work on
//          this one.
// Changed  against 10_wmma: a block tile in shared memory between L2 and the fragments, large warp tiles (each
//          fragment is used WM / 16 or WN / 16 times), STAGES stages. The wmma calls are the same.
// Tile     BM x BN x BK = 128 x 128 x 64, 4 warps of 64 x 64; reuse 2 * 128 * 128 / 256 = 128 FLOP per element loaded;
//          a stage is 128 * 144 + 64 * 272 B = 35 KB (nn), two of them 70 KB; 128 registers of accumulators a lane, two
//          blocks a multiprocessor.
// Banks    A fragment is read as 8 x 8 pieces: 16 bytes from each of 8 consecutive rows. A row of 64 or 128 elements is
//          a multiple of 128 bytes, all 32 banks, so that the 8 pieces would lie in the same 4 banks: an 8-way
//          conflict. PAD = 8 elements, 16 bytes, a row shift each row by 4 banks: 8 rows, 8 x 4 banks, no conflict. The
//          copies write 128 consecutive bytes of a row by 8 lanes: none either (with BK = 32 they would write
//          64 bytes of two rows, 80 bytes apart, and meet in one group of 4 banks).
// Loads    nvcc 13.0 turns load_matrix_sync of BF16 into four 4-byte generic loads a lane (and a MOVM for each register
//          that must be transposed), although the pointer is shared; of half into one LDSM. The same wmma.load as PTX,
//          with `.shared` written out, gives LDSM. LDMATRIX = 0 shows what the plain call costs.
// Measured H200, cold L2, 4096, median of 20, ratio to cuBLAS BF16 in the same process: 0.427 (416 us); with the plain
//          calls (LDMATRIX = 0) 0.298.
// Limit    Every K tile the whole block stops at a barrier and begins with empty registers. wmma hides which lane has
//          what: fragments cannot be read ahead piece by piece, and C must pass through shared memory in FP32.
// Sizes    any M, N, K >= 1, layouts nn and nt: see Shape in staging.cuh.
#include "gemm.h"
#include "staging.cuh"

#include "../../common/raster.cuh"

#include <mma.h>

#include <type_traits>

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
#ifndef LDMATRIX
#define LDMATRIX 1
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2
#endif
#ifndef GROUP
#define GROUP 16
#endif

namespace wmma = nvcuda::wmma;
using ladder::Shape;

constexpr int kWarpsN = BN / WN;
constexpr int kThreads = 32 * (BM / WM) * kWarpsN;
constexpr int kFragmentsM = WM / 16, kFragmentsN = WN / 16;  // of 16 x 16 a warp

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must divide the block tile");
static_assert(WM % 16 == 0 && WN % 32 == 0, "wmma is 16 x 16 x 16; the epilogue moves rows of 64 bytes or more");
static_assert(BK % 16 == 0 && PAD % 8 == 0, "wmma is 16 x 16 x 16; vectors of 8 elements");
static_assert(STAGES >= 2, "one stage is read while another is filled");

// A tile of kRows x kColumns in shared memory, PAD elements between the rows.
template <int kRows_, int kColumns>
struct Padded {
    static constexpr int kRows = kRows_;
    static constexpr int kVectors = kColumns / 8;  // a row
    static constexpr int kPitch = kColumns + PAD;  // in elements
    static constexpr int kRowBytes = kPitch * 2;
    static constexpr int kBytes = kRows * kRowBytes;

    static __device__ __forceinline__ uint32_t offset(int row, int vector) { return row * kRowBytes + vector * 16; }
};

using TileA = Padded<BM, BK>;
#ifdef GEMM_LAYOUT_NT
constexpr bool kTransposedB = true;  // B is N x K: its tile has a row for each n
using TileB = Padded<BN, BK>;
using LayoutB = wmma::col_major;
#else
constexpr bool kTransposedB = false;
using TileB = Padded<BK, BN>;
using LayoutB = wmma::row_major;
#endif
using FragmentA = wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major>;
using FragmentB = wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, LayoutB>;
using FragmentC = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

// load_matrix_sync, with the state space said: see Loads above.
template <class Fragment>
__device__ __forceinline__ void load(Fragment &fragment, const __nv_bfloat16 *from, int pitch) {
#if LDMATRIX
    static_assert(sizeof(fragment.x) == 16, "8 elements a lane");
    auto &x = reinterpret_cast<uint32_t (&)[4]>(fragment.x);
    const uint32_t address = ladder::shared_address(from);
    if constexpr (std::is_same_v<Fragment, FragmentA>)
        asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                     : "r"(address), "r"(pitch)
                     : "memory");
    else if constexpr (kTransposedB)
        asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                     : "r"(address), "r"(pitch)
                     : "memory");
    else
        asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                     : "r"(address), "r"(pitch)
                     : "memory");
#else
    wmma::load_matrix_sync(fragment, from, pitch);
#endif
}

constexpr int kStageBytes = TileA::kBytes + TileB::kBytes;
constexpr int kSharedBytes = STAGES * kStageBytes;
constexpr int kPitchC = WN + 8;  // floats: 32 bytes more than a multiple of 128, see the epilogue
static_assert(MIN_BLOCKS * (kSharedBytes + 1024) <= 228 * 1024, "the stages must fit in shared memory");
static_assert(kThreads / 32 * 16 * kPitchC * 4 <= kSharedBytes, "the epilogue passes C through the stages");
static_assert(TileA::kBytes % 32 == 0 && kStageBytes % 32 == 0, "wmma wants pointers aligned to 32 bytes");

template <Shape kShape>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS)
    wmma_shared(const __nv_bfloat16 *__restrict__ A, const __nv_bfloat16 *__restrict__ B, __nv_bfloat16 *__restrict__ C,
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

    FragmentC acc[kFragmentsM][kFragmentsN];
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) wmma::fill_fragment(acc[i][j], 0.0f);

    int read = 0, write = STAGES - 1;
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        ladder::wait_copies<STAGES - 2>();  // this thread's copies of the tile have landed,
        __syncthreads();                    // everybody's have, and everybody has left the stage read in the last round
        copy_next(write, k_tile < k_tiles - (STAGES - 1));

        const auto *a_tile = reinterpret_cast<const __nv_bfloat16 *>(shared + read * kStageBytes);
        const auto *b_tile = reinterpret_cast<const __nv_bfloat16 *>(shared + read * kStageBytes + TileA::kBytes);
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            FragmentA a[kFragmentsM];
            FragmentB b[kFragmentsN];
#pragma unroll
            for (int i = 0; i < kFragmentsM; ++i)
                load(a[i], a_tile + (warp_row + i * 16) * TileA::kPitch + k, TileA::kPitch);
#pragma unroll
            for (int j = 0; j < kFragmentsN; ++j) {
                const int n = warp_col + j * 16;
                load(b[j], b_tile + (kTransposedB ? n * TileB::kPitch + k : k * TileB::kPitch + n), TileB::kPitch);
            }
#pragma unroll
            for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
                for (int j = 0; j < kFragmentsN; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
        read = read + 1 == STAGES ? 0 : read + 1;
        write = write + 1 == STAGES ? 0 : write + 1;
    }

    // C goes through shared memory, 16 rows of the warp tile at a time. The pitch shifts each row by 8 banks, so that
    // the 4 rows x 32 bytes that half a warp stores at once lie in different banks.
    __syncthreads();
    float *mine = reinterpret_cast<float *>(shared) + warp * 16 * kPitchC;
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j)
            wmma::store_matrix_sync(mine + j * 16, acc[i][j], kPitchC, wmma::mem_row_major);
        __syncwarp();
#pragma unroll
        for (int e = lane * 4; e < 16 * WN; e += 32 * 4) {  // four neighbours a lane, whole rows by the warp
            const int row = warp_row + i * 16 + e / WN, col = warp_col + e % WN;
            const uint2 packed = ladder::pack(*reinterpret_cast<const float4 *>(mine + e / WN * kPitchC + e % WN));
            if (kShape == ladder::kWhole || row < rows)
                ladder::store<kShape>(C + (first_row + row) * N + first_col + col, packed, cols - col);
        }
        __syncwarp();
    }
}

template <Shape kShape>
static cudaError_t start(const Args *args, cudaStream_t stream) {
    const int64_t tiles_m = (args->M + BM - 1) / BM, tiles_n = (args->N + BN - 1) / BN;
    if (tiles_m * tiles_n > INT32_MAX || args->K / BK >= INT32_MAX) return cudaErrorInvalidValue;
    const auto kernel = wmma_shared<kShape>;
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
