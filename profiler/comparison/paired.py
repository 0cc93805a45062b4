"""The rule for runs that were measured side by side: pairs of processes, two stages, Holm over the comparison. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from profiler.analysis import formatting
from profiler.comparison.escalation import Step, next_step
from profiler.comparison.measured import (
    Measured,
    doubt,
    environment,
    environment_changed,
    harmless,
    objection,
    percent,
    two_modes,
)
from profiler.comparison.model import CONFIRMATION_BASE, Design, Noise, RowComparison, Settings, Verdict
from profiler.comparison.noise import Entry, NoiseTable, pair_entry
from profiler.comparison.statistics import Judgement, holm, judge

#: Two processes a side say little of processes; both sides in one process share what differs between them.
_FEWEST_PAIRS = {"two_process": 3, "in_process": 1, "stored": 3}


@dataclass(frozen=True)
class Pairs:
    """Log ratios of after over before, a pair of processes each: those of the search, and those that confirm it."""

    first: tuple[float, ...]
    second: tuple[float, ...]


@dataclass(frozen=True)
class _Judged:
    item: Measured
    pairs: Pairs
    noise: Noise
    judgement: Judgement


def pairs_of(item: Measured) -> Pairs:
    """Return a row's pairs: the processes of one number on both sides; from ``CONFIRMATION_BASE`` on they confirm."""
    before = {process.number: process.log_ns for process in item.before.processes}
    after = {process.number: process.log_ns for process in item.after.processes}
    both = sorted(before.keys() & after.keys())
    logs = {number: after[number] - before[number] for number in both}
    return Pairs(
        tuple(logs[number] for number in both if number < CONFIRMATION_BASE),
        tuple(logs[number] for number in both if number >= CONFIRMATION_BASE),
    )


def pair_noise(item: Measured, table: NoiseTable, design: Design) -> Noise:
    """Return the floor of a row's pairs."""
    return table.pair_floor(item.time_ns, design, item.within)


def step_of(item: Measured, settings: Settings, table: NoiseTable, design: Design) -> Step:
    """Return what a row needs next, by the rule and the floor that judge it in the end."""
    pairs = pairs_of(item)
    if not pairs.first:
        return Step(1, settings.pairs[0])
    return next_step(pairs.first, pairs.second, pair_noise(item, table, design), item.delta(settings), settings)


def paired_rows(
    items: Sequence[Measured], settings: Settings, table: NoiseTable, design: Design, *, identity: bool = True
) -> list[RowComparison]:
    """Return the rows' verdicts, in their order. Without ``identity`` rows of the same code are judged like any other:
    that is how the rule itself is checked.
    """
    rows: list[RowComparison | None] = []
    judged: list[_Judged] = []
    for item in items:
        refused = objection(item, settings)
        pairs = pairs_of(item)
        if refused is None and len(pairs.first) < _FEWEST_PAIRS[design]:
            count = len(pairs.first)
            refused = ("few_samples", f"{count} pairs of processes; a verdict takes {_FEWEST_PAIRS[design]}")
        if refused is not None:
            rows.append(item.bare("inconclusive", refused[1], refused[0]))
            continue
        noise = pair_noise(item, table, design)
        judgement = judge(pairs.first, pairs.second, noise, item.delta(settings), settings)
        judged.append(_Judged(item, pairs, noise, judgement))
        rows.append(None)
    tested = [one for one in judged if not (identity and one.item.identity.code == "same")]
    adjusted = dict(zip(map(id, tested), holm([one.judgement.p for one in tested]), strict=True))
    verdicts = iter([_row(one, adjusted.get(id(one)), settings) for one in judged])
    found = [next(verdicts) if row is None else row for row in rows]
    moved = [one for one in judged if identity and _moved_too_far(one, settings)]
    if moved:
        words = environment_changed([(one.item, one.judgement.pooled.value) for one in moved])
        return [environment(row, words) for row in found]
    return found


def ledger_entries(items: Sequence[Measured], settings: Settings, design: Design, session: str) -> list[Entry]:
    """Return what pairs of identical code teach of the noise floor."""
    found = []
    for item in items:
        if item.identity.code != "same" or objection(item, settings) is not None:
            continue
        pairs = pairs_of(item)
        entry = pair_entry(design, item.time_ns, f"{item.variant} {item.size}", [*pairs.first, *pairs.second], session)
        found += [entry] if entry is not None else []
    return found


def _row(one: _Judged, adjusted: float | None, settings: Settings) -> RowComparison:
    item, judgement, pooled = one.item, one.judgement, one.judgement.pooled
    process = max(one.noise.sd, pooled.se * math.sqrt(pooled.count)) / math.sqrt(2)
    row = item.judged(
        pooled, (process, pooled.df), one.noise, settings,
        p=judgement.p, p_holm=adjusted, pairs=pooled.count, stage=judgement.stage,
    )  # fmt: skip
    if adjusted is None:
        return replace(row, verdict="unchanged", reason="", words=f"the same code: {item.identity.words}".rstrip(": "))
    if judgement.outcome in ("flagged", "candidate"):
        return _flagged(row, one, adjusted, settings)
    if judgement.outcome == "unchanged":
        words = f"the interval of {pooled.count} pairs lies within {formatting.percent(settings.equivalence)}"
        return replace(row, verdict="unchanged", reason="", words=words)
    modes = two_modes(item, pooled.value, settings)
    if modes is not None:
        return replace(row, reason=modes[0], words=modes[1])
    return replace(row, words=_too_noisy(row, judgement, settings))


def _flagged(row: RowComparison, one: _Judged, adjusted: float, settings: Settings) -> RowComparison:
    pooled = one.judgement.pooled
    doubted = doubt(one.item, pooled.value, settings)
    if doubted is not None:
        return replace(row, reason=doubted[0], words=doubted[1])
    moved = percent(pooled.value)
    if one.judgement.outcome == "candidate":
        words = f"{moved} in {len(one.pairs.first)} pairs; no fresh pairs have confirmed it"
        return replace(row, verdict="suspected", reason="", words=words, direction=pooled.direction)
    if not adjusted < settings.alpha_family:
        words = f"{moved} in both stages, but among so many rows that may be chance (Holm: p = {adjusted:.2g})"
        return replace(row, verdict="suspected", reason="", words=words, direction=pooled.direction)
    words = f"{moved}, seen in {len(one.pairs.first)} pairs and again in {len(one.pairs.second)} fresh ones"
    verdict: Verdict = "regressed" if pooled.direction == "slower" else "improved"
    return replace(row, verdict=verdict, reason="", words=words, direction=pooled.direction)


def _moved_too_far(one: _Judged, settings: Settings) -> bool:
    limit = max(math.log1p(settings.identical_share), settings.identical_floors * one.noise.sd)
    return one.item.identity.code == "same" and abs(one.judgement.pooled.value) > limit


def _too_noisy(row: RowComparison, judgement: Judgement, settings: Settings) -> str:
    assert row.detectable is not None
    seen_once = "a first look saw a change that fresh pairs did not; " if judgement.stage == "not_confirmed" else ""
    noisier = ", noisier than other kernels of its duration" if judgement.pooled.noisier else ""
    words = f"{seen_once}{row.pairs} pairs{noisier}: changes from {row.detectable * 100:.2g} % on would have been seen"
    return words + harmless(row, settings)
