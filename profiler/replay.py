"""Recorded runs: what a machine without a GPU shows, variant by variant, where everything that matters is the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from profiler import data_files, frames
from profiler.analysis.taken_over import reused_times
from profiler.errors import Exit, LadderError
from profiler.model import Experiment
from profiler.run import Run
from profiler.rundir import RunDir, find

#: Frames that a recording lends per variant and size. ``metrics`` is split by origin below.
_LENT = ("checks", "samples", "stalls", "source", "rules", "findings", "spans")
_LIVE_ORIGINS = ("ptxas", "sass")
#: Rows that no recording stands in for.
_STAYS = ("build_failed", frames.SKIPPED)
#: Manifest entries that describe how the recording was measured.
_METHOD = ("timing", "profile", "trace")
_KEPT_FILES = (*(f"{name}.parquet" for name in frames.FRAME_NAMES), "manifest.json")
RECORDED_LIMIT_BYTES = 2_000_000


def find_recording(experiment: Experiment, wanted: str, runs_dir: Path) -> RunDir | None:
    """Return the recording to replay: the newest for this experiment's name, or the run that ``--replay`` names."""
    if wanted == "never":
        return None
    if wanted != "auto":
        return RunDir.open(find(runs_dir, wanted))
    roots = [data_files.recorded(), experiment.path.parent / "recorded"]
    found = [
        RunDir.open(manifest.parent)
        for root in dict.fromkeys(roots)
        for manifest in sorted(root.glob(f"*/{experiment.name}/manifest.json"))
    ]
    return max(found, key=lambda run: str(run.manifest["created"]), default=None)


def replay(run: Run, recording: RunDir | None) -> None:
    """Fill the run with what the recording holds; rows without a match become ``not_run`` with the reason."""
    rows = frames.rows_of(run.dir.frame("variants"))
    no_match: dict[str, str] = {}
    lent: list[str] = []
    if recording is None:
        never = run.settings.replay == "never"
        why = "--replay never" if never else "no recorded run of this experiment"
        no_match = {row["name"]: f"no GPU here, and {why}" for row in rows}
    else:
        recorded = {row["name"]: row for row in frames.rows_of(recording.frame("variants"))}
        sizes = set(recording.manifest["problem"]["sizes"])
        for row in rows:
            if row["status"] in _STAYS:
                continue
            reason = mismatch(row, recorded.get(row["name"]), run.experiment.size_keys, sizes)
            if reason:
                no_match[row["name"]] = f"no GPU here, and the recorded run does not match: {reason}"
            else:
                lent.append(row["name"])
        _lend(run, recording, lent)
        _describe(run, recording)
    for row in rows:
        if row["status"] in _STAYS:
            continue
        if row["name"] in no_match:
            row.update(status="not_run", reason=no_match[row["name"]], origin="none")
        else:
            assert recording is not None
            source = recorded[row["name"]]
            row.update(status=source["status"], reason=source["reason"], verified=source["verified"], origin="recorded")
            if row["binary_hash"] is None:
                row["binary_hash"] = source["binary_hash"]
    run.dir.write_frame("variants", rows)


def mismatch(
    row: Mapping[str, Any], recorded: Mapping[str, Any] | None, sizes: Iterable[str], recorded_sizes: Iterable[str]
) -> str:
    """Return why a recording does not stand in for a variant; empty when it does."""
    if recorded is None:
        return "it has no variant of this name"
    if recorded["origin"] != "measured":
        return "it was not measured there"
    if row["source_hash"] != recorded["source_hash"]:
        return "source, params, flags, architecture or problem have changed since"
    missing = sorted(set(sizes) - set(recorded_sizes))
    if missing:
        return f"size {missing[0]} is not in it"
    return ""


def record(run: RunDir) -> Path:
    """Copy what replays into ``experiments/recorded/<gpu>/<experiment>/``, replacing an older one; return it.

    ``LadderError`` for a run of which nothing was measured, and for one that is too large.
    """
    if not (run.frame("variants")["origin"] == "measured").any():
        raise LadderError(
            "--record needs a run that was measured here", hint="nothing of this one was", code=Exit.NOTHING
        )
    if reused_times(run.manifest):
        raise LadderError("--record keeps what one run measured", hint="times of this one are of earlier runs")
    gpu_name = str((run.manifest["gpu"] or {}).get("name", ""))
    target = data_files.recorded() / gpu_slug(gpu_name) / str(run.manifest["experiment"]["name"])
    staged = target.with_name(f".{target.name}.partial")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    for name in _KEPT_FILES:
        if (run.path / name).is_file():
            shutil.copyfile(run.path / name, staged / name)
    if (run.path / "sources").is_dir():
        shutil.copytree(run.path / "sources", staged / "sources")
    size = sum(p.stat().st_size for p in staged.rglob("*") if p.is_file())
    if size > RECORDED_LIMIT_BYTES:
        shutil.rmtree(staged)
        raise LadderError(
            f"the recording would take {size / 1e6:.1f} MB; the limit is {RECORDED_LIMIT_BYTES / 1e6:.0f} MB",
            hint="set `profile: {sources: false}` or record fewer sizes",
            code=Exit.FAILED,
        )
    shutil.rmtree(target, ignore_errors=True)
    staged.rename(target)
    return target


def gpu_slug(name: str) -> str:
    """Return a GPU's folder name: ``NVIDIA H200`` is ``h200``."""
    words = [word for word in name.lower().replace("/", "-").split() if word not in ("nvidia", "geforce", "tesla")]
    return "-".join(words) or "gpu"


def _lend(run: Run, recording: RunDir, names: list[str]) -> None:
    sizes = set(run.experiment.size_keys)
    checked = sizes | {s for s in recording.manifest["problem"].get("check_sizes", [])}
    for frame_name in _LENT:
        data = recording.frame(frame_name)
        wanted = data["variant"].isin(names) & data["size"].isin(list(checked))
        if wanted.any():
            run.dir.write_frame(frame_name, data[wanted])
    ceilings = recording.frame("ceilings")
    if len(ceilings):
        run.dir.write_frame("ceilings", ceilings)
    live = run.dir.frame("metrics")
    lent = recording.frame("metrics")
    lent = lent[lent["variant"].isin(names)]
    analysed = set(live.loc[live["value"].notna(), "variant"])
    is_static = lent["origin"].isin(_LIVE_ORIGINS)
    keep = (~is_static & lent["size"].isin(list(sizes))) | (is_static & ~lent["variant"].isin(list(analysed)))
    live = live[live["variant"].isin(list(analysed)) | ~live["variant"].isin(names)]
    run.dir.write_frame("metrics", _concat(live, lent[keep]))


def _concat(live: pd.DataFrame, lent: pd.DataFrame) -> pd.DataFrame:
    return frames.concat("metrics", [live, lent])


def _describe(run: Run, recording: RunDir) -> None:
    source = recording.manifest
    for key in _METHOD:
        if key in source:
            run.dir.manifest[key] = source[key]
    here, there = run.dir.manifest["tools"].get("nvcc"), source["tools"].get("nvcc")
    if run.builds and here and there and here != there:
        run.remark(
            f"Times and counters are of a build by nvcc {there}; registers, occupancy and machine code are of the same "
            f"sources, built here by nvcc {here}."
        )
    run.note(
        "replay",
        {
            "from": "/".join(recording.path.parts[-2:]),
            "gpu": source["gpu"],
            "date": source["created"],
            "driver": (source["gpu"] or {}).get("driver"),
            "tools": source["tools"],
            "versions": source.get("versions", {}),
        },
    )
