// Hopper on a CPU, as far as the kernels under kernels/gemm/hopper use it: each CUDA thread is a fiber, and what they
// say in PTX is said again here. The scheduler picks fibers at random, so one run is one of the interleavings that the
// hardware allows; asynchronous work (copies, products, stores) is done as late as a wait allows, or at a random time
// before, so that a stage that is freed too early, a buffer that is written too early or a barrier with a wrong count
// shows as a wrong result or as a deadlock, which is found exactly: nobody can go on.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace emu {

[[noreturn]] inline void fail(const char *what) {
    std::printf("fault: %s\n", what);
    std::exit(3);
}

struct Barrier {
    uint32_t expected = 0, pending = 0, phase = 0;
    int64_t bytes = 0;  // announced and not yet there; may be below zero for a while

    void check() {
        if (pending == 0 && bytes == 0) {
            ++phase;
            pending = expected;
        }
    }
    void arrive() {
        if (pending == 0) fail("more arrivals than a barrier was made for");
        --pending;
        check();
    }
};

struct Meeting {  // __syncthreads, bar.sync, barrier.cluster
    uint32_t here = 0, generation = 0;
};

struct Block {
    uint32_t index = 0;
    std::vector<uint8_t> shared = std::vector<uint8_t>(227 * 1024 + 1024);
    std::map<uint32_t, Barrier> barriers;
    std::map<uint32_t, Meeting> meetings;
    std::map<uint32_t, Meeting> warps;
    std::map<const void *, uint32_t> places;  // of __shared__ variables
    uint32_t alive = 0;
};

struct Product {
    float *d;
    int count;
    uint64_t a, b;
    bool add;
};

struct Index {
    uint32_t x;
};

struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    Index thread, block;
    Block *home = nullptr;
    std::function<bool()> ready;
    bool done = false;
    uint32_t pace = 1;  // runs in one of so many rounds: some warps lag behind
    std::vector<Product> open;
    std::deque<std::vector<Product>> products;
    std::vector<std::function<void()>> stores;
    std::deque<std::vector<std::function<void()>>> groups;
    uint32_t stmatrix_address = 0;
};

inline std::mt19937 chance{1};
inline std::vector<std::unique_ptr<Block>> blocks;
inline std::vector<std::unique_ptr<Fiber>> fibers;
inline std::vector<std::function<void()>> engine;  // copies to shared memory that are on their way
inline Fiber *now = nullptr;
inline ucontext_t scheduler;
inline uint32_t grid = 0, cluster = 1, threads = 0;
inline std::function<void()> kernel;

inline void block_until(std::function<bool()> ready) {
    if (ready() && chance() % 4) return;
    now->ready = std::move(ready);
    swapcontext(&now->context, &scheduler);
}

inline Block &peer(uint32_t rank) {
    Block &block = *blocks[now->home->index / cluster * cluster + rank];
    if (block.alive == 0) fail("a block of the cluster is reached that has ended");
    return block;
}

inline void meet(Meeting &meeting, uint32_t count) {
    const uint32_t generation = meeting.generation;
    if (++meeting.here == count) {
        meeting.here = 0;
        ++meeting.generation;
        return;
    }
    block_until([&meeting, generation] { return meeting.generation != generation; });
}

inline uint32_t lane() { return now->thread.x % 32; }
inline uint32_t warp() { return now->thread.x / 32; }
inline void meet_warp() { meet(now->home->warps[warp()], 32); }

// elect.sync: all lanes come, lane 0 acts.
inline bool elected() {
    meet_warp();
    return lane() == 0;
}

// Bits 4 to 6 of an address are XORed with bits 7 to 9: CU_TENSOR_MAP_SWIZZLE_128B.
inline uint32_t swizzled(uint32_t address) { return address ^ (address >> 3 & 0x70); }

inline float value(uint16_t bits) {
    const uint32_t wide = uint32_t{bits} << 16;
    float found;
    std::memcpy(&found, &wide, 4);
    return found;
}
inline uint16_t rounded(float wide) {  // to BF16, nearest even
    uint32_t bits;
    std::memcpy(&bits, &wide, 4);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// What wgmma reads: row and k of a K-major operand with the 128-byte swizzle.
inline float operand(const Block &block, uint64_t descriptor, uint32_t row, uint32_t k) {
    if (descriptor >> 62 != 1) fail("a descriptor without the 128-byte swizzle");
    if ((descriptor >> 49 & 7) != 0) fail("a descriptor with a base offset");
    const uint32_t start = (descriptor & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
    const uint32_t address = swizzled(start + row / 8 * stride + row % 8 * 128 + k * 2);
    uint16_t bits;
    std::memcpy(&bits, &block.shared[address], 2);
    return value(bits);
}

inline void run(const Product &product) {
    const uint32_t l = lane(), w = warp() % 4;
    for (int half = 0; half < 2; ++half) {
        float a[16];
        for (int k = 0; k < 16; ++k) a[k] = operand(*now->home, product.a, 16 * w + l / 4 + 8 * half, k);
        for (int j = 0; j < product.count / 4; ++j)
            for (int i = 0; i < 2; ++i) {
                float &d = product.d[4 * j + 2 * half + i];
                if (!product.add) d = 0;
                for (int k = 0; k < 16; ++k) d += a[k] * operand(*now->home, product.b, 8 * j + 2 * (l % 4) + i, k);
            }
    }
}

inline void work() {
    kernel();
    if (!now->open.empty() || !now->products.empty()) fail("a thread ended with products in flight");
    for (auto &group : now->groups)  // stores may still be on their way to global memory, but not read shared memory
        if (!group.empty()) fail("a thread ended while stores read its shared memory");
    --now->home->alive;
    now->done = true;
    swapcontext(&now->context, &scheduler);
}

// Runs a kernel to its end.
inline void launch(uint32_t grid_, uint32_t cluster_, uint32_t threads_, uint32_t seed, std::function<void()> kernel_) {
    chance.seed(seed);
    grid = grid_, cluster = cluster_, threads = threads_, kernel = std::move(kernel_);
    blocks.clear(), fibers.clear(), engine.clear();
    for (uint32_t b = 0; b < grid; ++b) {
        blocks.push_back(std::make_unique<Block>());
        blocks[b]->index = b;
        blocks[b]->alive = threads;
        for (auto &byte : blocks[b]->shared) byte = 0xff;  // NaN
        uint32_t pace = 1;
        for (uint32_t t = 0; t < threads; ++t) {
            if (t % 32 == 0) pace = 1u << chance() % 3 * 2;
            auto fiber = std::make_unique<Fiber>();
            constexpr size_t kStack = 96 * 1024;
            fiber->stack.reset(new char[kStack]);
            fiber->thread = {t}, fiber->block = {b}, fiber->home = blocks[b].get();
            fiber->pace = pace;
            getcontext(&fiber->context);
            fiber->context.uc_stack.ss_sp = fiber->stack.get();
            fiber->context.uc_stack.ss_size = kStack;
            fiber->context.uc_link = nullptr;
            makecontext(&fiber->context, work, 0);
            fibers.push_back(std::move(fiber));
        }
    }
    std::vector<Fiber *> left;
    for (auto &fiber : fibers) left.push_back(fiber.get());
    while (!left.empty()) {
        std::shuffle(left.begin(), left.end(), chance);
        bool went = false;
        for (Fiber *fiber : left) {
            if (!engine.empty() && chance() % 64 == 0) {
                const size_t which = chance() % engine.size();
                const auto copy = engine[which];
                engine.erase(engine.begin() + which);
                copy();
                went = true;
            }
            if (fiber->ready && !fiber->ready()) continue;
            went = true;
            if (chance() % fiber->pace) continue;
            fiber->ready = nullptr;
            now = fiber;
            swapcontext(&scheduler, &fiber->context);
        }
        left.erase(std::remove_if(left.begin(), left.end(), [](Fiber *fiber) { return fiber->done; }), left.end());
        if (!went && engine.empty() && !left.empty()) fail("nobody can go on: a deadlock");
        if (!went && !engine.empty()) {
            const auto copy = engine.front();
            engine.erase(engine.begin());
            copy();
        }
    }
    if (!engine.empty()) fail("copies that nobody waited for");
}

}  // namespace emu
