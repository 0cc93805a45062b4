// Rung 4: a tile of 128 x 256 for two warpgroups of consumers, with the registers moved to where they are needed.
//
// Idea     The widest product is 64 x 256: (64 + 256) * 32 B = 10 KB of shared memory in 128 cycles, 63 % of what it
//          gives. One warpgroup would need 256 accumulators a thread for 128 x 256, more registers than there are; two
//          hold 128 each. And while one of them waits, the other keeps the tensor cores busy.
// Changed  against 03_warp_specialised: BN = 256, two consumer warpgroups with 64 rows each, setmaxnreg: 384 threads
//          start with 168 registers each (65536 / 384, in steps of 8); the producer keeps 40, the consumers take 232:
//          128 * 40 + 256 * 232 = 64512.
// Tile     128 x 256 x 64, 384 threads; STAGES = 4 stages of 16 + 32 = 48 KB = 192 KB. Reuse 2 * 128 * 256 / 384 = 171
//          FLOP for each element loaded. At 4096: 512 tiles on 132 multiprocessors, 3.88 waves.
// Barriers freed: 8 arrivals, one of each consumer warp.
// Measured 0.880 at 4096 and 0.956 at 8192.
// Sizes    K % 8 == 0 (rows of 16 bytes); any M and N.
#include "gemm.h"

#include "../../common/tma.cuh"
#include "operands.cuh"
#include "ring.cuh"
#include "store_registers.cuh"

#ifndef STAGES
#define STAGES 4
#endif

using namespace ladder;

constexpr int kBlockM = 128, kBlockN = 256;
constexpr int kConsumerWarps = 8;
constexpr int kThreads = 128 + 32 * kConsumerWarps;
using Stages = Ring<STAGES, kBlockM, kBlockN>;
constexpr int kSharedBytes = Stages::kBytes + Stages::kBarrierBytes;
static_assert(kSharedBytes <= kMostShared, "the stages must fit in shared memory");

__global__ void __launch_bounds__(kThreads, 1)
    two_consumers(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Element *C,
                  int64_t M, int64_t N, int tiles_n, int tiles_k) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Stages ring{shared_address(shared), shared_address(shared) + Stages::kBytes};
    const int row = blockIdx.x / tiles_n * kBlockM, column = blockIdx.x % tiles_n * kBlockN;
    if (threadIdx.x == 0) ring.init(kConsumerWarps);
    __syncthreads();

    Stages::Place place;
    const int warp = warp_in_block(), group = warp / 4;
    if (group == 0) {  // the producer
        give_up_registers<40>();
        if (warp == 0) {
            for (int k = 0; k < tiles_k; ++k, place.advance()) {
                wait_phase(ring.freed(place.stage), place.parity ^ 1);
                const uint32_t filled = ring.filled(place.stage);
                arrive_expecting(filled, Stages::kStageBytes);
                load_tile(ring.tile_a(place.stage), map_a, filled, k * kTileK, row);
                load_tile(ring.tile_b(place.stage), map_b, filled, k * kTileK, column);
            }
        }
    } else {  // the consumers
        take_registers<232>();
        const int rows_above = (group - 1) * 64;  // this warpgroup's, in the tile
        const uint64_t first_a = tile_descriptor(ring.tile_a(0) + tile_bytes(rows_above));
        const uint64_t first_b = tile_descriptor(ring.tile_b(0));
        float d[kBlockN / 2];
        for (int k = 0; k < tiles_k; ++k, place.advance()) {
            wait_phase(ring.filled(place.stage), place.parity);
            fence_products();
            multiply_stage(d, first_a + place.stage * Stages::kStageStep, first_b + place.stage * Stages::kStageStep,
                           k > 0);
            commit_products();
            wait_products<0>();
            arrive(ring.freed(place.stage));
        }
        pin(d);
        store_registers(d, C, row + rows_above, column, M, N);
    }
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    return make_plan(plan, [&](Plan *made) {
        if (const cudaError_t error = plan_operands(made, *args, kBlockM, kBlockN, kBlockM, kBlockN)) return error;
        return allow_shared(two_consumers, kSharedBytes);
    });
}

extern "C" cudaError_t launch(const Args *args, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    two_consumers<<<plan.tiles_m * plan.tiles_n, kThreads, kSharedBytes, stream>>>(plan.a, plan.b, args->C, args->M,
                                                                                   args->N, plan.tiles_n, plan.tiles_k);
    return cudaGetLastError();
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
