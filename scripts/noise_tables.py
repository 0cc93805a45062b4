"""The samples of ``noise_check.py`` as rows, what the rule of ``compare_runs`` says of them, and the tables."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

from profiler.comparison.measured import Measured, of_samples
from profiler.comparison.model import CONFIRMATION_BASE, Design, RowComparison, Settings
from profiler.comparison.noise import default_table
from profiler.comparison.paired import paired_rows, pairs_of

FAMILY = 50
#: A row with fewer pairs of processes was left out for time, or the measurement ended early.
FEWEST_PAIRS = 3
METADATA = b"kernel_ladder.noise_check"
FLAGS = frozenset({"regressed", "improved"})
Samples = list[dict[str, Any]]
Rows = dict[str, tuple[Samples, Samples]]


@dataclass(frozen=True)
class Judged:
    """One row: its length, the slow-down put in (0: none), what the rule says."""

    length_us: int
    permille: int
    item: Measured
    row: RowComparison


@dataclass(frozen=True)
class Promise:
    """One thing that is promised, what was found, and whether that keeps it; None: nothing of it was measured."""

    words: str
    found: str
    kept: bool | None


def read(path: Path) -> tuple[Rows, dict[str, Any]]:
    """Return the samples of each row, before and after, as rows of the frame ``samples``, and the facts of the card."""
    table = pq.read_table(path)
    facts = json.loads((table.schema.metadata or {})[METADATA])
    columns = {name: table[name].to_pylist() for name in ("row", "after", "process", "order", "launches", "window_ns")}
    rows: Rows = {}
    for row, after, process, order, launches, window in zip(*columns.values(), strict=True):
        sample = {"process": process, "order": order, "launches": launches, "time_ns": window / launches}
        rows.setdefault(row, ([], []))[after].append(sample)
    return dict(sorted(rows.items())), facts


def slow_down(name: str) -> tuple[int, int]:
    """Return a row's length in us and its slow-down in thousandths, from its name."""
    words = name.split()
    return int(words[-2].removesuffix("us")), 0 if words[0] == "same" else round(float(words[2].rstrip("%")) * 10)


def whole(rows: Rows) -> Rows:
    """Return the rows with enough pairs on both sides to be judged."""

    def pairs(sides: tuple[Samples, Samples]) -> int:
        numbers = [{one["process"] for one in side if one["process"] < CONFIRMATION_BASE} for side in sides]
        return len(numbers[0] & numbers[1])

    return {name: sides for name, sides in rows.items() if pairs(sides) >= FEWEST_PAIRS}


def judge_all(rows: Rows, card: str, design: Design) -> list[Judged]:
    """Return what the rule says: of identical rows 50 at a time, of each slowed row beside 49 identical ones."""
    settings, noise = Settings(), default_table(card)
    items = {name: of_samples((name, ""), *sides, settings) for name, sides in rows.items()}
    same = [name for name in items if name.startswith("same ")]
    slowed = [name for name in items if not name.startswith("same ")]
    found: list[Judged] = []
    for start in range(0, len(same), FAMILY):
        family = same[start : start + FAMILY]
        verdicts = paired_rows([items[name] for name in family], settings, noise, design, identity=False)
        found += [Judged(*slow_down(name), items[name], row) for name, row in zip(family, verdicts, strict=True)]
    company = [items[name] for name in same[:: max(1, len(same) // (FAMILY - 1))]][: FAMILY - 1]
    for name in slowed:
        row = paired_rows([items[name], *company], settings, noise, design, identity=False)[0]
        found.append(Judged(*slow_down(name), items[name], row))
    return found


def promises(found: Sequence[Judged]) -> list[Promise]:
    """Return what ``compare_runs`` promises of this card, held against what was found."""
    identical = [one for one in found if not one.permille]
    flags = sum(one.row.verdict in FLAGS for one in identical)
    apart = None if {one.length_us for one in identical} == {500} else False  # a measurement of these by themselves
    made = [
        Promise("identical code: at least 1500 rows", f"{len(identical)} rows", len(identical) >= 1500 or apart),
        Promise("identical code: at most 1 of them flagged", f"{flags} flagged", flags <= 1 if identical else None),
    ]
    for permille, least in ((20, 57), (50, 59)):
        for length in (100, 500):
            rows = [one for one in found if (one.length_us, one.permille) == (length, permille)]
            seen = sum(one.row.verdict == "regressed" for one in rows)
            kept = len(rows) >= 59 and len(rows) - seen <= 59 - least if rows else None
            text = f"{seen} of {len(rows)}" if rows else "not measured"
            made.append(Promise(f"{permille / 10:g} % slower at {length} us: {least} of 59 found", text, kept))
    return made


def print_tables(found: Sequence[Judged]) -> bool:
    """Print the tables; return whether what is promised was reached; what no row of a length shows is left open."""
    print("\nidentical code (A/A)")
    print(f"{'length':>8} {'time':>9} {'rows':>5} {'flagged':>7} {'suspected':>9} {'not shown':>9} {'pairs':>5} "
          f"{'sd of a pair':>12} {'floor':>7} {'detectable':>10}")  # fmt: skip
    lengths = sorted({one.length_us for one in found})
    identical = [one for one in found if not one.permille]
    for length in lengths:
        rows = [one for one in identical if one.length_us == length]
        if rows:
            print(_same_line(length, rows))
    flags = sum(one.row.verdict in FLAGS for one in identical)
    high = stats.binomtest(flags, len(identical)).proportion_ci(0.95, method="exact").high if identical else 1.0
    print(f"in all {flags} flags of {len(identical)} rows; the 95 % interval ends at {high:.2%}")
    print("\nslower code")
    print(f"{'length':>8} {'put in':>6} {'measured':>8} {'found':>9} {'suspected':>9} {'missed':>6} {'detectable':>10}")
    for length in lengths:
        for permille in sorted({one.permille for one in found if one.permille}):
            rows = [one for one in found if (one.length_us, one.permille) == (length, permille)]
            if rows:
                print(_slower_line(length, permille, rows))
    print(f"\n{'promised':<50} {'found':>12}")
    made = promises(found)
    for one in made:
        mark = {True: "kept", False: "NOT kept", None: "open"}[one.kept]
        print(f"{one.words:<50} {one.found:>12}  {mark}")
    lacking = {us for us in (100, 500) if us not in lengths}
    good = not any(one.kept is False for one in made) and len(lacking) < 2
    short = f", as far as it was measured: nothing of {', '.join(f'{us} us' for us in sorted(lacking))}"
    print(f"what is promised was {'reached' if good else 'NOT reached'}{short if lacking else ''}")
    return good


def _same_line(length: int, rows: Sequence[Judged]) -> str:
    logs = np.concatenate([[*pairs_of(one.item).first, *pairs_of(one.item).second] for one in rows])
    verdicts = [one.row.verdict for one in rows]
    flagged, suspected = sum(v in FLAGS for v in verdicts), verdicts.count("suspected")
    pairs = statistics.mean(one.row.pairs for one in rows)
    length_us = statistics.median(one.item.time_ns for one in rows) / 1e3
    left = len(rows) - verdicts.count("unchanged") - flagged - suspected
    return (
        f"{length:>5} us {length_us:>6.1f} us {len(rows):>5} {flagged:>7} {suspected:>9} {left:>9} {pairs:>5.1f} "
        f"{math.sqrt(float((logs**2).mean())):>12.3%} {_median(rows, 'floor'):>7} {_median(rows, 'detectable'):>10}"
    )


def _slower_line(length: int, permille: int, rows: Sequence[Judged]) -> str:
    seen = sum(one.row.verdict == "regressed" for one in rows)
    suspected = sum(one.row.verdict == "suspected" for one in rows)
    effect = statistics.median(math.expm1(one.item.log_ratio) for one in rows)
    return (
        f"{length:>5} us {permille / 10:>4g} % {effect:>8.2%} {f'{seen} of {len(rows)}':>9} {suspected:>9} "
        f"{len(rows) - seen - suspected:>6} {_median(rows, 'detectable'):>10}"
    )


def _median(rows: Sequence[Judged], which: Literal["floor", "detectable"]) -> str:
    """Return the median of what the rows' verdicts state, as a percentage; a dash where none states it."""
    if which == "floor":
        values = [one.row.noise.sd for one in rows if one.row.noise is not None]
    else:
        values = [one.row.detectable for one in rows if one.row.detectable is not None]
    return f"{statistics.median(values):.2%}" if values else "–"
