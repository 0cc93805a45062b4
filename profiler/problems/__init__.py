"""The problems that an experiment can name, where each is defined, and what a bare kernel is run with."""

from __future__ import annotations

#: Name -> (module, class). The module's file is read as literals by ``--check`` and imported only for a real run.
REGISTRY: dict[str, tuple[str, str]] = {
    "gemm": ("profiler.problems.gemm", "Gemm"),
    "copy": ("profiler.problems.copy", "Copy"),
    "reduce_sum": ("profiler.problems.reduce", "ReduceSum"),
    "reduce_max": ("profiler.problems.reduce", "ReduceMax"),
    "transpose": ("profiler.problems.transpose", "Transpose"),
    "softmax": ("profiler.problems.softmax", "Softmax"),
    "layernorm": ("profiler.problems.layernorm", "LayerNorm"),
    "rmsnorm": ("profiler.problems.rmsnorm", "RmsNorm"),
    "mean_filter": ("profiler.problems.mean_filter", "MeanFilter"),
    "topk": ("profiler.problems.topk", "TopK"),
}

#: Name -> (what its baselines are called before ``_<dtype>``, the function).
BASELINES: dict[str, tuple[str, str]] = {
    "gemm": ("cublas", "gemm/torch_gemm.py:matmul"),
    "reduce_sum": ("torch", "reduce/torch_reduce.py:row_sum"),
    "reduce_max": ("torch", "reduce/torch_reduce.py:row_max"),
    "transpose": ("torch", "transpose/torch_transpose.py:transpose"),
    "softmax": ("torch", "softmax/torch_softmax.py:softmax"),
    "layernorm": ("torch", "layernorm/torch_layernorm.py:layer_norm"),
    "rmsnorm": ("torch", "rmsnorm/torch_rmsnorm.py:rms_norm"),
    "mean_filter": ("torch", "filter/torch_filter.py:mean_filter"),
    "topk": ("torch", "topk/torch_topk.py:topk"),
}

#: Name -> contracts that no library offers, and that whose baseline they are compared with.
BASELINE_DTYPES: dict[str, dict[str, str]] = {"gemm": {"tf32x3": "fp32"}}

#: Name -> the sizes that are timed, and those that are only verified, where the command line says none.
SIZES: dict[str, list[list[int]]] = {
    "gemm": [[4096, 4096, 4096]],
    "reduce_sum": [[1, 2**28]],
    "reduce_max": [[1, 2**28]],
    "transpose": [[8192, 8192]],
    "softmax": [[16384, 8192]],
    "layernorm": [[16384, 8192]],
    "rmsnorm": [[16384, 8192]],
    "mean_filter": [[8192, 8192, 3]],
    "topk": [[1, 2**26, 64]],
}
CHECK_SIZES: dict[str, list[list[int]]] = {
    "gemm": [[67, 131, 35], [1000, 1001, 999]],
    "reduce_sum": [[1, 1000003], [37, 1003]],
    "reduce_max": [[1, 1000003], [37, 1003]],
    "transpose": [[67, 131], [1000, 1001]],
    "softmax": [[1, 1003], [37, 4099]],
    "layernorm": [[1, 1003], [37, 4099]],
    "rmsnorm": [[1, 1003], [37, 4099]],
    "mean_filter": [[67, 131, 3], [301, 1001, 15]],
    "topk": [[3, 1003, 17], [37, 4100, 64]],
}
