"""Cases: inputs, float64 reference, scale and tolerances of one (contract, size, seed), kept while memory allows.

Before a case judges anybody, it is judged itself: a check that zeros, a missing K tile, a 5 % scale or a shuffled
result would pass is refused, and so is a problem whose functions leave an output out or return another shape
(``WeakCheck``).
"""

from __future__ import annotations

import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from profiler.judge import judge
from profiler.problem import Arg, In, InOut, Out, Problem
from profiler.worker.buffers import FLOAT_POISON, INTEGER_POISON

_KEPT = 6
_T = TypeVar("_T")


class WeakCheck(Exception):
    """The check would let a wrong answer pass, or cannot be made at all; nothing is verified with it."""


@dataclass
class Case:
    """One set of inputs with everything needed to judge outputs."""

    inputs: dict[str, torch.Tensor]
    reference: dict[str, torch.Tensor] = field(default_factory=dict)
    magnitude: dict[str, torch.Tensor] = field(default_factory=dict)
    tolerances: dict[str, float] = field(default_factory=dict)  #: by output
    baseline_errors: dict[str, float] | None = None  #: by output; None before the baseline was judged
    baseline_outputs: dict[str, torch.Tensor] | None = field(default=None, repr=False)
    poisons: tuple[int, ...] = FLOAT_POISON  #: byte patterns of floating-point outputs before a checked launch
    nan_matches: bool = False  #: where the reference is NaN, NaN is right

    def baseline_error(self, output: str) -> float | None:
        """Return the baseline's error in an output; None when it is not known."""
        return (self.baseline_errors or {}).get(output)


class Cases:
    """Makes cases for a problem and keeps the last few."""

    def __init__(
        self,
        problem: type[Problem],
        options: Mapping[str, str],
        init: Mapping[str, Any],
        device: str = "cuda",
        kept: int = _KEPT,
    ) -> None:
        self._problem = problem
        self._options = dict(options)
        self._init = dict(init)
        self._device = device
        self._kept = kept
        self._made: OrderedDict[tuple[object, ...], Case] = OrderedDict()

    def get(self, contract: str, dims: Mapping[str, int], seed: int, distribution: str = "") -> Case:
        """Return a case, from memory or made; raises ``WeakCheck``. The others give way where memory is short.

        ``distribution``: another than the experiment's.
        """
        key = (contract, tuple(dims.items()), seed, distribution)
        if key in self._made:
            self._made.move_to_end(key)
            return self._made[key]
        while len(self._made) >= self._kept:
            self._made.popitem(last=False)
        case: Case | None = None
        while case is None:
            try:
                case = self._make(contract, dims, seed, distribution)
            except torch.OutOfMemoryError:
                if not self._made:
                    raise
            if case is None:  # not in the handler: the error holds what the failed attempt had made
                self.clear()
        self._made[key] = case
        return case

    def keep_newest(self) -> bool:
        """Forget all cases but the last; return whether there was another."""
        others = list(self._made)[:-1]
        for key in others:
            del self._made[key]
        torch.cuda.empty_cache()
        return bool(others)

    def clear(self) -> None:
        """Forget all cases, and give their memory back: a variant may want it from the driver."""
        self._made.clear()
        torch.cuda.empty_cache()

    def _make(self, contract: str, dims: Mapping[str, int], seed: int, distribution: str) -> Case:
        problem, options = self._problem, self._options
        init = {**self._init, "distribution": distribution} if distribution else self._init
        case = Case(make_inputs(problem, dims, contract, options, init, seed, self._device))
        outputs = problem.outputs()
        case.reference = dict(_called(problem, "reference", lambda: problem.reference(case.inputs, dims, options)))
        case.magnitude = dict(_called(problem, "magnitude", lambda: problem.magnitude(case.inputs, dims, options)))
        for what, values in (("reference", case.reference), ("magnitude", case.magnitude)):
            _expect(problem, what, values, outputs, dims, options, lambda arg: torch.float64)
        case.tolerances = _called(problem, "tolerance", lambda: problem.tolerances(dims, contract))
        missing = [arg.name for arg in outputs if arg.name not in case.tolerances]
        if missing:
            raise WeakCheck(f"{problem.__name__}.tolerance gives none for {', '.join(missing)}")
        for name, values in case.reference.items():
            if not problem.nonfinite and not bool(torch.isfinite(values).all()):
                raise WeakCheck(f"the reference of {name} is not finite for these inputs; choose another `init`")
            if problem.nonfinite and bool(torch.isnan(values).any()):
                # An output that was never written must not pass for one that is rightly NaN.
                case.nan_matches, case.poisons = True, INTEGER_POISON
        mutations = _called(
            problem, "mutations", lambda: iter(problem.mutations(case.inputs, case.reference, dims, options))
        )
        while (mutation := _called(problem, "mutations", lambda: next(mutations, None))) is not None:
            _expect(problem, f"mutations ({mutation.name})", mutation.outputs, outputs, dims, options, None)
            if _all_pass(problem, case, mutation.outputs, contract):
                raise WeakCheck(f"the check is too weak at this size: {mutation.name} would pass")
        return case


def make_inputs(
    problem: type[Problem],
    dims: Mapping[str, int],
    contract: str,
    options: Mapping[str, str],
    init: Mapping[str, Any],
    seed: int,
    device: str,
) -> dict[str, torch.Tensor]:
    """Return the problem's In and InOut tensors, of the declared shapes and types; raises ``WeakCheck``."""
    made = _called(problem, "inputs", lambda: problem.inputs(dims, contract, options, init, seed, device))
    wanted = [arg for arg in problem.tensors() if isinstance(arg, In | InOut)]
    _expect(problem, "inputs", made, wanted, dims, options, lambda arg: torch_dtype(arg, contract))
    return {name: tensor.contiguous() for name, tensor in made.items()}


def torch_dtype(arg: Arg, contract: str) -> torch.dtype:
    """Return the torch dtype of an argument under a contract."""
    dtype = getattr(torch, arg.dtype_in(contract))
    assert isinstance(dtype, torch.dtype)
    return dtype


def output_dtype(problem: type[Problem], name: str, contract: str) -> torch.dtype:
    """Return the torch dtype of an output under a contract."""
    for arg in problem.tensors():
        if arg.name == name and isinstance(arg, Out | InOut):
            return torch_dtype(arg, contract)
    raise KeyError(name)


def canonical(
    problem: type[Problem], case: Case, outputs: Mapping[str, torch.Tensor]
) -> Mapping[str, torch.Tensor]:  # fmt: skip
    """Return outputs of the declared types in the form that is compared; raises ``WeakCheck`` where a shape changes."""
    found = _called(problem, "canonical", lambda: problem.canonical(dict(outputs), case.inputs))
    for name, output in outputs.items():
        if name not in found or found[name].shape != output.shape:
            raise WeakCheck(f"{problem.__name__}.canonical must return {name} in its shape {tuple(output.shape)}")
    return found


def _all_pass(problem: type[Problem], case: Case, mutated: Mapping[str, torch.Tensor], contract: str) -> bool:
    dtypes = {name: output_dtype(problem, name, contract) for name in case.reference}
    typed = {}
    for name, dtype in dtypes.items():
        output = mutated[name]
        if dtype.is_floating_point and dtype.itemsize == 1:
            output = output.to(torch.float32)  # 8-bit floats are converted from there on every device
        typed[name] = output.to(dtype)
    compared = canonical(problem, case, typed)
    return all(
        judge(
            compared[name], case.reference[name], case.magnitude[name], case.tolerances[name], dtype,
            nan_matches=case.nan_matches,
        ).ok
        for name, dtype in dtypes.items()
    )  # fmt: skip


def _called(problem: type[Problem], function: str, call: Callable[[], _T]) -> _T:
    """Return what a function of the problem returns; what it raises is the problem's fault, not a variant's."""
    try:
        return call()
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        if "CUDA error" in str(error):
            raise  # the context is lost
        frames = traceback.extract_tb(error.__traceback__)
        place = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
        said = str(error).strip().splitlines()
        text = f"{problem.__name__}.{function} raises {type(error).__name__}: {said[0] if said else ''}{place}"
        raise WeakCheck(text) from error


def _expect(
    problem: type[Problem],
    function: str,
    given: Mapping[str, torch.Tensor],
    wanted: Iterable[Arg],
    dims: Mapping[str, int],
    options: Mapping[str, str],
    dtype: Callable[[Arg], torch.dtype] | None,
) -> None:
    """Raise ``WeakCheck`` unless every tensor is there in its shape (and type) and no other is."""
    listed = {arg.name: arg for arg in wanted}
    where = f"{problem.__name__}.{function}"
    for name in given:
        if name not in listed:
            raise WeakCheck(f"{where} returns {name!r}; expected {', '.join(listed)}")
    for name, arg in listed.items():
        if name not in given:
            raise WeakCheck(f"{where} leaves {name} out")
        shape = arg.extents(dims, options)
        if tuple(given[name].shape) != shape:
            raise WeakCheck(f"{where}: {name} has the shape {tuple(given[name].shape)}, not {shape}")
        if dtype is not None and given[name].dtype != dtype(arg):
            raise WeakCheck(f"{where}: {name} is {given[name].dtype}, not {dtype(arg)}")
