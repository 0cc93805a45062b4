// Sums along a row of column sums, four neighbouring columns (a quad) a thread.
//
// With R = 4 M + 3, the window of each of a thread's four columns holds its own quad and M whole quads either side; the
// four differ only in the next quad out, of which they take the last 3, 2, 1, 0 columns on the left and the first 0, 1,
// 2, 3 on the right. So a thread reads 2 M sums of quads and two quads, and needs 4 + 2 M + 4 + 6 additions for four
// windows: 5 a pixel for R = 15, where each window by itself would take 30. Nothing is subtracted.
#pragma once

namespace filter {

// Quads of halo that the windows of a radius reach into, either side.
template <int kRadius>
__host__ __device__ constexpr int halo_quads() {
    return kRadius / 4 + 1;
}

__device__ __forceinline__ float4 plus(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ float quad_sum(float4 q) { return (q.x + q.y) + (q.z + q.w); }

// The sums over the windows of quad t's four columns. `columns`: the column sums; `quads`: those of whole quads.
template <int kRadius>
__device__ __forceinline__ float4 window_sums(const float4 *columns, const float *quads, int t, float4 own) {
    static_assert(kRadius == 1 || kRadius % 4 == 3, "windows that end in the same place of a quad");
    if constexpr (kRadius == 1) {
        const float left = columns[t - 1].w, right = columns[t + 1].x, middle = own.y + own.z;
        return make_float4(left + (own.x + own.y), own.x + middle, middle + own.w, (own.z + own.w) + right);
    } else {
        constexpr int kWhole = kRadius / 4;
        float core = quad_sum(own);
#pragma unroll
        for (int m = 1; m <= kWhole; ++m) core += quads[t - m] + quads[t + m];
        const float4 left = columns[t - kWhole - 1], right = columns[t + kWhole + 1];
        const float left2 = left.z + left.w, right2 = right.x + right.y;
        return make_float4(core + (left.y + left2), core + (left2 + right.x), core + (left.w + right2),
                           core + (right2 + right.z));
    }
}

}  // namespace filter
