"""The baseline: ``torch.nn.functional.rms_norm``, what a user calls instead."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, w: torch.Tensor, *, out: torch.Tensor, eps: float) -> torch.Tensor:
    """Returns RMSNorm of each row of x. There is no ``out=``, so the result is a new tensor of PyTorch's allocator."""
    return torch.nn.functional.rms_norm(x, (x.shape[1],), w, eps)
