// Who computes which part of C when a fixed number of workers (blocks, or clusters of them) walks over all tiles: even
// rounds, and a balanced end.
//
// 512 tiles on 132 workers are 3.88 rounds: in the fourth, 16 workers have nothing to do, 3 % of the whole. There are
// two ways out. Even rounds keep the number of rounds and take the fewest workers that need no more: 128, of which all
// always work. A balanced end uses all 132: what is left after the last but two rounds, fewer than two tiles a worker,
// is cut into equal ranges of steps along k, so that a worker begins in the middle of a tile and ends in the middle of
// another. (The idea is Stream-K's, Osama et al. 2023, for the last rounds alone.)
//
// Plain C++ but for the markers, so that a test can compile it for the CPU.
#pragma once
#include <cstdint>

namespace ladder {

// The fewest workers that compute so many tiles in as few rounds as `most` workers do.
__host__ __device__ constexpr int even_workers(int tiles, int most) {
    const int rounds = (tiles + most - 1) / most;
    return rounds == 0 ? 0 : (tiles + rounds - 1) / rounds;
}

// The first tile of the balanced end: `tiles`, where there is none. It wants whole rounds that leave something over, a
// range for each worker that is no shorter than a tile (then two workers share a tile at most), and more steps saved
// in the last round than handing over costs.
__host__ __device__ constexpr int first_shared(int tiles, int steps, int workers, int cost) {
    const int rounds = tiles / workers, over = tiles % workers;
    if (rounds == 0 || over == 0 || steps > 1 << 20) return tiles;  // Walk counts the shared steps in 32 bits
    const int64_t saved = static_cast<int64_t>(workers - over) * steps / workers;
    return saved > cost ? (rounds - 1) * workers : tiles;
}

// The way of one worker: tiles as a whole, each `workers` after the one before, then its range of the shared ones.
//
//     for (Walk at(...); at.more(); at.advance()) steps at.from to at.to - 1 of tile at.tile
//
// In the shared part a worker has first the end of a tile (from > 0, handed over to the worker after it, which has the
// beginning of that tile as its last part), then at most one whole tile, then the beginning of one (to < steps: it
// adds what the worker before it hands over, and stores the sum). The giver is done with it long before the taker wants
// it, and nobody waits for a worker that starts later, as ranges are dealt out from the last worker to the first.
// kBalanced false: there is no shared part, and none of it costs anything.
template <bool kBalanced>
struct Walk {
    int tile, from, to;
    int left;  // steps of the shared range that come after this part; -1: the range is not begun

    __host__ __device__ __forceinline__ Walk(int worker, int workers, int tiles, int shared, int steps)
        : tile(worker),
          from(0),
          to(steps),
          left(-1),
          worker(worker),
          workers(workers),
          tiles(tiles),
          shared(shared),
          steps(steps) {
        if (kBalanced && tile >= shared) enter();
    }

    __host__ __device__ __forceinline__ bool more() const { return kBalanced ? to > from : tile < tiles; }
    __host__ __device__ __forceinline__ bool gives() const { return kBalanced && from > 0; }
    __host__ __device__ __forceinline__ bool takes() const { return kBalanced && to < steps; }

    __host__ __device__ __forceinline__ void advance() {
        if (kBalanced && left >= 0) {
            ++tile;
            from = 0;
            to = left < steps ? left : steps;
            left -= to;
        } else {
            tile += workers;
            if (kBalanced && tile >= shared) enter();
        }
    }

  private:
    int worker, workers, tiles, shared, steps;

    // Ranges differ by a step at most; the longer ones come first.
    __host__ __device__ __forceinline__ void enter() {
        const unsigned all = static_cast<unsigned>(tiles - shared) * steps;
        const unsigned each = all / workers, longer = all % workers, mine = workers - 1 - worker;
        const unsigned first = each * mine + (mine < longer ? mine : longer), length = each + (mine < longer ? 1 : 0);
        tile = shared + static_cast<int>(first / steps);
        from = static_cast<int>(first % steps);
        to = from + static_cast<int>(length) < steps ? from + static_cast<int>(length) : steps;
        left = static_cast<int>(length) - (to - from);
    }
};

}  // namespace ladder
