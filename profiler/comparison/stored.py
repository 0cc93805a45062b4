"""The rule for two runs that were stored: what was measured at different times speaks firmly of large changes only.

``regressed`` and ``improved`` take an effect above max(10 %, 6 x the spread between sessions) after the steady
controls' common shift is taken out; a smaller one that is significant is ``suspected`` until both sides are measured
side by side. More samples or launches do not help: the two sessions are the error. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from profiler.analysis import formatting
from profiler.comparison.controls import Controls
from profiler.comparison.measured import (
    Measured,
    clock_alone,
    doubt,
    environment,
    environment_changed,
    harmless,
    objection,
    percent,
    two_modes,
)
from profiler.comparison.model import Noise, RowComparison, Settings, Verdict
from profiler.comparison.noise import Entry, NoiseTable, session_entries
from profiler.comparison.statistics import Difference, holm, seen


@dataclass(frozen=True)
class _Judged:
    item: Measured
    found: Difference
    noise: Noise


def stored_rows(
    items: Sequence[Measured], controls: Controls, settings: Settings, table: NoiseTable
) -> list[RowComparison]:
    """Return the rows' verdicts, in their order."""
    rows: list[RowComparison | None] = []
    judged: list[_Judged] = []
    for item in items:
        refused = objection(item, settings)
        if refused is not None:
            rows.append(item.bare("inconclusive", refused[1], refused[0]))
            continue
        noise = spread(item, controls, table)
        judged.append(_Judged(item, Difference(item.log_ratio - controls.drift, noise.sd, noise.df, 1), noise))
        rows.append(None)
    tested = [one for one in judged if one.item.identity.code != "same"]
    adjusted = dict(zip(map(id, tested), holm([one.found.p for one in tested]), strict=True))
    verdicts = iter([_row(one, adjusted.get(id(one)), controls, settings) for one in judged])
    moved = [one for one in judged if _moved_too_far(one, settings, table)]
    found = [next(verdicts) if row is None else row for row in rows]
    if moved:
        words = environment_changed([(one.item, one.item.log_ratio) for one in moved])
        return [environment(row, words) for row in found]
    return found


def spread(item: Measured, controls: Controls, table: NoiseTable) -> Noise:
    """Return the noise of a stored row's log ratio."""
    counts = (len(item.before.processes), len(item.after.processes))
    return table.session_floor(
        item.time_ns, counts, corrected=controls.state == "steady", within=item.within, between=_between(item)
    )


def ledger_entries(
    items: Sequence[Measured], controls: Controls, table: NoiseTable, settings: Settings, session: str
) -> list[Entry]:
    """Return what the rows of identical code teach of the spread between sessions."""
    found: list[Entry] = []
    for item in items:
        if item.identity.code != "same" or objection(item, settings) is not None:
            continue
        process = max(table.of(item.time_ns).process_sd, item.within, _between(item))
        share = sum(1 / len(side.processes) for side in (item.before, item.after))
        drift = controls.drift if controls.state == "steady" else None
        key = f"{item.variant} {item.size}"
        found += session_entries(item.time_ns, key, item.log_ratio, drift, process**2 * share, session)
    return found


def _row(one: _Judged, adjusted: float | None, controls: Controls, settings: Settings) -> RowComparison:
    item, found, noise = one.item, one.found, one.noise
    delta = item.delta(settings)
    row = item.judged(
        found, (noise.sd / math.sqrt(2), noise.df), noise, settings,
        p=found.p, p_holm=adjusted, corrected_by=math.exp(controls.drift),
    )  # fmt: skip
    if item.identity.code == "same":
        words = f"the same code: {item.identity.words}".rstrip(": ")
        if seen(found, settings.alpha_flag, delta) and clock_alone(item, item.log_ratio):
            words += f"; its time is {percent(item.log_ratio)}, its cycles are not: the SM clock differs"
        return replace(row, verdict="unchanged", reason="", words=words)
    if controls.state == "disagree":
        return replace(row, reason="controls", words=controls.words)
    flagged = adjusted is not None and adjusted < settings.alpha_family and seen(found, settings.alpha_flag, delta)
    if flagged:
        return _flagged(row, one, controls, settings)
    if found.within(settings.equivalence):
        words = f"the 90 % interval lies within {formatting.percent(settings.equivalence)}"
        return replace(row, verdict="unchanged", reason="", words=words)
    modes = two_modes(item, found.value, settings)
    if modes is not None:
        return replace(row, reason=modes[0], words=modes[1])
    return replace(row, words=_too_noisy(row, settings))


def _flagged(row: RowComparison, one: _Judged, controls: Controls, settings: Settings) -> RowComparison:
    log_ratio = one.found.value
    doubted = doubt(one.item, log_ratio, settings)
    if doubted is not None:
        return replace(row, reason=doubted[0], words=doubted[1])
    spreads = settings.stored_spreads * one.noise.sd
    threshold = max(math.log1p(settings.stored_share), spreads)
    limit = f"{math.expm1(threshold) * 100:.0f} %"
    direction = one.found.direction
    if abs(log_ratio) > threshold and controls.state == "steady":
        words = f"{percent(log_ratio)}, above the {limit} that two stored runs can tell"
        verdict: Verdict = "regressed" if direction == "slower" else "improved"
        return replace(row, verdict=verdict, reason="", words=words, direction=direction)
    why = f"below the {limit} that two stored runs can tell" if abs(log_ratio) <= threshold else controls.words
    words = f"{percent(log_ratio)}, {why}: measure both side by side (--remeasure)"
    return replace(row, verdict="suspected", reason="", words=words, direction=direction)


def _moved_too_far(one: _Judged, settings: Settings, table: NoiseTable) -> bool:
    """Whether a row of identical code moved by more than 2 % and three floors, before any correction.

    One whose cycles did not move, such as a tensor kernel at the power cap, says something of its clock alone; other
    rows have theirs looked at.
    """
    if one.item.identity.code != "same" or clock_alone(one.item, one.item.log_ratio):
        return False
    counts = (len(one.item.before.processes), len(one.item.after.processes))
    floor = table.session_floor(
        one.item.time_ns, counts, corrected=False, within=one.item.within, between=_between(one.item)
    )
    limit = max(math.log1p(settings.identical_share), settings.identical_floors * floor.sd)
    return abs(one.item.log_ratio) > limit


def _between(item: Measured) -> float:
    """The standard deviation between the processes of a side, pooled over both; 0 where there are too few."""
    sums = [float(((side.logs - side.log_ns) ** 2).sum()) for side in (item.before, item.after)]
    df = sum(len(side.processes) - 1 for side in (item.before, item.after))
    return float(np.sqrt(sum(sums) / df)) if df >= 2 else 0.0


def _too_noisy(row: RowComparison, settings: Settings) -> str:
    assert row.detectable is not None
    words = f"neither a change nor its absence is shown; changes from {row.detectable * 100:.2g} % on would have been"
    return words + harmless(row, settings)
