"""LayerNorm of each row, in FP32 arithmetic, for FP32 and BF16 tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from profiler.problem import Arg, In, Mutation, Out, Problem, Scalar, Tensors
from profiler.problems.rows import LEAST_FOR_TAIL, TAIL_PART, UNIT, draw, put, sum_error

if TYPE_CHECKING:
    import torch

_KINDS = 4  #: of rows among the offset and the special inputs
#: Means of the offset rows by turns. The second is where E[x^2] - E[x]^2 has no digit left in FP32; a bfloat16 is a
#: multiple of 64 there, so its rows go to 100, where it is one of 0.5.
_OFFSETS = {"fp32": (0.0, 1.0e4, 1.0, 100.0), "bf16": (0.0, 100.0, 1.0, 10.0)}
_CANCELS = 4096.0  #: means, in standard deviations, from which the squares of FP32 hold nothing of a variance
_MOST_FOR_BESSEL = 4096  #: N up to which a variance over N - 1 is told from one over N


class LayerNorm(Problem):
    """y = (x - mean) / sqrt(variance + eps) w + b, with mean and variance (over N) of each row of x.

    Inputs: ``normal``; ``uniform`` in [-1, 1]; ``offset``: normal around 0, 10000, 1 and 100 by turns (bf16: 0, 100,
    1, 10); ``special``: rows that are by turns normal, with one +inf, with one NaN, and of one value throughout. w
    lies around 1, b around 0, as trained ones do.
    """

    name: ClassVar[str] = "layernorm"
    dims: ClassVar[tuple[str, ...]] = ("T", "N")
    dtypes: ClassVar[tuple[str, ...]] = ("fp32", "bf16")
    distributions: ClassVar[tuple[str, ...]] = ("normal", "uniform", "offset", "special")
    nonfinite: ClassVar[bool] = True
    args: ClassVar[tuple[Arg | Scalar, ...]] = (
        In("x", "T N", {"fp32": "float32", "bf16": "bfloat16"}),
        In("w", "N", {"fp32": "float32", "bf16": "bfloat16"}),
        In("b", "N", {"fp32": "float32", "bf16": "bfloat16"}),
        Out("y", "T N", {"fp32": "float32", "bf16": "bfloat16"}),
        Scalar("eps", "float", 1e-5),
    )

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
        """Return x, w and b, drawn in float32 and rounded to the contract's type."""
        import torch

        distribution = cls.distribution(init)
        generator = torch.Generator(device=device).manual_seed(seed)
        x = draw((dims["T"], dims["N"]), distribution, generator)
        if distribution == "offset":
            for turn, offset in enumerate(_OFFSETS[contract]):
                x[turn::_KINDS] += offset
        if distribution == "special":
            put(x, 1, _KINDS, math.inf)
            put(x, 2, _KINDS, math.nan)
            x[3::_KINDS] = 3.0
        w = draw((dims["N"],), "normal", generator).mul_(0.25).add_(1.0)
        b = draw((dims["N"],), "normal", generator).mul_(0.25)
        dtype = torch.float32 if contract == "fp32" else torch.bfloat16
        return {"x": x.to(dtype), "w": w.to(dtype), "b": b.to(dtype)}

    @classmethod
    def _parts(cls, inputs: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return x - mean, 1 / sqrt(variance + eps) and the mean of |x|, in float64."""
        x = inputs["x"].double()
        size = x.abs().mean(dim=1, keepdim=True)
        x.sub_(x.mean(dim=1, keepdim=True))
        inverse = (x.square().mean(dim=1, keepdim=True) + float(cls.scalar("eps"))).rsqrt()
        return x, inverse, size

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return y in float64 from the exact values of the inputs."""
        x, inverse, _ = cls._parts(inputs)
        return {"y": x.mul_(inverse).mul_(inputs["w"].double()).add_(inputs["b"].double())}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return |w| (|x - mean| + mean of |x|) / sqrt(variance + eps) + |b|: what y would be without its signs."""
        x, inverse, size = cls._parts(inputs)
        return {
            "y": x.abs_().add_(size).mul_(inverse).mul_(inputs["w"].double().abs()).add_(inputs["b"].double().abs())
        }

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
        """Return 16 u and what a float32 sum of N terms may be off; u = 2^-24.

        With s the error of a sum (`profiler.problems.rows.sum_error`): the mean is off by s times the mean of |x|,
        and so is x - mean, besides its own rounding. A variance from squared distances is off by s, and by the
        square of the error of the mean; its root by half of that; 1 / sqrt (rsqrt: 2 ulp, CUDA C++ Programming
        Guide), two products and two additions round by less than 16 u together. Welford's update has the same order
        of error as two passes; what E[x^2] - E[x]^2 loses grows with (mean / deviation)^2 (Chan, Golub and LeVeque,
        Algorithms for computing the sample variance, The American Statistician 37(3), 1983).
        """
        return 16.0 * UNIT + sum_error(dims["N"])

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Iterator[Mutation]:
        """Yield zeros, 5 % too much, b, w or the mean left out, columns passed on, a tail left out of the mean, the
        variance over N - 1; and where the inputs show it: NaN passed over, the variance as E[x^2] - E[x]^2 in float32.
        """
        import torch

        y, x, b = reference["y"], inputs["x"], inputs["b"].double()
        columns, eps = dims["N"], float(cls.scalar("eps"))
        yield Mutation("zeros", {"y": torch.zeros_like(y)})
        yield Mutation("5 % scale", {"y": y * 1.05})
        yield Mutation("b left out", {"y": y - b})
        if columns > 1:
            unweighted = {**inputs, "w": torch.ones_like(inputs["w"])}
            yield Mutation("w left out", cls.reference(unweighted, dims, options))
            yield Mutation("shuffled", {"y": torch.roll(y, 1, dims=1)})
        centred, inverse, size = cls._parts(inputs)
        scale = inverse * inputs["w"].double()
        if columns >= LEAST_FOR_TAIL:
            mean = x.double().mean(dim=1, keepdim=True)
            yield Mutation("mean not subtracted", {"y": y + mean * scale})
            tail = x[:, -(columns // TAIL_PART) :].double().sum(dim=1, keepdim=True) / columns
            yield Mutation("tail left out of the mean", {"y": y + tail * scale})
        if x.dtype == torch.float32 and 1 < columns <= _MOST_FOR_BESSEL and bool((size < 2.0).any()):
            variance = centred.square().sum(dim=1, keepdim=True) / (columns - 1)
            yield Mutation("variance over N - 1", {"y": (y - b) / inverse * (variance + eps).rsqrt() + b})
        if bool(torch.isnan(y).any()):
            yield Mutation("NaN passed over", {"y": torch.nan_to_num(y, nan=0.0)})
        if x.dtype == torch.float32 and columns > 1 and bool((size * inverse > _CANCELS).any()):
            mean32 = x.mean(dim=1, keepdim=True)
            variance = (x.square().mean(dim=1, keepdim=True) - mean32.square()).double()
            cancelled = centred * (variance + eps).rsqrt() * inputs["w"].double() + b
            yield Mutation("variance as E[x^2] - E[x]^2", {"y": cancelled})
