"""Mean filter: every pixel becomes the mean of the pixels around it, within the image."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from profiler.problem import Arg, In, Mutation, Out, Problem, Scalar, Tensors

if TYPE_CHECKING:
    import torch

_UNIT = 2.0**-24
_LAMBDA = 8.0
#: Rows that a running sum may add and take away again before it starts afresh.
RUNNING_ROWS = 256
#: Every so many pixels of the special inputs is NaN, +inf or -inf in turn.
_SPECIAL_PERIOD = 997
_SPIKE_PERIOD = 1009


class MeanFilter(Problem):
    """y[i, j] = mean of x over the window of rows i-R..i+R and columns j-R..j+R, cut off at the edges of the image.

    The mean is over the pixels that exist: PyTorch's ``avg_pool2d(x, 2R+1, stride=1, padding=R,
    count_include_pad=False)``.
    """

    name: ClassVar[str] = "mean_filter"
    dims: ClassVar[tuple[str, ...]] = ("H", "W", "R")
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    dtypes: ClassVar[tuple[str, ...]] = ("fp32",)
    distributions: ClassVar[tuple[str, ...]] = ("normal", "uniform", "offset", "special", "spikes")
    args: ClassVar[tuple[Arg | Scalar, ...]] = (In("x", "H W", "float32"), Out("y", "H W", "float32"))
    requires: ClassVar[tuple[str, ...]] = ("R <= 32767",)
    nonfinite: ClassVar[bool] = True

    @classmethod
    def inputs(
        cls,
        dims: Mapping[str, int],
        contract: str,
        options: Mapping[str, str],
        init: Mapping[str, Any],
        seed: int,
        device: str,
    ) -> Tensors:
        """Return x: standard normal; uniform in [0, 1), as an image; ``offset``: normal about 1000; ``special``: normal
        with NaN and both infinities among them; ``spikes``: normal with 1e20 among them.
        """
        import torch

        distribution = cls.distribution(init)
        generator = torch.Generator(device=device).manual_seed(seed)
        x = torch.empty(dims["H"], dims["W"], dtype=torch.float32, device=device)
        if distribution == "uniform":
            return {"x": x.uniform_(0.0, 1.0, generator=generator)}
        x.normal_(mean=1000.0 if distribution == "offset" else 0.0, generator=generator)
        flat = x.view(-1)
        if distribution == "special":
            for offset, value in enumerate((math.nan, math.inf, -math.inf)):
                flat[offset * _SPECIAL_PERIOD :: 3 * _SPECIAL_PERIOD] = value
        if distribution == "spikes":
            flat[::_SPIKE_PERIOD] = 1e20
        return {"x": x}

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return the means in float64: sums of shifted images, first down the columns, then along the rows."""
        return {"y": _means(inputs["x"].double(), dims["R"])}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return the means of |x| in float64."""
        return {"y": _means(inputs["x"].double().abs_(), dims["R"])}

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
        """Return lambda sqrt(n) u with lambda = 8 and n = (2R+1)^2 + 512: the terms of a window, and those that a
        running sum has added and taken away again before (``RUNNING_ROWS`` of each).

        The probabilistic bound of Higham and Mary (A New Approach to Probabilistic Rounding Error Analysis, SIAM
        Journal on Scientific Computing 41(5), 2019), relative to the mean of |x|: it holds for running sums where the
        rows that have left were no larger than those that are there, which ``spikes`` are.
        """
        return _LAMBDA * math.sqrt((2 * dims["R"] + 1) ** 2 + 2 * RUNNING_ROWS) * _UNIT

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Iterator[Mutation]:
        """Yield zeros; 5 % too much; a window that lacks its last row, or its last column; division by the whole window
        at the edges; the image shifted by a column: each where it differs from what is right.
        """
        import torch

        y, radius = reference["y"], dims["R"]
        x = inputs["x"].double()
        makers: dict[str, Callable[[], torch.Tensor]] = {
            "zeros": lambda: torch.zeros_like(y),
            "5 % scale": lambda: y * 1.05,
            "last row of the window missing": lambda: _means(x, radius, below=radius - 1),
            "last column of the window missing": lambda: _means(x, radius, right=radius - 1),
            "shifted": lambda: torch.roll(y, 1, 1),
            "divided by the whole window": lambda: _sums(x, radius) / (2 * radius + 1) ** 2,
        }
        for name, make in makers.items():
            wrong = make()
            # A window that is all of a small image, or a NaN, is the same either way: not wrong then.
            if not torch.allclose(wrong, y, rtol=1e-12, atol=0.0, equal_nan=True):
                yield Mutation(name, {"y": wrong})


def _means(x: torch.Tensor, radius: int, below: int | None = None, right: int | None = None) -> torch.Tensor:
    """Return the means over windows that reach so far up and left, and ``below`` and ``right`` if they are given."""
    import torch

    below = radius if below is None else below
    right = radius if right is None else right

    def inside(extent: int, after: int) -> torch.Tensor:
        at = torch.arange(extent, device=x.device, dtype=torch.float64)
        return torch.clamp(at + after, max=extent - 1) - torch.clamp(at - radius, min=0) + 1

    found = _sums(x, radius, below, right)
    found /= inside(x.shape[0], below)[:, None]
    found /= inside(x.shape[1], right)[None, :]
    return found


def _sums(x: torch.Tensor, radius: int, below: int | None = None, right: int | None = None) -> torch.Tensor:
    below = radius if below is None else below
    right = radius if right is None else right
    return _shifted(_shifted(x, 0, radius, below), 1, radius, right)


def _shifted(x: torch.Tensor, dim: int, before: int, after: int) -> torch.Tensor:
    """Return, along a dim, the sum of the values from ``before`` places earlier to ``after`` later, those that exist.

    Added one by one: a NaN reaches the sums that have it, and no others.
    """
    import torch

    extent = x.shape[dim]
    found = torch.zeros_like(x)
    for shift in range(-min(before, extent - 1), min(after, extent - 1) + 1):
        count = extent - abs(shift)
        found.narrow(dim, max(0, -shift), count).add_(x.narrow(dim, max(0, shift), count))
    return found
