"""``runs/index.html``: every run of a runs directory on one page, newest first, with its verdicts and its report.

``index.json`` beside it holds the same for programs, and what need not be read again: a run whose manifest has not
changed since. Both are replaced atomically; of two runs that end at once, the later one lists both.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from profiler import __version__
from profiler.analysis import formatting
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.leads import leads
from profiler.analysis.rundata import RunData
from profiler.analysis.verdicts import verdicts
from profiler.errors import LadderError
from profiler.rundir import RunDir, write_text
from reports.page import render_index

_SCHEMA = 1
#: What reading a folder that only looks like a run can end in: its manifest may have any shape.
_UNREADABLE = (LadderError, OSError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True)
class RunSummary:
    """One run in the list; ``problem`` says why the rest is missing."""

    run: str  #: experiment/id, as every command takes it
    stamp: str  #: changes when the manifest does
    experiment: str = ""
    title: str = ""
    created: str = ""
    gpu: str = ""
    origin: str = ""
    verdicts: list[dict[str, str]] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    problem: str = ""


def write_index(runs_dir: Path) -> Path:
    """Write the list of the runs in a runs directory and return its path."""
    known = _known(runs_dir / "index.json")
    runs = [_summary(runs_dir, path.parent, known) for path in runs_dir.glob("*/*/manifest.json")]
    runs.sort(key=lambda run: (run.run.rpartition("/")[2], run.run), reverse=True)
    document = {"schema": _SCHEMA, "version": __version__, "runs": [asdict(run) for run in runs]}
    write_text(runs_dir / "index.json", json.dumps(document, indent=1, sort_keys=True) + "\n")
    target = runs_dir / "index.html"
    write_text(target, render_index([_shown(runs_dir, run) for run in runs]))
    return target


def summarise(path: Path, run: str = "", stamp: str = "") -> RunSummary:
    """Return what the list says of the run at ``path``; one that cannot be read keeps its row and the reason."""
    run = run or f"{path.parent.name}/{path.name}"
    try:
        data = RunData.load(RunDir.open(path))
        manifest = data.manifest
        experiment, replay = manifest.get("experiment") or {}, manifest.get("replay") or {}
        rows = ladder_rows(data)
        return RunSummary(
            run=run,
            stamp=stamp,
            experiment=str(experiment.get("name") or path.parent.name),
            title=str(experiment.get("title") or ""),
            created=str(manifest.get("created") or ""),
            gpu=str((manifest.get("gpu") or replay.get("gpu") or {}).get("name") or ""),
            origin=_origin({str(row["origin"]) for row in data.variants}),
            verdicts=[
                {
                    "dtype": v.dtype,
                    "figure": v.ratio,
                    "variant": formatting.short(v.row.variant, 40) + (" (tied)" if v.lead.ties else ""),
                    "text": " ".join(v.sentences),
                }
                for v in verdicts(data, leads(data, rows))
            ],
            statuses=dict(Counter(str(row["status"]) for row in data.variants)),
            reasons=_reasons(data),
        )
    except _UNREADABLE as error:
        return RunSummary(run=run, stamp=stamp, experiment=path.parent.name, problem=_problem(error, path))


def _summary(runs_dir: Path, path: Path, known: dict[str, RunSummary]) -> RunSummary:
    run = path.relative_to(runs_dir).as_posix()
    try:
        found = (path / "manifest.json").stat()
        stamp = f"{found.st_mtime_ns}-{found.st_size}"
    except OSError:
        stamp = ""
    old = known.get(run)
    return old if old is not None and stamp and old.stamp == stamp else summarise(path, run, stamp)


def _known(path: Path) -> dict[str, RunSummary]:
    """What an earlier list knows; nothing when there is none, or it is damaged or of another version."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != _SCHEMA or document["version"] != __version__:
            return {}
        return {row["run"]: RunSummary(**row) for row in document["runs"]}
    except _UNREADABLE:
        return {}


def _shown(runs_dir: Path, run: RunSummary) -> dict[str, Any]:
    report = runs_dir / run.run / "report.html"
    return {
        **asdict(run),
        "id": run.run.rpartition("/")[2],
        "date": run.created[:16].replace("T", " "),
        "href": quote(f"{run.run}/report.html") if report.is_file() else "",
        "states": [
            (formatting.status(status), count, status) for status, count in sorted(run.statuses.items(), key=_worst)
        ],
    }


def _worst(item: tuple[str, int]) -> tuple[bool, str]:
    return (item[0] != "ok", item[0])


def _origin(origins: set[str]) -> str:
    return "measured" if "measured" in origins else "recorded" if "recorded" in origins else "not measured"


def _reasons(data: RunData) -> list[str]:
    """Why variants have no result; those with one reason share a line."""
    names: dict[str, list[str]] = {}
    for row in data.variants:
        if row["status"] not in ("ok", "skipped"):
            why = str(row["reason"] or formatting.status(str(row["status"])))
            names.setdefault(why, []).append(formatting.short(str(row["name"]), 40))
    return [f"{formatting.listed(found)}: {why}" for why, found in names.items()]


def _problem(error: Exception, path: Path) -> str:
    """One line without the folder's own path: a list that is passed on must not name this machine's folders."""
    if not isinstance(error, LadderError):
        return f"not a run of this tool, or a damaged one ({type(error).__name__})"
    return " ".join(error.message.replace(f"{path}/", "").replace(str(path), "it").split())[:200]
