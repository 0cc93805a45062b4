"""Files of Nsight Systems from elsewhere as frames: for ``render_report`` and notebooks. Nothing is written."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler import __version__
from profiler.errors import UsageError
from profiler.foreign import RunFrames

if TYPE_CHECKING:
    from profiler.parse.nsys import Export

_SUFFIXES = (".sqlite", ".sqlite3", ".db", ".nsys-rep", ".qdrep", ".qdstrm")
_SQLITE, _NSYS = b"SQLite format 3\0", (b"NSYS", b"QDSTRM", b"QUADD")
#: A large report takes a while; an nsys that says nothing for so long has hung.
_TIMEOUT_S = 900.0


def is_nsys(path: Path) -> bool:
    """Whether a path is a file of Nsight Systems, by its name or its first bytes."""
    if path.suffix in _SUFFIXES:
        return True
    try:
        with path.open("rb") as file:
            return file.read(16).startswith((_SQLITE, *_NSYS))
    except OSError:
        return False


def load_nsys_report(path: str | Path, *, judged: bool = True, timeout_s: float = _TIMEOUT_S) -> RunFrames:
    """Return the frames of an SQLite export of Nsight Systems, or of a report, which nsys must be here to export.

    ``spans`` is the timeline and ``findings`` what it shows (left empty unless ``judged``); ``manifest["trace"]`` holds
    the file's facts.
    ``LadderError`` with one line of reason when the file cannot be read.
    """
    path = Path(path)
    return frames_of(path, read_nsys(path, timeout_s), judged)


def read_nsys(path: Path, timeout_s: float = _TIMEOUT_S) -> Export:
    """Return what a file of Nsight Systems holds."""
    from profiler import nsys_convert, nsys_export

    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a file of Nsight Systems")
    if path.suffix not in (*nsys_convert.REPORTS, nsys_convert.STREAM) or _is_sqlite(path):
        return nsys_export.read_export(path)
    _check_report(path)
    from profiler.toolchain import find_nsys

    nsys, why = find_nsys()
    if nsys is None:
        raise UsageError(
            f"{path.name} is a Nsight Systems report, which must be exported first, and there is no nsys here to do it "
            f"({why})",
            hint=f"where nsys is: nsys export --type sqlite {path.name}; then render the .sqlite",
        )
    with tempfile.TemporaryDirectory(prefix="kernel-ladder-") as folder:
        made = nsys_convert.to_sqlite(path, nsys.path, Path(folder), timeout_s=timeout_s)
        return nsys_export.read_export(made)


def frames_of(path: Path, export: Export, judged: bool = True) -> RunFrames:
    """Return an export as frames; ``judged`` adds the findings."""
    from profiler import frames
    from profiler.analysis.timeline import timeline
    from profiler.analysis.timeline_findings import finding_rows, findings

    made = {name: frames.frame(name) for name in frames.FRAME_NAMES if name != "spans"}
    made["spans"] = export.spans.frame
    if judged:
        line = timeline(export.spans.frame)
        made["findings"] = frames.frame("findings", finding_rows(line, findings(line)))
    return RunFrames(_manifest(path, export), **made)


def _manifest(path: Path, export: Export) -> dict[str, Any]:
    version = export.facts.get("EXPORT_PRODUCT_VERSION", "")
    used = _used(export)
    names = list(dict.fromkeys(used.values()))
    manifest: dict[str, Any] = {
        "schema": 1,
        "experiment": {"name": path.stem, "title": path.name},
        "foreign": {"file": path.name, "kind": "nsys", "spans": dict(export.spans.counts)},
        "gpu": {"name": ", ".join(names)} if names else {},
        "tools": {"nsys": version} if version else {},
        "trace": {
            "outcome": "ok",
            "route": "nsys",
            "version": version,
            "export_schema": export.facts.get("EXPORT_SCHEMA_VERSION", ""),
            "gpus": {str(device): name for device, name in used.items()},
            "remarks": list(export.remarks),
        },
        "command": f"render_report {path.name}",
        "tool_version": __version__,
        "stages": {},
    }
    if export.taken_ns:
        manifest["created"] = datetime.fromtimestamp(export.taken_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return manifest


def _used(export: Export) -> Mapping[int, str]:
    """The GPUs that did something, as far as the file names them."""
    devices = {int(one) for one in export.spans.frame["device"].dropna().unique()}
    return {device: name for device, name in export.gpus.items() if device in devices or not devices}


def _is_sqlite(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) == _SQLITE
    except OSError:
        return False


def _check_report(path: Path) -> None:
    """Say at once what is no report, before any tool is started for it."""
    from profiler.nsys_export import head_of

    head = head_of(path, 64)
    if head.startswith(b"NVR\0"):
        raise UsageError(f"{path.name} is a report of Nsight Compute under another name; call it .ncu-rep")
