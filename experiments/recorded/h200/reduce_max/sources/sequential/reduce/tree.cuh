// Host side of the rungs that give each block one piece of the array: one partial result a block into the workspace,
// then `finish` over those.
#pragma once
#include "finish.cuh"

namespace ladder {

inline int64_t pieces_of(int64_t count, int64_t piece) { return (count + piece - 1) / piece; }

template <class Kernel>
cudaError_t launch_tree(Kernel kernel, const Args *args, unsigned threads, int64_t piece, cudaStream_t stream) {
    const int64_t blocks = pieces_of(args->N, piece);
    if (args->M != 1 || blocks < 1 || blocks > INT32_MAX) return cudaErrorInvalidValue;  // a whole array, not empty
    float *partials = static_cast<float *>(args->workspace);
    kernel<<<static_cast<unsigned>(blocks), threads, 0, stream>>>(args->x, partials, args->N);
    finish<<<1, kFinishThreads, 0, stream>>>(partials, blocks, args->y);
    return cudaGetLastError();
}

}  // namespace ladder
