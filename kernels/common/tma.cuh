// The copy engine (TMA): one thread orders the copy of a whole tile between global and shared memory.
//
// A tensor map (made on the host: tensor_map.cuh) knows the matrix, the shape of a tile and its swizzle. The engine
// computes the addresses, fills what lies outside the matrix with zeros (a load) or leaves it alone (a store), and
// reports to a barrier (a load) or to the group of the thread that ordered it (a store).
// All of these are called by a whole warp; one lane of it, always the same, acts: see mbarrier.cuh.
// Coordinates are in elements: `column` runs along the contiguous dimension.
#pragma once
#include <cuda.h>

#include <cstdint>

namespace ladder {

__device__ __forceinline__ void prefetch_map(const CUtensorMap &map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Orders a tile; its bytes count towards the barrier, those outside of the matrix too.
__device__ __forceinline__ void load_tile(uint32_t shared, const CUtensorMap &map, uint32_t barrier, int column,
                                          int row) {
    asm volatile(
        "{\n.reg .pred mine;\nelect.sync _|mine, 0xffffffff;\n"
        "@mine cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
        "[%2];\n}" ::"r"(shared),
        "l"(&map), "r"(barrier), "r"(column), "r"(row)
        : "memory");
}

// The same for each block of the cluster whose bit is set in `blocks`: the tile lands at the same place of their shared
// memory and counts towards the barrier at the same place.
__device__ __forceinline__ void load_tile_multicast(uint32_t shared, const CUtensorMap &map, uint32_t barrier,
                                                    int column, int row, uint16_t blocks) {
    asm volatile(
        "{\n.reg .pred mine;\nelect.sync _|mine, 0xffffffff;\n"
        "@mine cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5}], [%2], %3;\n}" ::"r"(shared),
        "l"(&map), "r"(barrier), "h"(blocks), "r"(column), "r"(row)
        : "memory");
}

// Orders the copy of a tile to global memory; a commit must follow.
__device__ __forceinline__ void store_tile(const CUtensorMap &map, uint32_t shared, int column, int row) {
    asm volatile(
        "{\n.reg .pred mine;\nelect.sync _|mine, 0xffffffff;\n"
        "@mine cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];\n}" ::"l"(&map),
        "r"(shared), "r"(column), "r"(row)
        : "memory");
}

// Closes the group of stores that were ordered since the last commit. (The groups of the other lanes are empty.)
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Returns when at most kPending of the newest groups still read shared memory.
template <int kPending>
__device__ __forceinline__ void wait_stores_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Makes what this thread stored to shared memory visible to the copy engine; a barrier must follow.
__device__ __forceinline__ void publish_to_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace ladder
