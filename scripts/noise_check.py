"""How far the verdicts of ``compare_runs`` can be believed on this card: identical code, and slow-downs put in.

    scripts/noise_check.py --output noise.parquet      # needs a GPU; about three minutes
    scripts/noise_check.py --replay noise.parquet      # judges stored samples again, anywhere

Many variants of one kernel of known length (``scripts/noise/delay.cu``) are measured as ``compare_runs --remeasure``
measures: pairs of processes in ABBA order, three to nine of them, fresh pairs where a change shows. Most are the same
code on both sides; of the rest AFTER is 2 % or 5 % slower. Rows are judged in families of 50, as those of an experiment
are, at the default settings. Exit code: 0 what is promised was reached, 1 it was not, 3 there is no GPU.

The samples file is Parquet: ``row`` (such as ``same 100us 0007``), ``after``, ``process`` (of the pair; from 1000 on of
the confirmation), ``order``, ``launches`` and ``window_ns``, the time of all launches; its metadata describes the card.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from profiler.build import build_layouts
from profiler.build_sources import Layout, layout
from profiler.comparison.measured import Measured
from profiler.comparison.merging import Merged, merge
from profiler.comparison.model import CONFIRMATION_BASE, Design, RowComparison, Settings
from profiler.comparison.noise import default_table
from profiler.comparison.paired import paired_rows, pairs_of
from profiler.comparison.rebuild import Side
from profiler.comparison.remeasure import SideBySide, measure_sides
from profiler.comparison.side_by_side import Wanted, decide_by, make_work, row_of, the_card
from profiler.errors import LadderError
from profiler.frames import rows_of
from profiler.header import header_text
from profiler.model import Experiment, Measure, ProblemRef, ProfileOptions, Variant
from profiler.pipeline import worker_session
from profiler.problem_file import problem_class
from profiler.run import Run
from profiler.timing_helpers import helper_library
from profiler.worker_session import WorkerUnusable

HERE = Path(__file__).resolve().parent / "noise"
THREADS = 132 * 128
#: Cycles of a step at the least, and what a launch lasts by itself: kernels are as long as they are called, or a fifth
#: longer.
STEP_CYCLES, LAUNCH_US, CLOCK_GHZ = 4.25, 2.0, 1.98
LAUNCH_STEPS = 900
#: Rows of identical code by length, 1,520 together: most where three pairs decide them.
SAME: Mapping[int, int] = {5: 60, 20: 100, 100: 1300, 500: 60}
PERMILLES = (20, 50)
TRIALS: Mapping[int, int] = {5: 20, 100: 59, 500: 59}
SAMPLES, WARMUP_MS = 12, 300
FAMILY = 50
LARGEST_FILE = 2_000_000
FLAGS = frozenset({"regressed", "improved"})


@dataclass(frozen=True)
class Judged:
    """One row: its length, the slow-down put in (0: none), what the rule says."""

    length_us: int
    permille: int
    item: Measured
    row: RowComparison


def steps_of(length_us: int) -> int:
    """Return the steps of a kernel that lasts at least so long, a multiple of 8."""
    return round((length_us - LAUNCH_US) * CLOCK_GHZ * 1e3 / STEP_CYCLES / 8) * 8


def planned(scale: float) -> list[tuple[str, int, int]]:
    """Return (row, length, slow-down in thousandths) of every row."""
    rows = [(f"same {us}us {i:04d}", us, 0) for us, count in SAME.items() for i in range(max(1, round(count * scale)))]
    return rows + [
        (f"slower by {permille / 10:g}% {us}us {i:04d}", us, permille)
        for us, trials in TRIALS.items()
        for permille in PERMILLES
        for i in range(max(1, round(trials * min(scale, 1.0))))
    ]


def sides_of(rows: Sequence[tuple[str, int, int]], samples: int) -> tuple[Side, Side]:
    """Return both sides: the same rows, in which AFTER is slower where that is wanted."""
    ref = ProblemRef(
        "delay_problem.py:Delay",
        HERE / "delay_problem.py",
        {},
        tuple({"N": THREADS, "STEPS": steps_of(us)} for us in SAME),
        (),
        {"seed": 0},
    )
    made = []
    for after in (False, True):
        variants = tuple(
            Variant(
                name,
                "cuda",
                "fp32",
                source=HERE / "delay.cu",
                params={"EXTRA_PERMILLE": permille if after else 0, "LAUNCH_STEPS": LAUNCH_STEPS},
                requires=(f"STEPS == {steps_of(us)}",),
            )
            for name, us, permille in rows
        )
        experiment = Experiment(
            HERE / "delay.cu", "", "noise_check", "noise check", ref, {}, Measure("cold", samples, WARMUP_MS),
            ProfileOptions(), False, variants,
        )  # fmt: skip
        made.append(Side(experiment))
    return made[0], made[1]


def build_once(run: Run, merged: Merged) -> None:
    """Build each slow-down once, and give every row the library that is its own; ``LadderError`` when that fails."""
    problem = problem_class(run.experiment.problem)
    first: dict[Any, Variant] = {}
    for variant in run.experiment.variants:
        first.setdefault(variant.params["EXTRA_PERMILLE"], variant)
    files: Layout = layout(next(iter(first.values())), problem, header_text(problem, "fp32", {}))
    build_layouts(run, {variant.name: files for variant in first.values()})
    built = run.builds
    lacking = [variant for variant in first.values() if variant.name not in built]
    if lacking:
        reasons = {row["name"]: row["reason"] for row in rows_of(run.dir.frame("variants"))}
        raise LadderError(f"the kernel does not build: {reasons[lacking[0].name]}")
    run.note("builds", {v.name: built[first[v.params["EXTRA_PERMILLE"]].name] for v in run.experiment.variants})


def measure(args: argparse.Namespace) -> tuple[SideBySide, dict[str, Any]]:
    """Measure all rows on this card; return the samples and facts of the card."""
    card, settings = the_card(), Settings()
    rows = planned(args.scale)
    before, after = sides_of(rows, args.samples)
    names = [name for name, _, _ in rows]
    merged = merge(before, after, "noise_check", samples=args.samples, present=(names, names))
    folder = Path(tempfile.mkdtemp(prefix="kernel-ladder-noise-"))
    started = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {line}", file=sys.stderr, flush=True)

    design: Design = "in_process" if args.in_process else "two_process"
    try:
        run = make_work(folder, merged, card, Wanted(settings, design), say)
        with ThreadPoolExecutor(1) as pool:
            helpers = pool.submit(helper_library, run)
            build_once(run, merged)
            decide = decide_by(settings, design, default_table(card.name))
            found = measure_sides(run, merged, design, decide, lambda: worker_session(run), helpers.result)
        variants = run.dir.frame("variants")
        failed = variants[variants["status"] != "ok"]
        for name, reason in list(zip(failed["name"], failed["reason"], strict=True))[:5]:
            say(f"{name}: {reason}")
        facts = {
            "gpu": card.name,
            "driver": card.driver,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "design": design,
            "samples": args.samples,
            "pairs": len(found.pairs),
            "rows": len(rows),
            "failed": len(failed),
            "seconds": round(time.monotonic() - started, 1),
            "timing": {key: value for key, value in found.notes.items()},
        }
        return found, facts
    except WorkerUnusable as error:
        raise LadderError(f"the GPU cannot be used: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def store(path: Path, found: SideBySide, facts: Mapping[str, Any]) -> None:
    """Write the samples file."""
    samples = sorted(found.samples, key=lambda one: (one["variant"], one["process"], one["order"]))
    sides, names = zip(*(str(one["variant"]).split(":", 1) for one in samples), strict=True)
    table = pa.table(
        {
            "row": pa.array(names, pa.string()).dictionary_encode(),
            "after": pa.array([side == "after" for side in sides]),
            "process": pa.array([one["process"] for one in samples], pa.int16()),
            "order": pa.array([one["order"] for one in samples], pa.int16()),
            "launches": pa.array([one["launches"] for one in samples], pa.int16()),
            "window_ns": pa.array([round(one["time_ns"] * one["launches"]) for one in samples], pa.int32()),
        }
    ).replace_schema_metadata({"kernel_ladder.noise_check": json.dumps(facts)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd", compression_level=19)
    size = path.stat().st_size
    print(
        f"{path}: {len(samples)} samples, {size / 1e6:.2f} MB" + ("; too large to keep" if size > LARGEST_FILE else "")
    )


def read(path: Path) -> tuple[dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]], dict[str, Any]]:
    """Return the samples of each row, before and after, as rows of the frame ``samples``, and the facts of the card."""
    table = pq.read_table(path)
    facts = json.loads((table.schema.metadata or {})[b"kernel_ladder.noise_check"])
    columns = {name: table[name].to_pylist() for name in ("row", "after", "process", "order", "launches", "window_ns")}
    rows: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
    for row, after, process, order, launches, window in zip(*columns.values(), strict=True):
        sample = {"process": process, "order": order, "launches": launches, "time_ns": window / launches}
        rows.setdefault(row, ([], []))[after].append(sample)
    return rows, facts


def judge_all(
    rows: Mapping[str, tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]], card: str, design: Design
) -> list[Judged]:
    """Return what the rule says: of identical rows 50 at a time, of each slowed row beside 49 identical ones."""
    settings, noise = Settings(), default_table(card)
    items = {name: row_of((name, ""), *sides, settings) for name, sides in rows.items()}
    same = [name for name in items if name.startswith("same ")]
    slowed = [name for name in items if not name.startswith("same ")]
    found: list[Judged] = []
    for start in range(0, len(same), FAMILY):
        family = same[start : start + FAMILY]
        verdicts = paired_rows([items[name] for name in family], settings, noise, design, identity=False)
        found += [_judged(name, items[name], row) for name, row in zip(family, verdicts, strict=True)]
    company = [items[name] for name in same[:: max(1, len(same) // (FAMILY - 1))]][: FAMILY - 1]
    for name in slowed:
        row = paired_rows([items[name], *company], settings, noise, design, identity=False)[0]
        found.append(_judged(name, items[name], row))
    return found


def _judged(name: str, item: Measured, row: RowComparison) -> Judged:
    words = name.split()
    permille = 0 if words[0] == "same" else round(float(words[2].rstrip("%")) * 10)
    return Judged(int(words[-2].removesuffix("us")), permille, item, row)


def print_tables(found: Sequence[Judged]) -> bool:
    """Print both tables; return whether what is promised was reached."""
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
    print(f"{'length':>8} {'put in':>6} {'measured':>8} {'trials':>6} {'regressed':>9} {'suspected':>9} {'missed':>6}")
    good = flags <= 1 and bool(identical)
    for length in lengths:
        for permille in sorted({one.permille for one in found if one.permille}):
            rows = [one for one in found if (one.length_us, one.permille) == (length, permille)]
            if not rows:
                continue
            seen = sum(one.row.verdict == "regressed" for one in rows)
            suspected = sum(one.row.verdict == "suspected" for one in rows)
            effect = statistics.median(math.expm1(one.item.log_ratio) for one in rows)
            print(f"{length:>5} us {permille / 10:>4g} % {effect:>7.2%} {len(rows):>6} {seen:>9} {suspected:>9} "
                  f"{len(rows) - seen - suspected:>6}")  # fmt: skip
            if length >= 100:
                good = good and len(rows) - seen <= (2 if permille < 50 else 0)
    outcome = "reached" if good else "NOT reached"
    print(f"\npromised: at most one flag; 2 % in 57 of 59 and 5 % in all, from 100 us on: {outcome}")
    return good


def _same_line(length: int, rows: Sequence[Judged]) -> str:
    logs = np.concatenate([[*pairs_of(one.item).first, *pairs_of(one.item).second] for one in rows])
    verdicts = [one.row.verdict for one in rows]
    flagged, suspected = sum(v in FLAGS for v in verdicts), verdicts.count("suspected")
    pairs = statistics.mean(one.row.pairs for one in rows)
    floor = statistics.median(one.row.noise.sd for one in rows if one.row.noise is not None)
    detectable = statistics.median(one.row.detectable for one in rows if one.row.detectable is not None)
    length_us = statistics.median(one.item.time_ns for one in rows) / 1e3
    left = len(rows) - verdicts.count("unchanged") - flagged - suspected
    return (
        f"{length:>5} us {length_us:>6.1f} us {len(rows):>5} {flagged:>7} {suspected:>9} {left:>9} {pairs:>5.1f} "
        f"{math.sqrt(float((logs**2).mean())):>12.3%} {floor:>7.3%} {detectable:>10.2%}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure or replay, print the tables, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=Path, metavar="FILE", help="judge these samples; measure nothing")
    parser.add_argument("--output", type=Path, metavar="FILE", help="keep the samples here")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of a row in one process (default %(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="so much of the plan (default %(default)s)")
    parser.add_argument("--in-process", action="store_true", help="both sides in one process, on the same buffers")
    args = parser.parse_args(argv)
    if args.replay is not None:
        rows, facts = read(args.replay)
    else:
        try:
            found, facts = measure(args)
        except LadderError as error:
            print(f"error: {error}", file=sys.stderr)
            return 3
        with tempfile.TemporaryDirectory() as folder:
            path = args.output or Path(folder) / "noise.parquet"
            store(path, found, facts)
            rows, facts = read(path)
    confirmed = sum(any(s["process"] >= CONFIRMATION_BASE for s in sides[0]) for sides in rows.values())
    print(f"{facts['gpu']}, driver {facts['driver']}, {facts['created']}: {facts['design']}, {facts['seconds']:g} s")
    print(f"{facts['samples']} samples a process, {facts['pairs']} pairs; {confirmed} of {len(rows)} rows confirmed")
    reached = print_tables(judge_all(rows, facts["gpu"], facts["design"]))
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
