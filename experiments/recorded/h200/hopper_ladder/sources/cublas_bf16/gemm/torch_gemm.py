"""The baselines cublas_<dtype>: the vendor's GEMM as PyTorch calls it, cuBLAS(Lt) through ``torch.matmul(out=)``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def _settings(dtype: str) -> tuple[tuple[str, object], ...]:
    """The settings of ``torch.backends.cuda.matmul`` that a contract needs, as far as this PyTorch has them."""
    matmul_settings = torch.backends.cuda.matmul
    if dtype in ("fp32", "tf32x3"):
        # From PyTorch 2.9 the setting is `fp32_precision`, and reading `allow_tf32` raises if the process used the new
        # name.
        return (("fp32_precision", "ieee") if hasattr(matmul_settings, "fp32_precision") else ("allow_tf32", False),)
    if dtype == "fp16":
        wanted: tuple[str, ...] = ("allow_fp16_reduced_precision_reduction", "allow_fp16_accumulation")
    else:
        wanted = ("allow_bf16_reduced_precision_reduction",)
    return tuple((name, False) for name in wanted if hasattr(matmul_settings, name))


@contextmanager
def _contract(dtype: str) -> Iterator[None]:
    """The contract's arithmetic, whatever the process has set; its settings come back afterwards.

    fp32, tf32x3: TF32 is off. bf16, fp16: split-K adds its partial sums in FP32, and fp16 is accumulated in FP32.
    """
    matmul_settings = torch.backends.cuda.matmul
    before = {name: getattr(matmul_settings, name) for name, _ in _settings(dtype)}
    for name, value in _settings(dtype):
        setattr(matmul_settings, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(matmul_settings, name, value)


_CONTRACTS = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


def matmul(
    A: torch.Tensor,
    B: torch.Tensor,
    *,
    out: torch.Tensor,
    options: dict[str, Any] | None = None,
    dtype: str | None = None,
) -> None:
    """Fills `out` with A @ B (layout nn) or A @ B.T (layout nt), accumulated in FP32.

    PyTorch's own default for bf16 lets split-K add its partial sums in BF16 (likewise fp16): at 1000 x 1001 x 999 that
    shows as an error of 4e-4 relative to |A| |B| where one FP32 accumulation leaves 5e-8, so it is off here. Sizes that
    need no split-K run the same kernel either way.
    """
    layout = str((options or {}).get("layout", "nn"))
    if layout not in ("nn", "nt"):
        raise ValueError(f"layout {layout!r}: the baseline knows nn and nt")
    right = B.t() if layout == "nt" else B  # a view: cuBLAS takes the transpose as a flag
    with _contract(dtype or _CONTRACTS[A.dtype]):
        torch.matmul(A, right, out=out)
