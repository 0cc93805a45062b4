"""The pipeline: a list of stages over one run directory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from filelock import FileLock, Timeout

from profiler import frames, process
from profiler.build import build_stage
from profiler.ceilings import ceiling_library, measure_ceilings
from profiler.clocks import clocks_for
from profiler.controls import controls_for
from profiler.errors import Exit
from profiler.profile import prefetch_metric_names, profile_stage
from profiler.program_profiles import profile_programs
from profiler.program_times import time_programs
from profiler.programs import build_programs
from profiler.replay import replay
from profiler.run import Run, cache_root
from profiler.rundir import RunDir
from profiler.static import static_stage
from profiler.timing import time_stage
from profiler.timing_helpers import helper_library
from profiler.trace import trace_stage
from profiler.verify import verify_stage
from profiler.worker_session import WorkerSession, WorkerUnusable, worker_argv, worker_env

#: The words of ``--stages`` and ``--skip``, in order.
STAGES: tuple[str, ...] = ("build", "static", "verify", "time", "profile", "trace", "report")
#: Stages that need the GPU; the lock is held over them.
DEVICE_STAGES: tuple[str, ...] = ("verify", "time", "profile", "trace")

RenderReport = Callable[[RunDir], None]


@dataclass(frozen=True)
class Choice:
    """Which stages run, and the recording that stands in where no GPU is."""

    stages: tuple[str, ...]
    recording: RunDir | None = None
    gpu_problem: str | None = None  #: the driver is there but does not work


def execute(run: Run, choice: Choice, render: RenderReport) -> Exit:
    """Run the chosen stages that are not done yet; return the exit code. The report is written whatever happened."""
    choice = asked(run, choice)
    with early_start(run, choice) as early:
        with timed_stage(run, "build", choice):
            if "build" in choice.stages and not run.dir.stage_done("build"):
                build_stage(run)
                build_programs(run)
        with timed_stage(run, "static", choice):
            if "static" in choice.stages and not run.dir.stage_done("static"):
                static_stage(run)
        problem = _measure(run, choice, early)
    finish(run)
    if "report" in choice.stages:
        with timed_stage(run, "report", choice, redo=True):
            render(run.dir)
    return exit_code(run, problem, measuring=bool(set(DEVICE_STAGES) & set(choice.stages)))


def asked(run: Run, choice: Choice) -> Choice:
    """Return the choice without the stage trace where neither the experiment nor the command line asks for it."""
    if run.experiment.trace or run.settings.trace:
        return choice
    return replace(choice, stages=tuple(stage for stage in choice.stages if stage != "trace"))


@dataclass(frozen=True)
class EarlyStart:
    """What takes seconds and needs neither the kernels nor the GPU: the worker's imports, the helpers, metric names."""

    session: WorkerSession
    helpers: Future[str | None]
    ceilings: Future[str | None] | None = None  #: None where nobody will look at them


@contextmanager
def early_start(run: Run, choice: Choice) -> Iterator[EarlyStart | None]:
    """Start the worker and the build of the helpers, so that they are ready when the kernels are; None where no stage
    needs them. The worker opens the GPU when it is first spoken to, which is under the card's lock.
    """
    if run.gpu is None or not {"verify", "time"} & set(pending(run, choice)):
        yield None
        return
    pool = ThreadPoolExecutor(max_workers=3)
    with worker_session(run) as session:
        try:
            session.spawn()
            wanted = "report" in choice.stages or bound_by_memory(run)
            ceilings = "time" in pending(run, choice) and wanted
            if "profile" in pending(run, choice):
                pool.submit(prefetch_metric_names, run)
            yield EarlyStart(
                session,
                pool.submit(helper_library, run),
                pool.submit(ceiling_library, run) if ceilings else None,
            )
        except BaseException:
            process.end_running()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def bound_by_memory(run: Run) -> bool:
    """Whether a size of this run is timed beside a copy of the same bytes."""
    problem = run.experiment.problem
    return any(controls_for(run.problem, run.variants, dims, problem.options) for dims in problem.sizes)


def worker_session(run: Run) -> WorkerSession:
    """Return a session with a worker on the run's GPU; its process is not started yet."""
    return WorkerSession(worker_argv(), worker_env(run.settings.gpu, os.environ), run.dir.raw("worker.log"))


def pending(run: Run, choice: Choice) -> list[str]:
    """Return the chosen stages on the device that are not done yet."""
    return [s for s in DEVICE_STAGES if s in choice.stages and not run.dir.stage_done(s)]


def _measure(run: Run, choice: Choice, early: EarlyStart | None) -> str | None:
    """Run the stages on the device, or put a recording in their place; return why the device cannot be used."""
    problem = choice.gpu_problem
    if run.gpu is None and run.dir.manifest["gpu"] is not None:
        return None  # measured elsewhere and carried here: what it holds is neither replaced nor marked as missing
    if run.gpu is None:
        for stage in DEVICE_STAGES:
            if stage in choice.stages:
                run.dir.mark_stage(stage, "skipped", reason=problem or "no GPU")
        if problem is None:
            if not run.dir.manifest.get("replay"):
                replay(run, choice.recording)
        else:
            not_run(run, f"the GPU cannot be used: {problem}")
    else:
        problem = _device_stages(run, choice, early) or problem
    return problem


@contextmanager
def timed_stage(run: Run, stage: str, choice: Choice, *, redo: bool = False) -> Iterator[None]:
    """Mark a stage running, done or failed, with its seconds and the share of its children's; says what it does."""
    if stage not in choice.stages or (run.dir.stage_done(stage) and not redo):
        yield
        return
    started, children = time.monotonic(), process.LEDGER.union_seconds()
    run.dir.mark_stage(stage, "running")
    run.say(f"{stage} ...")
    try:
        yield
    except BaseException as error:
        run.dir.mark_stage(stage, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    seconds = time.monotonic() - started
    in_children = process.LEDGER.union_seconds() - children
    run.dir.mark_stage(stage, "done", seconds=round(seconds, 3), child_seconds=round(in_children, 3))
    run.say(f"{stage}: {seconds:.1f} s")


def _device_stages(run: Run, choice: Choice, early: EarlyStart | None) -> str | None:
    """Run verify, time, profile and trace under the card's lock; return why the device cannot be used, or None."""
    assert run.gpu is not None
    wanted = pending(run, choice)
    if not wanted:
        return None
    with gpu_lock(run, run.gpu.uuid), clocks_for(run):
        try:
            if early is not None:
                helpers = early.helpers.result()
                with early.session as session:  # it ends before the profiler starts, and leaves it the card
                    remember_device(run, session.start())
                    with timed_stage(run, "verify", choice):
                        if "verify" in wanted:
                            verify_stage(run, session, helpers)
                    with timed_stage(run, "time", choice):
                        if "time" in wanted:
                            library = early.ceilings.result() if early.ceilings is not None else None
                            time_stage(run, session, helpers, library)
                            if early.ceilings is not None and "report" in choice.stages:
                                measure_ceilings(run, session, helpers, library)
                            session.close()  # programs are given the card to themselves
                            time_programs(run)
                    run.note("worker", {"started": session.started, "waited_s": round(session.waited_s, 3)})
        except WorkerUnusable as error:
            not_run(run, str(error))
            return str(error)
        with timed_stage(run, "profile", choice):
            if "profile" in wanted:
                profile_stage(run)
                profile_programs(run)
        with timed_stage(run, "trace", choice):
            if "trace" in wanted:
                trace_stage(run)
    return None


@contextmanager
def gpu_lock(run: Run, uuid: str) -> Iterator[None]:
    """Hold the card's lock, across all experiments of this user; says so when it has to wait."""
    folder = cache_root() / "locks"
    folder.mkdir(exist_ok=True)
    lock = FileLock(folder / f"{uuid}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        run.say("another run is using the GPU; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def finish(run: Run) -> None:
    """Set each row's origin, and the account of time spent."""
    rows = frames.rows_of(run.dir.frame("variants"))
    timed = {str(name) for name in run.dir.frame("samples")["variant"].unique()}
    for row in rows:
        if row["origin"] != "recorded":
            row["origin"] = "measured" if row["name"] in timed else "none"
    run.dir.write_frame("variants", rows)


def not_run(run: Run, reason: str) -> None:
    """Mark every living variant ``not_run``."""
    run.fail({v.name: ("not_run", reason) for v in run.alive()})


def exit_code(run: Run, gpu_problem: str | None, *, measuring: bool = True) -> Exit:
    """Return the exit code of a finished run: 0, 1 or 3; ``measuring``: a stage on the device was asked for."""
    rows = frames.rows_of(run.dir.frame("variants"))
    if gpu_problem is not None:
        return Exit.NOTHING
    wanted = [row for row in rows if row["status"] != frames.SKIPPED]
    measured = any(row["origin"] != "none" for row in wanted) or len(run.dir.frame("checks")) > 0
    measured |= (run.dir.manifest.get("trace") or {}).get("outcome") == "ok"
    if wanted and measuring and not measured:
        return Exit.NOTHING
    return Exit.OK if all(row["status"] == "ok" for row in wanted) else Exit.FAILED


def remember_device(run: Run, facts: Mapping[str, Any]) -> None:
    """Keep what a worker says of the device and of its versions."""
    gpu = dict(run.dir.manifest["gpu"] or {})
    gpu.update({k: v for k, v in facts["gpu"].items() if k not in ("uuid", "compute_capability")})
    versions = {**run.dir.manifest["versions"], **{k: v for k, v in facts["versions"].items() if v is not None}}
    run.dir.manifest["versions"] = versions
    run.note("gpu", gpu)
