"""Transposition of a matrix out of place: B = A^T, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from profiler.problem import Arg, In, Mutation, Out, Problem, Scalar, Tensors

_TILE = 32


class Transpose(Problem):
    """B[n, m] = A[m, n]; A is M x N, B is N x M, both row-major."""

    name: ClassVar[str] = "transpose"
    dims: ClassVar[tuple[str, ...]] = ("M", "N")
    dtypes: ClassVar[tuple[str, ...]] = ("fp32",)
    distributions: ClassVar[tuple[str, ...]] = ("normal", "uniform", "with_nan")
    args: ClassVar[tuple[Arg | Scalar, ...]] = (In("A", "M N", "float32"), Out("B", "N M", "float32"))
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
        """Return A: standard normal, uniform in [0, 1), or normal with NaN in every 101st place."""
        import torch

        distribution = cls.distribution(init)
        generator = torch.Generator(device=device).manual_seed(seed)
        made = torch.rand if distribution == "uniform" else torch.randn
        a = made((dims["M"], dims["N"]), generator=generator, device=device, dtype=torch.float32)
        if distribution == "with_nan":
            a.view(-1)[50::101] = float("nan")
        return {"A": a}

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return A^T in float64 (a view of A in float64: no second copy)."""
        return {"B": inputs["A"].double().T}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return ones, one of them for all places: nothing is rounded, any difference is an error."""
        import torch

        return {"B": torch.ones((), dtype=torch.float64, device=inputs["A"].device).expand(dims["N"], dims["M"])}

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
        """Return 0: every element is a copy."""
        return 0.0

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Iterator[Mutation]:
        """Yield zeros, 5 % too much, A as it lies in memory, one row down, the last tile missing, and the last element
        missing; float32, one at a time, and only where they are other answers.
        """
        import torch

        a = inputs["A"]
        b = a.T
        yield Mutation("zeros", {"B": torch.zeros((), device=a.device).expand(dims["N"], dims["M"])})
        yield Mutation("5 % scale", {"B": b * 1.05})
        if min(dims["M"], dims["N"]) > 1:
            yield Mutation("not transposed", {"B": a.reshape(dims["N"], dims["M"])})
        if dims["N"] > 1:
            yield Mutation("one row down", {"B": torch.roll(b, 1, dims=0)})
        for name, extent in (("last tile missing", _TILE), ("last element missing", 1)):
            wrong = b.clone()
            wrong[-extent:, -extent:] = 0.0
            yield Mutation(name, {"B": wrong})
