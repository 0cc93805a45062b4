"""The baseline: the vendor's GEMM as PyTorch calls it, cuBLAS or cuBLASLt through ``torch.matmul(out=)``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def _tf32_off() -> Iterator[None]:
    """FP32 products in FP32, whatever the process has set; its setting comes back afterwards.

    From PyTorch 2.9 the setting is ``fp32_precision``, and reading ``allow_tf32`` raises if the process used the new
    name.
    """
    settings = torch.backends.cuda.matmul
    name, off = ("fp32_precision", "ieee") if hasattr(settings, "fp32_precision") else ("allow_tf32", False)
    before = getattr(settings, name)
    setattr(settings, name, off)
    try:
        yield
    finally:
        setattr(settings, name, before)


def matmul(
    A: torch.Tensor,
    B: torch.Tensor,
    *,
    out: torch.Tensor,
    options: dict[str, Any] | None = None,
    dtype: str | None = None,
) -> None:
    """Fills `out` with A @ B (layout nn) or A @ B.T (layout nt).

    fp32: TF32 is off, so cuBLAS takes an FFMA kernel. bf16: a kernel accumulates in FP32, but PyTorch's default for
    ``allow_bf16_reduced_precision_reduction`` is on, so split-K may add its partial sums in BF16. It is left on, since
    that is what a user gets; at 1000 x 1001 x 999 it shows as an error 200 times that of one FP32 accumulation.
    """
    layout = str((options or {}).get("layout", "nn"))
    if layout not in ("nn", "nt"):
        raise ValueError(f"layout {layout!r}: the baseline knows nn and nt")
    right = B.t() if layout == "nt" else B  # a view: cuBLAS takes the transpose as a flag
    if dtype == "fp32" or (dtype is None and A.dtype == torch.float32):
        with _tf32_off():
            torch.matmul(A, right, out=out)
    else:
        torch.matmul(A, right, out=out)
