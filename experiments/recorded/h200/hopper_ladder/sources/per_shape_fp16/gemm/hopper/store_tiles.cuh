// C from the accumulators through swizzled shared memory, from where the copy engine takes it.
#pragma once
#include "../../common/stmatrix.cuh"
#include "../../common/tma.cuh"
#include "operands.cuh"

namespace ladder {

constexpr int kPieceColumns = 64;            // 128 bytes: one row of the swizzle pattern
constexpr int kPieceBytes = tile_bytes(64);  // a piece of C in shared memory, 64 x 64

// A piece of C in shared memory as one lane writes it with stmatrix. Of a piece, warp w owns the rows 16 w to 16 w +
// 15. One stmatrix stores 16 x 16: lane l points at row l % 16, and at columns 8 (l / 16) on; that is vector 2 j + l /
// 16 of the row, which the swizzle puts at (2 j + l / 16) ^ (row % 8). The 8 addresses of a matrix lie in the 8 bank
// groups.
struct PieceWriter {
    uint32_t row;    // offset of this lane's row in a piece
    uint32_t twist;  // offset of its vector in that row for j = 0; for other j, XOR 32 j

    __device__ __forceinline__ PieceWriter() {
        const uint32_t warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        row = (warp * 16 + lane % 16) * kRowBytes;
        twist = (lane / 16 ^ lane % 8) * 16;
    }

    // Columns 64 `piece` to 64 `piece` + 63 of the warpgroup's accumulators, rounded, to the piece at `shared`.
    template <int kCount>
    __device__ __forceinline__ void write(const float (&d)[kCount], int piece, uint32_t shared) const {
#pragma unroll
        for (int j = 0; j < kPieceColumns / 16; ++j) {
            const float *v = d + piece * (kPieceColumns / 2) + j * 8;  // two blocks of 8 columns
            store_matrices(shared + row + (twist ^ j * 32), pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]),
                           pack(v[6], v[7]));
        }
    }
};

// The map of C for pieces of `rows` x 64. The copy engine needs rows of C that are multiples of 16 bytes: N % 8 == 0.
inline cudaError_t plan_pieces(Plan *plan, const Args &args, int rows = 64) {
    return make_map(&plan->c, tiled(args.C, args.M, args.N, rows));
}

}  // namespace ladder
