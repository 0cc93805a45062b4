// One file, many faults: -DFAULT=n picks one. Everything else is a correct, slow FP32 product.
#include "gemm.h"

#define FAULT_NONE 0
#define FAULT_WRITES_NOTHING 1
#define FAULT_OUT_OF_BOUNDS 2   // a few elements past the end: the guard zone sees it
#define FAULT_NAN 3
#define FAULT_NEVER_ENDS 4
#define FAULT_ILLEGAL_ADDRESS 5 // poisons the context
#define FAULT_OTHER_STREAM 6
#define FAULT_SYNCHRONISES 7
#define FAULT_WRONG_LATER 8     // right for the first calls, wrong afterwards
#define FAULT_TOO_MUCH_SHARED 9
#define FAULT_SEGFAULT 10
#define FAULT_CHANGES_INPUT 11
#define FAULT_LAST_TILE 12      // leaves out the last K tile
#define FAULT_RETURNS_ERROR 13

#ifndef FAULT
#define FAULT FAULT_NONE
#endif

namespace {

int calls = 0;

__global__ void product(Args args, int call) {
    const int64_t row = blockIdx.y * int64_t(blockDim.y) + threadIdx.y;
    const int64_t col = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (row >= args.M || col >= args.N) return;
    float sum = 0.0f;
    const int64_t depth = FAULT == FAULT_LAST_TILE && args.K > 8 ? args.K - 8 : args.K;
    for (int64_t k = 0; k < depth; ++k) sum = fmaf(args.A[row * args.K + k], args.B[k * args.N + col], sum);
    if (FAULT == FAULT_WRITES_NOTHING) return;
    if (FAULT == FAULT_NAN && row == args.M / 2 && col == args.N / 2) sum = __int_as_float(0x7fc00000);
    if (FAULT == FAULT_WRONG_LATER && call > 12) sum *= 1.01f;
    if (FAULT == FAULT_NEVER_ENDS) {
        volatile const float *spin = args.A;
        while (spin[0] == spin[0]) {}
    }
    if (FAULT == FAULT_ILLEGAL_ADDRESS) args.C[int64_t(1) << 45] = sum;
    if (FAULT == FAULT_CHANGES_INPUT && row == 0 && col == 0) const_cast<float *>(args.A)[0] += 1.0f;
    args.C[row * args.N + col] = sum;
    if (FAULT == FAULT_OUT_OF_BOUNDS && row == args.M - 1 && col == args.N - 1) args.C[args.M * args.N + 3] = sum;
}

} // namespace

extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) {
    if (FAULT == FAULT_RETURNS_ERROR) return cudaErrorNotSupported;
    if (FAULT == FAULT_SEGFAULT) *reinterpret_cast<volatile int *>(8) = 1;
    const dim3 block(32, 8);
    const dim3 grid(unsigned((args->N + 31) / 32), unsigned((args->M + 7) / 8));
    const size_t shared = FAULT == FAULT_TOO_MUCH_SHARED ? size_t(300) << 10 : 0;
    const cudaStream_t where = FAULT == FAULT_OTHER_STREAM ? cudaStreamPerThread : stream;
    product<<<grid, block, shared, where>>>(*args, calls++);
    if (FAULT == FAULT_SYNCHRONISES) return cudaStreamSynchronize(stream);
    return cudaGetLastError();
}
