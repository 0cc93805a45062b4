"""What a problem is: a class of literals and pure functions that says what the kernels compute and how they are judged.

The literals (``name``, ``dims``, ``options``, ``dtypes``, ``args``) can be read from the file's syntax tree without
running it. The functions import torch only when called, in the worker process; ``flops`` and ``min_bytes`` are exact
integers and need nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import torch

Tensors = dict[str, "torch.Tensor"]

#: Bytes of one element by torch dtype name.
DTYPE_BYTES: dict[str, int] = {
    "float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Arg:
    """A tensor argument: its name, its shape in dims (``"M K"``, or one per option value as ``{"layout=nt": "N K"}``),
    and its torch dtype (one name, or one per contract). Row-major, contiguous.
    """

    name: str
    shape: str | Mapping[str, str]
    dtype: str | Mapping[str, str] = ""

    def shape_in(self, options: Mapping[str, str]) -> str:
        """Return the shape's text under these options."""
        if isinstance(self.shape, str):
            return self.shape
        for choice, shape in self.shape.items():
            key, _, value = choice.partition("=")
            if options.get(key) == value:
                return shape
        raise KeyError(f"{self.name}: no shape for options {dict(options)}")

    def dtype_in(self, contract: str) -> str:
        """Return the torch dtype name under a contract."""
        return self.dtype if isinstance(self.dtype, str) else self.dtype[contract]

    def extents(self, dims: Mapping[str, int], options: Mapping[str, str]) -> tuple[int, ...]:
        """Return the shape in numbers."""
        return tuple(dims[part] if part in dims else int(part) for part in self.shape_in(options).split())


class In(Arg):
    """A tensor that is only read."""


class Out(Arg):
    """A tensor that is written; poisoned and guarded before every checked launch."""


class InOut(Arg):
    """A tensor that is read and written; restored before each launch, outside the timed window."""


@dataclass(frozen=True)
class Scalar:
    """A scalar argument: its name, its C type, and its value (one, or one per contract)."""

    name: str
    ctype: str
    value: float | int | Mapping[str, float | int]


@dataclass(frozen=True)
class Mutation:
    """A wrong answer that the check must refuse: its name and the mutated outputs (float64)."""

    name: str
    outputs: Tensors


class Problem:
    """Base class. Subclasses fill in the literals and the functions below; all are static or class level."""

    name: ClassVar[str] = ""
    dims: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {}  #: option -> allowed values, the first is the default
    dtypes: ClassVar[tuple[str, ...]] = ()  #: the contracts it is defined for
    args: ClassVar[tuple[Arg | Scalar, ...]] = ()
    distributions: ClassVar[tuple[str, ...]] = (
        "normal",
        "uniform",
    )  #: what ``init.distribution`` may be; default first
    #: What every size must satisfy, such as ``("K <= N",)``, in the language of a variant's ``requires``.
    requires: ClassVar[tuple[str, ...]] = ()
    #: Whether references may hold NaN and infinities, which an output must then match (NaN with NaN, sign by sign).
    nonfinite: ClassVar[bool] = False

    @classmethod
    def tensors(cls, kind: type[Arg] = Arg) -> list[Arg]:
        """Return the tensor arguments of a kind, in order."""
        return [arg for arg in cls.args if isinstance(arg, kind)]

    @classmethod
    def outputs(cls) -> list[Arg]:
        """Return the tensor arguments that are judged: Out and InOut, in order."""
        return [arg for arg in cls.args if isinstance(arg, Out | InOut)]

    @classmethod
    def scalar(cls, name: str, contract: str = "") -> float | int:
        """Return the value of a scalar argument, under a contract where it has one for each."""
        for arg in cls.args:
            if isinstance(arg, Scalar) and arg.name == name:
                return arg.value[contract] if isinstance(arg.value, Mapping) else arg.value
        raise KeyError(f"{cls.__name__} has no scalar {name!r}")

    @classmethod
    def distribution(cls, init: Mapping[str, Any]) -> str:
        """Return the distribution that ``init`` names, the first where it names none; ``ValueError`` for another's."""
        named = str(init.get("distribution", cls.distributions[0]))
        if named not in cls.distributions:
            raise ValueError(f"{cls.name} has no distribution {named!r}")
        return named

    @classmethod
    def flops(cls, dims: Mapping[str, int]) -> int | None:
        """Return the floating-point operations of one launch, exactly; None when the problem counts none."""
        return None

    @classmethod
    def min_bytes(cls, dims: Mapping[str, int], contract: str, options: Mapping[str, str]) -> int:
        """Return the least bytes that must move: each input read once, each output written once."""
        return sum(cls.traffic(dims, contract, options))

    @classmethod
    def traffic(cls, dims: Mapping[str, int], contract: str, options: Mapping[str, str]) -> tuple[int, int]:
        """Return the least bytes read and the least bytes written: each input once, each output once."""
        read = written = 0
        for arg in cls.tensors():
            size = math.prod(arg.extents(dims, options)) * DTYPE_BYTES[arg.dtype_in(contract)]
            read += size if isinstance(arg, In | InOut) else 0
            written += size if isinstance(arg, Out | InOut) else 0
        return read, written

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
        """Return the In and InOut tensors for a seed, by name."""
        raise NotImplementedError

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return the Out and InOut tensors in float64, by name."""
        raise NotImplementedError

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return, per output, the float64 scale that its error is measured against (for a product, ``|A| |B|``)."""
        raise NotImplementedError

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float | Mapping[str, float]:
        """Return the largest error, relative to the magnitude and beyond the output's own rounding, that passes: one
        number for all outputs, or one for each by name.
        """
        raise NotImplementedError

    @classmethod
    def canonical(cls, outputs: Tensors, inputs: Tensors) -> Tensors:
        """Return outputs in the form that is compared with the reference: themselves, by default.

        For outputs of which several are right: indices, say, become the values that they point to. The shapes stay.
        """
        return outputs

    @classmethod
    def predictions(cls, params: Mapping[str, Any]) -> Mapping[str, float]:
        """Return what a variant's parameters say in advance of its counters, by metric name; nothing by default.

        The report shows each beside what was counted.
        """
        return {}

    @classmethod
    def tolerances(cls, dims: Mapping[str, int], contract: str) -> dict[str, float]:
        """Return the tolerance of each output, whichever way the problem gives it."""
        given = cls.tolerance(dims, contract)
        if not isinstance(given, Mapping):
            return {arg.name: float(given) for arg in cls.outputs()}
        return {name: float(value) for name, value in given.items()}

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Iterable[Mutation]:
        """Return wrong answers that the check must refuse; a generator makes large ones one at a time."""
        raise NotImplementedError
