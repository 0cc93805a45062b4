// Baseline: CUB's device-wide and segmented reductions, from the toolkit's own headers.
//
// One row is DeviceReduce; several are DeviceSegmentedReduce, a block a segment. Sum is CUB's own; the maximum is given
// as an operator, since CUB's passes NaN over. Compiling CUB takes seconds, which is why no rung includes it.
#define CCCL_DISABLE_NVTX
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>

#include "op.cuh"

namespace {

struct RowStart {
    int64_t N;
    __host__ __device__ int64_t operator()(int64_t row) const { return row * N; }
};

#ifdef REDUCE_OP_MAX
struct MaxOrNan {
    __device__ float operator()(float a, float b) const { return ladder::Op::apply(a, b); }
};
#endif

// With no temporary storage: how much it wants.
cudaError_t reduce(const Args *args, void *storage, size_t &bytes, cudaStream_t stream) {
    const auto starts = thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0), RowStart{args->N});
#ifdef REDUCE_OP_MAX
    const float lowest = -__builtin_huge_valf();
    if (args->M == 1)
        return cub::DeviceReduce::Reduce(storage, bytes, args->x, args->y, args->N, MaxOrNan{}, lowest, stream);
    return cub::DeviceSegmentedReduce::Reduce(storage, bytes, args->x, args->y, args->M, starts, starts + 1, MaxOrNan{},
                                              lowest, stream);
#else
    if (args->M == 1) return cub::DeviceReduce::Sum(storage, bytes, args->x, args->y, args->N, stream);
    return cub::DeviceSegmentedReduce::Sum(storage, bytes, args->x, args->y, args->M, starts, starts + 1, stream);
#endif
}

}  // namespace

extern "C" size_t workspace_bytes(const Args *args) {
    size_t bytes = 0;
    return reduce(args, nullptr, bytes, nullptr) == cudaSuccess ? bytes : 0;
}

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (args->N < 1 || args->M < 1) return cudaErrorInvalidValue;
    size_t bytes = args->workspace_bytes;
    return reduce(args, args->workspace, bytes, stream);
}
