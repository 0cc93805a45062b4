// Rung 1: a whole warpgroup multiplies from shared memory (wgmma), and the copy engine fills it (TMA).
//
// Idea     Four warps issue one instruction that reads both operands from shared memory, and one thread orders the copy
//          of a whole tile: no thread computes the address of an element, holds it in a register, or takes it there.
// Changed  against mma.sync (the last BF16 rung of gemm_ladder): ldmatrix and its fragments are gone, with them half of
//          the traffic of shared memory; wgmma runs at 4096 operations a cycle and multiprocessor where mma.sync
//          stops at two thirds of that.
// Tile     BM x BN x BK = 64 x 64 x 64, 128 threads, one buffer of 64 * 128 B + 64 * 128 B = 16 KB. Each round copies,
//          waits, multiplies (4 products of 64 x 64 x 16) and waits: nothing overlaps inside a block, so it is the many
//          blocks of a multiprocessor that hide one another's waits. Reuse 2 * 64 * 64 / (64 + 64) = 64 FLOP for each
//          element loaded. At 4096: 64 * 64 = 4096 tiles.
// Barrier  One, for what the copy engine delivers: 1 arrival (the thread that orders) and 16384 bytes a round. The way
//          back, "everybody has read the tile", is a __syncthreads.
// Measured 0.465 of cuBLAS BF16 at 4096 and 0.405 at 8192 (H200, one process, single cold launches, as in all files
//          here).
// Sizes    K % 8 == 0 (rows of 16 bytes); any M and N.
#include "gemm.h"

#include "../../common/async_copy.cuh"
#include "../../common/mbarrier.cuh"
#include "../../common/tma.cuh"
#include "operands.cuh"
#include "store_registers.cuh"

using namespace ladder;

constexpr int kBlockM = 64, kBlockN = 64;
constexpr int kThreads = 128;
constexpr int kBytesA = tile_bytes(kBlockM), kBytesB = tile_bytes(kBlockN);

__global__ void __launch_bounds__(kThreads)
    wgmma_tma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Element *C,
              int64_t M, int64_t N, int tiles_n, int tiles_k) {
    __shared__ __align__(1024) unsigned char tiles[kBytesA + kBytesB];
    __shared__ __align__(8) uint64_t filled_storage;
    const uint32_t tile_a = shared_address(tiles), tile_b = tile_a + kBytesA;
    const uint32_t filled = shared_address(&filled_storage);

    const int row = blockIdx.x / tiles_n * kBlockM, column = blockIdx.x % tiles_n * kBlockN;
    if (threadIdx.x == 0) {
        barrier_init(filled, 1);
        publish_barriers();
    }
    __syncthreads();

    float d[kBlockN / 2];
    const bool copies = warp_in_block() == 0;
    for (int k = 0; k < tiles_k; ++k) {
        if (copies) {
            arrive_expecting(filled, kBytesA + kBytesB);
            load_tile(tile_a, map_a, filled, k * kTileK, row);
            load_tile(tile_b, map_b, filled, k * kTileK, column);
        }
        wait_phase(filled, k & 1);
        const uint64_t a = tile_descriptor(tile_a), b = tile_descriptor(tile_b);
        fence_products();
#pragma unroll
        for (int step = 0; step < kStepsK; ++step)  // the first product of all overwrites: nobody has to clear d
            Multiply::multiply(d, a + step * kStepAlongK, b + step * kStepAlongK, k + step > 0);
        commit_products();
        wait_products<0>();
        __syncthreads();  // all warps have read the tile: it may be overwritten
    }
    pin(d);
    store_registers(d, C, row, column, M, N);
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    return make_plan(plan, [&](Plan *made) { return plan_operands(made, *args, kBlockM, kBlockN, kBlockM, kBlockN); });
}

extern "C" cudaError_t launch(const Args *args, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    wgmma_tma<<<plan.tiles_m * plan.tiles_n, kThreads, 0, stream>>>(plan.a, plan.b, args->C, args->M, args->N,
                                                                    plan.tiles_n, plan.tiles_k);
    return cudaGetLastError();
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
