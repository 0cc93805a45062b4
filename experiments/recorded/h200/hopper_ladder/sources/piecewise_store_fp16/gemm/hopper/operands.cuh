// What all Hopper rungs share: the element type, the tensor maps of A and B, and the plan that `prepare` makes of them.
//
// One source serves the contracts bf16 and fp16. Layout nt: A is M x K, B is N x K, so that both are contiguous along k
// as wgmma wants its operands, and C is M x N. The copy engine needs rows that are multiples of 16 bytes: K % 8 == 0.
// Sizes need not be multiples of the tiles: the engine fills what lies outside of A and B with zeros.
//
// Include after gemm.h.
#pragma once
#include <algorithm>
#include <vector>

#include "../../common/tensor_map.cuh"
#include "../../common/wgmma.cuh"
#include "tile_order.cuh"

#ifndef GEMM_LAYOUT_NT
#error "layout nt only: wgmma reads both operands as rows along k, and only nt stores both of them so"
#endif

namespace ladder {

#if defined(GEMM_DTYPE_BF16)
using Element = __nv_bfloat16;
using Multiply = Product<Operand::kBf16>;
constexpr CUtensorMapDataType kElementType = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;

// Two neighbours of a row of C, rounded to nearest even.
__device__ __forceinline__ uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&pair);
}
#elif defined(GEMM_DTYPE_FP16)
using Element = __half;
using Multiply = Product<Operand::kFp16>;
constexpr CUtensorMapDataType kElementType = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;

// Two neighbours of a row of C, rounded to nearest even.
__device__ __forceinline__ uint32_t pack(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&pair);
}
#else
#error "contracts bf16 and fp16 only"
#endif

constexpr int kTileK = 64;               // 128 bytes: one row of the swizzle pattern
constexpr int kRowBytes = 2 * kTileK;    // of a tile of A or B in shared memory
constexpr int kStepsK = kTileK / 16;     // products along k in a tile
constexpr int kMostShared = 227 * 1024;  // bytes that one block may have

__host__ __device__ constexpr int tile_bytes(int rows) { return rows * kRowBytes; }

__host__ __device__ constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The tiles that are shared along k: the first of them, and where blocks hand over sums and say that they have.
struct Shared {
    int first = 0;
    float4 *sums = nullptr;     // for each block and consumer warp, rows of 32 lanes
    uint32_t *flags = nullptr;  // for each block and consumer warp; all 0 between two launches
};

// What `prepare` leaves for `launch`: the maps go to the kernel by value.
struct Plan {
    CUtensorMap a, b, c;
    int tiles_m, tiles_n, tiles_k;
    int blocks = 0;             // of a persistent kernel that run at once, or clusters of them
    uint32_t *order = nullptr;  // device memory: see tile_order.cuh

    FirstTiles first;                                            // the beginning of it
    Shared shared;                                               // device memory, too
    cudaError_t (*start)(const Plan &, cudaStream_t) = nullptr;  // where a plan chooses between kernels

    ~Plan() {
        if (order != nullptr) cudaFree(order);
        if (shared.flags != nullptr) cudaFree(shared.flags);
        if (shared.sums != nullptr) cudaFree(shared.sums);
    }
};

// A matrix whose tiles lie in shared memory as rows of 64 elements, swizzled.
inline TiledMatrix tiled(const void *first, int64_t rows, int64_t columns, int tile_rows,
                         CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE) {
    return {kElementType, 2, first, rows, columns, tile_rows, kTileK, CU_TENSOR_MAP_SWIZZLE_128B, promotion};
}

// Fills in the maps of A and B, with boxes of so many rows (a block may load a tile in parts), and the counts of tiles.
inline cudaError_t plan_operands(Plan *plan, const Args &args, int block_m, int block_n, int box_m, int box_n,
                                 CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE) {
    if (const cudaError_t error = require_hopper()) return error;
    if (args.M > INT32_MAX - 1024 || args.N > INT32_MAX - 1024 || args.K > INT32_MAX - 1024)
        return cudaErrorInvalidValue;
    if (const cudaError_t error = make_map(&plan->a, tiled(args.A, args.M, args.K, box_m, promotion))) return error;
    if (const cudaError_t error = make_map(&plan->b, tiled(args.B, args.N, args.K, box_n, promotion))) return error;
    plan->tiles_m = static_cast<int>(divide_up(args.M, block_m));
    plan->tiles_n = static_cast<int>(divide_up(args.N, block_n));
    plan->tiles_k = static_cast<int>(divide_up(args.K, kTileK));
    if (int64_t{plan->tiles_m} * plan->tiles_n > INT32_MAX) return cudaErrorInvalidValue;
    return cudaSuccess;
}

// Dynamic shared memory above 48 KB must be asked for; cudaErrorInvalidValue when the device has less.
template <class Kernel>
cudaError_t allow_shared(Kernel kernel, int bytes) {
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

// Blocks of a persistent kernel of which one fits a multiprocessor.
inline cudaError_t resident_blocks(int *blocks) {
    int device = 0;
    if (const cudaError_t error = cudaGetDevice(&device)) return error;
    return cudaDeviceGetAttribute(blocks, cudaDevAttrMultiProcessorCount, device);
}

// The same in clusters: a group of neighbouring multiprocessors whose number is no multiple of the cluster leaves some
// idle, so the driver is asked. cudaErrorNotSupported when not one fits.
template <class Kernel>
cudaError_t resident_clusters(int *clusters, Kernel kernel, int blocks_each, int threads, int shared_bytes) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(blocks_each), 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = blocks_each;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    if (const cudaError_t error = cudaOccupancyMaxActiveClusters(clusters, kernel, &config)) return error;
    return *clusters > 0 ? cudaSuccess : cudaErrorNotSupported;
}

// Puts the order of the tiles, `make(tiles_m, tiles_n)`, into device memory. The copy is over before any launch: it
// waits for it. cudaErrorInvalidValue: more tiles one way than half a word of the table can say.
template <class Make>
cudaError_t plan_order(Plan *plan, Make make) {
    if (plan->tiles_m > 0x10000 || plan->tiles_n > 0x10000) return cudaErrorInvalidValue;
    const std::vector<uint32_t> order = make(plan->tiles_m, plan->tiles_n);
    std::copy_n(order.begin(), std::min<size_t>(order.size(), FirstTiles::kMost), plan->first.tile);
    const size_t bytes = order.size() * sizeof(uint32_t);
    if (const cudaError_t error = cudaMalloc(&plan->order, bytes)) return error;
    if (const cudaError_t error = cudaMemcpy(plan->order, order.data(), bytes, cudaMemcpyHostToDevice)) return error;
    return cudaStreamSynchronize(cudaStreamLegacy);
}

// Memory for what consumer warps hand over, `vectors` each. One plan serves one launch at a time.
inline cudaError_t plan_sums(Plan *plan, size_t warps, size_t vectors) {
    if (const cudaError_t error = cudaMalloc(&plan->shared.sums, warps * vectors * sizeof(float4))) return error;
    if (const cudaError_t error = cudaMalloc(&plan->shared.flags, warps * sizeof(uint32_t))) return error;
    if (const cudaError_t error = cudaMemset(plan->shared.flags, 0, warps * sizeof(uint32_t))) return error;
    return cudaStreamSynchronize(cudaStreamLegacy);
}

// Makes a plan with `fill`, and hands it out only if that succeeds.
template <class Fill>
cudaError_t make_plan(void **plan, Fill fill) {
    Plan *made = new Plan;
    const cudaError_t error = fill(made);
    if (error == cudaSuccess)
        *plan = made;
    else
        delete made;
    return error;
}

}  // namespace ladder
