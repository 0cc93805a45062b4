"""Launches of two profiler files, matched: by mangled name, else by function and template arguments, in turn. Pure.

The n-th launch of a kernel is held against the n-th of the same kernel. What has no counterpart is said; a kernel with
other template arguments is another kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from profiler.analysis.kernel_names import kernel_function, kernel_instance
from profiler.analysis.rundata import Row, RunData
from profiler.comparison import words
from profiler.comparison.model import Comparison, CounterPair, Mismatch, RowComparison, Settings

How = Literal["mangled", "demangled", ""]
#: Facts of a profiler file: what must be equal for its counters to be comparable, and what is only said.
_REFUSED = ("compute_capability", "sm_count")
_WARNED = ("gpu", "driver")
_PASS = ("ncu_version", "cache_control", "clock_control")
#: Counts that differ by no more than this agree; near ones are those that caches and timing move.
_EXACT, _NEAR = 0.01, 0.05
_SHOWN = 3


@dataclass(frozen=True)
class Launch:
    """One launch as a file names it."""

    variant: str  #: its name in the frames
    mangled: str
    demangled: str


@dataclass(frozen=True)
class Match:
    """A launch of each side, or of one; ``how`` they were matched, empty for one alone."""

    before: Launch | None
    after: Launch | None
    how: How = ""

    @property
    def name(self) -> str:
        """The row's name: that of BEFORE where there is one."""
        launch = self.before or self.after
        assert launch is not None
        return launch.variant


def match(before: Sequence[Launch], after: Sequence[Launch]) -> list[Match]:
    """Return every launch once, in the order of BEFORE, then what only AFTER has."""
    partner: dict[int, tuple[int, How]] = {}
    free = set(range(len(after)))
    keys: tuple[tuple[How, Any], ...] = (
        ("mangled", lambda launch: launch.mangled),
        ("demangled", lambda launch: kernel_instance(launch.demangled)),
    )
    for how, key in keys:
        waiting: dict[str, list[int]] = {}
        for index in sorted(free):
            waiting.setdefault(key(after[index]), []).append(index)
        for index, launch in enumerate(before):
            turn = waiting.get(key(launch)) if key(launch) else None
            if index not in partner and turn:
                other = turn.pop(0)
                partner[index] = (other, how)
                free.discard(other)
    found = [
        Match(launch, after[partner[i][0]], partner[i][1]) if i in partner else Match(launch, None)
        for i, launch in enumerate(before)
    ]
    return found + [Match(None, after[index]) for index in sorted(free)]


def renamed(data: RunData, names: Mapping[str, str]) -> RunData:
    """Return a file's frames with its launches under other names; launches without a new name keep theirs, marked so
    that it is nobody else's.
    """

    def name(old: Any) -> str:
        return names.get(str(old), f"{old} (after)" if str(old) in names.values() else str(old))

    rows: dict[str, Sequence[Row]] = {}
    for frame, listed in data.rows.items():
        column = "name" if frame == "variants" else "variant"
        rows[frame] = [{**row, column: name(row[column])} if column in row else row for row in listed]
    return RunData(data.manifest, rows)


def compare_launches(
    before: RunData, after: RunData, matches: Sequence[Match], names: tuple[str, str], settings: Settings
) -> Comparison:
    """Return the comparison of two files, without causes: which launches correspond, and whether counters may be held
    against one another. Never a verdict on time: a launch under the profiler is one sample, at its clock.
    """
    found = _mismatches(before.manifest, after.manifest, settings)
    refused = [mismatch for mismatch in found if mismatch.action == "refuse"]
    shas = [(run.manifest.get("foreign") or {}).get("sha256") for run in (before, after)]
    same_file = bool(shas[0]) and shas[0] == shas[1]
    rows = []
    for one in matches:
        if one.before is None or one.after is None:
            rows.append(_alone(one, matches))
        elif refused:
            rows.append(RowComparison(one.name, "", "", "incomparable", words="; ".join(map(str, refused))))
        else:
            said = "the same file on both sides" if same_file else ""
            notes = () if one.how == "mangled" else ("matched by its demangled name",)
            rows.append(RowComparison(one.name, "", "", "counters_only", words=said, notes=notes))
    remarks = ["Counters only: the profiler's duration of one launch is no time to judge by."]
    if matches and not any(one.how for one in matches):
        remarks.append("The files share no kernel: launches correspond where name and template arguments are the same.")
    return Comparison(
        *names,
        kind="counters_only",
        rows=tuple(rows),
        mismatches=tuple(found),
        settings=settings,
        same_run=same_file,
        notes=tuple(remarks),
    )


def worded(row: RowComparison) -> RowComparison:
    """Return a row that has its counters with a sentence on which counts moved; clocks and durations are no counts."""
    if row.verdict != "counters_only" or row.words:
        return row
    counts = [pair for pair in row.counters if pair.cls != "timing"]
    both = [pair for pair in counts if pair.before is not None and pair.after is not None]
    moved = sorted(filter(_moved, both), key=lambda pair: (pair.cls != "exact", -_size(pair)))
    if moved:
        shown = [f"{pair.label} {' → '.join(words.counter(pair)[:2])}" for pair in moved[:_SHOWN]]
        rest = [f"{len(moved) - _SHOWN} more"] if len(moved) > _SHOWN else []
        said = f"{len(moved)} of {len(both)} counts moved: {', '.join([*shown, *rest])}"
    elif both:
        within = [f"{kind} ones within {words.percent(share)}" for kind, share in (("exact", _EXACT), ("near", _NEAR))]
        said = f"{len(both)} counts agree: {', '.join(within)}"
    else:
        said = "the files have no count in common"
    if both and len(both) < len(counts):
        said += f"; {len(counts) - len(both)} in one file only"
    return replace(row, words=said)


def _moved(pair: CounterPair) -> bool:
    return _size(pair) > math.log1p(_EXACT if pair.cls == "exact" else _NEAR)


def _size(pair: CounterPair) -> float:
    """Return by how much a counter moved, up or down alike: the logarithm of its ratio."""
    if pair.before == pair.after:
        return 0.0
    return abs(math.log(pair.ratio)) if pair.ratio else math.inf


def _alone(one: Match, matches: Sequence[Match]) -> RowComparison:
    launch = one.before or one.after
    assert launch is not None
    function = kernel_function(launch.demangled)
    others = [
        other.demangled
        for side in matches
        for other in ((side.after,) if one.after is None else (side.before,))
        if other is not None and kernel_function(other.demangled) == function
    ]
    same = [text for text in others if kernel_instance(text) == kernel_instance(launch.demangled)]
    said = "AFTER has no such launch" if one.after is None else "BEFORE has no such launch"
    if same:
        said += f": it launches this kernel {len(same)} times"
    elif others:
        said += f"; it launches {kernel_instance(others[0])}"
    name = launch.variant if one.after is None or launch.variant not in _taken(matches) else f"{launch.variant} (after)"
    return RowComparison(name, "", "", "removed" if one.after is None else "new", words=said)


def _taken(matches: Sequence[Match]) -> set[str]:
    return {one.before.variant for one in matches if one.before is not None}


def _mismatches(before: Mapping[str, Any], after: Mapping[str, Any], settings: Settings) -> list[Mismatch]:
    found: list[Mismatch] = []
    gpus = [{**gpu, "gpu": gpu.get("name")} for gpu in (run.get("gpu") or {} for run in (before, after))]
    passes = [run.get("profile") or {} for run in (before, after)]
    for keys, sides in (((*_REFUSED, *_WARNED), gpus), (_PASS, passes)):
        for key in keys:
            was, now = (str(side.get(key) or "") for side in sides)
            if was == now:
                continue
            refuse = key in _REFUSED and bool(was) and bool(now) and key not in settings.allow
            allowed = key in _REFUSED and key in settings.allow
            found.append(Mismatch(key, was or "unknown", now or "unknown", _action(refuse, allowed)))
    return found


def _action(refuse: bool, allowed: bool) -> Literal["refuse", "allowed", "warn"]:
    return "refuse" if refuse else "allowed" if allowed else "warn"
