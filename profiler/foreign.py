"""Files of Nsight Compute from elsewhere, and whole runs, as one small object: for ``render_report`` and notebooks.

Each launch becomes a variant of its own, whose contract is unknown: no ratio, no rank, no step from one to the next.
Its times are the profiler's own durations, and called so. Nothing is written; of paths in the file only names stay.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler import __version__
from profiler.errors import LadderError, UsageError
from profiler.parse.folders import without_folders

if TYPE_CHECKING:
    import pandas as pd

    from profiler.parse.ncu import RawLaunch, RawReport, Row, Rows

#: Suffixes that are a profiler's file whatever they hold.
REPORT_SUFFIXES = (".ncu-rep", ".ncu-repz", ".nsys-rep", ".sqlite", ".qdrep", ".qdstrm")
_MAGIC = b"NVR\0"
_BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


@dataclass(frozen=True)
class RunFrames:
    """The frames of a run, or of a report from elsewhere, and its manifest. A missing value in ``metrics`` says why."""

    manifest: Mapping[str, Any]
    variants: pd.DataFrame
    checks: pd.DataFrame
    samples: pd.DataFrame
    metrics: pd.DataFrame
    stalls: pd.DataFrame
    source: pd.DataFrame
    rules: pd.DataFrame
    ceilings: pd.DataFrame
    findings: pd.DataFrame
    spans: pd.DataFrame

    def frame(self, name: str) -> pd.DataFrame:
        """Return a frame by its name; ``KeyError`` when there is none of that name."""
        from profiler.frames import FRAME_NAMES

        if name not in FRAME_NAMES:
            raise KeyError(name)
        found: pd.DataFrame = getattr(self, name)
        return found

    def __repr__(self) -> str:
        rows = ", ".join(f"{name} {len(self.frame(name))}" for name in _names() if len(self.frame(name)))
        title = (self.manifest.get("experiment") or {}).get("name", "run")
        return f"RunFrames({title}: {rows or 'no rows'})"


@dataclass(frozen=True)
class Foreign:
    """A file from elsewhere that has been read: the values, what kind of file it is, and remarks on it."""

    path: Path
    kind: str  #: ncu-rep, csv raw or csv details
    report: RawReport
    remarks: tuple[str, ...] = ()


def load_run(path: str | Path) -> RunFrames:
    """Return the frames and the manifest of a run directory; ``UsageError`` when it is none, or damaged."""
    from profiler.rundir import RunDir

    run = RunDir.open(Path(path))
    return RunFrames(run.manifest, **{name: run.frame(name) for name in _names()})


def load_ncu_report(
    path: str | Path, *, all_metrics: bool = False, sass: bool = True, timeout_s: float = 300.0
) -> RunFrames:
    """Return the frames of a ``.ncu-rep``, or of the CSV of ``ncu --csv``, in the shape that a run has.

    ``all_metrics`` adds every scalar of the file to ``metrics``, as ``ncu.<name>``; without ``sass`` nothing is
    disassembled, which is faster. ``LadderError`` with one line of reason when the file cannot be read.
    """
    with ThreadPoolExecutor(1) as pool:  # the frames' libraries load while NVIDIA's reader reads
        loading = pool.submit(import_module, "profiler.frames")
        try:
            foreign = read(Path(path), timeout_s=timeout_s, sass=sass)
        finally:
            loading.result()
    return frames_of(foreign, all_metrics=all_metrics)


def is_foreign(path: Path) -> bool:
    """Whether a path is a file, or named like one of a profiler, rather than a run directory."""
    return path.is_file() or path.name.endswith(REPORT_SUFFIXES)


def read(path: Path, timeout_s: float = 300.0, sass: bool = True) -> Foreign:
    """Return what a file holds; ``LadderError`` with one line of reason when it is not one of ncu's, or damaged."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a file of Nsight Compute")
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    if path.name.endswith(REPORT_SUFFIXES) or head.startswith(_MAGIC) or not _is_text(head):
        return _read_report(path, timeout_s, sass)
    return _read_csv(path)


def frames_of(foreign: Foreign, all_metrics: bool = False) -> RunFrames:
    """Return the frames of a file that has been read, each launch a variant."""
    from profiler import frames
    from profiler.parse.ncu import places_by_name, rows_of_report

    report = foreign.report
    places = places_by_name(report)
    extra = sorted({name for one in report.launches for name in one.scalars}) if all_metrics else []
    rows = rows_of_report(report, places, extra=extra)
    if extra:  # what another launch has and this one lacks is no row of its own
        rows.metrics = [row for row in rows.metrics if not (row["metric"][4:] in extra and row.get("why"))]
    _without_paths(rows)
    variants = [_variant(places[number].variant, launch, number) for number, launch in enumerate(report.launches)]
    listed: dict[str, list[Row]] = {**rows.frames(), "variants": variants}
    made = {name: frames.frame(name, listed.get(name, ())) for name in _names()}
    return RunFrames(_manifest(foreign, rows), **made)


def _names() -> tuple[str, ...]:
    from profiler.frames import FRAME_NAMES

    return FRAME_NAMES


def _is_text(head: bytes) -> bool:
    return head.startswith(tuple(bom for bom, _ in _BOMS)) or (
        bool(head) and b"\0\0" not in head and head[:4].isascii()
    )


def _read_report(path: Path, timeout_s: float, sass: bool) -> Foreign:
    from profiler.ncu_reader import Unreadable, check_file, read_report, reader_paths

    try:
        check_file(path)  # said here, so that no child is started for what is no report
    except Unreadable as error:
        raise UsageError(str(error)) from error
    found = shutil.which("ncu")
    with tempfile.TemporaryDirectory(prefix="kernel-ladder-") as folder:
        beside = reader_paths(Path(found) if found else path)
        report = read_report(path, Path(folder), timeout_s=timeout_s, reader_path=beside, sass=sass)
    return Foreign(path, "ncu-rep", report)


def _read_csv(path: Path) -> Foreign:
    from profiler.parse import ncu_csv

    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    if content.startswith(b"version https://git-lfs"):
        raise UsageError(f"{path.name} is a git-LFS pointer, not the file itself; run `git lfs pull`")
    encoding = next((name for bom, name in _BOMS if content.startswith(bom)), "utf-8")
    try:
        parsed = ncu_csv.parse(content.decode(encoding, errors="replace"))
    except ncu_csv.NotCsv as error:
        raise LadderError(f"{path.name}: {error.reason}", hint=error.hint) from error
    return Foreign(path, f"csv {parsed.page}", parsed.report, parsed.remarks)


def _variant(name: str, launch: RawLaunch, number: int) -> Row:
    return {
        "name": name,
        "status": "ok",
        "verified": "unverified",
        "origin": "recorded",
        "order": number,
        "idea": launch.demangled if launch.demangled != name else None,
    }


def _manifest(foreign: Foreign, rows: Rows) -> dict[str, Any]:
    report, name = foreign.report, foreign.path.name
    session = dict(report.session)
    taken = (
        datetime.fromtimestamp(int(session["taken"]), UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if "taken" in session else ""
    )
    gpu = _gpu(rows) | ({"driver": session["driver"]} if "driver" in session else {})
    profile: dict[str, Any] = {
        "outcome": "ok",
        "ncu_version": session.get("tool"),
        "cache_control": session.get("cache_control"),
        "clock_control": session.get("clock_control"),
        "remarks": [*foreign.remarks, *rows.remarks],
    }
    manifest: dict[str, Any] = {
        "schema": 1,
        "experiment": {"name": foreign.path.stem, "title": name},
        "foreign": {"file": name, "kind": foreign.kind, "launches": len(report.launches), "sha256": report.sha256},
        "gpu": gpu,
        "replay": {"gpu": gpu, "date": taken, "driver": session.get("driver", "")},
        "tools": {"ncu": session["tool"]} if "tool" in session else {},
        "profile": {key: value for key, value in profile.items() if value},
        "command": f"render_report {name}",
        "tool_version": __version__,
        "stages": {},
    }
    if taken:
        manifest["created"] = taken
    return manifest


def _gpu(rows: Rows) -> dict[str, Any]:
    """The GPU as the launches' own metrics name it; several are all named."""
    found: dict[str, list[Any]] = {}
    for row in rows.metrics:
        value = row.get("text") or row.get("value")
        if row["metric"] in ("gpu_name", "compute_capability", "sm_count") and value is not None:
            known = found.setdefault(row["metric"], [])
            if value not in known:
                known.append(value)
    gpu: dict[str, Any] = {}
    if "gpu_name" in found:
        gpu["name"] = ", ".join(str(name) for name in found["gpu_name"])
    if "compute_capability" in found:
        gpu["compute_capability"] = ", ".join(f"{value:.1f}" for value in found["compute_capability"])
        gpu.setdefault("name", f"a GPU of compute capability {gpu['compute_capability']}")
    if len(found.get("sm_count", ())) == 1:
        gpu["sm_count"] = int(found["sm_count"][0])
    return gpu


def _without_paths(rows: Rows) -> None:
    """Keep only the names of source files, in the rows and in the profiler's own sentences."""
    for row in rows.source:
        if row["file"]:
            row["file"] = re.split(r"[/\\]", row["file"])[-1]
    for row in rows.rules:
        row["message"] = without_folders(row["message"])


def launches_shown(data: RunFrames, most: int) -> tuple[RunFrames, int]:
    """Return the frames of the longest launches, in their order, and how many were left out."""
    names: Sequence[str] = list(data.variants["name"])
    if len(names) <= most:
        return data, 0
    durations = data.metrics[data.metrics["metric"] == "duration"]
    longest = durations.sort_values("value", ascending=False, na_position="last", kind="stable")["variant"][:most]
    kept = set(longest) or set(names[:most])
    changed: dict[str, Any] = {"variants": data.variants[data.variants["name"].isin(kept)]}
    for name in ("metrics", "stalls", "source", "rules"):
        frame = data.frame(name)
        changed[name] = frame[frame["variant"].isin(kept)]
    return dataclasses.replace(data, **changed), len(names) - len(kept)
