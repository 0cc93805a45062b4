"""``compare_runs --remeasure``: two runs taken from disk, measured side by side on this card, and kept."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from profiler import gpu, process
from profiler.comparison import ledger
from profiler.comparison.escalation import DONE, Step
from profiler.comparison.kept import FOLDER, Kept, keep
from profiler.comparison.measured import of_samples
from profiler.comparison.merging import Key, Merged, design_of, merge, sided
from profiler.comparison.model import Design, Settings
from profiler.comparison.noise import NoiseTable
from profiler.comparison.paired import pairs_of, step_of
from profiler.comparison.rebuild import Side, stored_side
from profiler.comparison.remeasure import SAMPLES, Decide, SideBySide, build_sides, measure_sides, same_code
from profiler.errors import Exit, LadderError
from profiler.pipeline import worker_session
from profiler.plan import make_run, run_id
from profiler.problem_file import problem_class
from profiler.run import Run
from profiler.run import Settings as RunSettings
from profiler.rundir import RunDir
from profiler.timing_helpers import helper_library
from profiler.toolchain import Gpu, find_toolchain
from profiler.worker_session import WorkerUnusable

#: What must be equal before anything is measured: the same work on the same inputs.
_WORK: Mapping[str, str] = {"problem": "the problem and its options", "init": "how the inputs are made"}


@dataclass(frozen=True)
class Wanted:
    """How to measure."""

    settings: Settings
    design: Design | None = None  #: None: in one process where both sides can be loaded there
    only: tuple[str, ...] = ()
    samples: int | None = None
    timeout_s: float = 120.0


def remeasure(
    given: tuple[RunDir, RunDir],
    names: tuple[str, str],
    wanted: Wanted,
    runs_dir: Path,
    say: Callable[[str], None] = lambda line: None,
) -> Kept:
    """Build both runs from their copies, measure them side by side, and return where the result is kept.

    ``LadderError`` where there is no GPU (3), where the runs are not of the same work (3), and where they have no
    variant and size in common (5).
    """
    card = the_card()
    sides = (stored_side(given[0]), stored_side(given[1]))
    refuse_other_work(sides, wanted.settings)
    present = [[str(name) for name in run.frame("variants")["name"]] for run in given]
    design = wanted.design
    merged = merge(*sides, FOLDER, only=wanted.only, samples=wanted.samples or 1, present=(present[0], present[1]))
    design = design_of(merged, design)
    merged = _with_samples(merged, wanted.samples or max(SAMPLES[design], sides[1].experiment.measure.samples))
    if not merged.names or not merged.experiment.problem.sizes:
        raise LadderError(
            "the two runs have no variant and size in common, so nothing can be measured side by side", code=Exit.BROKEN
        )
    hashes = {
        sided(label, str(name)): str(value)
        for label, run in zip(("before", "after"), given, strict=True)
        for name, value in zip(run.frame("variants")["name"], run.frame("variants")["source_hash"], strict=True)
        if value
    }
    folder = runs_dir / FOLDER / run_id(datetime.now(UTC), *names)
    run = make_work(folder, merged, card, wanted, say)
    try:
        table = ledger.table(run.dir.manifest["gpu"])
        found = measured(run, merged, design, partial(decide_by, wanted.settings, design, table), hashes)
        for key in _WORK:
            if key in wanted.settings.allow:
                run.remark(f"{_WORK[key]} of AFTER were used for both sides, should they differ.")
        kept = keep(folder, run, merged, found, given, names)
    finally:
        _put_away(folder, run.dir.path)
    return kept


def the_card() -> Gpu:
    """Return the GPU to measure on; ``LadderError`` (3) where there is none that works."""
    found, problem = gpu.find_gpus()
    if not found:
        raise LadderError(
            f"--remeasure needs a GPU: {problem or 'there is none here'}",
            hint="compare the stored runs without it",
            code=Exit.NOTHING,
        )
    return found[0]


def refuse_other_work(sides: tuple[Side, Side], settings: Settings) -> None:
    """Raise ``LadderError`` (3) where the sides do not compute the same thing from the same inputs."""
    before, after = (side.experiment.problem for side in sides)
    texts: dict[str, list[str]] = {
        "problem": [f"{ref.kind} {_words(ref.options)}".strip() for ref in (before, after)],
        "init": [_words(ref.init) for ref in (before, after)],
    }
    for key, (was, now) in texts.items():
        if was != now and key not in settings.allow:
            raise LadderError(
                f"incomparable: {_WORK[key]} differ: {was} before, {now} after",
                hint=f"--allow-mismatch {key} measures both sides as AFTER says",
                code=Exit.NOTHING,
            )


def make_work(folder: Path, merged: Merged, card: Gpu, wanted: Wanted, say: Callable[[str], None]) -> Run:
    """Return the run in which both sides are built and measured, below ``folder``."""
    settings = RunSettings(timeout_s=wanted.timeout_s, gpu=card.uuid)
    tools = find_toolchain(os.environ)
    directory = make_run(
        merged.experiment,
        settings,
        tools,
        card,
        folder,
        recorded_arch=None,
        command=["compare_runs", *sys.argv[1:]],
        path=folder / "work",
    )
    return Run(merged.experiment, problem_class(merged.experiment.problem), directory, settings, tools, card, say)


def measured(
    run: Run, merged: Merged, design: Design, decide: Callable[[Collection[Key]], Decide], hashes: Mapping[str, str]
) -> SideBySide:
    """Build, verify and measure both sides; ``LadderError`` (3) where the GPU cannot be used after all."""
    with ThreadPoolExecutor(1) as pool:
        helpers = pool.submit(helper_library, run)
        try:
            build_sides(run, merged, hashes)
            return measure_sides(
                run, merged, design, decide(same_code(run, merged)), lambda: worker_session(run), helpers.result
            )
        except WorkerUnusable as error:
            raise LadderError(f"the GPU cannot be used: {error}", code=Exit.NOTHING) from error
        except BaseException:
            process.end_running()
            raise


def decide_by(settings: Settings, design: Design, table: NoiseTable, same: Collection[Key] = ()) -> Decide:
    """Return what says how many pairs a row still needs: the rule that judges it in the end, on the pairs so far.

    Rows of the same code on both sides (``same``) are controls, and need no more than the first pairs.
    """

    def decide(row: Key, before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Step:
        item = of_samples(row, before, after, settings)
        enough = row in same and len(pairs_of(item).first) >= settings.pairs[0]  # a control: it cannot be flagged
        return DONE if enough else step_of(item, settings, table, design)

    return decide


def _with_samples(merged: Merged, samples: int) -> Merged:
    measure = replace(merged.experiment.measure, samples=samples)
    return replace(merged, experiment=replace(merged.experiment, measure=measure))


def _put_away(folder: Path, work: Path) -> None:
    """Keep the logs of the work and nothing else of it: the sides have the rest."""
    if (work / "raw").is_dir() and not (folder / "raw").exists():
        (work / "raw").rename(folder / "raw")
    shutil.rmtree(work, ignore_errors=True)


def _words(values: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(values.items()))
