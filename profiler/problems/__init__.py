"""The problems that an experiment can name, and where each is defined."""

from __future__ import annotations

#: Name -> (module, class). The module's file is read as literals by ``--check`` and imported only for a real run.
REGISTRY: dict[str, tuple[str, str]] = {
    "gemm": ("profiler.problems.gemm", "Gemm"),
}
