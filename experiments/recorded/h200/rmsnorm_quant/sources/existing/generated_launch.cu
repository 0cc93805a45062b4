// Generated: makes the call of the experiment file for one launch.
#define Args KernelLadderArgs
#define prepare KernelLadderPrepare
#define destroy KernelLadderDestroy
#define workspace_bytes KernelLadderWorkspace_bytes
#include "rmsnorm_quant.h"
#undef Args
#undef prepare
#undef destroy
#undef workspace_bytes
#include "rmsnorm_quant.cu"

namespace kernel_ladder {
template <class F> cudaError_t status_of(F call, cudaError_t *) {
    const cudaError_t status = call();
    return status != cudaSuccess ? status : cudaGetLastError();
}
template <class F> cudaError_t status_of(F call, ...) {
    call();
    return cudaGetLastError();
}
}  // namespace kernel_ladder

extern "C" __attribute__((visibility("default"))) cudaError_t launch(const KernelLadderArgs *args, void *, cudaStream_t stream) {
    [[maybe_unused]] const auto x = args->x;
    [[maybe_unused]] const auto res = args->res;
    [[maybe_unused]] const auto w = args->w;
    [[maybe_unused]] const auto y = args->y;
    [[maybe_unused]] const auto s = args->s;
    [[maybe_unused]] const auto eps = args->eps;
    [[maybe_unused]] const auto T = args->T;
    [[maybe_unused]] const auto H = args->H;
    const auto call = [&]() { return rmsnorm_quant(x, res, w, y, s, T, H, eps, stream); };
    return kernel_ladder::status_of(call, static_cast<decltype(call()) *>(nullptr));
}
