"""Frames of a run in, one HTML file out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from profiler.analysis.decomposition import profiled_sides
from profiler.analysis.environment import environment, recorded_text
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.leads import leads
from profiler.analysis.predictions import predictions
from profiler.analysis.roofline import roofline
from profiler.analysis.rundata import RunData
from profiler.analysis.stalls import stall_tables
from profiler.analysis.steps import steps
from profiler.errors import Exit, LadderError
from profiler.rundir import RunDir, write_text
from reports.page import render_page
from reports.page_assets import relative_url, write_shared
from reports.sections import environment as environment_section
from reports.sections import ladder as ladder_section
from reports.sections import launches as launches_section
from reports.sections import predictions as predictions_section
from reports.sections import roofline as roofline_section
from reports.sections import stalls as stalls_section
from reports.sections import timeline as timeline_section
from reports.sections import variant as variant_section
from reports.sections import why as why_section

FILES: Mapping[str, str] = {
    "manifest.json": "the experiment, versions, hashes, and how each stage ended",
    "variants.parquet": "one row a variant: status, reason, origin",
    "checks.parquet": "every check: error, tolerance, the baseline's error",
    "samples.parquet": "every timed sample with clock, temperature, power",
    "metrics.parquet": "counters and what was computed from the binaries",
    "stalls.parquet": "cycles per issued instruction by reason",
    "source.parquet": "counters per source line and instruction",
    "rules.parquet": "the profiler's own advice",
    "ceilings.parquet": "roofs measured by small kernels",
    "findings.parquet": "diagnoses with their evidence",
    "spans.parquet": "the timeline",
    "raw": "output of the tools, with the profiler's own report",
    "sources": "each source as it was built",
}

_FOREIGN: Mapping[str, str] = {"nsys": "A file of Nsight Systems from elsewhere"}


def render_run(path: Path, output: Path | None = None, shared_assets: Path | None = None) -> Path:
    """Render the run at ``path`` and return the file written: ``report.html`` in the run, or ``output``.

    With ``shared_assets`` the styles and scripts are written once into that folder, and the page refers to them.
    """
    run = RunDir.open(path)
    target = output if output is not None else path / "report.html"
    files = [(name, text) for name, text in FILES.items() if (path / name).exists()]
    shared = relative_url(write_shared(shared_assets), target) if shared_assets is not None else ""
    write_page(target, render(RunData.load(run, details=True), files, shared))
    return target


def render_foreign(data: RunData, target: Path, shared_assets: Path | None = None) -> Path:
    """Render a profiler's file from elsewhere that has been read; return ``target``, which is all that is written."""
    shared = relative_url(write_shared(shared_assets), target) if shared_assets is not None else ""
    write_page(target, render(data, (), shared))
    return target


def write_page(target: Path, html: str) -> None:
    """Write a page; ``LadderError`` when its place cannot be written."""
    try:
        write_text(target, html)
    except OSError as error:
        raise LadderError(
            f"cannot write the report {target}: {error.strerror}",
            hint="choose a writable file with --output",
            code=Exit.USAGE,
        ) from error


def render(data: RunData, files: Sequence[tuple[str, str]] = (), shared: str = "") -> str:
    """Return the page of a run that has been read; ``shared`` is the address of its assets when they lie outside."""
    if (data.manifest.get("foreign") or {}).get("kind") == "nsys":
        return _render_trace(data, files, shared)
    rows = ladder_rows(data)
    fastest = leads(data, rows)
    lines = [roofline(data, size) for size in data.sizes]
    tables = stall_tables(data, {(row.variant, row.size): row.limit.key for row in rows})
    sections: dict[str, Any] = {
        "ladder": ladder_section.build(data, rows, fastest),
        "launches": launches_section.build(data, rows) if data.foreign else None,
        "roofline": roofline_section.build(data, lines, rows),
        "stalls": stalls_section.build(data, tables, rows),
        "why": why_section.build(data, steps(data, rows), profiled_sides(data), rows),
        "predictions": predictions_section.build(predictions(data)),
        "variants": variant_section.build(data, rows, fastest),
        "timeline": timeline_section.build(data),
        "environment": environment_section.build(data, environment(data), files),
    }
    figures = [
        sections["ladder"]["figure"],
        sections["ladder"]["sizes_figure"],
        sections["roofline"]["figure"],
        sections["stalls"]["figure"],
        sections["why"]["figure"],
        *sections["variants"]["figures"],
    ]
    specs = [figure.spec() for figure in figures if figure is not None]
    return render_page({**_head(data), **sections}, specs, shared)


def _render_trace(data: RunData, files: Sequence[tuple[str, str]], shared: str) -> str:
    """Return the page of a trace from elsewhere: the timeline and nothing of a ladder."""
    sections = {
        "timeline": timeline_section.build(data),
        "environment": environment_section.build(data, environment(data), files),
    }
    return render_page({**_head(data), **sections}, (), shared, "timeline_page.html.j2")


def _head(data: RunData) -> dict[str, Any]:
    manifest = data.manifest
    experiment, problem = manifest.get("experiment") or {}, manifest.get("problem") or {}
    name = str(experiment.get("name") or "run")
    versions = manifest.get("versions") or {}
    version = manifest.get("tool_version") or versions.get("kernel-ladder") or ""
    return {
        "title": str(experiment.get("title") or name),
        "kicker": _FOREIGN.get(data.manifest["foreign"].get("kind"), "A file of Nsight Compute from elsewhere")
        if data.foreign
        else " · ".join(part for part in (name, _problem(problem)) if part),
        "facts": _facts(data),
        "gpu": _gpu(data),
        "recorded": f"{ladder_section.numbers(data)}: {text}" if (text := _recorded(data)) else "",
        "footer": f"kernel-ladder {version}".strip(),
    }


def _gpu(data: RunData) -> str:
    """What a chart's picture says of its numbers: this machine's GPU, or that they are recorded, and where."""
    return _recorded(data) or str((data.manifest.get("gpu") or {}).get("name") or "")


def _recorded(data: RunData) -> str:
    """Where the numbers of a run that replays were recorded; empty for every other run."""
    replay = data.manifest.get("replay")
    return recorded_text(replay) if replay and any(row["origin"] == "recorded" for row in data.variants) else ""


def _problem(problem: Mapping[str, Any]) -> str:
    options = ", ".join(f"{key} {value}" for key, value in (problem.get("options") or {}).items())
    return f"{problem.get('kind', '')}{f' ({options})' if options else ''}"


def _facts(data: RunData) -> list[tuple[str, str]]:
    """The strip under the title: what a reader must know before the first number."""
    manifest = data.manifest
    gpu, tools, recorded = manifest.get("gpu") or {}, manifest.get("tools") or {}, _recorded(data)
    facts = [
        ("GPU", str(gpu.get("name") or ("not named in the file" if data.foreign else "none here"))),
        ("Numbers", "read from the file; nothing was measured here" if data.foreign else recorded or _numbers(data)),
        ("Driver", str(gpu.get("driver") or "")),
        ("Compiler", f"nvcc {tools['nvcc']}" if tools.get("nvcc") else ""),
        ("Compiled for", str(manifest.get("arch") or "")),
        ("Profiler", f"Nsight Compute {tools['ncu']}" if data.foreign and tools.get("ncu") else ""),
        ("Tracer", f"Nsight Systems {tools['nsys']}" if data.foreign and tools.get("nsys") else ""),
        ("Replayed" if recorded and not data.foreign else "Taken", _utc(str(manifest.get("created") or ""))),
    ]
    return [(name, text) for name, text in facts if text]


def _numbers(data: RunData) -> str:
    measured = any(row["origin"] == "measured" for row in data.variants)
    if not measured:
        return "computed from the binaries"
    gpu = (data.manifest.get("gpu") or {}).get("name")
    return f"measured on {gpu}" if gpu else "measured here"


def _utc(text: str) -> str:
    return re.sub(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\+00:00|Z)$", r"\1 \2 UTC", text)
