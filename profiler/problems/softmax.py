"""Softmax of each row, in FP32 arithmetic, for FP32 and BF16 tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from profiler.problem import Arg, In, Mutation, Out, Problem, Scalar, Tensors
from profiler.problems.rows import LEAST_FOR_TAIL, TAIL_PART, UNIT, draw, put, sum_error

if TYPE_CHECKING:
    import torch

_KINDS = 8  #: of rows among the special inputs
_HUGE = 3.0e38  #: finite in float32 and in bfloat16; the difference of two is not
#: Far below every answer that counts; times the tolerance still above what float32 can hold (2^-126).
_TINY = 2.0**-100
#: z below which e^z is 0 in float64, too.
_DEEP = -1.0e4
_OVERFLOW = 89.0  #: e^89 is beyond float32


class Softmax(Problem):
    """y[t, n] = e^(x[t, n] - m) / sum over n of e^(x[t, n] - m), with m the largest value of row t.

    Inputs: ``normal``, ``uniform`` in [-1, 1], and ``special``, whose rows are by turns: normal; with one +inf; with
    one NaN; all -inf; -inf from the middle on, as a mask has it; -inf but for the last; 3e38 and -3e38, whose
    difference is infinite; normal times 1000. As PyTorch has it, a row with +inf or NaN is NaN, and so is one of -inf.
    """

    name: ClassVar[str] = "softmax"
    dims: ClassVar[tuple[str, ...]] = ("T", "N")
    dtypes: ClassVar[tuple[str, ...]] = ("fp32", "bf16")
    distributions: ClassVar[tuple[str, ...]] = ("normal", "uniform", "special")
    nonfinite: ClassVar[bool] = True
    args: ClassVar[tuple[Arg | Scalar, ...]] = (
        In("x", "T N", {"fp32": "float32", "bf16": "bfloat16"}),
        Out("y", "T N", {"fp32": "float32", "bf16": "bfloat16"}),
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
        """Return x, drawn in float32 and rounded to the contract's type."""
        import torch

        distribution = cls.distribution(init)
        generator = torch.Generator(device=device).manual_seed(seed)
        x = draw((dims["T"], dims["N"]), distribution, generator)
        if distribution == "special":
            put(x, 1, _KINDS, math.inf)
            put(x, 2, _KINDS, math.nan)
            x[3::_KINDS] = -math.inf
            x[4::_KINDS, (dims["N"] + 1) // 2 :] = -math.inf
            x[5::_KINDS, :-1] = -math.inf
            x[6::_KINDS] = x[6::_KINDS].sign() * _HUGE
            x[7::_KINDS] *= 1000.0
        return {"x": x if contract == "fp32" else x.to(torch.bfloat16)}

    @classmethod
    def _shifted(cls, inputs: Tensors) -> torch.Tensor:
        """Return z = x - m in float64, NaN where the answer is."""
        x = inputs["x"].double()
        return x.sub_(x.amax(dim=1, keepdim=True))

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return y in float64 from the exact values of x."""
        y = cls._shifted(inputs).exp_()
        return {"y": y.div_(y.sum(dim=1, keepdim=True))}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return y (1 + |x - m|) + 2^-100: an exponential is as exact, relative to itself, as its argument is
        absolutely.
        """
        z = cls._shifted(inputs)
        y = z.exp()
        y.div_(y.sum(dim=1, keepdim=True))
        return {"y": z.clamp_(min=_DEEP).abs_().add_(1.0).mul_(y).add_(_TINY)}

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
        """Return (20 + 3.4 ln N) u and what a float32 sum of N terms may be off, relative to y (1 + |x - m|); u is
        2^-24.

        e^z by __expf, or by ex2.approx of z log2 e, is within 2 + |1.173 z| ulp (CUDA C++ Programming Guide, intrinsic
        functions), which is (4 + 2.35 |z|) u; the subtraction before it adds |z| u. An element may be made of two such
        factors whose exponents add up to z: (8 + 3.35 |z|) u. The terms of the sum bring the same, weighted with y:
        the mean of |z| under these weights is the entropy of y less the logarithm of the sum, so at most ln N. Then
        come the sum's own roundings (`profiler.problems.rows.sum_error`), a reciprocal and two products. The
        dependence on |x - m| is that of Blanchard, Higham and Higham (Accurately computing the log-sum-exp and
        softmax functions, IMA Journal of Numerical Analysis 41(4), 2021). The rounding of a bfloat16 output comes on
        top, in `profiler.judge`.
        """
        return (20.0 + 3.4 * math.log(max(2, dims["N"]))) * UNIT + sum_error(dims["N"])

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Iterator[Mutation]:
        """Yield zeros, 5 % too much, columns passed on, a tail left out of the sum; and for special inputs: NaN
        passed over, -inf that turns a row into NaN, and e^x without the maximum.
        """
        import torch

        y, x = reference["y"], inputs["x"]
        yield Mutation("zeros", {"y": torch.zeros_like(y)})
        yield Mutation("5 % scale", {"y": y * 1.05})
        if dims["N"] > 1:
            yield Mutation("shuffled", {"y": torch.roll(y, 1, dims=1)})
        if dims["N"] >= LEAST_FOR_TAIL:
            kept = 1.0 - y[:, -(dims["N"] // TAIL_PART) :].sum(dim=1, keepdim=True)
            yield Mutation("tail left out of the sum", {"y": y / kept})
        if bool(torch.isnan(y).any()):
            yield Mutation("NaN passed over", {"y": torch.nan_to_num(y, nan=0.0)})
        masked = torch.isinf(x) & torch.isfinite(y)
        if bool(masked.any()):
            spoilt = masked.any(dim=1, keepdim=True)
            yield Mutation("-inf - -inf in a part of a row", {"y": torch.where(spoilt, math.nan, y)})
        if bool((torch.isfinite(y).all(dim=1) & (x.amax(dim=1) > _OVERFLOW)).any()):
            powers = x.float().exp()
            yield Mutation("maximum not subtracted", {"y": (powers / powers.sum(dim=1, keepdim=True)).double()})
