"""The run directory: manifest, frames, sources and raw tool files; written atomically, one stage at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from profiler import frames
from profiler.errors import Exit, LadderError, UsageError

MANIFEST_SCHEMA = 1


class RunDir:
    """One run on disk. ``manifest`` is a plain dict, saved by :meth:`save`."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> RunDir:
        """Make the folder and write the first manifest; ``LadderError`` when the place cannot be written."""
        try:
            path.mkdir(parents=True, exist_ok=False)
            (path / "raw").mkdir()
            (path / "sources").mkdir()
            run = cls(path, {"schema": MANIFEST_SCHEMA, "stages": {}, **manifest, "frames": {}})
            run.save()
        except FileExistsError as error:
            raise LadderError(f"{path} exists already", code=Exit.USAGE) from error
        except OSError as error:
            raise LadderError(
                f"cannot write the run directory {path}: {error.strerror}",
                hint="choose a writable folder with --runs-dir",
                code=Exit.USAGE,
            ) from error
        return run

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """Return the run at a path; ``UsageError`` when it is none or of a newer schema."""
        file = path / "manifest.json"
        try:
            manifest = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UsageError(f"{path} is not a run directory (no manifest.json)") from error
        except (OSError, ValueError) as error:
            raise UsageError(f"{file}: unreadable: {error}") from error
        schema = manifest.get("schema") if isinstance(manifest, dict) else None
        if not isinstance(schema, int) or schema > MANIFEST_SCHEMA:
            raise UsageError(f"{file}: schema {schema!r}; this version reads up to {MANIFEST_SCHEMA}")
        return cls(path, manifest)

    def save(self) -> None:
        """Write the manifest atomically."""
        write_text(self.path / "manifest.json", json.dumps(self.manifest, indent=2, sort_keys=True) + "\n")

    def frame(self, name: str) -> pd.DataFrame:
        """Return a frame; an empty one when no stage has written it; ``UsageError`` when the file is damaged."""
        path = self.path / f"{name}.parquet"
        if not path.exists():
            return frames.frame(name)
        try:
            return frames.read(path, name)
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: unreadable: {error}") from error

    def write_frame(self, name: str, data: pd.DataFrame | Iterable[Mapping[str, Any]]) -> None:
        """Write a frame, replacing the one that was there; the manifest keeps its hash."""
        path = self.path / f"{name}.parquet"
        frames.write(path, name, data)
        self.manifest.setdefault("frames", {})[name] = _sha256(path)
        self.save()

    def edited_frames(self) -> list[str]:
        """Return the frames that are not what this program wrote: changed since, or gone. A run that keeps no hashes,
        as those of older versions, says nothing of that.
        """
        kept = self.manifest.get("frames")
        known = {name: kept[name] for name in frames.FRAME_NAMES if name in kept} if isinstance(kept, dict) else {}
        paths = {name: self.path / f"{name}.parquet" for name in known}
        return [name for name, path in paths.items() if not path.is_file() or _sha256(path) != known[name]]

    def update_frame(
        self, name: str, rows: Iterable[Mapping[str, Any]], *, replacing: Mapping[str, Iterable[Any]]
    ) -> None:
        """Write rows into a frame; older rows that match every column of ``replacing`` give way to them.

        ``replacing={"variant": {"a"}, "when": {"after"}}`` drops the older rows of variant ``a`` with that ``when``.
        """
        old = self.frame(name)
        if len(old):
            drop = pd.Series(True, index=old.index)
            for column, values in replacing.items():
                drop &= old[column].isin(list(values)).fillna(False).astype(bool)
            old = old[~drop]
        self.write_frame(name, frames.concat(name, [old, frames.frame(name, rows)]))

    def stage_done(self, stage: str) -> bool:
        """Whether a stage has run to its end."""
        return bool(self.manifest["stages"].get(stage, {}).get("status") == "done")

    def mark_stage(self, stage: str, status: str, **facts: Any) -> None:
        """Record a stage's state (``running``, ``done``, ``skipped``, ``failed``) with facts such as its seconds."""
        self.manifest["stages"][stage] = {"status": status, **facts}
        self.save()

    def raw(self, name: str) -> Path:
        """Return the path of a raw tool file; its folder exists."""
        path = self.path / "raw" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def find(runs_dir: Path, run: str) -> Path:
    """Return the directory of a RUN: a path, an id (``experiment/id`` or a unique id), or ``latest``."""
    direct = Path(run)
    if (direct / "manifest.json").is_file():
        return direct
    found = sorted(runs_dir.glob("*/*/manifest.json"), key=lambda p: p.parent.name)
    if run == "latest":
        if not found:
            raise UsageError(f"there is no run in {runs_dir}", hint="start one with run_experiment")
        return found[-1].parent
    matching = [p.parent for p in found if p.parent.name == run or f"{p.parent.parent.name}/{p.parent.name}" == run]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise UsageError(f"{run} names {len(matching)} runs", hint="write experiment/id")
    raise UsageError(f"no run {run!r}: not a run directory, and no id in {runs_dir}")
