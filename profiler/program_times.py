"""Times of programs: what they print, or the durations of their kernels in a trace; and the rungs beside them, traced.

An event around a launch cannot be put into somebody else's process, so a program has a time of another kind, and is
held only against what was measured in the same way. Where a program is traced, the living variants of its contract
are traced too, in a process of their own, by the same tool: those durations are a column of their own.

Rounds go over all programs by turns; one sample each, from a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from profiler import frames, nsys_convert, process
from profiler.errors import LadderError
from profiler.model import Dims, Variant
from profiler.nsys_command import LAUNCH_FAILED, profile_argv, trouble
from profiler.parse.folders import without_folders
from profiler.parse.launches import NoSuchLaunch, Wanted, chosen, combined, printed_time_ns
from profiler.profile_cache import Pair
from profiler.programs import KEPT_BYTES, Ended, environment, options_of, programs_of, run_once, scratch, words
from profiler.programs import working_folder as folder_of
from profiler.run import Run
from profiler.sizes import size_key
from profiler.toolchain import Tool
from profiler.trace import AFTER_S, Traced, with_nsys

TRACED, PRINTED = "trace", "printed"
#: Processes that each time is taken in, at least. Six give a median an interval; ``measure.processes`` asks for them.
FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class Taken:
    """One sample of a program: a time and over how many launches it is, or how it failed."""

    time_ns: float = 0.0
    launches: int = 1
    ended: Ended = field(default_factory=Ended)


def time_programs(run: Run) -> None:
    """Time every living program at every size; write ``samples`` and a note; a failure sets the status of its row."""
    programs = programs_of(run)
    if not programs:
        return
    nsys = run.toolchain.nsys
    rounds = max(FEWEST_ROUNDS, run.settings.processes or run.experiment.measure.processes)
    rows: list[dict[str, Any]] = []
    failed: dict[str, tuple[str, str]] = {}
    run.say(f"time: {len(programs)} program{'s' * (len(programs) != 1)}, each in {rounds} processes")
    for number in range(rounds):
        for dims in run.experiment.problem.sizes:
            for variant in programs:
                key = size_key(dims)
                if variant.name in failed or key in _skips(run, variant):
                    continue
                taken = _take(run, nsys, variant, dims, first=number == 0)
                if taken.ended.status != "ok":
                    failed[variant.name] = (taken.ended.status, f"{key}: {taken.ended.reason}")
                    run.say(f"{variant.name} at {key}: {taken.ended.status}: {taken.ended.reason}")
                    continue
                rows.append(_row(run, variant.name, key, number, _method(variant), taken.launches, taken.time_ns))
        alive = [v for v in programs if v.name not in failed and _method(v) == TRACED]
        rows += _rungs(run, nsys, alive, number)
    kept = [row for row in rows if row["variant"] not in failed]
    run.dir.update_frame("samples", kept, replacing={"method": {TRACED, PRINTED}})
    run.fail(failed)


def _take(run: Run, nsys: Tool | None, variant: Variant, dims: Dims, *, first: bool) -> Taken:
    """Take one sample. A program that is traced runs by itself first, once: what fails there is its own fault."""
    time = options_of(variant).time
    if isinstance(time, Mapping):
        ended = run_once(run, variant, dims)
        if ended.status != "ok":
            return Taken(ended=ended)
        try:
            return Taken(printed_time_ns(ended.stdout, time["stdout"], time["unit"]))
        except ValueError as error:
            last = without_folders(process.tail(ended.stdout, 1).strip())[:160] or "nothing"
            return Taken(ended=Ended("launch_failed", f"{error}; its last line is: {last}"))
    if nsys is None:
        why = run.toolchain.why_missing("nsys") or "nsys was not found"
        hint = "or take the time that it prints (`time: {stdout: ..., unit: ...}`)"
        return Taken(ended=Ended("not_run", f"its kernels are timed in a trace, and {without_folders(why)}; {hint}"))
    if first:
        ended = run_once(run, variant, dims)
        if ended.status != "ok":
            return Taken(ended=ended)
    return _traced(run, nsys, variant, dims)


def _traced(run: Run, nsys: Tool, variant: Variant, dims: Dims) -> Taken:
    """Run a program once under Nsight Systems and return what its launches took."""
    from profiler.nsys_export import read_export

    def lost(reason: str, status: str = "launch_failed") -> Taken:
        return Taken(ended=Ended(status, without_folders(reason)))

    timeout = run.settings.timeout_s + AFTER_S
    wanted = Wanted.of(options_of(variant).launches)
    with scratch() as home:
        output, env = home / "trace", environment(run, variant, home)
        (home / "export").mkdir()
        argv = words(run, variant, options_of(variant).argv, dims)
        try:
            done = process.run(
                profile_argv(nsys.path, argv, output, leaves_children=True), timeout=timeout, env=env,
                cwd=folder_of(run, variant), label="nsys", keep_bytes=KEPT_BYTES,
            )  # fmt: skip
        except process.ToolMissing as error:
            return lost(f"nsys cannot be started: {str(error).rpartition(': ')[2]}", "not_run")
        if done.timed_out:
            return lost(f"under nsys it did not end within {timeout:.0f} s", "timeout")
        report = nsys_convert.written(output)
        if report is None:
            said = trouble("nsys", done.output, done.returncode)
            return lost(f"{said.message}{f'; {said.hint}' if said.hint else ''}", "not_run")
        failure = LAUNCH_FAILED.search(done.output)
        if failure is not None:
            return lost(f"under nsys it ended with exit code {failure[1]}, though not by itself")
        try:
            export = nsys_convert.to_sqlite(report, nsys.path, home / "export", timeout_s=AFTER_S, env=env)
            frame = read_export(export).spans.frame
        except LadderError as error:
            return lost(error.message, "not_run")
    kernels = frame[(frame["kind"] == "kernel") & frame["duration_ns"].notna()].sort_values("start_ns", kind="stable")
    names = [str(name) for name in kernels["name"]]
    try:
        places = chosen(names, wanted)
    except NoSuchLaunch as error:
        return lost(str(error))
    durations = [float(kernels["duration_ns"].iloc[place]) for place in places]
    return Taken(combined(durations, wanted.combine), len(places))


def _rungs(run: Run, nsys: Tool | None, programs: Sequence[Variant], number: int) -> list[dict[str, Any]]:
    """Trace the living variants of the programs' contracts, in one process; return their samples."""
    contracts = {program.dtype for program in programs}
    beside = [v for v in run.alive() if v.kind != "command" and v.dtype in contracts]
    pairs: list[Pair] = [(v.name, key) for v in beside for key in run.experiment.size_keys if key not in _skips(run, v)]
    if not pairs or nsys is None:
        return []
    result: Traced = with_nsys(run, nsys, pairs, stem="beside-programs")
    if result.spans is None:
        why = result.trouble.message if result.trouble is not None else "the trace holds nothing"
        run.remark(f"No traced times of the variants beside the programs: {without_folders(why)}.")
        return []
    return [_row(run, name, key, number, TRACED, launches, mean) for (name, key), (launches, mean)
            in traced_means(frames.rows_of(result.spans), pairs).items()]  # fmt: skip


def traced_means(spans: Sequence[Mapping[str, Any]], pairs: Sequence[Pair]) -> dict[Pair, tuple[int, float]]:
    """Return, for each pair that a trace holds, its launches and the mean over them of the sum of their kernels, ns."""
    from profiler.ncu_command import LAUNCH_RANGE

    found = {}
    for pair in pairs:
        mine = [row for row in spans if (row["variant"], row["size"]) == pair]
        launches = sum(row["kind"] == "nvtx" and row["name"] == LAUNCH_RANGE for row in mine)
        total = sum(row["duration_ns"] or 0 for row in mine if row["kind"] == "kernel")
        if launches and total:
            found[pair] = (launches, total / launches)
    return found


def _method(variant: Variant) -> str:
    return PRINTED if isinstance(options_of(variant).time, Mapping) else TRACED


def _skips(run: Run, variant: Variant) -> Mapping[str, Any]:
    found: Mapping[str, Any] = run.dir.manifest.get("skips", {}).get(variant.name, {})
    return found


def _row(run: Run, name: str, size: str, number: int, method: str, launches: int, time_ns: float) -> dict[str, Any]:
    uuid = run.gpu.uuid if run.gpu is not None else None
    return {
        "variant": name, "size": size, "gpu": uuid, "process": number, "order": 0, "method": method, "cache": "own",
        "launches": launches, "time_ns": time_ns, "sm_clock_mhz": None, "temperature_c": None, "power_w": None,
        "throttle": "", "foreign": False,
    }  # fmt: skip
