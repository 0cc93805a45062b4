// The plain way to sum over a row: a block strides over it, element by element.
#pragma once
#include <type_traits>

#include "moments.cuh"

namespace ladder {

constexpr int kRowThreads = 256;

// The sum of term(i) over the row's elements, known to all threads of the block.
template <class Term>
__device__ __forceinline__ float row_sum(int64_t N, Term term) {
    __shared__ float partial[32];
    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < N; i += kRowThreads) sum += term(i);
    __syncthreads();  // the sum before may still be read
    return block_reduce<Sum>(sum, partial);
}

}  // namespace ladder
