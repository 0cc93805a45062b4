"""The problems that an experiment can name, where each is defined, and what a bare kernel is run with."""

from __future__ import annotations

#: Name -> (module, class). The module's file is read as literals by ``--check`` and imported only for a real run.
REGISTRY: dict[str, tuple[str, str]] = {
    "gemm": ("profiler.problems.gemm", "Gemm"),
}

#: Name -> (what its baselines are called before ``_<dtype>``, the function).
BASELINES: dict[str, tuple[str, str]] = {"gemm": ("cublas", "gemm/torch_gemm.py:matmul")}

#: Name -> contracts that no library offers, and that whose baseline they are compared with.
BASELINE_DTYPES: dict[str, dict[str, str]] = {"gemm": {"tf32x3": "fp32"}}

#: Name -> the sizes that are timed, and those that are only verified, where the command line says none.
SIZES: dict[str, list[list[int]]] = {"gemm": [[4096, 4096, 4096]]}
CHECK_SIZES: dict[str, list[list[int]]] = {"gemm": [[67, 131, 35], [1000, 1001, 999]]}
