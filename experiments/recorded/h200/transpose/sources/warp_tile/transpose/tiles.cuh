// What the rungs of the transposition share: how many blocks cover the matrix, and the check that their number fits.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "transpose.h"

namespace ladder {

struct Tiles {
    int64_t m, n;  // tiles along the rows and the columns of A
    __host__ __device__ int64_t count() const { return m * n; }
};

inline Tiles tiles_of(const Args *args, int64_t tile_m, int64_t tile_n) {
    return {(args->M + tile_m - 1) / tile_m, (args->N + tile_n - 1) / tile_n};
}

// A grid has at most 2^31 - 1 blocks in x, and at least one.
inline bool fits_grid(const Tiles &tiles) { return tiles.count() >= 1 && tiles.count() <= INT32_MAX; }

struct TilePlace {
    int64_t m, n;
};

// The tile of a block where they go in bands of `group` tile rows, each walked column by column; the last band may be
// lower. In 32 bits: a division of 64 takes longer than a block can spare.
__device__ __forceinline__ TilePlace place_in_bands(unsigned block, unsigned tiles_m, unsigned tiles_n,
                                                    unsigned group) {
    const unsigned band = block / (group * tiles_n), inside = block % (group * tiles_n);
    const unsigned height = min(group, tiles_m - band * group);
    return {band * group + inside % height, inside / height};
}

}  // namespace ladder
