"""Cases: inputs, float64 reference, scale and tolerance of one (contract, size, seed), kept while memory allows.

Before a case judges anybody, it is judged itself: a check that zeros, a missing K tile, a 5 % scale or a shuffled
result would pass is refused (``WeakCheck``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from profiler.judge import judge
from profiler.problem import InOut, Out, Problem

_KEPT = 6


class WeakCheck(Exception):
    """The tolerance would let a wrong answer pass; nothing is verified with it."""


@dataclass
class Case:
    """One set of inputs with everything needed to judge outputs."""

    inputs: dict[str, torch.Tensor]
    reference: dict[str, torch.Tensor]
    magnitude: dict[str, torch.Tensor]
    tolerance: float
    baseline_error: float | None = None
    baseline_outputs: dict[str, torch.Tensor] | None = field(default=None, repr=False)


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
        self._made: OrderedDict[tuple[str, tuple[tuple[str, int], ...], int], Case] = OrderedDict()

    def get(self, contract: str, dims: Mapping[str, int], seed: int) -> Case:
        """Return a case, from memory or made; raises ``WeakCheck``."""
        key = (contract, tuple(dims.items()), seed)
        if key in self._made:
            self._made.move_to_end(key)
            return self._made[key]
        while len(self._made) >= self._kept:
            self._made.popitem(last=False)
        case = self._make(contract, dims, seed)
        self._made[key] = case
        return case

    def clear(self) -> None:
        """Forget all cases (their memory)."""
        self._made.clear()

    def _make(self, contract: str, dims: Mapping[str, int], seed: int) -> Case:
        problem = self._problem
        inputs = problem.inputs(dims, contract, self._options, self._init, seed, self._device)
        reference = problem.reference(inputs, dims, self._options)
        magnitude = problem.magnitude(inputs, dims, self._options)
        tolerance = problem.tolerance(dims, contract)
        for name, values in reference.items():
            if not bool(torch.isfinite(values).all()):
                raise WeakCheck(f"the reference of {name} is not finite for these inputs; choose another `init`")
        for mutation in problem.mutations(inputs, reference, dims, self._options):
            passed = all(
                judge(
                    mutation.outputs[name].to(output_dtype(problem, name, contract)),
                    reference[name],
                    magnitude[name],
                    tolerance,
                    output_dtype(problem, name, contract),
                ).ok
                for name in reference
            )
            if passed:
                raise WeakCheck(f"the check is too weak at this size: {mutation.name} would pass")
        return Case(inputs, reference, magnitude, tolerance)


def output_dtype(problem: type[Problem], name: str, contract: str) -> torch.dtype:
    """Return the torch dtype of an output under a contract."""
    for arg in (*problem.tensors(Out), *problem.tensors(InOut)):
        if arg.name == name:
            dtype = getattr(torch, arg.dtype_in(contract))
            assert isinstance(dtype, torch.dtype)
            return dtype
    raise KeyError(name)
