"""The steps of a ladder that the report explains: each rung over the one before it, and against its baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.analysis.decomposition import Decomposition, Side, decompose, side
from profiler.analysis.ladder import LadderRow
from profiler.analysis.rundata import RunData
from profiler.analysis.statistics import Interval


@dataclass(frozen=True)
class Step:
    """A decomposition that the report shows: a rung over the one before it, or against its baseline."""

    against: str  #: ``before`` or ``baseline``
    dtype: str
    other_contract: str  #: the baseline's contract where it is another one
    interval: Interval
    decomposition: Decomposition

    @property
    def variant(self) -> str:
        """Return the name of the variant that is explained."""
        return self.decomposition.after.variant


def steps(data: RunData, rows: Sequence[LadderRow]) -> tuple[Step, ...]:
    """Return the steps of a ladder: each timed rung over the one before it, and against its baseline."""
    sides: dict[tuple[str, str], Side] = {}

    def of(variant: str, size: str) -> Side:
        return sides.setdefault((variant, size), side(data, variant, size))

    found = []
    for row in rows:
        if row.time is None:
            continue
        here = of(row.variant, row.size)
        if row.step is not None and row.previous is not None:
            found.append(Step("before", row.dtype, "", row.step, decompose(of(row.previous, row.size), here)))
        if row.ratio is not None and row.baseline is not None and row.baseline != row.variant:
            other = str(row.baseline_dtype or "") if row.cross_contract else ""
            one = decompose(of(row.baseline, row.size), here)
            found.append(Step("baseline", row.dtype, other, row.ratio, one))
    return tuple(found)
