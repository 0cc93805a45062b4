"""The problems that an experiment can name, where each is defined, and what a bare kernel is run with."""

from __future__ import annotations

#: Name -> (module, class). The module's file is read as literals by ``--check`` and imported only for a real run.
REGISTRY: dict[str, tuple[str, str]] = {
    "gemm": ("profiler.problems.gemm", "Gemm"),
    "copy": ("profiler.problems.copy", "Copy"),
    "mean_filter": ("profiler.problems.mean_filter", "MeanFilter"),
    "topk": ("profiler.problems.topk", "TopK"),
}

#: Name -> (what its baselines are called before ``_<dtype>``, the function).
BASELINES: dict[str, tuple[str, str]] = {
    "gemm": ("cublas", "gemm/torch_gemm.py:matmul"),
    "mean_filter": ("torch", "filter/torch_filter.py:mean_filter"),
    "topk": ("torch", "topk/torch_topk.py:topk"),
}

#: Name -> the sizes that are timed, and those that are only verified, where the command line says none.
SIZES: dict[str, list[list[int]]] = {
    "gemm": [[4096, 4096, 4096]],
    "mean_filter": [[8192, 8192, 3]],
    "topk": [[1, 2**26, 64]],
}
CHECK_SIZES: dict[str, list[list[int]]] = {
    "gemm": [[67, 131, 35], [1000, 1001, 999]],
    "mean_filter": [[67, 131, 3], [301, 1001, 15]],
    "topk": [[3, 1003, 17], [37, 4100, 64]],
}
