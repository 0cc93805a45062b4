"""From what nsys writes to an SQLite export: imports a ``.qdstrm`` where nsys cannot, exports a report."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from pathlib import Path

from profiler import process
from profiler.errors import LadderError
from profiler.nsys_command import Trouble, export_argv, import_argv, trouble
from profiler.parse.versions import version_key
from profiler.toolchain import PINNED, Places, default_places

#: Suffixes of Nsight Systems' own files: reports (the older name, too), and the raw stream that an importer reads.
REPORTS, STREAM = (".nsys-rep", ".qdrep"), ".qdstrm"
_IMPORTER = "QdstrmImporter"


class NotConverted(LadderError):
    """A step gave no file."""


def written(output: Path) -> Path | None:
    """Return what nsys left of a trace into ``output`` (a path without suffix), a report rather than a stream."""
    made = (output.with_suffix(suffix) for suffix in (*REPORTS, STREAM))
    return next((path for path in made if path.is_file() and path.stat().st_size), None)


def to_sqlite(
    source: Path, nsys: Path, folder: Path, *, timeout_s: float, env: Mapping[str, str] | None = None
) -> Path:
    """Return an SQLite export of a report or a stream, written into ``folder``; ``NotConverted`` says what failed."""
    report = source
    if source.suffix == STREAM:
        report = folder / f"{source.stem}.nsys-rep"
        importer = find_importer(nsys, env)
        if importer is None:
            raise NotConverted(
                f"{source.name}: {_IMPORTER}, which turns it into a report, was not found beside nsys",
                hint="install Nsight Systems with its host part, or open the file in its own window once",
            )
        _run(import_argv(importer, source, report), _IMPORTER, report, timeout_s, env)
    target = folder / f"{source.stem}.sqlite"
    _run(export_argv(nsys, report, target), "nsys export", target, timeout_s, env)
    return target


def find_importer(nsys: Path, env: Mapping[str, str] | None = None, places: Places | None = None) -> Path | None:
    """Return the importer that belongs to an nsys: in its tree, else in the newest tree of the usual places.

    nsys lies in ``<tree>/target-linux-x64/`` or ``<tree>/bin/``, the importer in ``<tree>/host-linux-x64/``, or, inside
    Nsight Compute, in ``<tree>/host/linux-desktop-*/`` with nsys in ``<tree>/host/target-linux-x64/``.
    """
    env = os.environ if env is None else env
    trees = [nsys.parent, nsys.parent.parent, nsys.resolve().parent, nsys.resolve().parent.parent]
    found = [path for tree in trees for path in (tree / _IMPORTER, *sorted(tree.glob(f"*/{_IMPORTER}")))]
    if PINNED not in env:
        places = places or default_places()
        for pattern in (f"{places.nsight_systems}/*/{_IMPORTER}", f"{places.nsight_compute}/host/*/{_IMPORTER}"):
            found += [Path(path) for path in sorted(glob.glob(pattern), key=version_key, reverse=True)]
    return next((path for path in found if path.is_file() and os.access(path, os.X_OK)), None)


def _run(argv: list[str], step: str, target: Path, timeout_s: float, env: Mapping[str, str] | None) -> None:
    """Run one step; what counts is the file, for the exit code is 0 after some failures."""
    target.unlink(missing_ok=True)
    try:
        done = process.run(argv, timeout=timeout_s, env=env, label=step)
    except process.ToolMissing as error:
        raise NotConverted(f"{step} cannot be started: {str(error).rpartition(': ')[2]}") from error
    if done.timed_out:
        raise NotConverted(f"{step} did not end within {timeout_s:.0f} s", hint="raise --timeout")
    if not target.is_file() or not target.stat().st_size:
        said: Trouble = trouble(step, done.output, done.returncode)
        raise NotConverted(said.message, hint=said.hint)
