"""A row that both sides measured, as the rules see it: two sides with one statistic, and what speaks against a verdict.

Pure. The rules themselves are in ``stored.py`` and ``paired.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from profiler.analysis import formatting
from profiler.analysis.rundata import APART, Row, RunData
from profiler.analysis.statistics import t_quantile
from profiler.comparison.model import CodeIdentity, Noise, Reason, RowComparison, Settings, Verdict
from profiler.comparison.samples import Side, side_of
from profiler.comparison.statistics import Difference, least_effect, only_the_clock


@dataclass(frozen=True)
class Measured:
    """One variant at one size with times on both sides."""

    variant: str
    size: str
    dtype: str
    before: Side
    after: Side
    identity: CodeIdentity

    @property
    def time_ns(self) -> float:
        """The geometric mean of both sides: what chooses the class of duration, whichever side is called before."""
        return math.exp((self.before.log_ns + self.after.log_ns) / 2)

    @property
    def log_ratio(self) -> float:
        """The log of after over before, of the sides as wholes."""
        return self.after.log_ns - self.before.log_ns

    @cached_property
    def within(self) -> float:
        """The standard error of one process's location that the samples show."""
        return math.sqrt((self.before.within**2 + self.after.within**2) / 2)

    def delta(self, settings: Settings) -> float:
        """The smallest change, in log, that may be flagged here."""
        return least_effect(settings, self.before.ticks, self.after.ticks)

    def bare(self, verdict: Verdict, words: str, reason: Reason | Literal[""] = "") -> RowComparison:
        """Return a row with a verdict and both sides' times without intervals."""
        times = [side.times(None) if side.processes else None for side in (self.before, self.after)]
        return RowComparison(
            self.variant, self.size, self.dtype, verdict, reason, words,
            before=times[0], after=times[1], identity=self.identity, notes=self.notes,
        )  # fmt: skip

    def judged(
        self, found: Difference, floor: tuple[float, float], noise: Noise, settings: Settings, **more: Any
    ) -> RowComparison:
        """Return a row that is still open, with its ratio and what the interval and the noise floor allow to say.

        ``floor`` is the error of one side's log time and the degrees of freedom behind it, for the sides' intervals.
        """
        error, quantile = floor[0], t_quantile(0.95, floor[1])
        delta = self.delta(settings)
        return replace(
            self.bare("inconclusive", "", "noise"),
            ratio=found.estimate(1 - settings.alpha_flag),
            detectable=found.detectable(settings.alpha_flag, delta),
            min_effect=math.expm1(delta),
            noise=noise,
            before=self.before.times(error, quantile),
            after=self.after.times(error, quantile),
            **more,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the statistics."""
        found = []
        for label, side in (("before", self.before), ("after", self.after)):
            if side.excluded:
                found.append(
                    f"{label}: {side.excluded} samples taken throttled or beside another process "
                    + ("are left out" if side.excluded_share < 1 else "are all there is")
                )
            if side.invalid:
                found.append(f"{label}: {side.invalid} samples have no valid time")
            if side.thin:
                found.append(f"{label}: {side.thin} processes have too few samples and are left out")
        return tuple(found)


def measured(
    before: RunData, after: RunData, name: str, size: str, identity: CodeIdentity, settings: Settings
) -> Measured:
    """Return what two runs have of a row."""
    dtype = str((after.variant(name) or {}).get("dtype") or "")
    rows = [ranked_rows(run, name, size) for run in (before, after)]
    return Measured(name, size, dtype, *two_sides(rows[0], rows[1], settings), identity)


def of_samples(key: tuple[str, str], before: Sequence[Row], after: Sequence[Row], settings: Settings) -> Measured:
    """Return a row from its samples alone; nothing is known of its code."""
    return Measured(key[0], key[1], "", *two_sides(before, after, settings), CodeIdentity())


def two_sides(before: Sequence[Row], after: Sequence[Row], settings: Settings) -> tuple[Side, Side]:
    """Return both sides of a row with one statistic: trimmed means where either side's ticks are coarse."""
    sides = side_of(before, settings), side_of(after, settings)
    if sides[0].trimmed == sides[1].trimmed:
        return sides
    return side_of(before, settings, trimmed=True), side_of(after, settings, trimmed=True)


def ranked_rows(run: RunData, name: str, size: str) -> list[Row]:
    """Return the sample rows that times are ranked by: of the ranking methods, and of the run's cache policy."""
    rows = [row for row in run.sample_rows(name, size) if row["method"] not in APART]
    wanted = (run.manifest.get("timing") or {}).get("cache")
    return [row for row in rows if row["cache"] == wanted] or rows


def objection(item: Measured, settings: Settings) -> tuple[Reason, str] | None:
    """Return why nothing can be said of a row, whatever its times are; None where nothing speaks against it."""
    for label, side in (("before", item.before), ("after", item.after)):
        if side.excluded_share > settings.excluded_share:
            share = formatting.percent(side.excluded_share)
            return "throttled", f"{share} of the samples {label} were taken throttled or beside another process"
    for label, side in (("before", item.before), ("after", item.after)):
        if not side.processes:
            return "few_samples", f"no process {label} has {settings.fewest_samples} valid samples"
    for label, side in (("before", item.before), ("after", item.after)):
        if side.ticks < settings.fewest_ticks:
            return "too_short", (
                f"a sample {label} lasts {side.ticks:.0f} ticks of the timer; below {settings.fewest_ticks:.0f} no "
                "change can be told: time more launches in one window"
            )
    return None


def clock_alone(item: Measured, log_ratio: float) -> bool:
    """Whether a row's time moved and its cycles did not, as far as the clock is known."""
    return only_the_clock(log_ratio, item.before.sm_clock_mhz, item.after.sm_clock_mhz)


def doubt(item: Measured, log_ratio: float, settings: Settings) -> tuple[Reason, str] | None:
    """Return why a change that the statistics see is not one of the code: only the clock moved, or there are two modes
    that lie further apart than half the change.
    """
    before, after = item.before.sm_clock_mhz, item.after.sm_clock_mhz
    if before and after and clock_alone(item, log_ratio):
        return "clock", (
            f"the time moved with the SM clock ({before:.0f} MHz before, {after:.0f} after), the cycles did not; a "
            "kernel that draws more power does this too: lock the clocks to tell"
        )
    return two_modes(item, log_ratio, settings)


def two_modes(item: Measured, log_ratio: float, settings: Settings) -> tuple[Reason, str] | None:
    """Return that a side has two modes, where their distance matters beside the change."""
    gap = max(item.before.mode_gap, item.after.mode_gap)
    if gap < 2 * item.delta(settings) or abs(log_ratio) > 2 * gap:
        return None
    label = "before" if item.before.mode_gap >= item.after.mode_gap else "after"
    return "bimodal", f"the times {label} have two modes {formatting.percent(math.expm1(gap), 1)} apart"


def environment(row: RowComparison, words: str) -> RowComparison:
    """Return a row of a comparison whose environment changed: nothing is said of it."""
    if row.verdict == "inconclusive" and row.reason in ("throttled", "few_samples", "too_short"):
        return row
    return replace(row, verdict="inconclusive", reason="environment", words=words, direction="")


def environment_changed(moved: Sequence[tuple[Measured, float]]) -> str:
    """Return why the environment changed, from the rows of unchanged code that moved too far and by how much (log)."""
    first, log_ratio = moved[0]
    more = f" ({len(moved)} such rows)" if len(moved) > 1 else ""
    return f"{first.variant} is the same code and {percent(log_ratio)}{more}: the environment changed"


def harmless(row: RowComparison, settings: Settings) -> str:
    """Return that a row's interval excludes the slowdown that fails a comparison; empty where it does not."""
    if row.ratio is None or not row.ratio.excludes_above(1 + settings.max_regression):
        return ""
    return f"; a slowdown above {formatting.percent(settings.max_regression)} is ruled out"


def percent(log_ratio: float) -> str:
    """Return a change in words: ``4.2 % slower``."""
    share = math.expm1(log_ratio) if log_ratio > 0 else -math.expm1(log_ratio)
    return (
        f"{share * 100:.2g} % {'slower' if log_ratio > 0 else 'faster'}"
        if share < 0.1
        else (f"{share * 100:.0f} % {'slower' if log_ratio > 0 else 'faster'}")
    )
