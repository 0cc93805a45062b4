// Which tile, cluster and order for which shape, with what was measured: the one place where that is decided.
//
// A shape that is not in the table takes the row of the nearest that is, by the sum of |log2| of the ratios of M, N and
// K (K counts half: it changes how long a tile takes, not how the tiles cover the multiprocessors).
#pragma once
#include <cmath>

#include "cooperative.cuh"

namespace ladder {

//                            BM   BN  stages buffers cluster M, N; nothing in flight, no stagger; zigzag, balanced
using Zigzag = Cooperative<128, 256, 4, 2, 2, 1, 0, 0, true>;
using Balanced = Cooperative<128, 256, 4, 2, 2, 1, 0, 0, false, true>;
using Small = Cooperative<128, 128, 5, 2, 2, 1>;  // half the tile, for matrices of few tiles

enum class Kernel { kZigzag, kBalanced, kSmall };

struct ShapeChoice {
    int64_t M, N, K;
    Kernel kernel;
    Choice choice;
};

// The number of blocks is not in the table: the fewest that need no more rounds (128 at 2048, 4096 and 8192), or with a
// balanced end as many as fit.
constexpr Choice kCurve{Choice::kHilbert, 0, 0, CU_TENSOR_MAP_L2_PROMOTION_L2_256B};

constexpr Choice kBands{Choice::kBands, 8, 0, CU_TENSOR_MAP_L2_PROMOTION_L2_256B};

// Ratio to cuBLAS in the same process, H200, single cold launches, BF16 and FP16 (hopper_ladder, recorded; hopper_shapes):
//   1024 x 1024 x 1024  0.540  0.541     4096 x 4096 x 4096  1.023  1.019     8192 x 1024 x 4096  1.002  1.001
//   2048 x 2048 x 2048  0.972  0.980     4096 x 4096 x 7168  1.012  1.010     1024 x 8192 x 4096  1.013  1.013
//   8192 x 8192 x 8192  1.046  1.047
// 1024 loses, where 64 tiles leave half of the multiprocessors idle, and 2048, by 2 to 3 %: own_warps was at 0.995 (BF16) and
// 0.979 there. The two differ by the order of k in later rounds, and 2048 has one round: that is probably chance.
constexpr ShapeChoice kShapes[] = {
    {1024, 1024, 1024, Kernel::kSmall, kCurve},    {2048, 2048, 2048, Kernel::kZigzag, kCurve},
    {4096, 4096, 4096, Kernel::kZigzag, kCurve},   {4096, 4096, 7168, Kernel::kZigzag, kCurve},
    {8192, 1024, 4096, Kernel::kZigzag, kCurve},   {1024, 8192, 4096, Kernel::kZigzag, kCurve},
    {8192, 8192, 8192, Kernel::kBalanced, kBands},
};

inline const ShapeChoice &choose(int64_t M, int64_t N, int64_t K) {
    const auto apart = [](int64_t a, int64_t b) { return std::fabs(std::log2(static_cast<double>(a) / b)); };
    const ShapeChoice *nearest = nullptr;
    double least = 0;
    for (const ShapeChoice &shape : kShapes) {
        const double distance = apart(M, shape.M) + apart(N, shape.N) + apart(K, shape.K) / 2;
        if (nearest == nullptr || distance < least) {
            nearest = &shape;
            least = distance;
        }
    }
    return *nearest;
}

}  // namespace ladder
