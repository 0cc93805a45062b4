"""A side-by-side measurement on disk: ``comparison.json`` and one run directory for each side.

``runs/compare/<UTC time>-<hash>/`` holds ``before/`` and ``after/``, each a run directory with its samples, checks,
binaries' facts and sources, so that the comparison can be looked at again, and judged anew, without a GPU. Counters
were not taken again; they are those of the runs that were given.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from profiler import frames
from profiler.comparison.merging import LABELS, Merged, plain, sided
from profiler.comparison.model import Design
from profiler.comparison.remeasure import SideBySide
from profiler.errors import UsageError
from profiler.run import Run
from profiler.rundir import RunDir, write_text

SCHEMA = 1
FOLDER = "compare"
FILE = "comparison.json"
_STATIC = frozenset({"ptxas", "sass", "model"})
_CARRIED = ("stalls", "source", "rules", "ceilings", "findings")


@dataclass(frozen=True)
class Kept:
    """A side-by-side measurement that was read."""

    before: RunDir
    after: RunDir
    design: Design
    names: tuple[str, str]  #: of the runs that were given


def is_kept(path: Path) -> bool:
    """Whether a folder is a side-by-side measurement."""
    return (path / FILE).is_file()


def open_kept(path: Path) -> Kept:
    """Return a side-by-side measurement; ``UsageError`` when it is damaged or of a newer schema."""
    file = path / FILE
    try:
        facts = json.loads(file.read_text(encoding="utf-8"))
        schema, design = facts["schema"], facts["design"]
        names = tuple(str(facts[label]["run"]) for label in LABELS)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file}: unreadable: {error}") from error
    if not isinstance(schema, int) or schema > SCHEMA:
        raise UsageError(f"{file}: schema {schema!r}; this version reads up to {SCHEMA}")
    if design not in ("two_process", "in_process"):
        raise UsageError(f"{file}: unreadable: no design {design!r}")
    return Kept(RunDir.open(path / "before"), RunDir.open(path / "after"), design, (names[0], names[1]))


def keep(
    folder: Path, run: Run, merged: Merged, found: SideBySide, given: Sequence[RunDir], names: tuple[str, str]
) -> Kept:
    """Write what was measured into ``folder``, one run directory for each side, and return it."""
    work = _Work(run, merged, found)
    sides = [
        _side(folder / label, label, work, one, name) for label, one, name in zip(LABELS, given, names, strict=True)
    ]
    facts = {
        "schema": SCHEMA,
        "kind": "side_by_side",
        "design": found.design,
        "created": run.dir.manifest["created"],
        "tool_version": run.dir.manifest["tool_version"],
        "gpu": run.dir.manifest["gpu"],
        "order": "both sides in one process, launch by launch" if found.design == "in_process" else "ABBA",
        "pairs": [asdict(pair) for pair in found.pairs],
        **{label: {"run": name} for label, name in zip(LABELS, names, strict=True)},
    }
    write_text(folder / FILE, json.dumps(facts, indent=2, sort_keys=True) + "\n")  # last: with it the folder is whole
    return Kept(sides[0], sides[1], found.design, names)


class _Work:
    """What was measured, each frame read once and sorted by side."""

    def __init__(self, run: Run, merged: Merged, found: SideBySide) -> None:
        self.run, self.merged, self.found = run, merged, found
        rows = {name: frames.rows_of(run.dir.frame(name)) for name in ("variants", "checks", "metrics")}
        rows["checks"] += found.checks
        rows["samples"] = found.samples
        self._rows = rows

    def rows(self, frame: str, label: str) -> list[dict[str, Any]]:
        """Return a side's rows of a frame under the variants' own names."""
        column = "name" if frame == "variants" else "variant"
        mine = [row for row in self._rows[frame] if str(row[column]).startswith(f"{label}:")]
        return [{**row, column: plain(str(row[column]))} for row in mine]


def _side(path: Path, label: str, work: _Work, given: RunDir, name: str) -> RunDir:
    names = set(work.merged.names)
    made = RunDir.create(path, _manifest(label, work, given, name))
    if (given.path / "sources").is_dir():
        shutil.copytree(given.path / "sources", path / "sources", dirs_exist_ok=True)
    old = {frame: frames.rows_of(given.frame(frame)) for frame in ("variants", "samples", "checks", "metrics")}
    timed = {row["variant"] for row in work.rows("samples", label)}
    variants = {row["name"]: row for row in work.rows("variants", label)}
    rows = []
    for row in old["variants"]:
        if row["name"] in variants:
            origin = "measured" if row["name"] in timed else "none"
            row = {**variants[row["name"]], "order": row["order"], "origin": origin}
        rows.append(row)
    made.write_frame("variants", rows)
    for frame in ("samples", "checks"):
        alone = [row for row in old[frame] if row["variant"] not in names]
        made.write_frame(frame, [*work.rows(frame, label), *alone])
    kept = [row for row in old["metrics"] if row["variant"] not in names or row["origin"] not in _STATIC]
    made.write_frame("metrics", [*work.rows("metrics", label), *kept])
    for frame in _CARRIED:
        data = given.frame(frame)
        if len(data):
            made.write_frame(frame, data)
    return made


def _manifest(label: str, work: _Work, given: RunDir, name: str) -> dict[str, Any]:
    manifest, here, found = dict(given.manifest), work.run.dir.manifest, work.found
    measure = work.run.experiment.measure
    for key in ("gpu", "tools", "versions", "created", "tool_version", "arch", "command"):
        manifest[key] = here[key]
    manifest.pop("replay", None)
    manifest["builds"] = _of_side(here.get("builds") or {}, label)
    manifest["skips"] = {**_mapping(manifest.get("skips")), **_of_side(here.get("skips") or {}, label)}
    manifest["timing"] = {
        "cache": measure.cache,
        "warmup_ms": measure.warmup_ms,
        "samples": measure.samples,
        "order": "shuffled, interleaved",
        "processes": len(found.pairs),
        "method": {size: dict(methods) for size, methods in found.methods.items()},
        **found.notes,
    }
    manifest["stages"] = {
        **_mapping(manifest.get("stages")),
        **{stage: {"status": "done"} for stage in ("build", "static", "verify", "time")},
    }
    manifest["notes"] = [f"Measured again, side by side; counters are those of {name}.", *here["notes"]]
    manifest["remeasured"] = {"run": name, "side": label, "design": found.design, "pairs": len(found.pairs)}
    return manifest


def _of_side(facts: Mapping[str, Any], label: str) -> dict[str, Any]:
    start = sided(label, "")
    return {plain(name): value for name, value in facts.items() if name.startswith(start)}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
