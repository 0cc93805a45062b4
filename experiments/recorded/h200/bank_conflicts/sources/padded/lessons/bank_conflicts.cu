// Lesson: a tile of 32 x 32 values through shared memory, stored and loaded in another order.
//
// Idea     Shared memory has 32 banks of 4 bytes; an instruction takes as many passes (wavefronts) as the bank that most
//          different words are wanted of. A warp holds 32 values a lane, stores them at STORE's places, reads them back
//          from LOAD's, ROUNDS times, and ends with the values it began with.
// Places   of lane l's value j, in units of WIDTH words:
//          STRIDED     lanes lie STORE_STRIDE (LOAD_STRIDE) apart: 1 is a row of the tile, 32 a column: as many passes as
//                      the stride has factors of two, for the lanes meet on the same banks.
//          PADDED      column l, rows of 33: neighbouring lanes on neighbouring banks.
//          SWIZZLED    column l, the row's places exchanged by XOR with l: as good, without the space.
//          PADDED_ROW  row j of the padded tile: what a transposition through PADDED reads.
//          BROADCAST   (loads) all lanes the same word: one pass, however many want it.
//          WIDTH 2, 4  8 or 16 bytes a lane, served for half or a quarter of the lanes at a time: 2 or 4 passes at best.
// Shows    wavefronts per shared store and load, as predicted by the model (profiler/bank_model.py) and as counted.
// Sizes    any N; a warp's last, unfinished tile is copied directly.
#include "copy.h"

#define STRIDED 0
#define PADDED 1
#define SWIZZLED 2
#define PADDED_ROW 3
#define BROADCAST 4
#ifndef STORE
#define STORE STRIDED
#endif
#ifndef STORE_STRIDE
#define STORE_STRIDE 1
#endif
#ifndef LOAD
#define LOAD STORE
#endif
#ifndef LOAD_STRIDE
#define LOAD_STRIDE STORE_STRIDE
#endif
#ifndef WIDTH
#define WIDTH 1
#endif
#ifndef ROUNDS
#define ROUNDS 16  // even: a transposition comes back to where it began
#endif
static_assert(ROUNDS % 2 == 0, "a transposed tile is transposed back");

namespace {

constexpr int kTile = 32, kCount = kTile / WIDTH, kWarps = 4;
constexpr int kWords = WIDTH == 1 ? kTile * (kTile + 1) : kTile * kTile;  // of a warp, padding included
static_assert(WIDTH == 1 || (STORE == STRIDED && LOAD == STRIDED), "wide accesses are strided");
static_assert(STORE != BROADCAST, "a store cannot be a broadcast");

template <int Pattern, int Stride>
__device__ int place(int lane, int j) {
    if (Pattern == STRIDED) return j / Stride * 32 * Stride + lane * Stride + j % Stride;
    if (Pattern == PADDED) return lane * (kTile + 1) + j;
    if (Pattern == SWIZZLED) return lane * kTile + (j ^ lane);
    return j * (kTile + 1) + lane;  // PADDED_ROW
}

__device__ void store(unsigned address, const float *v) {
#if WIDTH == 1
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v[0]) : "memory");
#elif WIDTH == 2
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(v[0]), "f"(v[1]) : "memory");
#else
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
                 : "memory");
#endif
}

__device__ void load(unsigned address, float *v) {
#if WIDTH == 1
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[0]) : "r"(address) : "memory");
#elif WIDTH == 2
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v[0]), "=f"(v[1]) : "r"(address) : "memory");
#else
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "r"(address)
                 : "memory");
#endif
}

__global__ void __launch_bounds__(32 * kWarps)
    through_shared(const float *__restrict__ x, float *__restrict__ y, int64_t n) {
    __shared__ __align__(16) float tiles[kWarps][kWords];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t base = (int64_t(blockIdx.x) * kWarps + warp) * (kTile * 32);
    if (base + kTile * 32 > n) {
        for (int64_t i = base + lane; i < n; i += 32) y[i] = x[i];
        return;
    }
    const unsigned tile = static_cast<unsigned>(__cvta_generic_to_shared(tiles[warp]));
    float v[kTile];
#pragma unroll
    for (int j = 0; j < kTile; ++j) v[j] = x[base + j * 32 + lane];
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round) {
#pragma unroll
        for (int j = 0; j < kCount; ++j) store(tile + 4 * WIDTH * place<STORE, STORE_STRIDE>(lane, j), v + j * WIDTH);
        __syncwarp();
#if LOAD == BROADCAST
        // The lanes' values were stored in rows; every lane reads a row word by word and keeps its own.
#pragma unroll
        for (int j = 0; j < kTile; ++j) {
#pragma unroll 1
            for (int word = 0; word < 32; ++word) {
                float one;
                load(tile + 4 * (j * 32 + word), &one);
                v[j] = word == lane ? one : v[j];
            }
        }
#else
#pragma unroll
        for (int j = 0; j < kCount; ++j) load(tile + 4 * WIDTH * place<LOAD, LOAD_STRIDE>(lane, j), v + j * WIDTH);
#endif
        __syncwarp();
    }
#pragma unroll
    for (int j = 0; j < kTile; ++j) y[base + j * 32 + lane] = v[j];
}

}  // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    const int64_t piece = int64_t(kWarps) * kTile * 32;
    const int64_t blocks = (args->N + piece - 1) / piece;
    if (blocks > INT32_MAX) return cudaErrorInvalidValue;
    through_shared<<<static_cast<unsigned>(blocks), 32 * kWarps, 0, stream>>>(args->x, args->y, args->N);
    return cudaGetLastError();
}
