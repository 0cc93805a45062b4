"""How much the profiling stage costs beyond ``ncu`` itself.

    python scripts/profile_overhead.py RUN [--pairs 3] [--without naive]

RUN is a finished run directory of this machine (its builds are still in the cache). Alternately starts, each from
nothing: the product's profiling stage in a process of its own, with empty caches of profiles and metric names,
and a bare ``ncu`` of the same program, launches and metrics. Prints the ratios: of the stage alone, and of its process
with imports and the probing of tools. ``--without`` leaves a variant out of both. ``--bare-only`` starts the bare ncu
alone, and holds it against the stage as the run itself had it, from its manifest: half the time of a pair.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--without", action="append", default=[], metavar="VARIANT")
    parser.add_argument("--bare-only", action="store_true", help="take the stage's time from the run's manifest")
    parser.add_argument("--stage-once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--write-bare", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.stage_once:
        return stage_once(chosen.run, chosen.without)
    if chosen.write_bare:
        return write_bare(chosen.run, chosen.write_bare, chosen.without)
    if chosen.bare_only and chosen.without:
        parser.error("the run's own stage profiled every variant: --bare-only takes no --without")
    return compare(chosen.run, 1 if chosen.bare_only else chosen.pairs, chosen.without, chosen.bare_only)


def compare(run: Path, pairs: int, without: list[str], bare_only: bool) -> int:
    """Time both, alternating; print a line a pair and the ratio of medians."""
    from profiler import process
    from profiler.rundir import RunDir

    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    process_s, stage, bare = [], [], []
    less = [word for name in without for word in ("--without", name)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        done = process.run(
            [sys.executable, __file__, str(run), "--write-bare", str(folder), *less], timeout=120, env=env
        )
        if done.returncode:
            sys.exit(done.output)
        argv = json.loads((folder / "argv.json").read_text())
        if bare_only:
            seconds = seconds_of(argv, env)
            own = RunDir.open(run).manifest["stages"]["profile"]["seconds"]
            print(f"the run's profiling stage {own:.2f} s / bare ncu {seconds:.2f} s = {own / seconds:.3f}")
            return 0
        for index in range(pairs):
            copy = folder / f"run{index}"
            shutil.copytree(run, copy)
            started = time.monotonic()
            done = process.run([sys.executable, __file__, str(copy), "--stage-once", *less], timeout=600, env=env)
            process_s.append(time.monotonic() - started)
            if done.returncode:
                sys.exit(done.output)
            said = json.loads(done.stdout.splitlines()[-1])
            stage.append(said["stage_s"])
            bare.append(seconds_of(argv, env))
            print(f"pair {index}: stage {stage[-1]:.2f} s (its process {process_s[-1]:.2f} s), "
                  f"bare ncu {bare[-1]:.2f} s; children {said['children_s']}", flush=True)  # fmt: skip
    middle = statistics.median
    print(f"profiling stage / bare ncu = {middle(stage) / middle(bare):.3f}, its whole process / bare ncu = "
          f"{middle(process_s) / middle(bare):.3f} (medians of {pairs})")  # fmt: skip
    return 0


def seconds_of(argv: list[str], env: dict[str, str]) -> float:
    """Run a command; return its seconds, or end with what it said."""
    from profiler import process

    started = time.monotonic()
    done = process.run(argv, timeout=600, env=env)
    if done.returncode:
        sys.exit(done.output)
    return time.monotonic() - started


def stage_once(path: Path, without: list[str]) -> int:
    """Run the profiling stage of a run, reading no cached profile."""
    from profiler.profile import profile_stage
    from profiler.run import cache_root

    shutil.rmtree(cache_root() / "ncu", ignore_errors=True)  # the chip's metric names are asked for anew
    run = open_run(path, without)
    started = time.monotonic()
    profile_stage(run)
    print(json.dumps({"stage_s": time.monotonic() - started, "children_s": children()}))
    return 0


def children() -> dict[str, float]:
    """Return the seconds that children of each kind took, from the first start to the last end."""
    from profiler.process import LEDGER

    spans: dict[str, tuple[float, float]] = {}
    for one in LEDGER.intervals:
        start, end = spans.get(one.label, (one.start, one.end))
        spans[one.label] = (min(start, one.start), max(end, one.end))
    return {label: round(end - start, 2) for label, (start, end) in spans.items()}


def write_bare(path: Path, folder: Path, without: list[str]) -> int:
    """Write the argument list of the bare ncu: the same program, launches and metrics as the stage."""
    from profiler import profile_cache
    from profiler.metrics import requests
    from profiler.ncu_command import ProfileOptions, profile_argv, range_name
    from profiler.profile import pairs_of
    from profiler.worker.spec import profile_spec

    run = open_run(path, without)
    pairs = pairs_of(run)
    spec = folder / "profile.json"
    spec.write_text(json.dumps(profile_spec(run, pairs)))
    assert run.toolchain.ncu is not None
    assert run.gpu is not None
    names = profile_cache.metric_names(run.toolchain.ncu, run.gpu.compute_capability)
    wanted = run.experiment.profile
    argv = profile_argv(
        run.toolchain.ncu,
        [sys.executable, "-P", "-m", "profiler.worker.profile_program", str(spec)],
        folder / "bare.ncu-rep",
        folder / "bare.log",
        requests(None if names is None else frozenset(names), wanted.metrics),
        [range_name(index) for index in range(len(pairs))],
        ProfileOptions(set=wanted.set, sources=wanted.sources),
    )
    (folder / "argv.json").write_text(json.dumps(argv))
    return 0


def open_run(path: Path, without: list[str]):  # type: ignore[no-untyped-def]
    """Return the run in hand, as the pipeline had it, with caches of profiles ignored."""
    from dataclasses import replace

    from profiler.experiment import find_experiment, parse_experiment
    from profiler.gpu import find_gpus
    from profiler.problem_file import problem_class
    from profiler.run import Run, Settings
    from profiler.rundir import RunDir
    from profiler.toolchain import find_toolchain

    directory = RunDir.open(path)
    stored = directory.manifest["experiment"]
    experiment = parse_experiment(stored["text"], find_experiment(stored["file"]))
    experiment = replace(experiment, variants=tuple(v for v in experiment.variants if v.name not in without))
    gpus, problem = find_gpus()
    if not gpus:
        sys.exit(problem or "there is no GPU here")
    settings = Settings(force=True, gpu=gpus[0].uuid)
    return Run(experiment, problem_class(experiment.problem), directory, settings, find_toolchain(os.environ), gpus[0])


if __name__ == "__main__":
    sys.exit(main())
