"""The baseline: the vendor's GEMM as PyTorch calls it, cuBLAS or cuBLASLt through ``torch.matmul(out=)``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def _contract(dtype: str) -> Iterator[None]:
    """The contract's arithmetic, whatever the process has set; its settings come back afterwards.

    fp32: TF32 is off. From PyTorch 2.9 the setting is ``fp32_precision``, and reading ``allow_tf32`` raises if the
    process used the new name. bf16: split-K adds its partial sums in FP32.
    """
    settings = torch.backends.cuda.matmul
    if dtype != "fp32":
        name, value = "allow_bf16_reduced_precision_reduction", False
    elif hasattr(settings, "fp32_precision"):
        name, value = "fp32_precision", "ieee"
    else:
        name, value = "allow_tf32", False
    before = getattr(settings, name)
    setattr(settings, name, value)
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
    """Fills `out` with A @ B (layout nn) or A @ B.T (layout nt), accumulated in FP32.

    PyTorch's own default for bf16 lets split-K add its partial sums in BF16: at 1000 x 1001 x 999 that shows as an
    error of 4e-4 relative to |A| |B| where one FP32 accumulation leaves 5e-8, so it is off here. Sizes that need no
    split-K run the same kernel either way.
    """
    layout = str((options or {}).get("layout", "nn"))
    if layout not in ("nn", "nt"):
        raise ValueError(f"layout {layout!r}: the baseline knows nn and nt")
    right = B.t() if layout == "nt" else B  # a view: cuBLAS takes the transpose as a flag
    with _contract(dtype or ("fp32" if A.dtype == torch.float32 else "bf16")):
        torch.matmul(A, right, out=out)
