// Runs one kernel on one problem under the emulator: main KERNEL M N K CLUSTERS SEED. Exit code 0: right; 1: wrong; 3:
// a fault (emu::fail). RUNGS is a generated list: RUN(name, cluster, tile, boxes, threads, .., call).
#include "all.hpp"

int main(int count, char **words) {
    if (count != 7) return 2;
    const int which = std::atoi(words[1]), M = std::atoi(words[2]), N = std::atoi(words[3]), K = std::atoi(words[4]);
    const uint32_t clusters = std::atoi(words[5]), seed = std::atoi(words[6]);

    // Small integers: sums are exact in FP32 in any order, and exact in BF16 up to 256.
    std::mt19937 random{seed};
    std::vector<uint16_t> a(size_t(M) * K), b(size_t(N) * K), c(size_t(M) * N + 64, 0x7fc0);
    for (auto &x : a) x = emu::rounded(int(random() % 3) - 1);
    for (auto &x : b) x = emu::rounded(int(random() % 3) - 1);
    uint16_t *C = c.data();
    const auto map = [](std::vector<uint16_t> &of, int64_t rows, int64_t columns, int box) {
        return CUtensorMap{of.data(), rows, columns, box};
    };
    int at = 0;
    uint32_t left_up = 0;
#define RUN(NAME, CLUSTER, BLOCK_M, BLOCK_N, BOX_M, BOX_N, THREADS, CLUSTER_TILE_M, CLUSTER_TILE_N, PERSISTENT,   \
            ROWS_C, BALANCED, CALL)                                                                               \
    if (at++ == which) {                                                                                          \
        const CUtensorMap map_a = map(a, M, K, BOX_M), map_b = map(b, N, K, BOX_N), map_c = map(c, M, N, ROWS_C); \
        const int tiles_k = (K + 63) / 64, tiles_m = (M + (CLUSTER_TILE_M) - 1) / (CLUSTER_TILE_M);               \
        const int tiles_n = (N + (CLUSTER_TILE_N) - 1) / (CLUSTER_TILE_N), tiles = tiles_m * tiles_n;             \
        const std::vector<uint32_t> table = ladder::hilbert_order(tiles_m, tiles_n);                              \
        const uint32_t *order = table.data();                                                                     \
        ladder::FirstTiles starts{};                                                                              \
        std::copy_n(order, std::min<size_t>(table.size(), ladder::FirstTiles::kMost), starts.tile);               \
        const uint32_t at_once = PERSISTENT ? std::min<uint32_t>(clusters, tiles) : tiles;                        \
        ladder::Shared shared{BALANCED ? ladder::first_shared(tiles, tiles_k, at_once, 0) : tiles};               \
        std::vector<float4> sums(BALANCED ? at_once * (CLUSTER) * 8 * 64 * 32 : 0);                               \
        std::vector<uint32_t> flags(BALANCED ? at_once * (CLUSTER) * 8 : 0);                                      \
        shared.sums = sums.data(), shared.flags = flags.data();                                                   \
        std::printf("%d of %d tiles are shared\n", tiles - shared.first, tiles);                                  \
        (void)map_c, (void)starts, (void)tiles_k;                                                                 \
        emu::launch(at_once * (CLUSTER), CLUSTER, THREADS, seed, [&] { CALL; });                                  \
        for (uint32_t flag : flags) left_up += flag;                                                              \
    }
    RUNGS
    if (which < 0 || which >= at) return 2;

    int wrong = left_up;
    if (left_up) std::printf("flags are up\n");
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) {
            float sum = 0;
            for (int k = 0; k < K; ++k) sum += emu::value(a[size_t(m) * K + k]) * emu::value(b[size_t(n) * K + k]);
            const uint16_t found = c[size_t(m) * N + n];
            if (found != emu::rounded(sum) && wrong++ < 5)
                std::printf("C[%d, %d] = %g, not %g\n", m, n, emu::value(found), sum);
        }
    for (int i = 0; i < 64; ++i)
        if (c[size_t(M) * N + i] != 0x7fc0) wrong++, std::printf("written behind C\n");
    std::printf("%d wrong\n", wrong);
    return wrong ? 1 : 0;
}
