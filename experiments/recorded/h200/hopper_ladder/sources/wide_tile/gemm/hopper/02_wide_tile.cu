// Rung 2: the largest tile that the registers of four warps hold, 128 x 128, multiplied by products of 64 x 128.
//
// Idea     A product of 64 x N x 16 reads its A, 64 x 16, whatever N is: a wide one reads less from shared memory for
//          each operation. 64 x 64: (64 + 64) * 32 B = 4 KB in 32 cycles of the tensor cores, all the 128 B a cycle
//          that shared memory gives. 64 x 128: 6 KB in 64 cycles, three quarters of it.
// Changed  against 01_wgmma_tma: BM x BN = 128 x 128, two products side by side for each step along k.
// Tile     128 x 128 x 64, 128 threads, one buffer of 32 KB, 128 accumulators a thread. Reuse 2 * 128 * 128 / 256 = 128
//          FLOP for each element loaded, twice that of rung 1, so half the traffic from L2. At 4096: 1024 tiles.
// Measured 0.681 at 4096 and 0.757 at 8192.
// Sizes    K % 8 == 0 (rows of 16 bytes); any M and N.
#include "gemm.h"

#include "../../common/async_copy.cuh"
#include "../../common/mbarrier.cuh"
#include "../../common/tma.cuh"
#include "operands.cuh"
#include "ring.cuh"
#include "store_registers.cuh"

using namespace ladder;

constexpr int kBlockM = 128, kBlockN = 128;
constexpr int kThreads = 128;
constexpr int kBytesA = tile_bytes(kBlockM), kBytesB = tile_bytes(kBlockN);

__global__ void __launch_bounds__(kThreads)
    wide_tile(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Element *C,
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

    float d[kBlockM / 64][kBlockN / 2];
    const bool copies = warp_in_block() == 0;
    for (int k = 0; k < tiles_k; ++k) {
        if (copies) {
            arrive_expecting(filled, kBytesA + kBytesB);
            load_tile(tile_a, map_a, filled, k * kTileK, row);
            load_tile(tile_b, map_b, filled, k * kTileK, column);
        }
        wait_phase(filled, k & 1);
        fence_products();
#pragma unroll
        for (int i = 0; i < kBlockM / 64; ++i)
            multiply_stage(d[i], tile_descriptor(tile_a + tile_bytes(64 * i)), tile_descriptor(tile_b), k > 0);
        commit_products();
        wait_products<0>();
        __syncthreads();  // all warps have read the tile: it may be overwritten
    }
#pragma unroll
    for (int i = 0; i < kBlockM / 64; ++i) {
        pin(d[i]);
        store_registers(d[i], C, row + 64 * i, column, M, N);
    }
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    return make_plan(plan, [&](Plan *made) { return plan_operands(made, *args, kBlockM, kBlockN, kBlockM, kBlockN); });
}

extern "C" cudaError_t launch(const Args *args, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    wide_tile<<<plan.tiles_m * plan.tiles_n, kThreads, 0, stream>>>(plan.a, plan.b, args->C, args->M, args->N,
                                                                    plan.tiles_n, plan.tiles_k);
    return cudaGetLastError();
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
