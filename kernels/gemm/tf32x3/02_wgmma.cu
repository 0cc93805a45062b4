// FP32 products on the tensor cores, rung 2: whole warpgroups (wgmma), and the product the other way round.
//
// Idea     wgmma has half as much again of mma.sync's rate, but in TF32 it wants both operands contiguous along k, and
//          B of layout nn is contiguous along n. So C^T = B^T A^T is computed: what wgmma calls A, rows of B^T, may
//          come from registers, where any layout can be read; and what it calls B is A itself, contiguous along k as it
//          is.
// Changed  against the rung before:
//          - two warpgroups multiply, a third prepares: its first warp orders tiles of A and B from the copy engine,
//            and all of it splits the tile of A into high and low halves in shared memory, once a block instead of once
//            a warp;
//          - B is read word by word into registers and split there, one tile ahead of the products;
//          - the partial sums of PROMOTE tiles are added to the sums in FP32, for the reason given there.
// Tile     BM x BN x BK = 128 x 128 x 32, 384 threads. Each multiplying warpgroup has 64 columns of C, as rows of C^T:
//          64 sums and 64 partial sums a thread, and 2 * 32 registers of fragments. Shared memory: 4 stages of A high,
//          A low and B, 48 KB each. A tile takes 2 * 12 products of 64 x 128 x 8, 1536 cycles of the tensor cores; in
//          that time shared memory moves 96 KB for them and 96 KB for copies, splitting and fragments: the 128 B a
//          cycle that it has. Whoever wants more of the tensor cores must share a split tile of A among more columns.
// k        wgmma's thread l takes columns l % 4 and l % 4 + 4 of A. They are fed with k = 2 (l % 4) and 2 (l % 4) + 1,
//          so that in the swizzled tile of B lanes meet no bank twice; the splitting warpgroup lays A out to match.
// Ring     filled: the copy engine's bytes. ready: an arrival of each splitting warp. read: one of each multiplying
//          warp, once the products that read the stage have been waited for (those of one tile stay in flight
//          meanwhile).
// Measured 2.380 of cuBLAS FP32 at 4096 and 2.438 at 8192 (H200, one process, single cold launches; recorded): 121.9
//          and 123.3 TFLOP/s. PROMOTE 2 (sums of 64 k) 2.306 and 2.357: twice as many additions cost 3.2 and 3.4 %.
//          PROMOTE 8 does not help: its longer unrolled loop spills.
// Sizes    N % 4 == 0 and K % 4 == 0 (rows of 16 bytes for the copy engine), any M; layout nn.
#include "gemm.h"

#include "../../common/async_copy.cuh"
#include "../../common/mbarrier.cuh"
#include "../../common/raster.cuh"
#include "../../common/tensor_map.cuh"
#include "../../common/tf32.cuh"
#include "../../common/tma.cuh"
#include "../../common/vectors.cuh"
#include "../../common/wgmma_tf32.cuh"

#ifdef GEMM_LAYOUT_NT
#error "layout nn only"
#endif

#ifndef STAGES
#define STAGES 4
#endif
#ifndef PROMOTE
#define PROMOTE 4
#endif
#ifndef GROUP
#define GROUP 16
#endif

constexpr int kTileM = 128, kTileN = 128, kTileK = 32;
constexpr int kMultiplying = 2;  // warpgroups
constexpr int kThreads = 128 * (kMultiplying + 1);
constexpr int kBytesA = kTileM * kTileK * 4, kBytesB = kTileK * kTileN * 4;
constexpr int kBoxN = 32;  // columns of B in one order: 128 bytes, a row of the swizzle
constexpr int kBoxBytes = kTileK * kBoxN * 4;
constexpr int kStage = 2 * kBytesA + kBytesB;  // A (then its high half), A's low half, B
constexpr int kSharedBytes = STAGES * kStage + 1024;
constexpr int kAhead = STAGES - 2;  // tiles that are ordered before the one that is split
constexpr int kSplittingRegisters = 72, kMultiplyingRegisters = 216;
static_assert(STAGES >= 4, "two stages may be multiplied, one is split, one is filled");
static_assert(PROMOTE % 2 == 0, "fragments alternate between two sets of registers");
static_assert((kSplittingRegisters + kMultiplying * kMultiplyingRegisters) * 128 <= 65536, "the register file");

struct Barriers {
    uint32_t first;
    __device__ uint32_t filled(int stage) const { return first + 8 * stage; }
    __device__ uint32_t ready(int stage) const { return first + 8 * (STAGES + stage); }
    __device__ uint32_t read(int stage) const { return first + 8 * (2 * STAGES + stage); }
};

// Splits this thread's row of the tile of A: high halves in place, low halves behind. Eight values of k are two 16-byte
// pieces; those with even k go to the first, those with odd k to the second. Eight neighbouring threads access eight
// different pieces of the 128 bytes that are 32 banks.
__device__ __forceinline__ void split_row(uint32_t tile, int row) {
#pragma unroll
    for (int k = 0; k < kTileK / 4; k += 2) {
        const uint32_t even = tile + row * 128 + ((k ^ row % 8) << 4), odd = even ^ 16;
        float x[8];
        uint32_t high[8], low[8];
        ladder::read_fragment<4, 4>(reinterpret_cast<float (&)[4]>(x[0]), even);
        ladder::read_fragment<4, 4>(reinterpret_cast<float (&)[4]>(x[4]), odd);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const ladder::SplitTf32 both = ladder::split_tf32(x[i]);
            high[i] = both.high;
            low[i] = both.low;
        }
        ladder::write_words(even, high[0], high[2], high[4], high[6]);
        ladder::write_words(odd, high[1], high[3], high[5], high[7]);
        ladder::write_words(even + kBytesA, low[0], low[2], low[4], low[6]);
        ladder::write_words(odd + kBytesA, low[1], low[3], low[5], low[7]);
    }
}

// Fragments of B^T for one tile: high and low halves for each 8 values of k.
struct Fragments {
    uint32_t high[kTileK / 8][4], low[kTileK / 8][4];

    // at[half][odd]: where this thread's element of the first 8 values of k lies, `half` of the 16 rows further.
    __device__ __forceinline__ void read(uint32_t tile, const uint32_t (&at)[2][2]) {
#pragma unroll
        for (int step = 0; step < kTileK / 8; ++step)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const ladder::SplitTf32 both =
                    ladder::split_tf32(ladder::read_word(tile + at[e % 2][e / 2] + step * 8 * 128));
                high[step][e] = both.high;
                low[step][e] = both.low;
            }
    }
};

__global__ void __launch_bounds__(kThreads, 1)
    wgmma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, float *__restrict__ C,
          int64_t M, int64_t N, int k_tiles, int64_t tiles_m, int64_t tiles_n) {
    extern __shared__ __align__(1024) unsigned char shared[];
    __shared__ __align__(8) uint64_t barrier_storage[3 * STAGES];
    const uint32_t base = ladder::kept((ladder::shared_address(shared) + 1023) & ~1023u);  // the swizzle's pattern
    const Barriers barriers{ladder::kept(ladder::shared_address(barrier_storage))};
    const ladder::Tile tile = ladder::grouped_tile<GROUP>(blockIdx.x, tiles_m, tiles_n);
    const int first_row = static_cast<int>(tile.m) * kTileM, first_col = static_cast<int>(tile.n) * kTileN;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            ladder::barrier_init(barriers.filled(stage), 1);
            ladder::barrier_init(barriers.ready(stage), 4);
            ladder::barrier_init(barriers.read(stage), 4 * kMultiplying);
        }
        ladder::publish_barriers();
    }
    __syncthreads();

    const int group = threadIdx.x / 128, thread = threadIdx.x % 128;
    if (group == kMultiplying) {
        ladder::give_up_registers<kSplittingRegisters>();
        ladder::RingPlace<STAGES> from, into;
        const auto order = [&](int k_tile) {
            if (thread < 32 && k_tile <= k_tiles) {
                const uint32_t to = base + into.stage * kStage, barrier = barriers.filled(into.stage);
                ladder::wait_phase(barriers.read(into.stage), into.parity ^ 1);
                ladder::arrive_expecting(barrier, kBytesA + kBytesB);
                ladder::load_tile(to, map_a, barrier, k_tile * kTileK, first_row);
                for (int box = 0; box < kTileN / kBoxN; ++box)
                    ladder::load_tile(to + 2 * kBytesA + box * kBoxBytes, map_b, barrier, first_col + box * kBoxN,
                                      k_tile * kTileK);
            }
            into.advance();
        };
        for (int k_tile = 0; k_tile < kAhead; ++k_tile) order(k_tile);
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            ladder::wait_phase(barriers.filled(from.stage), from.parity);
            split_row(base + from.stage * kStage, thread);
            ladder::publish_to_copies();  // wgmma reads as the copy engine does
            __syncwarp();
            ladder::arrive(barriers.ready(from.stage));
            from.advance();
            order(k_tile + kAhead);
        }
        return;
    }

    ladder::take_registers<kMultiplyingRegisters>();
    const int warp = thread / 32, lane = thread % 32;
    // Row n of B^T is column n of B: 16 to each warp. Box n / 32, then rows of k, 16-byte pieces XORed with k % 8.
    uint32_t at[2][2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            const int n = group * 64 + warp * 16 + lane / 4 + 8 * half, k = 2 * (lane % 4) + odd;
            at[half][odd] =
                ladder::kept(2 * kBytesA + n / kBoxN * kBoxBytes + k * 128 + ((n % kBoxN / 4 ^ k) << 4) + n % 4 * 4);
        }

    float sum[64] = {}, part[64];
    Fragments fragments[2];
    ladder::RingPlace<STAGES> from;
    ladder::wait_phase(barriers.filled(0), 0);
    fragments[0].read(base, at);
    for (int k_tile = 0; k_tile < k_tiles; k_tile += PROMOTE) {
#pragma unroll
        for (int i = 0; i < PROMOTE; ++i) {
            // Issue the products of this tile behind those of the one before.
            const uint32_t stage = base + from.stage * kStage;
            const uint64_t high = ladder::tile_descriptor(stage), low = ladder::tile_descriptor(stage + kBytesA);
            Fragments &now = fragments[i % 2];
            ladder::wait_phase(barriers.ready(from.stage), from.parity);
            ladder::fence_products();
#pragma unroll
            for (int step = 0; step < kTileK / 8; ++step) {
                const uint64_t along = step * ladder::kStepAlongK;
                ladder::multiply_tf32_group(part, now.low[step], high + along, i + step > 0);  // the first overwrites
                ladder::multiply_tf32_group(part, now.high[step], low + along, true);
                ladder::multiply_tf32_group(part, now.high[step], high + along, true);
            }
            ladder::commit_products();
            ladder::wait_products<1>();  // those of the tile before are done: its stage and its fragments are free
            if (i > 0) ladder::arrive(barriers.read(from.stage == 0 ? STAGES - 1 : from.stage - 1));
            const int done = from.stage;
            from.advance();
            // Meanwhile the fragments of the next tile. (After the last tile comes one more, of zeros.)
            ladder::wait_phase(barriers.filled(from.stage), from.parity);
            fragments[(i + 1) % 2].read(base + from.stage * kStage, at);
            if (i == PROMOTE - 1) {
                ladder::wait_products<0>();
                ladder::arrive(barriers.read(done));
            }
        }
        ladder::pin(part);
#pragma unroll
        for (int i = 0; i < 64; ++i) sum[i] += part[i];
    }

    // C^T in registers: row n, column m. Eight lanes write 32 neighbouring bytes of a row of C.
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        const int64_t m = first_row + i / 4 * 8 + lane % 4 * 2 + i % 2;
        const int64_t n = first_col + group * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8;
        if (m < M && n < N) C[m * N + n] = sum[i];
    }
}

struct Plan {
    CUtensorMap a, b;
};

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    if (const cudaError_t error = ladder::require_hopper()) return error;
    if (args->M > INT32_MAX - 1024 || args->N > INT32_MAX - 1024 || args->K > INT32_MAX - 1024)
        return cudaErrorInvalidValue;
    const auto tiled = [](const float *first, int64_t rows, int64_t columns, int tile_rows) {
        return ladder::TiledMatrix{
            CU_TENSOR_MAP_DATA_TYPE_FLOAT32,   4, first, rows, columns, tile_rows, 32, CU_TENSOR_MAP_SWIZZLE_128B,
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
    };
    Plan made;
    if (const cudaError_t error = ladder::make_map(&made.a, tiled(args->A, args->M, args->K, kTileM))) return error;
    if (const cudaError_t error = ladder::make_map(&made.b, tiled(args->B, args->K, args->N, kTileK))) return error;
    *plan = new Plan(made);
    return cudaSuccess;
}

extern "C" cudaError_t launch(const Args *args, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    const int64_t tiles_m = (args->M + kTileM - 1) / kTileM, tiles_n = (args->N + kTileN - 1) / kTileN;
    if (tiles_m * tiles_n > INT32_MAX) return cudaErrorInvalidValue;
    // Whole rounds of PROMOTE tiles: what lies beyond K is zero.
    const int k_tiles = static_cast<int>((args->K + kTileK * PROMOTE - 1) / (kTileK * PROMOTE) * PROMOTE);
    const auto kernel = wgmma;
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (error != cudaSuccess) return error;
    kernel<<<static_cast<unsigned>(tiles_m * tiles_n), kThreads, kSharedBytes, stream>>>(
        plan.a, plan.b, args->C, args->M, args->N, k_tiles, tiles_m, tiles_n);
    return cudaGetLastError();
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
