// TopK by the library, a full sort: CUB sorts keys and indices of each row, and the first K are the answer.
//
// The least code, any K from 1 to N, and the most work: four passes over 8 bytes an element, each read and written (one row:
// DeviceRadixSort; several: DeviceSegmentedRadixSort, a block a row), where K of them are wanted. Near K = N it is what
// one needs. The keys are those of the other rungs, as CUB's own order of floats takes NaN of negative sign for the smallest.
//
// It needs 16 bytes of workspace an element, and CUB's headers, which the toolkit has: they are most of its compile time.
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>

#include "order.cuh"
#include "topk.h"

namespace {

constexpr int kThreads = 256;

struct Space {
    uint32_t *keys, *sorted_keys, *indices, *sorted_indices;
    int *offsets;  // where each row begins, and the end
    void *temporary;
};

__global__ void __launch_bounds__(kThreads) make_keys(const float *__restrict__ x, Space space, int64_t B, int64_t N) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (i <= B) space.offsets[i] = static_cast<int>(i * N);
    if (i >= B * N) return;
    space.keys[i] = topk::key_of(x[i]);
    space.indices[i] = static_cast<uint32_t>(i % N);
}

__global__ void __launch_bounds__(kThreads) take(const float *__restrict__ x, Space space, float *__restrict__ values,
                                                 int64_t *__restrict__ indices, int64_t B, int64_t N, int64_t K) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= B * K) return;
    const int64_t row = i / K, index = space.sorted_indices[row * N + i % K];
    values[i] = x[row * N + index];
    indices[i] = index;
}

size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

Space space_of(const Args *args) {
    const size_t each = rounded(sizeof(uint32_t) * args->B * args->N);
    char *at = static_cast<char *>(args->workspace);
    const auto part = [&](int i) { return reinterpret_cast<uint32_t *>(at + i * each); };
    auto *offsets = reinterpret_cast<int *>(at + 4 * each);
    return {part(0), part(1), part(2), part(3), offsets, at + 4 * each + rounded(sizeof(int) * (args->B + 1))};
}

// With `temporary` null it only says how many bytes that must have.
cudaError_t sort(const Args *args, const Space &space, void *temporary, size_t &bytes, cudaStream_t stream) {
    const int count = static_cast<int>(args->B * args->N);
    if (args->B == 1)
        return cub::DeviceRadixSort::SortPairsDescending(temporary, bytes, space.keys, space.sorted_keys, space.indices,
                                                         space.sorted_indices, count, 0, 32, stream);
    return cub::DeviceSegmentedRadixSort::SortPairsDescending(
        temporary, bytes, space.keys, space.sorted_keys, space.indices, space.sorted_indices, count,
        static_cast<int>(args->B), space.offsets, space.offsets + 1, 0, 32, stream);
}

bool fits(const Args *args) { return args->K <= args->N && args->B <= INT32_MAX / args->N; }

}  // namespace

extern "C" size_t workspace_bytes(const Args *args) {
    if (!fits(args)) return 0;
    size_t bytes = 0;
    if (sort(args, Space{}, nullptr, bytes, nullptr) != cudaSuccess) return 0;
    const Space from_zero = space_of(args);  // the workspace is not there yet: addresses count from 0
    return reinterpret_cast<uintptr_t>(from_zero.temporary) - reinterpret_cast<uintptr_t>(args->workspace) + bytes;
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (!fits(args)) return cudaErrorInvalidValue;
    const Space space = space_of(args);
    size_t bytes = 0;
    cudaError_t status = sort(args, space, nullptr, bytes, stream);
    if (status != cudaSuccess) return status;
    const int64_t elements = args->B * args->N + 1, results = args->B * args->K;
    make_keys<<<static_cast<unsigned>((elements + kThreads - 1) / kThreads), kThreads, 0, stream>>>(args->x, space,
                                                                                                    args->B, args->N);
    status = sort(args, space, space.temporary, bytes, stream);
    if (status != cudaSuccess) return status;
    take<<<static_cast<unsigned>((results + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
        args->x, space, args->values, args->indices, args->B, args->N, args->K);
    return cudaGetLastError();
}
