// The order in which blocks walk over the tiles of C.
#pragma once
#include <cstdint>

namespace ladder {

struct Tile {
    int64_t m, n;  // in tiles
};

// Blocks that run at the same time should share rows of A and columns of B in L2. Row by row, one wave of 132 blocks
// would touch all of B; in bands of kGroup tile rows, walked column by column, it touches a near-square patch.
template <int kGroup>
__device__ __forceinline__ Tile grouped_tile(int64_t block, int64_t tiles_m, int64_t tiles_n) {
    const int64_t band = kGroup * tiles_n;
    const int64_t first = block / band * kGroup;
    const int64_t left = tiles_m - first;
    const int64_t height = left < kGroup ? left : kGroup;  // the last band may be lower
    const int64_t inside = block % band;
    return {first + inside % height, inside / height};
}

}  // namespace ladder
