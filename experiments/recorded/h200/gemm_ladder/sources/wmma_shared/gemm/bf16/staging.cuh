// What the BF16 rungs from 11 on share: how a tile gets from global to shared memory, whatever the sizes.
//
// Include after gemm.h.
#pragma once
#include <cstdint>

#include "../../common/async_copy.cuh"

namespace ladder {

// Whole: sizes are multiples of the tile, rows 16-byte aligned: no test in the main loop.
// Edge:  aligned, but tiles may stick out of the matrices; what lies outside is filled with zeros.
// Any:   any size and alignment, element by element (slow).
enum Shape { kWhole, kEdge, kAny };

inline bool aligned(const void *pointer, size_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

inline Shape shape_of(const Args &args, int block_m, int block_n, int block_k) {
    if (args.K % 8 || args.N % 8 || !aligned(args.A, 16) || !aligned(args.B, 16) || !aligned(args.C, 16)) return kAny;
    return args.M % block_m || args.N % block_n || args.K % block_k ? kEdge : kWhole;
}

// One thread's share of the copies of a tile, as 16-byte vectors of 8 elements. `Tile` says where a vector lies in
// shared memory: kRows, kVectors (a row), kRowBytes, offset(row, vector).
//
// Eight lanes copy 128 bytes of one row (four lanes, 64 bytes, where a row has no more): whole lines of global memory,
// all banks of shared memory. A thread goes along its row first, because that is a constant added to both addresses,
// and then down, where a pointer must be computed.
template <class Tile, int kThreads, Shape kShape>
struct Copier {
    static constexpr int kAcross = Tile::kVectors < 8 ? Tile::kVectors : 8;  // vectors of a row that are copied at once
    static constexpr int kDown = kThreads / kAcross;                         // rows that are copied at once
    static constexpr int kPassesAcross = Tile::kVectors / kAcross;
    static constexpr int kPasses = kPassesAcross * (Tile::kRows / kDown);
    static_assert(Tile::kVectors % kAcross == 0 && kThreads % kAcross == 0 && Tile::kRows % kDown == 0, "whole passes");
    static_assert(kDown % 8 == 0, "a swizzle must be the same in all passes");

    const __nv_bfloat16 *from;  // this thread's first vector, in the tile to be copied next
    uint32_t to;                // its place in the tile
    int64_t pitch;              // between rows of the matrix, in elements
    int row, column;            // of its first element, in the tile

    // `origin` is the first element of the tile in the matrix.
    __device__ Copier(const __nv_bfloat16 *origin, int64_t pitch)
        : pitch(pitch), row(threadIdx.x / kAcross), column(threadIdx.x % kAcross * 8) {
        from = origin + row * pitch + column;
        to = Tile::offset(row, column / 8);
    }

    // The part-th of `parts` shares of the tile; `rows` and `columns` of the matrix are left from the tile's origin on.
    __device__ __forceinline__ void copy(uint32_t tile, int part, int parts, int64_t rows, int64_t columns) const {
#pragma unroll
        for (int pass = part * kPasses / parts; pass < (part + 1) * kPasses / parts; ++pass) {
            const int right = pass % kPassesAcross * kAcross, down = pass / kPassesAcross * kDown;
            const __nv_bfloat16 *source = from + down * pitch + right * 8;
            const uint32_t target = tile + to + down * Tile::kRowBytes + right * 16;
            if constexpr (kShape == kWhole) {
                copy_async<16>(target, source);
            } else if constexpr (kShape == kEdge) {
                const bool inside = row + down < rows && column + right * 8 < columns;
                copy_async_or_zero<16>(target, inside ? source : from, inside);
            } else {
                const auto *words = reinterpret_cast<const uint16_t *>(source);
                uint32_t pair[4] = {};
#pragma unroll
                for (int e = 0; e < 8; ++e)
                    if (row + down < rows && column + right * 8 + e < columns)
                        pair[e / 2] |= static_cast<uint32_t>(words[e]) << (e % 2 * 16);
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(pair[0]), "r"(pair[1]),
                             "r"(pair[2]), "r"(pair[3])
                             : "memory");
            }
        }
    }
};

// Stores kCount neighbouring elements of C (2, 4 or 8, given as packed pairs), of which `columns` lie in the matrix.
template <Shape kShape, class Packed>
__device__ __forceinline__ void store(__nv_bfloat16 *to, Packed packed, int64_t columns) {
    constexpr int kCount = sizeof(Packed) / 2;
    if constexpr (kShape == kAny) {
        const auto *value = reinterpret_cast<const __nv_bfloat16 *>(&packed);
#pragma unroll
        for (int e = 0; e < kCount; ++e)
            if (e < columns) to[e] = value[e];
    } else {
        if (kShape == kWhole || columns > 0) *reinterpret_cast<Packed *>(to) = packed;
    }
}

__device__ __forceinline__ uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t *>(&pair);
}

__device__ __forceinline__ uint2 pack(float4 values) { return {pack(values.x, values.y), pack(values.z, values.w)}; }

}  // namespace ladder
