"""Reductions: the sum or the maximum of each row of a matrix; one row is a whole array."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from profiler.problem import Arg, In, Mutation, Out, Problem, Scalar, Tensors

if TYPE_CHECKING:
    import torch

_LAMBDA = 8.0
_UNIT = 2.0**-24
#: Additions beyond the tree that every kernel has: of a vector's lanes, of an accumulator into the next.
_EXTRA_DEPTH = 4
#: Elements that are taken to float64 at a time: a matrix of 4 GiB would take 8 GiB more.
_CHUNK = 1 << 26
#: The tail that a mutation leaves out is this part of a row, or one element.
_TAIL = 64


class _Reduce(Problem):
    """What both have: y[m] over x[m, :]."""

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
        """Return x in float32, as the class says for each distribution."""
        import torch

        distribution = cls.distribution(init)
        generator = torch.Generator(device=device).manual_seed(seed)
        shape = (dims["M"], dims["N"])
        if distribution == "uniform":
            return {"x": torch.rand(shape, generator=generator, device=device, dtype=torch.float32)}
        x = torch.randn(shape, generator=generator, device=device, dtype=torch.float32)
        cls._shape(x, distribution, generator)
        return {"x": x}

    @classmethod
    def _shape(cls, x: torch.Tensor, distribution: str, generator: torch.Generator) -> None:
        """Turn standard normal values into those of a distribution, in place."""
        raise NotImplementedError

    @classmethod
    def _scatter(cls, x: torch.Tensor, value: float, generator: torch.Generator, first: int = 0) -> None:
        """Put a value at a random place of every second row from ``first`` on."""
        import torch

        rows = torch.arange(first, x.shape[0], 2, device=x.device)
        columns = torch.randint(x.shape[1], (len(rows),), generator=generator, device=x.device)
        x[rows, columns] = value


class ReduceSum(_Reduce):
    """y[m] = sum over n of x[m, n], in FP32.

    Inputs: ``normal`` has mean 1 and standard deviation 1, ``uniform`` lies in [0, 1): the sum is of the order of its
    terms, so that an error in it is seen. ``with_nan``: normal, with a NaN in every second row; ``with_infinity``: +inf
    in every second row, and -inf, too, in every fourth, which makes it NaN.
    """

    name: ClassVar[str] = "reduce"
    dims: ClassVar[tuple[str, ...]] = ("M", "N")
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {"op": ("sum",)}
    dtypes: ClassVar[tuple[str, ...]] = ("fp32",)
    distributions: ClassVar[tuple[str, ...]] = ("normal", "uniform", "with_nan", "with_infinity")
    args: ClassVar[tuple[Arg | Scalar, ...]] = (In("x", "M N", "float32"), Out("y", "M", "float32"))
    nonfinite: ClassVar[bool] = True

    @classmethod
    def _shape(cls, x: torch.Tensor, distribution: str, generator: torch.Generator) -> None:
        x.add_(1.0)
        if distribution == "with_nan":
            cls._scatter(x, math.nan, generator)
        if distribution == "with_infinity":
            cls._scatter(x, math.inf, generator)
            cls._scatter(x[::2], -math.inf, generator, first=1)

    @classmethod
    def _sums(cls, x: torch.Tensor, *, absolute: bool = False) -> torch.Tensor:
        """Return the float64 sum of each row, a piece at a time."""
        import torch

        total = torch.zeros(x.shape[0], dtype=torch.float64, device=x.device)
        rows = max(1, _CHUNK // x.shape[1])
        for top in range(0, x.shape[0], rows):
            for left in range(0, x.shape[1], _CHUNK):
                piece = x[top : top + rows, left : left + _CHUNK].double()
                total[top : top + rows] += (piece.abs_() if absolute else piece).sum(dim=1)
        return total

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return y in float64."""
        return {"y": cls._sums(inputs["x"])}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return the sum of |x| over each row."""
        return {"y": cls._sums(inputs["x"], absolute=True)}

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
        """Return lambda sqrt(h) u with lambda = 8, u = 2^-24 and h = log2 N + 4, relative to sum |x|.

        An element passes through h additions; with independent roundings the error stays below lambda sqrt(h) u sum |x|
        (Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, SIAM Journal on Scientific Computing
        41(5), 2019; h = log2 N for pairwise sums: Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
        P accumulators that take c = N / P elements each, one after another, and are then added in a tree, keep it as
        well while c <= P: for like terms their chains add a relative variance of u^2 c / (3 P), next to a tree's 2 u^2.
        One accumulator for a whole long row (P = 1) has an error that grows with sqrt(N), and is refused now and then
        from N = 10^4 on, mostly from 10^6 on: that is a worse answer than any library gives.
        """
        return _LAMBDA * math.sqrt(math.log2(max(2, dims["N"])) + _EXTRA_DEPTH) * _UNIT

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Iterable[Mutation]:
        """Yield zeros; where there are finite sums: the last 64th of each row left out or taken twice, twice the sum
        (an output that was not cleared), 5 % too much, rows passed on; where there are others: those as finite.
        """
        import torch

        y, x = reference["y"], inputs["x"]
        yield Mutation("zeros", {"y": torch.zeros_like(y)})
        finite = torch.isfinite(y)
        if bool(finite.any()):
            tail = cls._sums(x[:, -max(1, dims["N"] // _TAIL) :])
            yield Mutation("tail missing", {"y": y - tail})
            yield Mutation("tail twice", {"y": y + tail})
            yield Mutation("twice", {"y": y * 2.0})
            yield Mutation("5 % scale", {"y": y * 1.05})
            if dims["M"] > 1:
                yield Mutation("shuffled", {"y": torch.roll(y, 1)})
        if not bool(finite.all()):
            yield Mutation("NaN passed over", {"y": torch.where(finite, y, 1.0)})


class ReduceMax(_Reduce):
    """y[m] = max over n of x[m, n]; NaN where the row has one, as ``torch.amax`` does.

    Inputs: ``normal``; ``uniform`` in [0, 1); ``negative``: all values at most -1, so that a kernel which starts from 0
    is found; ``with_nan``: a NaN in every second row; ``with_infinity``: +inf in every second row.
    """

    name: ClassVar[str] = "reduce"
    dims: ClassVar[tuple[str, ...]] = ("M", "N")
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {"op": ("max",)}
    dtypes: ClassVar[tuple[str, ...]] = ("fp32",)
    distributions: ClassVar[tuple[str, ...]] = ("normal", "uniform", "negative", "with_nan", "with_infinity")
    args: ClassVar[tuple[Arg | Scalar, ...]] = (In("x", "M N", "float32"), Out("y", "M", "float32"))
    nonfinite: ClassVar[bool] = True

    @classmethod
    def _shape(cls, x: torch.Tensor, distribution: str, generator: torch.Generator) -> None:
        if distribution == "negative":
            x.abs_().add_(1.0).neg_()
        if distribution == "with_nan":
            cls._scatter(x, math.nan, generator)
        if distribution == "with_infinity":
            cls._scatter(x, math.inf, generator)

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return y in float64: exact, as it is one of the inputs."""
        return {"y": inputs["x"].amax(dim=1).double()}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return ones: nothing is rounded, any difference is an error."""
        import torch

        return {"y": torch.ones(dims["M"], dtype=torch.float64, device=inputs["x"].device)}

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
        """Return 0: a maximum is one of the inputs, bit for bit (zeros of either sign are equal)."""
        return 0.0

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Iterator[Mutation]:
        """Yield zeros, the least instead of the greatest, the greatest element missed, 5 % too much, rows passed on,
        and NaN passed over as ``fmaxf`` does; each only where it is another answer.
        """
        import torch

        y, x = reference["y"], inputs["x"]
        places = x.argmax(dim=1, keepdim=True)
        kept = x.gather(1, places)
        x.scatter_(1, places, -math.inf)
        missed = x.amax(dim=1).double()
        x.scatter_(1, places, kept)
        found = {
            "zeros": torch.zeros_like(y),
            "minimum": x.amin(dim=1).double(),
            "greatest element missed": missed,
            "5 % scale": y * 1.05,
            "shuffled": torch.roll(y, 1),
            "NaN passed over": torch.where(torch.isnan(y), missed, y),
        }
        for name, wrong in found.items():
            same = (wrong == y) | (torch.isnan(wrong) & torch.isnan(y))
            if not bool(same.all()):
                yield Mutation(name, {"y": wrong})
