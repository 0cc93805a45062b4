// What a window around a pixel has at the edges of the image, where it is cut off.
#pragma once
#include <cstdint>

namespace filter {

// How many of the 2 radius + 1 places around `at` lie in 0 .. extent - 1; at least 1 for a place that does.
__host__ __device__ __forceinline__ int64_t places_inside(int64_t at, int64_t radius, int64_t extent) {
    const int64_t first = at - radius > 0 ? at - radius : 0;
    const int64_t last = at + radius < extent - 1 ? at + radius : extent - 1;
    return last - first + 1;
}

// 1 / (pixels of the window around a pixel of the image).
__device__ __forceinline__ float weight(int64_t row, int64_t column, int64_t radius, int64_t rows, int64_t columns) {
    return 1.0f / (static_cast<float>(places_inside(row, radius, rows)) *
                   static_cast<float>(places_inside(column, radius, columns)));
}

__host__ __device__ __forceinline__ int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace filter
