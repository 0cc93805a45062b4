// Rung 3: one warp only copies, four warps only multiply, and a ring of stages lies between them.
//
// Idea     In rung 2 a block waits for its copy, then for its products, then for its warps. With a producer that runs
//          ahead through a ring of stages, the copies of the next tiles go on while the consumer multiplies; nobody
//          waits for a whole block any more, but for the one thing he needs.
// Changed  against 02_wide_tile: a second warpgroup, of which one thread orders copies; STAGES buffers; two barriers a
//          stage (filled, freed) in place of __syncthreads.
// Tile     128 x 128 x 64, 256 threads; STAGES = 5 stages of 32 KB = 160 KB: one block a multiprocessor.
// Barriers filled: 1 arrival and 32768 bytes. freed: 4 arrivals, one of each consumer warp. The producer waits for
//          parity 1, 0, ... of freed (the first time round at once), the consumer for 0, 1, ... of filled.
// Measured 0.734 at 4096; 0.738 at 8192, where rung 2 has 0.757: its blocks, of which a multiprocessor has several,
//          hide one another's waits. What this rung gains it loses again, as its one consumer has nobody to multiply
//          while it waits for its products and stores: the next rung's second one.
// Sizes    K % 8 == 0 (rows of 16 bytes); any M and N.
#include "gemm.h"

#include "../../common/tma.cuh"
#include "operands.cuh"
#include "ring.cuh"
#include "store_registers.cuh"

#ifndef STAGES
#define STAGES 5
#endif

using namespace ladder;

constexpr int kBlockM = 128, kBlockN = 128;
constexpr int kConsumerWarps = 4;
constexpr int kThreads = 128 + 32 * kConsumerWarps;
using Stages = Ring<STAGES, kBlockM, kBlockN>;
constexpr int kSharedBytes = Stages::kBytes + Stages::kBarrierBytes;
static_assert(kSharedBytes <= kMostShared, "the stages must fit in shared memory");

__global__ void __launch_bounds__(kThreads, 1)
    warp_specialised(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b, Element *C,
                     int64_t M, int64_t N, int tiles_n, int tiles_k) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const Stages ring{shared_address(shared), shared_address(shared) + Stages::kBytes};
    const int row = blockIdx.x / tiles_n * kBlockM, column = blockIdx.x % tiles_n * kBlockN;
    if (threadIdx.x == 0) ring.init(kConsumerWarps);
    __syncthreads();

    Stages::Place place;
    const int warp = warp_in_block();
    if (warp < 4) {  // the producer
        if (warp == 0) {
            for (int k = 0; k < tiles_k; ++k, place.advance()) {
                wait_phase(ring.freed(place.stage), place.parity ^ 1);
                const uint32_t filled = ring.filled(place.stage);
                arrive_expecting(filled, Stages::kStageBytes);
                load_tile(ring.tile_a(place.stage), map_a, filled, k * kTileK, row);
                load_tile(ring.tile_b(place.stage), map_b, filled, k * kTileK, column);
            }
        }
    } else {  // the consumer
        const uint64_t first_a = tile_descriptor(ring.tile_a(0)), first_b = tile_descriptor(ring.tile_b(0));
        float d[kBlockM / 64][kBlockN / 2];
        for (int k = 0; k < tiles_k; ++k, place.advance()) {
            wait_phase(ring.filled(place.stage), place.parity);
            const uint64_t a = first_a + place.stage * Stages::kStageStep,
                           b = first_b + place.stage * Stages::kStageStep;
            fence_products();
#pragma unroll
            for (int i = 0; i < kBlockM / 64; ++i) multiply_stage(d[i], a + tile_bytes(64 * i) / 16, b, k > 0);
            commit_products();
            wait_products<0>();
            arrive(ring.freed(place.stage));
        }
#pragma unroll
        for (int i = 0; i < kBlockM / 64; ++i) {
            pin(d[i]);
            store_registers(d[i], C, row + 64 * i, column, M, N);
        }
    }
}

extern "C" cudaError_t prepare(const Args *args, void **plan) {
    return make_plan(plan, [&](Plan *made) {
        if (const cudaError_t error = plan_operands(made, *args, kBlockM, kBlockN, kBlockM, kBlockN)) return error;
        return allow_shared(warp_specialised, kSharedBytes);
    });
}

extern "C" cudaError_t launch(const Args *args, void *prepared, cudaStream_t stream) {
    const Plan &plan = *static_cast<const Plan *>(prepared);
    warp_specialised<<<plan.tiles_m * plan.tiles_n, kThreads, kSharedBytes, stream>>>(
        plan.a, plan.b, args->C, args->M, args->N, plan.tiles_n, plan.tiles_k);
    return cudaGetLastError();
}

extern "C" void destroy(void *plan) { delete static_cast<Plan *>(plan); }
