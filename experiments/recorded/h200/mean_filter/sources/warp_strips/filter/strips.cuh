// How an image is cut into strips of columns and bands of rows, for blocks whose threads own a quad of columns each.
#pragma once
#include <cstdint>

#include "edges.cuh"

namespace filter {

struct Strips {
    int width = 0;       // columns of pixels a block writes, a multiple of 8: whole sectors
    int64_t across = 0;  // strips side by side
    int height = 0;      // rows of pixels a block writes
    int64_t blocks = 0;
};

// `most` columns a block can write at the most, a multiple of 8; about `wanted` blocks, of at least `least` rows and at
// most `limit`.
inline Strips strips_of(int64_t H, int64_t W, int most, int64_t wanted, int least, int limit) {
    Strips found;
    found.across = ceil_div(W, most);
    found.width = static_cast<int>(8 * ceil_div(ceil_div(W, found.across), 8));
    const int64_t bands = wanted / found.across > 1 ? wanted / found.across : 1;
    int64_t height = ceil_div(H, bands);
    if (height < least) height = least;
    if (height > limit) height = limit;
    found.height = static_cast<int>(height);
    found.blocks = found.across * ceil_div(H, height);
    return found;
}

// Whether every quad of columns is 16 bytes at an address divisible by 16.
inline bool whole_quads(const void *x, const void *y, int64_t W) {
    return W % 4 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0 && reinterpret_cast<uintptr_t>(y) % 16 == 0;
}

// A thread's quad of columns: where it is, and what it may touch.
struct Quad {
    int64_t column;  // of the first of the four; may lie outside of the image
    int64_t W;

    __device__ bool has(int element) const { return column + element >= 0 && column + element < W; }

    // A row of it; zeros outside of the image. kWhole: one 16-byte load, or none.
    template <bool kWhole>
    __device__ float4 load(const float *row, bool exists) const {
        float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if constexpr (kWhole) {
            if (exists && has(0)) quad = __ldg(reinterpret_cast<const float4 *>(row + column));
        } else if (exists) {
            if (has(0)) quad.x = row[column];
            if (has(1)) quad.y = row[column + 1];
            if (has(2)) quad.z = row[column + 2];
            if (has(3)) quad.w = row[column + 3];
        }
        return quad;
    }

    template <bool kWhole>
    __device__ void store(float *row, float4 quad) const {
        if constexpr (kWhole) {
            if (has(0)) __stcs(reinterpret_cast<float4 *>(row + column), quad);
        } else {
            if (has(0)) row[column] = quad.x;
            if (has(1)) row[column + 1] = quad.y;
            if (has(2)) row[column + 2] = quad.z;
            if (has(3)) row[column + 3] = quad.w;
        }
    }

    // 1 / (columns of the window around each of the four); of those outside of the image, some number.
    __device__ float4 weights(int64_t radius) const {
        const auto one = [&](int e) {
            const int64_t at = column + e < 0 ? 0 : column + e < W ? column + e : W - 1;
            return 1.0f / static_cast<float>(places_inside(at, radius, W));
        };
        return make_float4(one(0), one(1), one(2), one(3));
    }
};

}  // namespace filter
