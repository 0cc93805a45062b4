"""A run held against itself: how often the rule flags code that is the same, with its binomial interval. Pure.

Each trial splits a run's samples at random into a before and an after, each with a first stage and its confirmation,
and judges all rows as a comparison would. Trials share samples, so their interval is narrower than the truth; a run of
many processes is split by processes, which is what two runs differ by.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scipy import stats

from profiler.analysis.rundata import RunData
from profiler.comparison.measured import of_samples, ranked_rows
from profiler.comparison.model import CONFIRMATION_BASE, Design, Settings
from profiler.comparison.noise import NoiseTable
from profiler.comparison.paired import paired_rows
from profiler.frames import SKIPPED

TRIALS = 200
#: Three pairs of processes, and three that confirm them, take so many processes.
PROCESSES_TO_SPLIT = 12
CONFIDENCE = 0.95
#: What a comparison may flag of unchanged rows before a run's noise is not what the rule takes it for.
GOAL = 0.002
_FLAGS = frozenset({"regressed", "improved"})
_SIDES, _STAGES = ("before", "after"), (0, CONFIRMATION_BASE)


@dataclass(frozen=True)
class Rate:
    """A share with its Clopper-Pearson interval (Biometrika 26, 1934)."""

    count: int
    of: int

    @property
    def value(self) -> float:
        """The share itself; 0 of none."""
        return self.count / self.of if self.of else 0.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Its 95 % interval; from 0 to 1 when there was no trial."""
        if not self.of:
            return 0.0, 1.0
        found = stats.binomtest(self.count, self.of).proportion_ci(CONFIDENCE, method="exact")
        return float(found.low), float(found.high)


@dataclass(frozen=True)
class SelfCheck:
    """What came of all trials."""

    design: Design  #: how the samples were split: by process, or within each process
    trials: int
    rows: int
    flagged: Rate  #: rows that a comparison would have called regressed or improved
    suspected: Rate  #: rows that it would have called suspected
    any_flag: Rate  #: comparisons with at least one flag
    by_row: Mapping[tuple[str, str], int] = field(default_factory=dict)  #: flags, of rows that had one
    left_out: Mapping[tuple[str, str], str] = field(default_factory=dict)  #: rows with too few samples, and why

    @property
    def sound(self) -> bool:
        """Whether nothing shows that the rule flags more than it should: the interval reaches down to the goal."""
        return self.flagged.bounds[0] <= GOAL


def self_check(
    run: RunData, settings: Settings, table: NoiseTable, *, trials: int = TRIALS, seed: int = 0
) -> SelfCheck:
    """Return how often the rule flags a run held against itself; no rows when nothing of it can be split."""
    samples, left_out = _rows(run, settings)
    numbers = {key: sorted({int(row["process"] or 0) for row in rows}) for key, rows in samples.items()}
    by_process = bool(numbers) and all(len(found) >= PROCESSES_TO_SPLIT for found in numbers.values())
    design: Design = "two_process" if by_process else "in_process"
    flagged = suspected = any_flag = 0
    by_row: dict[tuple[str, str], int] = {}
    for trial in range(trials if samples else 0):
        generator = random.Random(f"{seed}/{trial}")
        split = _by_process if by_process else _within
        sides = {key: split(rows, generator) for key, rows in samples.items()}
        items = [of_samples(key, parts["before"], parts["after"], settings) for key, parts in sides.items()]
        verdicts = paired_rows(items, settings, table, design, identity=False)
        flags = [row.key for row in verdicts if row.verdict in _FLAGS]
        suspected += sum(row.verdict == "suspected" for row in verdicts)
        flagged += len(flags)
        any_flag += bool(flags)
        for key in flags:
            by_row[key] = by_row.get(key, 0) + 1
    done = trials if samples else 0
    total = done * len(samples)
    rates = (Rate(flagged, total), Rate(suspected, total), Rate(any_flag, done))
    return SelfCheck(design, done, len(samples), *rates, by_row, left_out)


def _rows(
    run: RunData, settings: Settings
) -> tuple[dict[tuple[str, str], list[Mapping[str, Any]]], dict[tuple[str, str], str]]:
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    left_out: dict[tuple[str, str], str] = {}
    for variant in run.variants:
        name = str(variant["name"])
        for size in run.sizes:
            if variant["status"] == SKIPPED:
                continue
            if variant["origin"] != "measured" or not run.timed(name):
                left_out[name, size] = f"{variant['status']}, origin {variant['origin'] or 'none'}"
                continue
            rows = ranked_rows(run, name, size)
            fewest = 4 * settings.fewest_samples
            counts: dict[int, int] = {}
            for row in rows:
                counts[int(row["process"] or 0)] = counts.get(int(row["process"] or 0), 0) + 1
            enough = {process for process, count in counts.items() if count >= fewest}
            if not enough:
                left_out[name, size] = f"no process has {fewest} samples, which both stages of both sides take"
                continue
            found[name, size] = [row for row in rows if int(row["process"] or 0) in enough]
    return found, left_out


def _by_process(rows: Sequence[Mapping[str, Any]], generator: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Whole processes fall to one side and stage each, and are paired at random."""
    numbers = sorted({int(row["process"] or 0) for row in rows})
    generator.shuffle(numbers)
    share = len(numbers) // 4
    place = {}
    for index, (stage, side) in enumerate((stage, side) for stage in _STAGES for side in _SIDES):
        for pair, number in enumerate(numbers[index * share : (index + 1) * share]):
            place[number] = (side, stage + pair)
    sides: dict[str, list[dict[str, Any]]] = {side: [] for side in _SIDES}
    for row in rows:
        if (found := place.get(int(row["process"] or 0))) is not None:
            sides[found[0]].append({**row, "process": found[1]})
    return sides


def _within(rows: Sequence[Mapping[str, Any]], generator: random.Random) -> dict[str, list[dict[str, Any]]]:
    """The samples of each process fall to both sides and both stages, a quarter each."""
    sides: dict[str, list[dict[str, Any]]] = {side: [] for side in _SIDES}
    by_process: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_process.setdefault(int(row["process"] or 0), []).append(row)
    for number, (_, listed) in enumerate(sorted(by_process.items())):
        shuffled = list(listed)
        generator.shuffle(shuffled)
        for index, row in enumerate(shuffled):
            stage = _STAGES[index // 2 % 2]
            sides[_SIDES[index % 2]].append({**row, "process": stage + number})
    return sides
