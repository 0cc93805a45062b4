"""How far the verdicts of ``compare_runs`` can be believed on this card: identical code, and slow-downs put in.

    scripts/noise_check.py --output noise.parquet                # needs a GPU; ends after about 165 s
    scripts/noise_check.py --in-process --output noise.parquet   # the same with both sides in one process
    scripts/noise_check.py --length 500 --output long.parquet    # kernels of one length only
    scripts/noise_check.py --replay noise.parquet long.parquet   # judges stored samples again, anywhere

Many variants of one kernel of known length (``scripts/noise/delay.cu``) are measured as ``compare_runs --remeasure``
measures: pairs of processes in ABBA order, three to nine of them, fresh pairs where a change shows. Most are the same
code on both sides; of the rest AFTER is 2 % or 5 % slower. Rows are judged in families of 50, as those of an experiment
are, at the default settings. Exit code: 0 what is promised was reached, 1 it was not, 3 there is no GPU.

The first pair tells the pace, from which ``--budget-s`` is planned: rows that do not fit are left out after it, those
of 500 us first, then of identical code; rows of less than 100 us get more than three pairs where time is left. The
samples file is written anew after every pair, so that a measurement that is ended early (TERM, Ctrl-C) is judged as far
as it came.

The file is Parquet: ``row`` (such as ``same 100us 0007``), ``after``, ``process`` (of the pair; from 1000 on of the
confirmation), ``order``, ``launches`` and ``window_ns``, the time of all launches; its metadata describes the card.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from noise_tables import METADATA, judge_all, print_tables, read, slow_down, whole

from profiler.build import build_layouts
from profiler.build_sources import Layout, layout
from profiler.comparison.escalation import DONE, Step
from profiler.comparison.merging import Key, Merged, merge
from profiler.comparison.model import CONFIRMATION_BASE, Design, Settings
from profiler.comparison.noise import default_table
from profiler.comparison.rebuild import Side
from profiler.comparison.remeasure import Decide, SideBySide, measure_sides
from profiler.comparison.side_by_side import Wanted, decide_by, make_work, the_card
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
SAME: Mapping[int, int] = {5: 40, 20: 60, 100: 1400, 500: 20}
PERMILLES = (20, 50)
TRIALS: Mapping[int, int] = {5: 10, 20: 10, 100: 59, 500: 59}
SAMPLES, WARMUP_MS = 8, 300
BUDGET_S = 165.0
#: What a process takes beside its rows (opening the GPU, loading, warming up, ending), assumed until the pace is known.
PROCESS_S = 4.0
#: Shorter rows are not decided by three pairs, and what is promised is not promised of them.
SHORT_US = 100
LARGEST_FILE = 2_000_000
COLUMNS: Mapping[str, pa.DataType] = {
    "row": pa.string(), "after": pa.bool_(), "process": pa.int16(), "order": pa.int16(), "launches": pa.int16(),
    "window_ns": pa.int32(),
}  # fmt: skip


class Budget:
    """Decides what a row needs next as ``compare_runs`` does, as far as there is time for it.

    ``rule`` is that of ``compare_runs``. The first pair, of all rows, tells the pace. ``clock`` counts in seconds from
    the start of the measurement.
    """

    def __init__(
        self,
        rule: Decide,
        names: Sequence[str],
        budget_s: float,
        processes: int,
        clock: Callable[[], float],
        samples: int = SAMPLES,
    ) -> None:
        self._rule, self._budget_s, self._clock = rule, budget_s, clock
        self._lengths = {name: slow_down(name) for name in names}
        self._fixed_s = PROCESS_S * processes
        # The first process launches each kernel 5 times before its samples, to choose a method; later ones 3 times.
        self._later = (samples + 3) / (samples + 5)
        self._began: float | None = None
        self._row_s = 0.0
        self._spent = False
        self.left_out: set[str] = set()
        self.ended_early: set[str] = set()  #: short rows that would have had more pairs

    def __call__(self, row: Key, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Step:
        """Return what a row needs next."""
        step = self._rule(row, before, after)
        if not before or not after:
            self._began = self._clock() if self._began is None else self._began
            return Step(1, 1)
        if not self._row_s:
            self._plan()
        if row[0] in self.left_out:
            return DONE
        pairs = len({one["process"] for one in before})
        if step.stage == 1 and not step.done and pairs >= 3 and self._lengths[row[0]][0] < SHORT_US:
            self._spent = self._spent or not self._has_time(step.pairs)
            if self._spent:
                self.ended_early.add(row[0])
                return DONE
        return step

    @property
    def _slowed(self) -> int:
        return sum(1 for name, (_, permille) in self._lengths.items() if permille and name not in self.left_out)

    def _pairs_s(self, pairs: int, rows: int) -> float:
        return pairs * (self._fixed_s + self._row_s * rows)

    @property
    def _confirming_s(self) -> float:
        """Fresh pairs of what was slowed and of a few that look it, and the last checks."""
        return self._pairs_s(5, self._slowed + len(self._lengths) // 50) + self._fixed_s

    def _has_time(self, pairs: int) -> bool:
        short = sum(length < SHORT_US for length, _ in self._lengths.values())
        return self._clock() + self._pairs_s(pairs, short) + self._confirming_s <= self._budget_s

    def _plan(self) -> None:
        """Leave out what does not fit: first what is 500 us long, then identical code of 100 us."""
        now = self._clock()
        pair_s = now - (self._began or 0.0)
        self._fixed_s = min(self._fixed_s, pair_s / 2)
        self._row_s = max(self._later * (pair_s - self._fixed_s) / len(self._lengths), 1e-6)

        def fits() -> bool:
            rows = len(self._lengths) - len(self.left_out)
            return now + self._pairs_s(2, rows) + self._confirming_s <= self._budget_s

        if not fits():
            self.left_out |= {name for name, (length, _) in self._lengths.items() if length == 500}
        spare = [name for name, found in self._lengths.items() if found == (100, 0)]
        while spare and not fits():
            self.left_out |= {spare.pop() for _ in range(min(10, len(spare)))}


def steps_of(length_us: int) -> int:
    """Return the steps of a kernel that lasts at least so long, a multiple of 8."""
    return round((length_us - LAUNCH_US) * CLOCK_GHZ * 1e3 / STEP_CYCLES / 8) * 8


def planned(scale: float, length_us: int | None = None) -> list[tuple[str, int, int]]:
    """Return (row, length, slow-down in thousandths) of every row, or of those of one length."""
    rows = [(f"same {us}us {i:04d}", us, 0) for us, count in SAME.items() for i in range(max(1, round(count * scale)))]
    rows += [
        (f"slower by {permille / 10:g}% {us}us {i:04d}", us, permille)
        for us, trials in TRIALS.items()
        for permille in PERMILLES
        for i in range(max(1, round(trials * min(scale, 1.0))))
    ]
    return [row for row in rows if length_us in (None, row[1])]


def sides_of(rows: Sequence[tuple[str, int, int]], samples: int) -> tuple[Side, Side]:
    """Return both sides: the same rows, in which AFTER is slower where that is wanted."""
    ref = ProblemRef(
        "delay_problem.py:Delay",
        HERE / "delay_problem.py",
        {},
        tuple({"N": THREADS, "STEPS": steps_of(us)} for us in SAME if us in {length for _, length, _ in rows}),
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


@dataclass
class Measuring:
    """A measurement that goes on: where its samples go, and what is known of it."""

    path: Path
    facts: dict[str, Any]
    started: float
    samples: int = 0  #: how many of them are in ``columns``
    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    def say(self, line: str) -> None:
        """Say what is being done, on standard error."""
        print(f"{time.monotonic() - self.started:6.1f} s  {line}", file=sys.stderr, flush=True)

    def after_pair(self, budget: Budget, found: SideBySide) -> None:
        """Store what there is."""
        self.facts |= {
            "pairs": len(found.pairs),
            "seconds": round(time.monotonic() - self.started, 1),
            "left_out": len(budget.left_out),
            "ended_early": len(budget.ended_early),
            "timing": dict(found.notes),
        }
        for one in found.samples[self.samples :]:
            side, _, name = str(one["variant"]).partition(":")
            window = round(one["time_ns"] * one["launches"])
            values = (name, side == "after", one["process"], one["order"], one["launches"], window)
            for column, value in zip(self.columns.values(), values, strict=True):
                column.append(value)
        self.samples = len(found.samples)
        store(self.path, self.columns, self.facts)


def measure(args: argparse.Namespace, path: Path) -> bool:
    """Measure all rows on this card into ``path``; return whether it came to its end, and was not interrupted."""
    card, settings = the_card(), Settings()
    rows = planned(args.scale, args.length)
    before, after = sides_of(rows, args.samples)
    names = [name for name, _, _ in rows]
    merged = merge(before, after, "noise_check", samples=args.samples, present=(names, names))
    folder = Path(tempfile.mkdtemp(prefix="kernel-ladder-noise-"))
    design: Design = "in_process" if args.in_process else "two_process"
    facts = {
        "gpu": card.name,
        "driver": card.driver,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": args.command,
        "design": design,
        "samples": args.samples,
        "rows": len(rows),
        "failed": 0,
        "complete": False,
    }
    doing = Measuring(path, facts, time.monotonic())
    rule = decide_by(settings, design, default_table(card.name))
    budget = Budget(
        rule, names, args.budget_s, 1 if args.in_process else 2, lambda: time.monotonic() - doing.started, args.samples
    )  # fmt: skip
    run: Run | None = None
    try:
        run = make_work(folder, merged, card, Wanted(settings, design), doing.say)
        with ThreadPoolExecutor(1) as pool:
            helpers = pool.submit(helper_library, run)
            build_once(run, merged)
            found = measure_sides(
                run, merged, design, budget, partial(worker_session, run), helpers.result,
                partial(doing.after_pair, budget),
            )  # fmt: skip
        facts |= {"complete": True, "failed": _failures(run, doing.say)}
        doing.after_pair(budget, found)
    except WorkerUnusable as error:
        raise LadderError(f"the GPU cannot be used: {error}") from error
    except KeyboardInterrupt:
        if not doing.samples:
            raise
        doing.say("interrupted; what was measured is judged")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return bool(facts["complete"])


def _failures(run: Run, say: Callable[[str], None]) -> int:
    variants = run.dir.frame("variants")
    failed = variants[variants["status"] != "ok"]
    for name, reason in list(zip(failed["name"], failed["reason"], strict=True))[:5]:
        say(f"{name}: {reason}")
    return len(failed)


def store(path: Path, columns: Mapping[str, Sequence[Any]], facts: Mapping[str, Any]) -> None:
    """Write the samples file, whole or not at all; sorted once it is complete."""
    table = pa.table({name: pa.array(values, COLUMNS[name]) for name, values in columns.items()})
    if facts["complete"]:
        table = table.sort_by([("row", "ascending"), ("after", "ascending"), ("process", "ascending")])
    table = table.replace_schema_metadata({METADATA: json.dumps(facts)})
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.partial")
    pq.write_table(table, unfinished, compression="zstd", compression_level=19 if facts["complete"] else 3)
    os.replace(unfinished, path)


def print_facts(rows: int, judged: int, confirmed: int, facts: Mapping[str, Any]) -> None:
    """Print what was measured, and how."""
    took = f"{facts['seconds']:g} s{'' if facts['complete'] else '; ended early'}"
    print(f"{facts['gpu']}, driver {facts['driver']}, {facts['created']}: {facts['design']}, {took}")
    print(f"measured with: {facts['command']}; judged again with: scripts/noise_check.py --replay FILE")
    print(f"{facts['samples']} samples a process, {facts['pairs']} pairs; {confirmed} of {judged} rows confirmed")
    left = [
        (rows - judged, "rows have fewer than three pairs, for lack of time, and are not judged"),
        (facts["ended_early"], "rows shorter than 100 us got no more than three pairs in the first stage"),
        (facts["failed"], "variants failed"),
    ]
    for count, words in left:
        if count:
            print(f"{count} {words}")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure or replay, print the tables, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="judge these samples; measure nothing")
    parser.add_argument("--output", type=Path, metavar="FILE", help="keep the samples here")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of a row in one process (default %(default)s)")
    parser.add_argument("--length", type=int, choices=sorted(SAME), metavar="US", help="kernels of one length only")
    parser.add_argument("--scale", type=float, default=1.0, help="so much of the plan (default %(default)s)")
    parser.add_argument(
        "--budget-s", type=float, default=BUDGET_S, metavar="S", help="seconds that it may take (default %(default)g)"
    )
    parser.add_argument("--in-process", action="store_true", help="both sides in one process, on the same buffers")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        path = args.output or Path(folder) / "noise.parquet"
        whole_file = True if args.replay else _measured(args, path)
        if whole_file is None:
            return 3
        files = [read(file) for file in args.replay or [path]]
    for rows, facts in files:
        judged = whole(rows)
        confirmed = sum(any(s["process"] >= CONFIRMATION_BASE for s in sides[0]) for sides in judged.values())
        print_facts(len(rows), len(judged), confirmed, facts)
    if len({(facts["gpu"], facts["design"]) for _, facts in files}) > 1:
        parser.error("these files are of different cards or designs")
    rows = {name: sides for found, _ in files for name, sides in whole(found).items()}
    reached = print_tables(judge_all(rows, files[0][1]["gpu"], files[0][1]["design"]))
    return 0 if reached and whole_file else 1


def _measured(args: argparse.Namespace, path: Path) -> bool | None:
    """Measure into ``path``; return whether it came to its end, None where it cannot be done here."""
    args.command = command_of(args)
    earlier = signal.signal(signal.SIGTERM, _interrupt)
    try:
        whole_file = measure(args, path)
    except LadderError as error:
        print(f"error: {error}", file=sys.stderr)
        return None
    finally:
        signal.signal(signal.SIGTERM, earlier)
    size = path.stat().st_size
    print(f"{path}: {size / 1e6:.2f} MB" + ("; too large to keep" if size > LARGEST_FILE else ""))
    return whole_file


def command_of(args: argparse.Namespace) -> str:
    """Return the command that measures the same again."""
    flags = ["--in-process"] if args.in_process else []
    flags += [] if args.length is None else ["--length", str(args.length)]
    for flag, value, default in (
        ("--samples", args.samples, SAMPLES), ("--scale", args.scale, 1.0), ("--budget-s", args.budget_s, BUDGET_S),
    ):  # fmt: skip
        flags += [flag, f"{value:g}"] if value != default else []
    return " ".join(["scripts/noise_check.py", *flags, "--output FILE"])


def _interrupt(signum: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
