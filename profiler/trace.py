"""Stage trace: the living variants launched back to back under Nsight Systems, the trace read into ``spans``.

Without nsys, or where it gives nothing, the same program records itself through CUPTI (PyTorch's profiler); the frame
is the same, and the report says which way it came. A trace that fails costs no variant its status: it adds a view, and
nothing is ranked by it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from profiler import nsys_convert, process
from profiler.analysis import formatting
from profiler.analysis.timeline import timeline
from profiler.analysis.timeline_findings import finding_rows, findings
from profiler.errors import LadderError
from profiler.ncu_command import range_name
from profiler.nsys_command import Trouble, profile_argv, trouble
from profiler.parse import kineto
from profiler.parse.folders import without_folders
from profiler.parse.span_ranges import cut
from profiler.profile import living_pairs
from profiler.profile_cache import Pair
from profiler.run import Run
from profiler.toolchain import Tool

_PROGRAM = "profiler.worker.trace_program"
_LONGEST_S = 1800.0
#: What nsys does after the program has ended: stop, write, import, export.
AFTER_S = 120.0
#: All that the traced program and the tracer are given of the environment; an export holds every variable of it.
KEPT_VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "TMPDIR", "CUDA_HOME", "CUDA_PATH", "TRITON_CACHE_DIR",
    "TRITON_PTXAS_PATH", "XDG_CACHE_HOME", "CC", "CXX",
)  # fmt: skip
_FINDINGS = ("launch_bound", "synchronous", "default_stream", "pageable", "copies_alone", "no_overlap")


@dataclass
class Traced:
    """What one way of tracing gave."""

    route: str
    version: str = ""
    spans: pd.DataFrame | None = None
    gpus: Mapping[int, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    trouble: Trouble | None = None  #: why there is nothing
    seconds: dict[str, float] = field(default_factory=dict)
    told: dict[int, str] = field(default_factory=dict)  #: pairs that the program could not launch, by index


def trace_stage(run: Run) -> None:
    """Trace every living variant at every size; write ``spans`` and the findings that they prove."""
    pairs = living_pairs(run)
    if not pairs:
        run.note("trace", {"outcome": "nothing_to_trace", "reason": "no variant is left to trace"})
        return
    if run.gpu is None:
        run.note("trace", {"outcome": "no_gpu", "reason": "there is no GPU here"})
        return
    nsys = run.toolchain.nsys
    run.say(f"trace: {len(pairs)} variant{'s' * (len(pairs) != 1)} with {'nsys' if nsys else 'CUPTI'}")
    first = with_nsys(run, nsys, pairs) if nsys is not None else None
    why = first.trouble if first is not None else Trouble(run.toolchain.why_missing("nsys") or "nsys was not found")
    result = first
    if result is None or result.spans is None:
        assert why is not None
        run.say(f"trace: {why.message}; through CUPTI instead")
        result = with_cupti(run, pairs)
    _keep(run, pairs, result, why)


def with_nsys(run: Run, nsys: Tool, pairs: Sequence[Pair], stem: str = "trace") -> Traced:
    """Trace under Nsight Systems; what goes wrong is in ``trouble``. ``stem`` names the files in ``raw/``."""
    from profiler.nsys_export import read_export, scrub

    result = Traced("nsys", nsys.version)
    with tempfile.TemporaryDirectory(prefix="kernel-ladder-") as scratch:
        folder = Path(scratch)
        spec, timeout = write_spec(run, pairs, folder)
        env = bare_environment(run, folder)
        began = time.monotonic()
        output = folder / "trace"
        try:
            done = process.run(
                profile_argv(nsys.path, [*program_argv(), str(spec)], output),
                timeout=timeout,
                env=env,
                cwd=folder,
                label="nsys",
            )
        except process.ToolMissing as error:
            result.trouble = Trouble(f"nsys cannot be started: {str(error).rpartition(': ')[2]}")
            return result
        result.seconds["nsys"] = round(time.monotonic() - began, 3)
        run.dir.raw(f"{stem}.nsys.out").write_text(without_folders(done.output), encoding="utf-8")
        _read_status(spec, result)
        if done.timed_out:
            result.trouble = Trouble(f"nsys did not end within {timeout:.0f} s", "raise --timeout")
            return result
        report = nsys_convert.written(output)
        if report is None:
            result.trouble = trouble("nsys", done.output, done.returncode)
            return result
        try:
            export = nsys_convert.to_sqlite(report, nsys.path, folder / "export", timeout_s=AFTER_S, env=env)
            result.seconds["export"] = round(time.monotonic() - began - result.seconds["nsys"], 3)
            scrub(export, run.dir.raw(f"{stem}.sqlite"))
            read = read_export(run.dir.raw(f"{stem}.sqlite"))
        except LadderError as error:
            result.trouble = Trouble(error.message, error.hint)
            return result
    _cut(pairs, result, read.spans.frame)
    used = {int(one) for one in read.spans.frame["device"].dropna().unique()}
    result.gpus = {device: name for device, name in read.gpus.items() if device in used}
    result.remarks = read.remarks
    return result


def with_cupti(run: Run, pairs: Sequence[Pair]) -> Traced:
    """Trace through PyTorch's profiler; what goes wrong is in ``trouble``."""
    result = Traced("cupti")
    with tempfile.TemporaryDirectory(prefix="kernel-ladder-") as scratch:
        folder = Path(scratch)
        spec, timeout = write_spec(run, pairs, folder)
        target = folder / "trace.json"
        began = time.monotonic()
        try:
            done = process.run(
                [*program_argv(), str(spec), "--cupti", str(target)],
                timeout=timeout, env=bare_environment(run, folder), cwd=folder, label="trace",
            )  # fmt: skip
        except process.ToolMissing as error:
            result.trouble = Trouble(f"Python cannot be started: {str(error).rpartition(': ')[2]}")
            return result
        result.seconds["cupti"] = round(time.monotonic() - began, 3)
        run.dir.raw("trace.cupti.out").write_text(without_folders(done.output), encoding="utf-8")
        _read_status(spec, result)
        if done.timed_out:
            result.trouble = Trouble(f"the traced program did not end within {timeout:.0f} s", "raise --timeout")
        elif not target.is_file():
            last = without_folders(process.tail(done.output, 1)).strip()
            how = process.describe_exit(done.returncode)
            result.trouble = Trouble(f"the traced program left no trace ({how}): {last[:160] or 'it said nothing'}")
        if result.trouble is not None:
            return result
        try:
            read = kineto.read(target.read_text(encoding="utf-8", errors="replace"))
        except kineto.NotKineto as error:
            result.trouble = Trouble(f"the trace cannot be read: {error}")
            return result
    _cut(pairs, result, read.frame)
    result.gpus = {0: run.gpu.name} if run.gpu is not None else {}
    result.remarks = read.remarks
    return result


def _keep(run: Run, pairs: Sequence[Pair], result: Traced, why: Trouble | None) -> None:
    """Write what there is: the frame, the findings, and a note of how it went."""
    note: dict[str, Any] = {"route": result.route, "version": result.version, "seconds": result.seconds}
    if result.route == "cupti" and why is not None:
        note["instead"] = {"reason": without_folders(why.message), "hint": without_folders(why.hint)}
    if result.told:
        note["failed"] = {f"{pairs[index][0]} at {pairs[index][1]}": text for index, text in result.told.items()}
    if result.spans is None or not len(result.spans):
        lost = result.trouble or Trouble("the trace holds nothing of the variants")
        note |= {"outcome": "failed", "reason": without_folders(lost.message), "hint": without_folders(lost.hint)}
        run.say(f"no timeline: {lost.message}" + (f"; {lost.hint}" if lost.hint else ""))
        run.note("trace", note)
        return
    line = timeline(result.spans)
    rows = finding_rows(line, findings(line))
    run.dir.write_frame("spans", result.spans)
    run.dir.update_frame("findings", rows, replacing={"name": _FINDINGS})
    remarks = [*result.remarks, "what lay between the variants (inputs, loading, warm-up) is cut out of the timeline"]
    if result.route == "cupti" and why is not None:
        remarks.insert(0, f"traced through CUPTI by PyTorch's profiler, because {_lower(without_folders(why.message))}")
    gpus = {str(device): name for device, name in result.gpus.items()}
    run.note("trace", {**note, "outcome": "ok", "gpus": gpus, "remarks": remarks, "spans": len(result.spans)})
    for row in rows:
        run.say(f"trace: {row['evidence']}")


def _cut(pairs: Sequence[Pair], result: Traced, frame: pd.DataFrame) -> None:
    """Keep what lies in the variants' ranges."""
    ranges = {range_name(index): pair for index, pair in enumerate(pairs)}
    titles = {range_name(index): f"{name} at {formatting.size(size)}" for index, (name, size) in enumerate(pairs)}
    result.spans = cut(frame, ranges, titles)
    if not len(result.spans):
        result.spans = None
        told = next(iter(result.told.values()), "")
        result.trouble = Trouble("the trace holds no launch of a variant" + (f": {told}" if told else ""))


def write_spec(run: Run, pairs: Sequence[Pair], folder: Path) -> tuple[Path, float]:
    """Write what the traced program reads; return its path, and how many seconds the program may take."""
    from profiler.worker.spec import profile_spec

    timeout = min(_LONGEST_S, run.settings.timeout_s * len(pairs) + AFTER_S)
    spec = folder / "spec.json"
    (folder / "export").mkdir()
    spec.write_text(json.dumps({**profile_spec(run, pairs), "timeout_s": timeout}), encoding="utf-8")
    return spec, timeout


def program_argv() -> list[str]:
    """Return the command line of the traced program, less its specification."""
    return [sys.executable, "-P", "-m", _PROGRAM]


def bare_environment(run: Run, folder: Path) -> dict[str, str]:
    """A bare environment: an export holds all of it. Triton keeps its cache, so that nothing is compiled again."""
    from profiler.worker_session import worker_env

    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    kept.setdefault("TRITON_CACHE_DIR", str(Path.home() / ".triton" / "cache"))
    env = worker_env(run.settings.gpu, {**kept, "HOME": str(folder), "LC_ALL": "C"})
    return {**env, "CUDA_MODULE_LOADING": "LAZY"}


def _read_status(spec: Path, result: Traced) -> None:
    try:
        lines = spec.with_suffix(".status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if "seconds" in said:
            result.seconds["program"] = float(said["seconds"])
            result.version = result.version or f"PyTorch {said.get('torch', '')}".strip()
        elif said.get("status") != "ok":
            result.told[int(said["index"])] = without_folders(str(said.get("reason") or "could not be launched"))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
