// How the tiles of C are divided among blocks that stay: places of tiles, and what blocks that share a tile hand over.
#pragma once
#include <cstdint>

#include "../../common/balanced.cuh"

namespace ladder {

// The tiles that are shared along k: the first of them, and where blocks hand over sums and say that they have.
struct SharedTiles {
    int first = 0;
    float4 *sums = nullptr;     // for each block and warp, rows of 32 lanes
    uint32_t *flags = nullptr;  // for each block and warp; all 0 between two launches
};

// Tiles in bands of kGroup rows, walked column by column: see raster.cuh. In 32 bits, as it comes between two tiles.
template <int kGroup>
struct Place {
    int m, n;

    __device__ __forceinline__ Place(unsigned index, unsigned tiles_m, unsigned tiles_n) {
        const unsigned band = kGroup * tiles_n, first = index / band * kGroup, inside = index % band;
        const unsigned height = tiles_m - first < kGroup ? tiles_m - first : kGroup;
        m = static_cast<int>(first + inside % height), n = static_cast<int>(inside / height);
    }
};

// Who has which tiles, and the memory of what they hand over.
struct Division {
    int tiles_m = 0, tiles_n = 0, workers = 0;
    SharedTiles together;

    Division() = default;
    Division(const Division &) = delete;
    ~Division() {
        if (together.sums != nullptr) cudaFree(together.sums);
        if (together.flags != nullptr) cudaFree(together.flags);
    }

    // `blocks` of `warps` warps run on a multiprocessor at once; a warp's sums are `vectors` of four a lane, and
    // handing over takes as long as `cost` of the `steps` along k. Without `stays`, each tile has a block of its own.
    cudaError_t divide(int64_t rows, int64_t columns, int64_t steps, int blocks, int warps, int vectors, int cost,
                       bool stays) {
        if (rows * columns > INT32_MAX / 2) return cudaErrorInvalidValue;
        int device = 0, multiprocessors = 0;
        if (const cudaError_t error = cudaGetDevice(&device)) return error;
        if (const cudaError_t error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device))
            return error;
        tiles_m = static_cast<int>(rows), tiles_n = static_cast<int>(columns);
        const int tiles = tiles_m * tiles_n, most = multiprocessors * blocks;
        together.first = stays ? first_shared(tiles, static_cast<int>(steps), most, cost) : tiles;
        workers = !stays ? tiles : together.first < tiles ? most : even_workers(tiles, most);
        if (together.first == tiles) return cudaSuccess;
        const size_t all = static_cast<size_t>(most) * warps;
        if (const cudaError_t error = cudaMalloc(&together.sums, all * vectors * 32 * sizeof(float4))) return error;
        if (const cudaError_t error = cudaMalloc(&together.flags, all * sizeof(uint32_t))) return error;
        if (const cudaError_t error = cudaMemset(together.flags, 0, all * sizeof(uint32_t))) return error;
        return cudaStreamSynchronize(cudaStreamLegacy);
    }
};

}  // namespace ladder
