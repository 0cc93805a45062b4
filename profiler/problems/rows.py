"""What problems over the rows of a matrix have in common: how inputs are drawn, and the error of a sum over a row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

#: Unit roundoff of one operation in float32, round to nearest.
UNIT = 2.0**-24
_LAMBDA = 8.0
#: Additions beyond the tree that every kernel has: of a vector's lanes, of an accumulator into the next.
_EXTRA_DEPTH = 4
#: Mutations that leave a tail out leave out this part of a row; shorter rows than `LEAST_FOR_TAIL` have none.
TAIL_PART = 16
LEAST_FOR_TAIL = 64


def sum_error(columns: int) -> float:
    """Return how far a float32 sum of so many terms may be off, relative to the sum of their absolute values.

    lambda sqrt(h) u with lambda = 8 and h = log2 N + 4: the probabilistic bound for a tree (Higham and Mary, A New
    Approach to Probabilistic Rounding Error Analysis, SIAM Journal on Scientific Computing 41(5), 2019). P threads
    that add c = N / P like terms each before the tree keep it while c <= P: their chains add a relative variance of
    u^2 c / (3 P). The kernels here have 256 threads or more, or chains of 32.
    """
    return _LAMBDA * math.sqrt(math.log2(max(2, columns)) + _EXTRA_DEPTH) * UNIT


def draw(shape: tuple[int, ...], distribution: str, generator: torch.Generator) -> torch.Tensor:
    """Return float32 values: uniform in [-1, 1], or standard normal for every other distribution, which start from
    it.
    """
    import torch

    if distribution == "uniform":
        return torch.rand(shape, generator=generator, device=generator.device).mul_(2.0).sub_(1.0)
    return torch.randn(shape, generator=generator, device=generator.device)


def put(x: torch.Tensor, first: int, period: int, value: float) -> None:
    """Put a value into one place of each row ``first``, ``first + period``, ...: another column in each."""
    import torch

    rows = torch.arange(x.shape[0], device=x.device)[first::period]
    x[rows, rows * 7919 % x.shape[1]] = value
