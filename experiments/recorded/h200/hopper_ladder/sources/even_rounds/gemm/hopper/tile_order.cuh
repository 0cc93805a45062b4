// The order in which the tiles of C are computed, so that blocks that run at the same time share rows of A and B in L2.
//
// Plain C++ but for the markers, so that a test can compile it for the CPU.
#pragma once
#include <cstdint>
#include <vector>

namespace ladder {

struct TileAt {
    int m, n;  // in tiles (of a cluster, where there is one)
};

// Bands of kGroup tile rows, walked column by column. All in 32 bits: the consumers compute it between two tiles.
template <int kGroup>
__host__ __device__ __forceinline__ TileAt grouped_order(uint32_t index, uint32_t tiles_m, uint32_t tiles_n) {
    const uint32_t band = kGroup * tiles_n;
    const uint32_t first = index / band * kGroup;
    const uint32_t left = tiles_m - first;
    const uint32_t height = left < kGroup ? left : kGroup;  // the last band may be lower
    const uint32_t inside = index % band;
    return {static_cast<int>(first + inside % height), static_cast<int>(inside / height)};
}

// A place of a table as one word, and back: up to 65536 tiles each way.
__host__ __device__ __forceinline__ uint32_t packed_tile(uint32_t m, uint32_t n) { return m << 16 | n; }
__host__ __device__ __forceinline__ TileAt unpacked_tile(uint32_t word) {
    return {static_cast<int>(word >> 16), static_cast<int>(word & 0xffff)};
}

// The first tiles of an order, two for each block or cluster at work, small enough to be a parameter of a kernel: what
// is there needs no read from memory, which takes a microsecond when L2 is cold and would come before the first copy.
struct FirstTiles {
    static constexpr int kMost = 288;  // twice the multiprocessors of a device of compute capability 9.0
    uint32_t tile[kMost];
};

// The d-th place of the Hilbert curve over a square of `side` (a power of two): it starts in (0, 0) and ends in
// (side - 1, 0), and each place is beside the one before. From the low bits up: each pair of bits chooses a quarter,
// and the curve inside is turned or mirrored so that its ends meet those of its neighbours.
inline void hilbert_place(uint32_t side, uint32_t d, uint32_t *x, uint32_t *y) {
    *x = *y = 0;
    for (uint32_t s = 1; s < side; s *= 2, d /= 4) {
        const uint32_t right = d / 2 & 1, up = (d ^ right) & 1;
        if (up == 0) {
            if (right == 1) {
                *x = s - 1 - *x;
                *y = s - 1 - *y;
            }
            const uint32_t swapped = *x;
            *x = *y;
            *y = swapped;
        }
        *x += s * right;
        *y += s * up;
    }
}

// All tiles of a grid along Hilbert curves: squares as high as the short side, one after the other along the long one,
// without the places that lie outside. Any run of the order is a compact patch, whatever its length: what a wave of
// blocks works on, and what two waves share, needs no group size that fits the number of multiprocessors.
inline std::vector<uint32_t> hilbert_order(uint32_t tiles_m, uint32_t tiles_n) {
    const uint32_t along = tiles_m > tiles_n ? tiles_m : tiles_n, across = tiles_m > tiles_n ? tiles_n : tiles_m;
    uint32_t side = 1;
    while (side < across) side *= 2;
    std::vector<uint32_t> order;
    order.reserve(static_cast<size_t>(tiles_m) * tiles_n);
    for (uint32_t from = 0; from < along; from += side)
        for (uint64_t d = 0; d < static_cast<uint64_t>(side) * side; ++d) {
            uint32_t x, y;
            hilbert_place(side, static_cast<uint32_t>(d), &x, &y);
            x += from;
            if (x < along && y < across) order.push_back(tiles_m > tiles_n ? packed_tile(x, y) : packed_tile(y, x));
        }
    return order;
}

// The same as grouped_order, for a height that is known at run time, as a table.
inline std::vector<uint32_t> band_order(uint32_t height, uint32_t tiles_m, uint32_t tiles_n) {
    std::vector<uint32_t> order;
    order.reserve(static_cast<size_t>(tiles_m) * tiles_n);
    for (uint32_t first = 0; first < tiles_m; first += height)
        for (uint32_t n = 0; n < tiles_n; ++n)
            for (uint32_t m = first; m < tiles_m && m < first + height; ++m) order.push_back(packed_tile(m, n));
    return order;
}

}  // namespace ladder
