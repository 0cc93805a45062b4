// Rung 3: the tile with rows of 33 words.
//
// Idea     One unused word at the end of each row moves every row by one bank: lane x reads word 33 x + column, bank
//          (x + column) mod 32, another one for each lane.
// Changed  against the rung before: [32][33] instead of [32][32].
// Tile     32 x 33 floats, 4224 bytes; 32 x 8 threads.
// Shows    wavefronts per shared load 32 -> 1. Rows of 132 bytes, though, do not begin on 16 bytes: no vector access.
// Card     Measured on one H200, cold L2, 2026-11-30: 82.5 % of a copy of the same bytes at 8192^2, 81.0 % at
//          16384^2.
// Sizes    any M, N >= 1.
#include "shared_tile.cuh"

namespace {

struct Padded {
    static constexpr int kWords = ladder::kTile * (ladder::kTile + 1);
    __device__ static unsigned word(unsigned row, unsigned column) { return row * (ladder::kTile + 1) + column; }
};

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    return ladder::launch_through_tile<Padded>(args, stream);
}
