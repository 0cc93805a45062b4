// A tile of TILE_M x TILE_N floats in 16-byte accesses on both sides.
//
// A thread takes a block of 4 x 4: four 16-byte loads, one from each of four rows of A. Transposed in its registers (it
// is only a matter of which register is which) these are four vectors of four rows of B. They meet the vectors of other
// threads in shared memory, where the tile lies transposed, and leave from there in whole rows of B.
//
// Banks: 16-byte accesses are served to eight lanes at a time, which must fall into the eight groups of four banks. A
// row of the transposed tile is TILE_M / 4 vectors, a multiple of eight, so the group of vector v of row n would be v
// mod 8 in every row. Vector v is kept at v XOR (n / 4 mod 8). Eight neighbouring lanes store vectors of the same v and
// of rows n = 4 c + i with eight neighbouring c: eight groups. They load neighbouring v of one n: eight groups, too.
#pragma once
#include "tiles.cuh"

namespace ladder {

template <int kTileM>
__device__ __forceinline__ unsigned place_of(unsigned n, unsigned vector) {
    return n * (kTileM / 4) + (vector ^ (n / 4 % 8));
}

// Past L1, which these would only fill, or, with PAST_L1 0, as any load. Volatile, so that all loads of a tile come before
// the first use.
#ifndef PAST_L1
#define PAST_L1 1
#endif
__device__ __forceinline__ float4 load_vector(const float *from) {
    float4 v;
    if constexpr (PAST_L1)
        asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                     : "l"(from));
    else
        asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                     : "l"(from));
    return v;
}

// Said in PTX: where the compiler has taken a vector apart, it stores it in four pieces.
__device__ __forceinline__ void store_vector(float *to, float4 v) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}

// Four neighbours of a row, of which the first `left` lie inside. kVectors: four or none do. Otherwise one by one, for
// rows that do not begin on 16 bytes.
template <bool kVectors>
__device__ __forceinline__ float4 load_four(const float *from, int left) {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if constexpr (kVectors) {
        if (left > 0) v = load_vector(from);
    } else {
        if (left > 0) v.x = from[0];
        if (left > 1) v.y = from[1];
        if (left > 2) v.z = from[2];
        if (left > 3) v.w = from[3];
    }
    return v;
}

template <bool kVectors>
__device__ __forceinline__ void store_four(float *to, int left, float4 v) {
    if constexpr (kVectors) {
        if (left > 0) store_vector(to, v);
    } else {
        if (left > 0) to[0] = v.x;
        if (left > 1) to[1] = v.y;
        if (left > 2) to[2] = v.z;
        if (left > 3) to[3] = v.w;
    }
}

// The tile at (m0, n0) of A, of which `rows` x `columns` lie inside; with kInside all of it. kThreads is a multiple of
// kTileN / 4 and of kTileM / 4, and divides the number of 4 x 4 blocks.
template <int kTileM, int kTileN, int kThreads, bool kVectors, bool kInside>
__device__ __forceinline__ void transpose_part(float4 *tile, const float *A, float *B, int64_t M, int64_t N, int64_t m0,
                                               int64_t n0, int rows, int columns) {
    constexpr int kAcross = kTileN / 4, kDown = kTileM / 4;  // 4 x 4 blocks of the tile
    constexpr int kEach = kAcross * kDown / kThreads;        // of them for each thread
    static_assert(kEach * kThreads == kAcross * kDown && kDown % 8 == 0 && kAcross % 8 == 0, "see above");
    static_assert(kThreads % kAcross == 0 && kThreads % kDown == 0, "whole rows of either tile");
    float4 v[kEach][4];
    const int c = threadIdx.x % kAcross, r = threadIdx.x / kAcross;
    const float *from = A + (m0 + 4 * r) * N + n0 + 4 * c;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int down = 4 * k * (kThreads / kAcross) + j;
            const int left = kInside ? 4 : 4 * r + down < rows ? columns - 4 * c : 0;
            v[k][j] = load_four<kVectors>(from + down * N, left);
        }
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
        const unsigned down = r + k * (kThreads / kAcross);
        tile[place_of<kTileM>(4 * c + 0, down)] = make_float4(v[k][0].x, v[k][1].x, v[k][2].x, v[k][3].x);
        tile[place_of<kTileM>(4 * c + 1, down)] = make_float4(v[k][0].y, v[k][1].y, v[k][2].y, v[k][3].y);
        tile[place_of<kTileM>(4 * c + 2, down)] = make_float4(v[k][0].z, v[k][1].z, v[k][2].z, v[k][3].z);
        tile[place_of<kTileM>(4 * c + 3, down)] = make_float4(v[k][0].w, v[k][1].w, v[k][2].w, v[k][3].w);
    }
    __syncthreads();
    const int across = threadIdx.x % kDown, first = threadIdx.x / kDown;
    float *to = B + (n0 + first) * M + m0 + 4 * across;
    float4 w[4 * kEach];
#pragma unroll
    for (int k = 0; k < 4 * kEach; ++k) w[k] = tile[place_of<kTileM>(first + k * (kThreads / kDown), across)];
#pragma unroll
    for (int k = 0; k < 4 * kEach; ++k) {
        const int row = k * (kThreads / kDown);
        const int left = kInside ? 4 : first + row < columns ? rows - 4 * across : 0;
        store_four<kVectors>(to + row * M, left, w[k]);
    }
}

// Transposes the tile at (m0, n0) of A; `tile` is kTileM x kTileN floats of shared memory.
template <int kTileM, int kTileN, int kThreads, bool kVectors>
__device__ __forceinline__ void transpose_tile(float4 *tile, const float *A, float *B, int64_t M, int64_t N, int64_t m0,
                                               int64_t n0) {
    const int rows = static_cast<int>(M - m0 < kTileM ? M - m0 : kTileM);
    const int columns = static_cast<int>(N - n0 < kTileN ? N - n0 : kTileN);
    if (rows == kTileM && columns == kTileN)
        transpose_part<kTileM, kTileN, kThreads, kVectors, true>(tile, A, B, M, N, m0, n0, rows, columns);
    else
        transpose_part<kTileM, kTileN, kThreads, kVectors, false>(tile, A, B, M, N, m0, n0, rows, columns);
}

// Whether both matrices can be accessed in vectors: every row of either begins on 16 bytes.
inline bool vectors_fit(const Args *args) {
    const auto aligned = [](const void *pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; };
    return aligned(args->A) && aligned(args->B) && args->M % 4 == 0 && args->N % 4 == 0;
}

}  // namespace ladder
