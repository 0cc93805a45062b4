"""Two sides as one experiment: each variant twice, as ``before:name`` and ``after:name``, next to one another. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from profiler.build_sources import Layout
from profiler.comparison.model import Design
from profiler.comparison.rebuild import Side
from profiler.model import Dims, Experiment, Measure, ProblemRef, ProfileOptions, Variant
from profiler.sizes import size_key

LABELS: tuple[str, str] = ("before", "after")
Key = tuple[str, str]  #: variant, size


@dataclass(frozen=True)
class Merged:
    """Two sides as one experiment; ``names`` are the variants that both have, under the names of the sides."""

    experiment: Experiment
    layouts: Mapping[str, Layout]
    unreadable: Mapping[str, str]
    names: tuple[str, ...]
    only: tuple[tuple[str, ...], tuple[str, ...]]  #: variants that only one side has

    @property
    def shared(self) -> dict[str, str]:
        """By ``after:name``, the ``before:name`` whose buffers it takes when both are in one process."""
        return {sided("after", name): sided("before", name) for name in self.names}


def sided(label: str, name: str) -> str:
    """Return the name that a side's variant has among both."""
    return f"{label}:{name}"


def plain(name: str) -> str:
    """Return a variant's own name."""
    return name.partition(":")[2]


def merge(
    before: Side, after: Side, name: str, *, only: Iterable[str] = (), samples: int, present: Sequence[Iterable[str]]
) -> Merged:
    """Return both sides as one experiment of the variants and sizes that both have.

    Inputs, sizes that are checked, warm-up and cache are those of ``after``. ``present`` names the variants of each run
    (a run of ``--only`` has fewer than its experiment), ``only`` those that are wanted; none: all.
    """
    wanted = set(only)
    have = [{one for one in names if not wanted or one in wanted} for names in present]
    sides = (before, after)
    by_name = [
        {v.name: v for v in side.experiment.variants if v.name in names}
        for side, names in zip(sides, have, strict=True)
    ]
    both = [one for one in by_name[1] if one in by_name[0] and _comparable(by_name[0][one], by_name[1][one])]
    variants: list[Variant] = []
    layouts: dict[str, Layout] = {}
    unreadable: dict[str, str] = {}
    for one in both:
        for label, side, known in zip(LABELS, sides, by_name, strict=True):
            full = sided(label, one)
            variants.append(replace(known[one], name=full))
            if one in side.layouts:
                layouts[full] = side.layouts[one]
            if one in side.unreadable:
                unreadable[full] = side.unreadable[one]
    problem, measure = after.experiment.problem, after.experiment.measure
    baseline = {dtype: sided("before", base) for dtype, base in after.experiment.baseline.items() if base in both}
    merged = Experiment(
        path=after.experiment.path,
        text="",
        name=name,
        title=f"{before.experiment.name} against {after.experiment.name}",
        problem=replace(problem, sizes=_sizes(before.experiment.problem, problem)),
        baseline=baseline,
        measure=Measure(measure.cache, samples, measure.warmup_ms),
        profile=ProfileOptions(),
        trace=False,
        variants=tuple(variants),
    )
    alone = tuple(tuple(one for one in known if one not in both) for known in by_name)
    return Merged(merged, layouts, unreadable, tuple(both), (alone[0], alone[1]))


def design_of(merged: Merged, wanted: Design | None) -> Design:
    """Return how the sides are measured: as asked for, else in one process where both can be loaded there.

    CUDA libraries are loaded privately and a Python file has a module of its own, but what it imports from beside it
    has one name in both sides.
    """
    if wanted is not None:
        return wanted
    alone = all(v.kind == "cuda" or _single_file(v) for v in merged.experiment.variants)
    return "in_process" if alone else "two_process"


def _single_file(variant: Variant) -> bool:
    return variant.source is not None and not any(
        path != variant.source for path in variant.source.parent.glob("*.py") if path.is_file()
    )


def _comparable(before: Variant, after: Variant) -> bool:
    return before.dtype == after.dtype and "command" not in (before.kind, after.kind)


def _sizes(before: ProblemRef, after: ProblemRef) -> tuple[Dims, ...]:
    known = {size_key(dims) for dims in before.sizes}
    return tuple(dims for dims in after.sizes if size_key(dims) in known)
