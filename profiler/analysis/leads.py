"""Which rung is the fastest of a contract at a size, and which others the samples cannot tell from it.

The test is the paired one of the ladder: a rung's time over the leader's, over the same rounds. Where that ratio's 95 %
interval does not exclude one, the two tie. Two intervals of times that overlap are no such test: what both rungs saw in
a round (clock, temperature) widens each of them and cancels in the ratio.

Of tied rungs the one with the lowest median leads. All that stands beside it (order by time, bars, ratio to the
baseline) says the same then, and the tie is well defined: it is with the leader, for two rungs that both tie with a
third need not tie with each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.analysis import formatting
from profiler.analysis.ladder import LadderRow
from profiler.analysis.rundata import RunData
from profiler.analysis.statistics import Interval, ratio_interval

#: So many names or sizes stand in a list of a sentence, and so many groups of sizes.
_LISTED = 4
_PLACES = 5


@dataclass(frozen=True)
class Tie:
    """A rung that ties with the leader."""

    row: LadderRow
    ratio: Interval  #: its time / the leader's: does not exclude one


@dataclass(frozen=True)
class Lead:
    """The fastest of some rungs at one size."""

    row: LadderRow  #: of the lowest median
    ties: tuple[Tie, ...]  #: by median
    among: int  #: how many of the rungs have a time

    @property
    def names(self) -> tuple[str, ...]:
        """The leader and those that tie with it."""
        return (self.row.variant, *(tie.row.variant for tie in self.ties))

    @property
    def tied_text(self) -> str:
        """What the samples say of the tie: ``a and b tie for the fastest: the second takes 1.001× of ..``;
        empty where nothing ties.
        """
        if not self.ties:
            return ""
        ratios = [formatting.bounded_ratio(t.ratio.value, t.ratio.low, t.ratio.high) for t in self.ties]
        figures = formatting.listed(ratios)
        if len(ratios) >= _LISTED:
            values = [tie.ratio.value for tie in self.ties]
            figures = f"{min(values):.3f}× to {max(values):.3f}×"
        others = "the second takes" if len(self.ties) == 1 else "the others take"
        return f"{listed_names(self.names)} tie for the fastest: {others} {figures} of the first's time"


def lead(data: RunData, rows: Sequence[LadderRow]) -> Lead | None:
    """Return the fastest of rungs of one contract and size, with those that tie; None when none of them has a time."""
    timed = sorted((row for row in rows if row.time is not None), key=_median)
    if not timed:
        return None
    first = timed[0]
    of_first = data.samples(first.variant, first.size)
    slowest = max((sample.time_ns for sample in of_first), default=0.0)
    ties = []
    for row in timed[1:]:
        samples = data.samples(row.variant, row.size)
        if not of_first or not samples or min(sample.time_ns for sample in samples) > slowest:
            continue  # each of its samples is above each of the leader's, so no resampling brings the ratio to one
        ratio = ratio_interval(samples, of_first)
        if ratio.low is None or ratio.low <= 1:
            ties.append(Tie(row, ratio))
    return Lead(first, tuple(ties), len(timed))


def leads(data: RunData, rows: Sequence[LadderRow]) -> Mapping[tuple[str, str], Lead]:
    """Return the lead of each contract and size that has a timed rung, baselines apart."""
    found = {}
    for dtype in dict.fromkeys(row.dtype for row in rows):
        for size in dict.fromkeys(row.size for row in rows):
            here = [r for r in rows if r.dtype == dtype and r.size == size and not r.is_baseline]
            one = lead(data, here)
            if one is not None:
                found[dtype, size] = one
    return found


def elsewhere(main: Lead, others: Sequence[Lead]) -> str:
    """Return what the other sizes say of the fastest rung of a contract; empty where there is no other size or rung.

    ``main`` is the lead at the size that the verdict speaks of, ``others`` those of the same contract elsewhere.
    """
    if not others or all(one.among == 1 for one in (main, *others)):
        return ""
    kind = f"{main.row.dtype} rung".strip()
    leader = main.row.variant
    if all(one.names == (leader,) for one in (main, *others)):
        return f"{name_text(leader)} is the fastest {kind} {_at(others)} too."
    groups: dict[tuple[str, ...], list[Lead]] = {}
    for one in others:
        groups.setdefault(one.names, []).append(one)
    places = [
        f"{listed_names(names)}{' (tied)' if len(names) > 1 else ''} {_at(found)}"
        for names, found in list(groups.items())[:_PLACES]
    ]
    left = sum(len(found) for found in list(groups.values())[_PLACES:])
    if left:
        places.append(f"others at {left} more size{'s' if left > 1 else ''}")
    differs = any(leader not in one.names for one in others)
    text = f"The fastest {kind} differs by size: " if differs else f"Fastest {kind} elsewhere: "
    text += f"{'; '.join(places)}."
    common = [name for name in main.names if all(name in one.names for one in others)]
    return f"{text} None beats {listed_names(common, 'or')} at any size." if common else text


def listed_names(names: Sequence[str], last: str = "and") -> str:
    """Return names as a sentence lists them, no more than a few of them: ``a, b, c, d and 3 more``."""
    shown = [name_text(name) for name in names]
    if len(shown) > _LISTED:
        shown = [*shown[:_LISTED], f"{len(shown) - _LISTED} more"]
    return f" {last} ".join([part for part in (", ".join(shown[:-1]), shown[-1]) if part])


def _at(found: Sequence[Lead]) -> str:
    if len(found) > _LISTED:
        return f"at {len(found)} other sizes"
    return f"at {formatting.listed(formatting.size(one.row.size) for one in found)}"


def _median(row: LadderRow) -> float:
    return row.time.value if row.time is not None else math.inf


def name_text(name: str) -> str:
    """Return a variant's name as a sentence has it: no longer than is read."""
    return formatting.short(name, 60)
