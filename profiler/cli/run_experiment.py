"""``run_experiment EXPERIMENT...``: plan, build, analyse, verify, time, profile, report."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from profiler.cli.after_run import list_runs, open_report, render_into
from profiler.cli.common import print_json, run_app, stderr_console, stdout_console
from profiler.errors import Exit, LadderError, UsageError

if TYPE_CHECKING:
    from profiler.analysis.ladder import LadderRow
    from profiler.analysis.rundata import RunData
    from profiler.analysis.verdicts import Verdict
    from profiler.bare import BareFlags
    from profiler.run import Run
    from profiler.rundir import RunDir
    from profiler.toolchain import Gpu

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

QUICK_STAGES = ("build", "verify", "time")


@app.command()
def run_experiment(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPERIMENT",
            help="A YAML path, a name in experiments/, or kernel.cu or file.py:function with --problem.",
        ),
    ] = None,
    problem: Annotated[str | None, typer.Option(help="Bare file: gemm, or problem.py:ClassName.")] = None,
    size: Annotated[list[str] | None, typer.Option(help="Bare file: 4096,4096,4096 (repeatable).")] = None,
    dtype: Annotated[str | None, typer.Option(help="Bare file: the numeric contract, such as fp32.")] = None,
    set_param: Annotated[list[str] | None, typer.Option(help="Bare file: a macro, BM=128 (repeatable).")] = None,
    option: Annotated[list[str] | None, typer.Option(help="Bare file: layout=nt (repeatable).")] = None,
    call: Annotated[str | None, typer.Option(help="Bare file: the call of its own host function.")] = None,
    runs_dir: Annotated[Path, typer.Option(help="Where run directories go.")] = Path("runs"),
    only: Annotated[list[str] | None, typer.Option(help="Run this variant only (repeatable).")] = None,
    stages: Annotated[str | None, typer.Option(help="Only these stages, comma-separated.")] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Leave a stage out (repeatable).")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Build, verify, time and print the table; no profiler.")
    ] = False,
    set_: Annotated[str | None, typer.Option("--set", help="Counters to collect: ladder or full.")] = None,
    replay: Annotated[str, typer.Option(help="auto, never, or a RUN to replay where there is no GPU.")] = "auto",
    resume: Annotated[str | None, typer.Option(help="Go on with an interrupted RUN.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Read no cache.")] = False,
    reuse_times: Annotated[
        bool, typer.Option("--reuse-times", help="Take times over from the newest run in which nothing differed.")
    ] = False,
    processes: Annotated[int | None, typer.Option(min=1, help="Time in this many processes.")] = None,
    timeout: Annotated[
        float, typer.Option(min=1, help="Longest silence of a variant in one stage, in seconds.")
    ] = 120.0,
    gpus: Annotated[
        str | None, typer.Option(metavar="UUID|device=INDEX|1", help="The GPU to measure on; one of them.")
    ] = None,
    lock_clocks: Annotated[
        bool, typer.Option("--lock-clocks", help="Lock the SM clock while measuring, release it after; may need root.")
    ] = False,
    clock_mhz: Annotated[
        int | None, typer.Option("--clock-mhz", min=1, help="With --lock-clocks: this clock, not the card's default.")
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Copy what replays to experiments/recorded/.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Validate and plan only; runs nothing of the experiment.")
    ] = False,
    init: Annotated[
        str | None, typer.Option(metavar="FILE.cu", help="Write a commented experiment file beside a kernel.")
    ] = None,
    header: Annotated[
        str | None,
        typer.Option(metavar="FILE.yaml", help="Print the generated header (of --only VARIANT, or --dtype)."),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of experiment files.")] = False,
    shared_assets: Annotated[
        bool, typer.Option("--shared-assets", help="Styles and scripts once in RUNS_DIR/assets, not in each report.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, everything else on stderr.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but results and errors.")] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show the command lines of children, and what caches held.")
    ] = False,
) -> int:
    """Run experiments: build, analyse, verify, time, profile, report. Several experiments give one run each."""
    if schema:
        from profiler.schema import json_schema

        print_json(json_schema())
        return Exit.OK
    from profiler.bare import BareFlags
    from profiler.cli.open_experiment import check_one, init_file, print_header

    bare = BareFlags(problem, tuple(size or ()), dtype, tuple(set_param or ()), tuple(option or ()), call)
    if init is not None:
        return init_file(init, bare)
    if header is not None:
        return print_header(header, bare, tuple(only or ()))
    chosen = choose_stages(stages, skip or [], quick=quick, resumed=resume is not None)
    if set_ not in (None, "ladder", "full"):
        raise UsageError(f'--set {set_}: no such set, choose "ladder" or "full"')
    if clock_mhz is not None and not lock_clocks:
        raise UsageError("--clock-mhz says at which clock --lock-clocks holds the card", hint="add --lock-clocks")
    if record and reuse_times:
        raise UsageError("--record keeps what this run measured itself", hint="leave --reuse-times out")
    if resume is None and not experiments:
        raise UsageError("no experiment given", hint="run_experiment gemm_ladder.yaml")
    if resume is not None and experiments and len(experiments) > 1:
        raise UsageError("--resume goes on with one run")
    flags = Flags(
        runs_dir=runs_dir,
        only=tuple(only or ()),
        stages=chosen,
        profile_set=set_,
        replay=replay,
        resume=resume,
        force=force,
        processes=processes,
        timeout_s=timeout,
        record=record,
        quiet=quiet,
        verbose=verbose,
        reuse_times=reuse_times,
        gpus=gpus,
        lock_clocks=lock_clocks,
        clock_mhz=clock_mhz,
        trace="trace" in chosen and bool(stages),
        shared_assets=shared_assets,
        open=open_,
    )
    documents: list[dict[str, Any]] = []
    worst = Exit.OK
    for text in experiments or [""]:
        try:
            code, document = check_one(text, bare) if check else run_one(text, flags, bare, human=not json_)
        except LadderError as error:
            if len(experiments or ()) < 2:
                raise
            print(f"error: {error}", file=sys.stderr)  # the others have their runs all the same
            code, document = error.code, {"experiment": text, "exit": int(error.code), "error": str(error)}
        documents.append(document)
        worst = worse_exit(worst, code)
    if json_:
        print_json(documents[0] if len(documents) == 1 else documents)
    return worst


@dataclass(frozen=True)
class Flags:
    """The command line, as far as a single experiment cares."""

    runs_dir: Path
    only: tuple[str, ...]
    stages: tuple[str, ...]
    profile_set: str | None
    replay: str
    resume: str | None
    force: bool
    processes: int | None
    timeout_s: float
    record: bool
    quiet: bool
    verbose: bool
    reuse_times: bool
    gpus: str | None
    lock_clocks: bool
    clock_mhz: int | None
    trace: bool  #: asked for by name
    shared_assets: bool
    open: bool


def choose_stages(stages: str | None, skip: Sequence[str], *, quick: bool, resumed: bool) -> tuple[str, ...]:
    """Return the stages to run; ``UsageError`` for unknown words and for time without verify."""
    from profiler.pipeline import STAGES

    if quick and stages:
        raise UsageError("--quick and --stages exclude each other")
    named = [word.strip() for word in stages.split(",")] if stages else list(QUICK_STAGES if quick else STAGES)
    skipped = [word.strip() for text in skip for word in text.split(",")]
    for word in [*named, *skipped]:
        if word not in STAGES:
            raise UsageError(f"{word!r} is no stage", hint="stages are " + ", ".join(STAGES))
    chosen = tuple(s for s in STAGES if s in named and s not in skipped)
    if "time" in chosen and "verify" not in chosen and not resumed:
        raise UsageError("time without verify: a variant has no time before it is verified", hint="add verify")
    return chosen


def run_one(text: str, flags: Flags, bare: BareFlags, *, human: bool) -> tuple[Exit, dict[str, Any]]:
    """Run (or resume) one experiment and print its result."""
    from profiler import process
    from profiler.analysis.ladder import ladder_rows
    from profiler.analysis.leads import leads
    from profiler.analysis.rundata import RunData
    from profiler.analysis.verdicts import verdicts
    from profiler.cli.open_experiment import locate_experiment, open_experiment
    from profiler.experiment import parse_experiment
    from profiler.gpu import choose_gpu, find_gpus
    from profiler.pipeline import Choice, execute
    from profiler.plan import make_run
    from profiler.problem_file import problem_class
    from profiler.replay import find_recording, record
    from profiler.run import Run, Settings
    from profiler.rundir import RunDir, find
    from profiler.toolchain import find_toolchain

    started = time.monotonic()
    console = stderr_console()

    def say(line: str) -> None:
        if not flags.quiet:
            console.print(line, markup=False)

    def detail(line: str) -> None:
        if flags.verbose:
            console.print(line, markup=False, style="dim")

    process.watch(detail if flags.verbose else None)
    resumed = None if flags.resume is None else RunDir.open(find(flags.runs_dir, flags.resume))
    gpus, gpu_problem = find_gpus()
    gpu = choose_gpu(gpus, flags.gpus or begun_on(resumed, gpus))
    settings = Settings(
        timeout_s=flags.timeout_s,
        only=flags.only,
        force=flags.force,
        replay=flags.replay,
        processes=flags.processes,
        profile_set=flags.profile_set,
        gpu=gpu.uuid if gpu else "0",
        reuse_times=flags.runs_dir if flags.reuse_times else None,
        lock_clocks=flags.lock_clocks,
        clock_mhz=flags.clock_mhz,
        trace=flags.trace,
    )
    if flags.lock_clocks and gpu is None:
        say("--lock-clocks: there is no GPU here, so there is nothing to lock")
    if resumed is None:
        experiment = open_experiment(text, bare, quiet=flags.quiet)
    else:
        check_resumable(resumed, gpu, flags.stages)
        stored = resumed.manifest["experiment"]
        experiment = parse_experiment(stored["text"], locate_experiment(text or stored["file"]))
    recording = None if gpu else find_recording(experiment, flags.replay, flags.runs_dir)
    toolchain = find_toolchain(os.environ)
    directory = resumed or make_run(
        experiment,
        settings,
        toolchain,
        gpu,
        flags.runs_dir,
        recorded_arch=str(recording.manifest["arch"]) if recording else None,
        command=["run_experiment", *sys.argv[1:]],
    )
    run = Run(experiment, problem_class(experiment.problem), directory, settings, toolchain, gpu, say, detail)
    try:
        render = partial(render_into, shared_assets=flags.runs_dir / "assets" if flags.shared_assets else None)
        code = execute(run, Choice(flags.stages, recording, gpu_problem), render)
    except KeyboardInterrupt:
        console.print(f"interrupted; go on with: run_experiment --resume {directory.path}", markup=False)
        raise
    wall = time.monotonic() - started
    children = process.LEDGER.union_seconds()
    run.note(
        "wall",
        {"seconds": round(wall, 3), "child_seconds": round(children, 3), "own_seconds": round(wall - children, 3)},
    )
    list_runs(flags.runs_dir, directory.path, say)
    data = RunData.load(directory)
    rows = ladder_rows(data)
    found = verdicts(data, leads(data, rows))
    if human:
        print_result(run, data, rows, found)
    if flags.record:
        try:
            say(f"recorded: {record(directory)}")
        except LadderError as error:  # the run stands, and its result is told
            print(f"error: {error}", file=sys.stderr)
            code = worse_exit(code, error.code)
    document = result_document(run, code, rows, found)
    if flags.open:
        open_report(directory.path / "report.html", say)
    return code, document


def begun_on(resumed: RunDir | None, gpus: Sequence[Gpu]) -> str | None:
    """Return the UUID of the GPU that a run was begun on, where it is one of these."""
    uuid = None if resumed is None else (resumed.manifest.get("gpu") or {}).get("uuid")
    return uuid if any(gpu.uuid == uuid for gpu in gpus) else None


def check_resumable(directory: RunDir, gpu: Gpu | None, stages: Sequence[str]) -> None:
    """Raise ``UsageError`` where going on with a run would mix what was measured, recorded and left out."""
    from profiler.pipeline import DEVICE_STAGES

    pending = [stage for stage in DEVICE_STAGES if stage in stages and not directory.stage_done(stage)]
    if "time" in stages and "verify" not in stages and not directory.stage_done("verify"):
        raise UsageError("time without verify: this run has not verified its variants", hint="add verify")
    if gpu is not None and directory.manifest.get("replay"):
        raise UsageError("this run replays a recording; there is a GPU here", hint="start a new run, without --resume")
    begun = directory.manifest.get("gpu") or {}
    if begun and pending and (gpu is None or gpu.uuid != begun.get("uuid")):
        raise UsageError(
            f"this run was begun on {begun.get('name')} ({begun.get('uuid')}), which is not the GPU here",
            hint="start a new run; --stages report renders what there is",
        )


def result_document(run: Run, code: Exit, rows: Sequence[LadderRow], found: Sequence[Verdict]) -> dict[str, Any]:
    """Return what ``--json`` prints for one run."""
    from profiler import frames
    from profiler.analysis.verdicts import verdict_document
    from profiler.cli.ladder_table import ladder_document

    report = run.dir.path / "report.html"
    return {
        "run": str(run.dir.path),
        "experiment": run.experiment.name,
        "exit": int(code),
        "report": str(report) if report.is_file() else None,
        "wall": run.dir.manifest.get("wall"),
        "stages": run.dir.manifest["stages"],
        "replay": run.dir.manifest.get("replay"),
        "reused_times": run.dir.manifest.get("reused_times"),
        "variants": [
            {k: row[k] for k in ("name", "dtype", "kind", "status", "reason", "verified", "origin")}
            for row in frames.rows_of(run.dir.frame("variants"))
        ],
        "verdicts": verdict_document(found),
        "ladder": ladder_document(rows),
    }


def print_result(run: Run, data: RunData, rows: Sequence[LadderRow], found: Sequence[Verdict]) -> None:
    """Print the ladder table, the verdict, and where the files are."""
    from profiler.analysis.taken_over import reused_text
    from profiler.analysis.verdicts import all_lines
    from profiler.cli.ladder_table import ladder_table

    console = stdout_console()
    console.print(ladder_table(rows, run.experiment.title))
    replayed = run.dir.manifest.get("replay")
    if replayed:
        gpu = (replayed.get("gpu") or {}).get("name", "another GPU")
        console.print(f"no GPU here: times and counters were recorded on {gpu}, {replayed['date'][:10]}", markup=False)
    if taken := reused_text(data.manifest):
        console.print(taken, markup=False)
    for line in all_lines(data, rows, found):
        console.print(line, markup=False)
    for label, path in (
        ("report", run.dir.path / "report.html"),
        ("capture", run.dir.path / "raw" / "profile.ncu-rep"),
    ):
        if path.is_file():
            console.print(f"{label}: {path}", markup=False, soft_wrap=True)


def worse_exit(a: Exit, b: Exit) -> Exit:
    """Return the worse of two exit codes: 2, then 3, then 1, then 0."""
    order = [Exit.INTERRUPTED, Exit.USAGE, Exit.NOTHING, Exit.FAILED, Exit.OK]
    return min(a, b, key=order.index)


def main(argv: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_app(app, argv)


if __name__ == "__main__":
    sys.exit(main())
