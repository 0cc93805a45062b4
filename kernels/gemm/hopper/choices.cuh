// Which tile, cluster and order for which shape, with what was measured: the one place where that is decided.
//
// A shape that is not in the table takes the row of the nearest that is, by the sum of |log2| of the ratios of M, N and
// K (K counts half: it changes how long a tile takes, not how the tiles cover the multiprocessors).
#pragma once
#include <cmath>

#include "cooperative.cuh"

namespace ladder {

//                            BM   BN  stages buffers cluster M, N; drained, no stagger: 10_own_warps.cu says why
using Below = Cooperative<128, 256, 4, 2, 2, 1>;   // two tiles below one another share B
using Beside = Cooperative<128, 256, 4, 2, 1, 2>;  // two side by side share A: 2 % behind Below on squares
using Square = Cooperative<128, 256, 4, 2, 2, 2>;  // four share both: only where 30 clusters are whole rounds
using Tall = Cooperative<256, 128, 4, 2, 1, 2>;    // twice the rows, half the columns: as good as Below
using Small = Cooperative<128, 128, 5, 2, 2, 1>;   // half the tile, for matrices of few tiles

enum class Kernel { kBelow, kBeside, kSquare, kTall, kSmall };

struct ShapeChoice {
    int64_t M, N, K;
    Kernel kernel;
    Choice choice;
    // Ratio to cuBLAS in the same process, H200: single cold launches, BF16 and FP16; 0: not measured. The
    // power-limited regime, sustained: BF16 1.014 and FP16 1.011 at 4096, 1.033 and 1.039 at 8192.
    double bf16, fp16;
};

// The number of blocks is not in the table: the fewest that need no more rounds, for each shape (128 at 2048, 4096 and
// 8192), is worth 0.9 and 1.2 % at 4096 and 8192 over all 132. Bands of 8 would be 0.3 and 0.7 % faster in single
// launches, and 0.6 and 0.4 % slower sustained.
constexpr Choice kCurve{Choice::kHilbert, 0, 0, CU_TENSOR_MAP_L2_PROMOTION_L2_256B};

constexpr ShapeChoice kShapes[] = {
    {1024, 1024, 1024, Kernel::kSmall, kCurve, 0, 0},         {2048, 2048, 2048, Kernel::kBelow, kCurve, 0, 0},
    {4096, 4096, 4096, Kernel::kBelow, kCurve, 1.021, 1.020}, {4096, 4096, 7168, Kernel::kBelow, kCurve, 0, 0},
    {8192, 1024, 4096, Kernel::kBelow, kCurve, 0, 0},         {1024, 8192, 4096, Kernel::kBelow, kCurve, 0, 0},
    {8192, 8192, 8192, Kernel::kBelow, kCurve, 1.033, 1.046},
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
