"""Times of programs, and of the rungs beside them, taken in the same way: a column apart from the event times.

A program is timed by its kernels' durations in a trace, or by what it prints. Neither is an event time, so neither
meets one: a ratio is to a baseline that was measured in the same way, and ranks are among traced durations only, where
the contract's baseline is one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.analysis import formatting
from profiler.analysis.rundata import RunData
from profiler.analysis.statistics import Interval, median_interval, ratio_interval

TRACED, PRINTED = "trace", "printed"
WORDS = {TRACED: "traced", PRINTED: "printed"}
#: How the times were taken, for the account of the method.
METHOD_WORDS = {
    TRACED: "durations of kernels in a trace by Nsight Systems, of the rungs beside them too",
    PRINTED: "times as they print them",
}
PROGRAM_WHY = "a program of its own: no event was put around its launches"


@dataclass(frozen=True)
class OwnTime:
    """A time of one of these methods, its ratio to a baseline of the same method, and its rank among traced ones."""

    method: str
    time: Interval  #: ns
    baseline: str | None
    ratio: Interval | None  #: baseline time / this time: above one is faster
    ratio_why: str
    rank: int | None = None

    @property
    def word(self) -> str:
        """The method for a reader."""
        return WORDS[self.method]


def own_time(data: RunData, name: str, dtype: str, size: str) -> OwnTime | None:
    """Return a variant's traced or printed time at a size; None where it has none that counts."""
    if not data.timed(name):
        return None
    for method in (TRACED, PRINTED):
        samples = data.samples(name, size, method)
        if samples:
            break
    else:
        return None
    baseline = data.baseline(dtype)
    ratio, why = None, ""
    if baseline is None:
        why = "this contract has no baseline"
    elif baseline == name:
        ratio = Interval(1.0, None, None, len(samples))
    else:
        reference = data.samples(baseline, size, method) if data.timed(baseline) else []
        if reference:
            ratio = ratio_interval(reference, samples)
        else:
            why = f"the baseline {baseline} has no {WORDS[method]} time"
    return OwnTime(method, median_interval(samples), baseline, ratio, why)


def own_ranks(rows: Sequence[tuple[int, str, OwnTime | None]]) -> dict[int, int]:
    """Return ranks by the order of the row, among the traced times of a contract; ``rows`` are (order, contract, time).

    There are none where the contract's baseline was not traced: nothing ties such durations to the ladder.
    """
    ranks: dict[int, int] = {}
    for dtype in {dtype for _, dtype, _ in rows}:
        mine = [(order, own) for order, contract, own in rows if contract == dtype and own is not None]
        traced = [(own.time.value, order) for order, own in mine if own.method == TRACED and own.ratio is not None]
        ranks |= {order: rank for rank, (_, order) in enumerate(sorted(traced), start=1)}
    return ranks


def own_ratio_text(own: OwnTime, *, is_baseline: bool = False) -> str:
    """Return the ratio with its interval, as tables show it; empty where there is none."""
    if is_baseline or own.ratio is None:
        return "baseline" if is_baseline else ""
    return formatting.bounded_ratio(own.ratio.value, own.ratio.low, own.ratio.high)


def own_verdict(variant: str, size: str, own: OwnTime) -> str:
    """Return the sentence on the fastest program of a contract."""
    name = formatting.short(variant, 60)
    text = f"{name}, a program, takes {formatting.time_ns(own.time.value)} at {formatting.size(size)}"
    if own.ratio is not None and own.baseline is not None:
        text += f", {own_ratio_text(own)} of {formatting.short(own.baseline, 60)} measured the same way"
    return f"{text} ({own.word}; its answer is unverified)."
