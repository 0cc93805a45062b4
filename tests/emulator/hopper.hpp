// What the kernels under kernels/gemm/hopper say to the compiler and in PTX, said to the emulated machine.
#pragma once
#include "machine.hpp"

#define __device__
#define __host__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __restrict__
#define __grid_constant__
#define __align__(n)
#define __launch_bounds__(...)
#define __cluster_dims__(...)

#define threadIdx (emu::now->thread)
#define blockIdx (emu::now->block)
#define gridDim (emu::Index{emu::grid})

inline int __shfl_sync(unsigned, int value, int) { return value; }  // used for what is the same in all lanes
template <class T>
T __ldg(const T *from) {
    return *from;
}
inline void __syncthreads() { emu::meet(emu::now->home->meetings[0], emu::threads); }

inline void __syncwarp() { emu::meet_warp(); }

using __nv_bfloat16 = uint16_t;
struct __nv_bfloat162 {
    uint16_t x, y;
};
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {emu::rounded(x), emu::rounded(y)}; }

struct float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct CUtensorMap {  // of a matrix of 16-bit values, in boxes of box_rows x 64
    uint16_t *first;
    int64_t rows, columns;
    int box_rows;
};
using CUtensorMapDataType = int;
constexpr int CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 = 0;

namespace ladder {

using std::min;

inline uint32_t shared_address(const void *variable) {  // the first one at 0, others behind all that is large
    auto &places = emu::now->home->places;
    const auto found = places.find(variable);
    if (found != places.end()) return found->second;
    const uint32_t place = places.empty() ? 0 : 220 * 1024 + 64 * static_cast<uint32_t>(places.size());
    return places[variable] = place;
}

// ---- mbarrier.cuh ----
inline emu::Barrier &barrier_at(emu::Block &block, uint32_t address) {
    const auto found = block.barriers.find(address);
    if (found == block.barriers.end()) emu::fail("a barrier is used that nobody made");
    return found->second;
}
inline void barrier_init(uint32_t barrier, uint32_t arrivals) {
    emu::now->home->barriers[barrier] = {arrivals, arrivals, 0, 0};
}
inline void publish_barriers() {}
inline void arrive(uint32_t barrier) {
    if (emu::elected()) barrier_at(*emu::now->home, barrier).arrive();
}
inline void arrive_expecting(uint32_t barrier, uint32_t bytes) {
    if (!emu::elected()) return;
    emu::Barrier &found = barrier_at(*emu::now->home, barrier);
    found.bytes += bytes;
    found.arrive();
}
inline void arrive_remote(uint32_t barrier, uint32_t block) { barrier_at(emu::peer(block), barrier).arrive(); }
inline void wait_phase(uint32_t barrier, uint32_t parity) {
    emu::Barrier &found = barrier_at(*emu::now->home, barrier);
    emu::block_until([&found, parity] { return (found.phase & 1) != parity; });
}
inline void named_barrier_sync(uint32_t id, uint32_t threads) {
    if (id == 0 || id > 15) emu::fail("a named barrier that does not exist");
    emu::meet(emu::now->home->meetings[id], threads);
}

// ---- cluster.cuh ----
inline void cluster_sync() {
    const uint32_t first = emu::now->home->index / emu::cluster * emu::cluster;
    emu::meet(emu::blocks[first]->meetings[16], emu::threads * emu::cluster);
}

// ---- tma.cuh ----
inline void prefetch_map(const CUtensorMap &) {}
inline void load_into(std::vector<emu::Block *> blocks, uint32_t shared, const CUtensorMap &map, uint32_t barrier,
                      int column, int row) {
    if (shared % 1024) emu::fail("a tile that does not begin with the swizzle pattern");
    emu::engine.push_back([=] {
        for (emu::Block *block : blocks) {
            if (block->alive == 0) emu::fail("a copy into a block that has ended");
            for (int r = 0; r < map.box_rows; ++r)
                for (int c = 0; c < 64; ++c) {
                    const int64_t y = int64_t{row} + r, x = int64_t{column} + c;
                    const bool inside = y >= 0 && y < map.rows && x >= 0 && x < map.columns;
                    const uint16_t bits = inside ? map.first[y * map.columns + x] : 0;
                    std::memcpy(&block->shared[emu::swizzled(shared + r * 128 + c * 2)], &bits, 2);
                }
            emu::Barrier &found = barrier_at(*block, barrier);
            found.bytes -= map.box_rows * 128;
            found.check();
        }
    });
}
inline void load_tile(uint32_t shared, const CUtensorMap &map, uint32_t barrier, int column, int row) {
    if (emu::elected()) load_into({emu::now->home}, shared, map, barrier, column, row);
}
inline void load_tile_multicast(uint32_t shared, const CUtensorMap &map, uint32_t barrier, int column, int row,
                                uint16_t blocks) {
    if (!emu::elected()) return;
    std::vector<emu::Block *> to;
    for (uint32_t rank = 0; rank < 16; ++rank)
        if (blocks >> rank & 1) to.push_back(&emu::peer(rank));
    load_into(to, shared, map, barrier, column, row);
}
inline void store_tile(const CUtensorMap &map, uint32_t shared, int column, int row) {
    if (!emu::elected()) return;
    emu::Block *block = emu::now->home;
    const auto copy = [=] {
        for (int r = 0; r < map.box_rows; ++r)
            for (int c = 0; c < 64; ++c) {
                const int64_t y = int64_t{row} + r, x = int64_t{column} + c;
                if (y < map.rows && x < map.columns)
                    std::memcpy(&map.first[y * map.columns + x],
                                &block->shared[emu::swizzled(shared + r * 128 + c * 2)], 2);
            }
    };
    if (emu::chance() % 2)
        copy();  // at once: has everybody written?
    else
        emu::now->stores.push_back(copy);  // as late as possible: has anybody overwritten it?
}
inline void commit_stores() {
    emu::now->groups.push_back(std::move(emu::now->stores));
    emu::now->stores.clear();
}
template <int kPending>
void wait_stores_read() {
    while (emu::now->groups.size() > kPending) {
        for (auto &store : emu::now->groups.front()) store();
        emu::now->groups.pop_front();
    }
}
inline void publish_to_copies() {}

// ---- hand_over.cuh ----
inline void give_words(float4 *to, float4 four) { *to = four; }
inline float4 take_words(const float4 *from) { return *from; }
inline void raise_flag(uint32_t *flag) {
    emu::meet_warp();
    if (emu::lane() != 0) return;
    if (*flag != 0) emu::fail("a flag is raised that nobody has lowered");
    *flag = 1;
}
inline void wait_given(const uint32_t *flag) {
    emu::block_until([flag] { return *flag != 0; });
    emu::meet_warp();
}
inline void lower_flag(uint32_t *flag) {
    emu::meet_warp();
    if (emu::lane() == 0) *flag = 0;
}

// ---- stmatrix.cuh ----
inline void store_matrices(uint32_t shared, uint32_t v0, uint32_t v1, uint32_t v2, uint32_t v3) {
    emu::now->stmatrix_address = shared;
    emu::meet_warp();
    const uint32_t values[4] = {v0, v1, v2, v3}, l = emu::lane(), first = emu::now->thread.x - l;
    const size_t base = size_t{emu::now->home->index} * emu::threads + first;
    for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t row = emu::fibers[base + 8 * i + l / 4]->stmatrix_address;
        if (row % 16) emu::fail("stmatrix with a row that is not aligned");
        std::memcpy(&emu::now->home->shared[row + l % 4 * 4], &values[i], 4);
    }
    emu::meet_warp();
}

// ---- wgmma.cuh ----
inline void fence_products() { emu::meet_warp(); }  // .sync.aligned: the lanes of a warp come together
inline void commit_products() {
    emu::meet_warp();
    emu::now->products.push_back(std::move(emu::now->open));
    emu::now->open.clear();
}
template <int kPending>
void wait_products() {
    emu::meet_warp();
    while (emu::now->products.size() > kPending) {
        for (const emu::Product &product : emu::now->products.front()) emu::run(product);
        emu::now->products.pop_front();
    }
    emu::meet_warp();  // what a warp waits for is over for all its lanes
}
template <int kCount>
void pin(float (&)[kCount]) {
    if (!emu::now->products.empty()) emu::fail("accumulators are read while products are in flight");
}
template <int>
void give_up_registers() {}
template <int>
void take_registers() {}

enum class Operand { kBf16, kFp16 };
template <Operand>
struct Product {
    template <int kCount>
    static void multiply(float (&d)[kCount], uint64_t a, uint64_t b, bool add) {
        emu::now->open.push_back({d, kCount, a, b, add});
    }
};

}  // namespace ladder
