"""RMSNorm of each row, in FP32 arithmetic, for FP32 and BF16 tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from profiler.problem import Arg, In, Mutation, Out, Problem, Scalar, Tensors
from profiler.problems.rows import LEAST_FOR_TAIL, TAIL_PART, UNIT, draw, put, sum_error

if TYPE_CHECKING:
    import torch

_KINDS = 4  #: of rows among the special inputs
_TINY = 2.0**-100  #: far below every answer that counts


class RmsNorm(Problem):
    """y = x / sqrt(mean(x^2) + eps) w, with the mean over each row of x.

    Inputs: ``normal``; ``uniform`` in [-1, 1]; ``special``: rows that are by turns normal, with one +inf, with one NaN
    (NaN throughout), and of zeros. w lies around 1, as trained ones do.

    A row with an infinity is what the formula says (zeros, and NaN in its place), as PyTorch has it on a CPU, or NaN
    throughout, as PyTorch has it on a GPU (``torch.nn.functional.rms_norm`` of 2.11 on an H200): both are right.
    """

    name: ClassVar[str] = "rmsnorm"
    dims: ClassVar[tuple[str, ...]] = ("T", "N")
    dtypes: ClassVar[tuple[str, ...]] = ("fp32", "bf16")
    distributions: ClassVar[tuple[str, ...]] = ("normal", "uniform", "special")
    nonfinite: ClassVar[bool] = True
    args: ClassVar[tuple[Arg | Scalar, ...]] = (
        In("x", "T N", {"fp32": "float32", "bf16": "bfloat16"}),
        In("w", "N", {"fp32": "float32", "bf16": "bfloat16"}),
        Out("y", "T N", {"fp32": "float32", "bf16": "bfloat16"}),
        Scalar("eps", "float", 1e-6),
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
        """Return x and w, drawn in float32 and rounded to the contract's type."""
        import torch

        distribution = cls.distribution(init)
        generator = torch.Generator(device=device).manual_seed(seed)
        x = draw((dims["T"], dims["N"]), distribution, generator)
        if distribution == "special":
            put(x, 1, _KINDS, math.inf)
            put(x, 2, _KINDS, math.nan)
            x[3::_KINDS] = 0.0
        w = draw((dims["N"],), "normal", generator).mul_(0.25).add_(1.0)
        dtype = torch.float32 if contract == "fp32" else torch.bfloat16
        return {"x": x.to(dtype), "w": w.to(dtype)}

    @classmethod
    def _normal(cls, inputs: Tensors) -> torch.Tensor:
        """Return x / sqrt(mean(x^2) + eps) in float64."""
        x = inputs["x"].double()
        return x.mul_((x.square().mean(dim=1, keepdim=True) + float(cls.scalar("eps"))).rsqrt())

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return y in float64 from the exact values of the inputs."""
        return {"y": cls._normal(inputs).mul_(inputs["w"].double())}

    @classmethod
    def canonical(cls, outputs: Tensors, inputs: Tensors) -> Tensors:
        """Return y with rows that are NaN throughout as the formula has them, where x has an infinity and no NaN."""
        import torch

        x, y = inputs["x"], outputs["y"]
        open_rows = torch.isinf(x).any(dim=1) & ~torch.isnan(x).any(dim=1)
        if not bool(open_rows.any()):
            return outputs
        given_up = (open_rows & torch.isnan(y).all(dim=1)).unsqueeze(1)
        formula = torch.where(torch.isinf(x), math.nan, 0.0).to(y.dtype)
        return {**outputs, "y": torch.where(given_up, formula, y)}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return |y| + 2^-100: nothing here cancels."""
        return {"y": cls.reference(inputs, dims, options)["y"].abs_().add_(_TINY)}

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
        """Return 16 u and what a float32 sum of N terms may be off; u = 2^-24.

        The mean of the squares is off by the error of a sum of positive terms (`profiler.problems.rows.sum_error`)
        and their own rounding, its root by half of that; 1 / sqrt (rsqrt: 2 ulp, CUDA C++ Programming Guide) and two
        products round by less than 16 u together.
        """
        return 16.0 * UNIT + sum_error(dims["N"])

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Iterator[Mutation]:
        """Yield zeros, 5 % too much, w left out, columns passed on, a tail left out of the sum, the sum in place of
        the mean; and where the inputs show it: NaN passed over.
        """
        import torch

        y, x = reference["y"], inputs["x"]
        columns, eps = dims["N"], float(cls.scalar("eps"))
        yield Mutation("zeros", {"y": torch.zeros_like(y)})
        yield Mutation("5 % scale", {"y": y * 1.05})
        yield Mutation("w left out", {"y": cls._normal(inputs)})
        if columns > 1:
            yield Mutation("shuffled", {"y": torch.roll(y, 1, dims=1)})
            yield Mutation("sum in place of the mean", {"y": y / math.sqrt(columns)})
        if columns >= LEAST_FOR_TAIL:
            values = x.double()
            left = values[:, : columns - columns // TAIL_PART].square().sum(dim=1, keepdim=True) / columns
            yield Mutation("tail left out", {"y": values * (left + eps).rsqrt() * inputs["w"].double()})
        if bool(torch.isnan(y).any()):
            yield Mutation("NaN passed over", {"y": torch.nan_to_num(y, nan=0.0)})
