"""Residual add, RMSNorm and FP8 quantisation in one step, as it stands between two layers of a transformer.

For each token, a row of H elements:

    h = x + res                                 res becomes h (rounded to bfloat16)
    n = w h / sqrt(mean(h^2) + eps)             of h before it is rounded
    s = max(max |n|, 1e-10) / 448               448 is the largest e4m3 number
    y = n / s                                   rounded to e4m3

The literals are read without running this file; torch is imported by the functions that need it, in the worker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from profiler.problem import Arg, In, InOut, Mutation, Out, Problem, Scalar, Tensors

LARGEST = 448.0  # of float8_e4m3fn
LEAST_MAXIMUM = 1e-10  # a row of zeros has a scale, too
UNIT = 2.0**-24  # rounding of one float32 operation
LAMBDA = 8.0


class RmsNormQuant(Problem):
    """y, s = quantise(rmsnorm(res += x) w): two outputs, a tensor that is read and written, and a scalar."""

    name: ClassVar[str] = "rmsnorm_quant"
    dims: ClassVar[tuple[str, ...]] = ("T", "H")
    dtypes: ClassVar[tuple[str, ...]] = ("bf16->e4m3",)
    args: ClassVar[tuple[Arg | Scalar, ...]] = (
        In("x", "T H", "bfloat16"),
        InOut("res", "T H", "bfloat16"),
        In("w", "H", "bfloat16"),
        Out("y", "T H", "float8_e4m3fn"),
        Out("s", "T", "float32"),
        Scalar("eps", "float", 1e-6),
    )

    # flops is not defined: the work is moving bytes, so the ladder shows bytes a second. min_bytes is inherited:
    # each input read once, each output written once, InOut both: exact.

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
        """Return x and res (normal or uniform) and w (near 1, as trained weights are), all bfloat16."""
        import torch

        generator = torch.Generator(device=device).manual_seed(seed)

        def draw(*shape: int) -> torch.Tensor:
            if init.get("distribution", "normal") == "uniform":
                return torch.rand(shape, generator=generator, device=device).mul_(2.0).sub_(1.0)
            return torch.randn(shape, generator=generator, device=device)

        rows, columns = dims["T"], dims["H"]
        return {
            "x": draw(rows, columns).to(torch.bfloat16),
            "res": draw(rows, columns).to(torch.bfloat16),
            "w": draw(columns).mul_(0.25).add_(1.0).to(torch.bfloat16),
        }

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return res, y and s in float64; y is not rounded: the judge allows each output its own rounding."""
        h = inputs["x"].double() + inputs["res"].double()
        scale = (h.square().mean(dim=1, keepdim=True) + cls.scalar("eps")).rsqrt()
        n = h * scale * inputs["w"].double()
        s = n.abs().amax(dim=1).clamp(min=LEAST_MAXIMUM) / LARGEST
        return {"res": h, "y": n / s[:, None], "s": s}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return what each output's error is relative to: the outputs themselves. No sum here cancels: h is one
        addition, and the sum of squares has no signs.
        """
        return {name: values.abs() for name, values in cls.reference(inputs, dims, options).items()}

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> Mapping[str, float]:
        """Return a tolerance for each output, beyond its own rounding.

        res: one float32 addition. s: a float32 sum of H squares in any order (lambda sqrt(H) u, Higham and Mary 2019),
        at least 16 u for rsqrt and the products. y: the same for n and again for s.
        """
        norm = LAMBDA * math.sqrt(max(dims["H"], 4)) * UNIT
        return {"res": 4.0 * UNIT, "y": 2.0 * norm, "s": norm}

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Sequence[Mutation]:
        """Return what a wrong kernel would leave; each must be refused by the check, or nothing is verified."""
        import torch

        res, y, s = reference["res"], reference["y"], reference["s"]
        forgotten = cls.reference({**inputs, "res": torch.zeros_like(inputs["res"])}, dims, options)
        unweighted = cls.reference({**inputs, "w": torch.ones_like(inputs["w"])}, dims, options)
        found = [
            Mutation("zeros", {name: torch.zeros_like(values) for name, values in reference.items()}),
            Mutation("residual not added", {**forgotten, "res": inputs["res"].double()}),
            Mutation("residual not written", {**reference, "res": inputs["res"].double()}),
            Mutation("s 5 % too large", {**reference, "s": s * 1.05}),
            Mutation("y 5 % too small", {**reference, "y": y / 1.05}),
            Mutation("w left out", unweighted),
        ]
        if dims["T"] > 1:
            found.append(Mutation("rows shuffled", {"res": res.roll(1, 0), "y": y.roll(1, 0), "s": s.roll(1, 0)}))
        return found
