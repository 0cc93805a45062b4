"""y = x, after STEPS multiplications by one: the problem of ``scripts/noise_check.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from profiler.problem import Arg, In, Mutation, Out, Problem, Scalar, Tensors


class Delay(Problem):
    """y[N] = x[N]; how long that takes is a dim."""

    name: ClassVar[str] = "delay"
    dims: ClassVar[tuple[str, ...]] = ("N", "STEPS")
    dtypes: ClassVar[tuple[str, ...]] = ("fp32",)
    args: ClassVar[tuple[Arg | Scalar, ...]] = (
        In("x", "N", "float32"),
        Out("y", "N", "float32"),
        Scalar("one", "float", 1.0),
        Scalar("zero", "float", 0.0),
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
        """Return standard normal x."""
        import torch

        generator = torch.Generator(device=device).manual_seed(seed)
        return {"x": torch.randn(dims["N"], generator=generator, device=device)}

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return x: multiplying by one and adding zero is exact."""
        return {"y": inputs["x"].double()}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return |x|."""
        return {"y": inputs["x"].double().abs()}

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
        """Return one rounding, although none happens."""
        return 2.0**-24

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Sequence[Mutation]:
        """Return zeros, one that is 5 % too large, and a shuffled one."""
        y = reference["y"]
        return [
            Mutation("zeros", {"y": y * 0}),
            Mutation("5 % scale", {"y": y * 1.05}),
            Mutation("shuffled", {"y": y.roll(1)}),
        ]
