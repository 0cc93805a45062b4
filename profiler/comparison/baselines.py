"""Named baselines: copies of runs that later ones are held against, under ``baselines/`` in the runs directory."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from profiler import frames
from profiler.analysis.taken_over import reused_times
from profiler.errors import Exit, LadderError, UsageError
from profiler.rundir import RunDir, find
from profiler.suggest import near_match

FOLDER = "baselines"
#: One level below the name, so that no search for runs takes a baseline for one.
_RUN = "run"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_KEPT = ("manifest.json", *(f"{name}.parquet" for name in frames.FRAME_NAMES))
_STAGES = ("build", "verify", "time")
_SOUND = frozenset({"ok", frames.SKIPPED})


def find_run(runs_dir: Path, text: str) -> Path:
    """Return the directory of a RUN: a path, a baseline's name, an id, or ``latest``."""
    if (Path(text) / "manifest.json").is_file():
        return Path(text)
    if _NAME.fullmatch(text) and (runs_dir / FOLDER / text / _RUN / "manifest.json").is_file():
        return runs_dir / FOLDER / text / _RUN
    try:
        return find(runs_dir, text)
    except UsageError as error:
        known = names(runs_dir)
        near = near_match(text, known)
        if text == "latest" or not known:
            raise
        said = f'did you mean the baseline "{near}"?' if near else f"baselines: {', '.join(known)}"
        raise UsageError(error.message, hint=f"{error.hint}; {said}" if error.hint else said) from error


def names(runs_dir: Path) -> list[str]:
    """Return the names of the baselines."""
    return sorted(path.parent.parent.name for path in (runs_dir / FOLDER).glob(f"*/{_RUN}/manifest.json"))


def check_name(name: str) -> None:
    """Raise ``UsageError`` for what cannot be a baseline's name."""
    if name == "latest" or _NAME.fullmatch(name) is None:
        raise UsageError(
            f"--save-baseline {name!r}: a name is made of letters, digits, '.', '_' and '-', and is not latest"
        )


def save(runs_dir: Path, name: str, run: RunDir) -> Path:
    """Copy a run's frames and sources under a name, replacing an older baseline of that name; return the copy.

    ``LadderError`` (5) for a run that is not complete: what it lacks would never be missed by a later comparison.
    """
    check_name(name)
    lacking = why_incomplete(run)
    if lacking:
        raise LadderError(
            f"--save-baseline {name}: {run_name(run)} is incomplete: {lacking}",
            hint="a baseline needs every row built, verified and measured",
            code=Exit.BROKEN,
        )
    target = runs_dir / FOLDER / name / _RUN
    staged = target.with_name(f".{_RUN}.{os.getpid()}.partial")
    try:
        shutil.rmtree(staged, ignore_errors=True)
        staged.mkdir(parents=True)
        for file in _KEPT:
            if (run.path / file).is_file():
                shutil.copyfile(run.path / file, staged / file)
        if (run.path / "sources").is_dir():
            shutil.copytree(run.path / "sources", staged / "sources")
        RunDir(staged, {**run.manifest, "saved_as": {"name": name, "run": run_name(run)}}).save()
        if target.resolve() != run.path.resolve():
            shutil.rmtree(target, ignore_errors=True)
            staged.rename(target)
    except OSError as error:
        raise LadderError(f"the baseline {name} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return target


def why_incomplete(run: RunDir) -> str:
    """Return what keeps a run from being a baseline, in words; empty when nothing does."""
    stages = run.manifest.get("stages") or {}
    for stage in _STAGES:
        status = (stages.get(stage) or {}).get("status")
        if status != "done":
            return f"the stage {stage} is {status or 'missing'}"
    rows = frames.rows_of(run.frame("variants"))
    bad = [row for row in rows if row["status"] not in _SOUND]
    if bad:
        return f"{bad[0]['name']} is {bad[0]['status'] or 'not_run'}" + _more(len(bad))
    alive = [row for row in rows if row["status"] != frames.SKIPPED]
    if not alive:
        return "it measured nothing"
    elsewhere = [row for row in alive if row["origin"] != "measured"]
    if elsewhere:
        origin = elsewhere[0]["origin"] or "none"
        return f"the times of {elsewhere[0]['name']} are not measured (origin {origin})" + _more(len(elsewhere))
    if taken := reused_times(run.manifest):
        return f"the times of {min(taken)} were taken over from an earlier run" + _more(len(taken))
    samples = run.frame("samples")
    timed = set(zip(samples["variant"], samples["size"], strict=True))
    skipped = run.manifest.get("skips") or {}
    sizes = (run.manifest.get("problem") or {}).get("sizes") or []
    untimed = [
        (row["name"], size)
        for row in alive
        for size in sizes
        if (row["name"], size) not in timed and size not in (skipped.get(row["name"]) or {})
    ]
    return f"{untimed[0][0]} has no times at {untimed[0][1]}" + _more(len(untimed)) if untimed else ""


def run_name(run: RunDir) -> str:
    """Return a run as people name it: ``experiment/id``, or a baseline's name with the run it is a copy of."""
    saved = run.manifest.get("saved_as")
    if isinstance(saved, dict) and saved.get("name"):
        return f"{saved['name']} ({saved.get('run') or 'a baseline'})"
    path = run.path.resolve()
    return f"{path.parent.name}/{path.name}"


def _more(count: int) -> str:
    return f" ({count - 1} more)" if count > 1 else ""
