"""TopK: the K largest values of each row, in descending order, and where they stand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from profiler.problem import Arg, In, Mutation, Out, Problem, Scalar, Tensors

if TYPE_CHECKING:
    import torch

#: What an index that cannot be right stands for: a float64 beyond every float32, so that it never passes.
_NO_VALUE = 1e300
_SPECIAL = (math.inf, -math.inf, math.nan, 0.0, -0.0, 1.0)
#: Every so many elements of the special inputs is one of `_SPECIAL`, in turn.
_SPECIAL_PERIOD = 37


class TopK(Problem):
    """values[b, :] are the K largest of x[b, :], largest first; x[b, indices[b, k]] is values[b, k].

    As ``torch.topk(sorted=True)``: NaN is larger than any number. Which of several equal elements is named is left
    open: the values must be right, and the indices must be distinct and point to them.
    """

    name: ClassVar[str] = "topk"
    dims: ClassVar[tuple[str, ...]] = ("B", "N", "K")
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    dtypes: ClassVar[tuple[str, ...]] = ("fp32",)
    distributions: ClassVar[tuple[str, ...]] = (
        "normal", "uniform", "ties", "special", "equal", "nan", "ascending", "descending",
    )  # fmt: skip
    args: ClassVar[tuple[Arg | Scalar, ...]] = (
        In("x", "B N", "float32"),
        Out("values", "B K", "float32"),
        Out("indices", "B K", "int64"),
    )
    requires: ClassVar[tuple[str, ...]] = ("K <= N",)
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
        """Return x: standard normal; uniform in [-1, 1); ``ties``: whole numbers from -2 to 2; ``special``: normal with
        NaN, infinities and both zeros among them; all ``equal``; all ``nan``; rows ``ascending`` or ``descending``.
        """
        import torch

        distribution = cls.distribution(init)
        generator = torch.Generator(device=device).manual_seed(seed)
        x = torch.empty(dims["B"], dims["N"], dtype=torch.float32, device=device)
        if distribution in ("equal", "nan"):
            return {"x": x.fill_(math.nan if distribution == "nan" else 0.25)}
        if distribution == "uniform":
            return {"x": x.uniform_(-1.0, 1.0, generator=generator)}
        x.normal_(generator=generator)
        if distribution == "ties":
            x.round_().clamp_(-2.0, 2.0)
        if distribution == "special":
            flat = x.view(-1)
            for offset, value in enumerate(_SPECIAL):
                flat[offset * _SPECIAL_PERIOD :: len(_SPECIAL) * _SPECIAL_PERIOD] = value
        if distribution in ("ascending", "descending"):
            x = torch.sort(x, dim=1, descending=distribution == "descending").values
        return {"x": x}

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return the K largest values in float64, which holds every float32: what ``indices`` point to, too."""
        import torch

        top = torch.sort(inputs["x"], dim=1, descending=True).values[:, : dims["K"]].double()
        return {"values": top, "indices": top}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return 1 for each output: they are exact, so that any difference is too much."""
        import torch

        ones = torch.ones(dims["B"], dims["K"], dtype=torch.float64, device=inputs["x"].device)
        return {"values": ones, "indices": ones}

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
        """Return 0: a selection has no rounding."""
        return 0.0

    @classmethod
    def canonical(cls, outputs: Tensors, inputs: Tensors) -> Tensors:
        """Return the values as they are, and for each index the value of x that it points to; for one outside of the
        row, or named a second time, a number that is never right.
        """
        import torch

        x, indices = inputs["x"], outputs["indices"]
        inside = (indices >= 0) & (indices < x.shape[1])
        named = torch.gather(x, 1, torch.where(inside, indices, 0)).double()
        order = torch.sort(indices, dim=1)
        again = torch.zeros_like(inside)
        again[:, 1:] = order.values[:, 1:] == order.values[:, :-1]
        repeated = torch.zeros_like(inside).scatter_(1, order.indices, again)
        return {**outputs, "indices": torch.where(inside & ~repeated, named, _NO_VALUE)}

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Iterator[Mutation]:
        """Yield what a wrong selection leaves: an index too far, an index twice, values that the indices do not point
        to, ascending order, the largest one missing, NaN taken for the smallest.
        """
        import torch

        top, count = reference["values"], dims["K"]
        indices = torch.argsort(inputs["x"], dim=1, descending=True)[:, :count]
        yield Mutation("an index outside of the row", _both(top, indices + dims["N"]))
        if count > 1:
            twice = indices.clone()
            twice[:, -1] = twice[:, 0]
            yield Mutation("an index twice", _both(top, twice))
        below = torch.nextafter(top.float(), torch.tensor(-math.inf, device=top.device)).double()
        below[~(top > -math.inf)] = 0.0  # NaN, and what has nothing below it
        yield Mutation("values a little too small", _both(below, indices))
        if not _same(top, top.flip(1)):
            yield Mutation("smallest first", _both(top.flip(1), indices.flip(1)))
        if dims["N"] > count:
            ahead = torch.argsort(inputs["x"], dim=1, descending=True)[:, 1 : count + 1]
            without = torch.gather(inputs["x"], 1, ahead).double()
            if not _same(without, top):
                yield Mutation("the largest missing", _both(without, ahead))
        if bool(torch.isnan(top).any()):
            low = torch.where(torch.isnan(inputs["x"]), -math.inf, inputs["x"])
            picked = torch.argsort(low, dim=1, descending=True, stable=True)[:, :count]
            values = torch.gather(inputs["x"], 1, picked).double()
            if not _same(values, top):
                yield Mutation("NaN taken for the smallest", _both(values, picked))


def _both(values: torch.Tensor, indices: torch.Tensor) -> Tensors:
    return {"values": values, "indices": indices.double()}


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    import torch

    return bool(((a == b) | (torch.isnan(a) & torch.isnan(b))).all())
