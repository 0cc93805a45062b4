"""The experiment as the pipeline sees it: validated, defaults merged, paths resolved. Frozen, and free of behaviour
beyond look-ups; ``profiler.experiment`` builds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from profiler.sizes import size_key

Kind = Literal["cuda", "triton", "python", "command"]
Dims = Mapping[str, int]
ParamValue = int | float | str | bool


@dataclass(frozen=True)
class BuildOptions:
    """How CUDA sources are compiled. ``arch`` is ``auto`` or a real architecture such as ``sm_90a``."""

    std: str = "c++17"
    flags: tuple[str, ...] = ()
    include: tuple[Path, ...] = ()
    link: tuple[str, ...] = ()
    arch: str = "auto"
    refuse: tuple[str, ...] = ("serialised_wgmma",)  #: or ``spills``: what fails a build that nvcc accepts


@dataclass(frozen=True)
class CommandOptions:
    """A ``command:`` variant: any program. Words may hold names in braces, which ``profiler.programs`` fills in."""

    argv: tuple[str, ...]
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    build_command: tuple[str, ...] = ()
    build_inputs: tuple[Path, ...] = ()  #: the files that decide what is built; without them it is always built anew
    launches: Mapping[str, object] = field(default_factory=dict)
    time: str | Mapping[str, str] = "trace"


@dataclass(frozen=True)
class Variant:
    """One row of the ladder."""

    name: str
    kind: Kind
    dtype: str  #: the numeric contract
    source: Path | None = None  #: the .cu or .py file; None for a command
    function: str | None = None  #: Triton and Python only
    call: str | None = None  #: CUDA: the expression to call in existing code
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    requires: tuple[str, ...] = ()
    idea: str = ""
    build: BuildOptions = field(default_factory=BuildOptions)
    command: CommandOptions | None = None


@dataclass(frozen=True)
class ProblemRef:
    """Which problem, with which options, at which sizes."""

    kind: str  #: a registered name, or ``file.py:ClassName``
    file: Path | None  #: the problem's file when it is not a registered one
    options: Mapping[str, str]
    sizes: tuple[Dims, ...]
    check_sizes: tuple[Dims, ...]
    init: Mapping[str, Any]  #: distribution, seed
    check_distributions: tuple[str, ...] = ()  #: further kinds of inputs that the check sizes are verified with


@dataclass(frozen=True)
class Measure:
    """How times are taken. ``samples`` is per variant and size; ``warmup_ms`` of the exact timed path."""

    cache: Literal["cold", "warm"] = "cold"
    samples: int = 50
    warmup_ms: int = 1000
    processes: int = 1
    sustained: bool | tuple[Dims, ...] = False


@dataclass(frozen=True)
class ProfileOptions:
    """What the profiler collects."""

    set: Literal["ladder", "full"] = "ladder"
    metrics: tuple[str, ...] = ()
    sources: bool = True
    sizes: tuple[Dims, ...] = ()  #: those of the problem's that are profiled; empty: all
    skip: tuple[str, ...] = ()  #: variants that are timed, but not profiled


@dataclass(frozen=True)
class Experiment:
    """A validated experiment file."""

    path: Path
    text: str
    name: str
    title: str
    problem: ProblemRef
    baseline: Mapping[str, str]  #: dtype -> variant name
    measure: Measure
    profile: ProfileOptions
    trace: bool
    variants: tuple[Variant, ...]

    def variant(self, name: str) -> Variant:
        """Return the variant of that name; ``KeyError`` when there is none."""
        for variant in self.variants:
            if variant.name == name:
                return variant
        raise KeyError(name)

    @property
    def size_keys(self) -> tuple[str, ...]:
        """The timed sizes as the frames write them."""
        return tuple(size_key(size) for size in self.problem.sizes)
