"""``--reuse-times``: times taken over from an earlier run where nothing that they depend on has changed.

What is taken over is labelled in the manifest (``reused_times``: variant -> size -> run, date) and in every table, is
never recorded, and satisfies no comparison: it was not measured in this run, nor in turns with what was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from profiler import __version__, frames
from profiler.analysis.taken_over import reused_times
from profiler.controls import parse_row_name
from profiler.errors import UsageError
from profiler.model import Variant
from profiler.run import Run
from profiler.rundir import RunDir

#: Samples of another run get numbers of processes of their own, so that no round holds samples of two runs.
PROCESSES_OF_A_RUN = 1000
_TIMED = ("ok", "profile_failed")
_LIBRARIES = ("torch", "torch_cuda", "triton")  #: what a Python or Triton variant's time depends on beside its source
_PER_SIZE = ("method", "controls")  #: keys of the manifest's ``timing`` that hold facts by size


def earlier_runs(runs_dir: Path, experiment: str, but: Path) -> list[RunDir]:
    """Return the runs of an experiment in a runs directory but one, the newest first; unreadable ones are left out."""
    found = []
    for manifest in (runs_dir / experiment).glob("*/manifest.json"):
        if manifest.parent.resolve() == but.resolve():
            continue
        try:
            found.append(RunDir.open(manifest.parent))
        except UsageError:
            continue
    return sorted(found, key=lambda run: (str(run.manifest.get("created")), run.path.name), reverse=True)


def take_over(run: Run, wanted: Mapping[str, Sequence[Variant]], sustained: set[str]) -> set[tuple[str, str]]:
    """Fill the run with earlier times and return the pairs (variant, size) that have them now.

    ``wanted``: by size, what is to be timed; ``sustained``: the sizes at which sustained blocks are wanted.
    """
    runs_dir = run.settings.reuse_times
    if runs_dir is None:
        return set()
    earlier = earlier_runs(runs_dir, run.experiment.name, run.dir.path)
    taken: dict[tuple[str, str], int] = {}
    why: dict[tuple[str, str], str] = {}
    here = {str(row["name"]): row for row in frames.rows_of(run.dir.frame("variants"))}
    pairs = [(variant, size) for size, variants in wanted.items() for variant in variants]
    for place, old in enumerate(earlier):
        left = [(variant, size) for variant, size in pairs if (variant.name, size) not in taken]
        if not left:
            break
        general = other_conditions(run, old.manifest)
        source = None if general else _Source(old)
        for variant, size in left:
            pair = (variant.name, size)
            reason = general or (source.mismatch(run, here[variant.name], size, size in sustained) if source else "")
            if reason:
                why.setdefault(pair, f"{run_name(old)}: {reason}")
            else:
                taken[pair] = place
    for variant, size in pairs:
        pair = (variant.name, size)
        if pair in taken:
            run.detail(f"{variant.name} at {size}: times of {run_name(earlier[taken[pair]])} are taken over")
        else:
            run.detail(f"{variant.name} at {size}: timed anew: {why.get(pair, 'there is no earlier run')}")
    for place, old in enumerate(earlier):
        names = {pair for pair, at in taken.items() if at == place}
        if names:
            _copy(run, old, names, PROCESSES_OF_A_RUN * (place + 1))
            run.say(f"times of {len(names)} of {len(pairs)} rows are taken over from {run_name(old)}")
    _controls(run, earlier, taken, wanted)
    return set(taken)


def other_conditions(run: Run, old: Mapping[str, Any]) -> str:
    """Return what is different about an earlier run as a whole, in words; empty when nothing is."""
    if (old.get("stages") or {}).get("time", {}).get("status") != "done":
        return "its timing did not end"
    if old.get("tool_version") != __version__:
        return "it was timed by another version of this program"
    if _card(old) != _card(run.dir.manifest):
        return "another GPU, driver, clock or power limit"
    measure, timing = run.experiment.measure, old.get("timing") or {}
    asked = {
        "cache": measure.cache,
        "samples": measure.samples,
        "warmup_ms": measure.warmup_ms,
        "processes": run.settings.processes or measure.processes,
    }
    for name, value in asked.items():
        if timing.get(name) != value:
            return f"{name} is {value} here and {timing.get(name)} there"
    return ""


def run_name(run: RunDir) -> str:
    """Return the id of a run: ``experiment/time-hash``."""
    return "/".join(run.path.resolve().parts[-2:])


class _Source:
    """An earlier run under the same conditions, and what it has of each row."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._rows = {str(row["name"]): row for row in frames.rows_of(run.frame("variants"))}
        self._samples = run.frame("samples")

    def mismatch(self, run: Run, row: Mapping[str, Any], size: str, sustained: bool) -> str:
        """Return why the times of a row do not count here; empty when they do."""
        old = self._rows.get(str(row["name"]))
        if old is None:
            return "it has no variant of this name"
        if old["source_hash"] != row["source_hash"]:
            return "source, params, flags, architecture or problem have changed since"
        if reason := self._other_binary(run, row, old):
            return reason
        if old["status"] not in _TIMED or old["verified"] != "yes" or old["origin"] != "measured":
            return f"it is {old['status']} there"
        if size in reused_times(self._run.manifest).get(str(row["name"]), {}):
            return "its times were taken over there, too"
        samples = self._samples
        samples = samples[(samples["variant"] == row["name"]) & (samples["size"] == size)]
        if not (samples["method"] != "sustained").any():
            return "this size was not timed there"
        if sustained and not (samples["method"] == "sustained").any():
            return "no sustained times there"
        if samples["foreign"].fillna(False).astype(bool).any():
            return "another process was on the card"
        return ""

    def _other_binary(self, run: Run, row: Mapping[str, Any], old: Mapping[str, Any]) -> str:
        if row["kind"] != "cuda":
            mine, its = run.dir.manifest.get("versions") or {}, self._run.manifest.get("versions") or {}
            changed = [name for name in _LIBRARIES if mine.get(name) != its.get(name)]
            return f"{changed[0]} is {mine.get(changed[0])} here and {its.get(changed[0])} there" if changed else ""
        if row["binary_hash"] is not None and old["binary_hash"] is not None:
            return "" if row["binary_hash"] == old["binary_hash"] else "another binary"
        mine, its = run.dir.manifest["tools"].get("nvcc"), (self._run.manifest.get("tools") or {}).get("nvcc")
        return "" if mine == its else f"nvcc is {mine} here and {its} there"


def _card(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (manifest.get("gpu") or {}).items() if name != "index"}


def _copy(run: Run, old: RunDir, pairs: set[tuple[str, str]], processes: int) -> None:
    """Copy samples, checks of the timed launches, and methods."""
    for variant, size in sorted(pairs):
        samples = old.frame("samples")
        samples = samples[(samples["variant"] == variant) & (samples["size"] == size)].copy()
        samples["process"] = samples["process"] + processes
        run.dir.update_frame("samples", frames.rows_of(samples), replacing={"variant": {variant}, "size": {size}})
        checks = old.frame("checks")
        checks = checks[(checks["variant"] == variant) & (checks["size"] == size)]
        checks = checks[checks["when"].isin(["during", "after"])]
        replacing = {"variant": {variant}, "size": {size}, "when": {"during", "after"}}
        run.dir.update_frame("checks", frames.rows_of(checks), replacing=replacing)
    before = old.manifest["timing"]
    timing = {key: value for key, value in before.items() if key not in _PER_SIZE} | run.dir.manifest.get("timing", {})
    methods = {size: dict(facts) for size, facts in timing.get("method", {}).items()}
    reused = {name: dict(sizes) for name, sizes in reused_times(run.dir.manifest).items()}
    for variant, size in sorted(pairs):
        if (facts := before.get("method", {}).get(size, {}).get(variant)) is not None:
            methods.setdefault(size, {})[variant] = facts
        reused.setdefault(variant, {})[size] = {"run": run_name(old), "created": old.manifest["created"]}
    run.note("timing", {**timing, "method": methods})
    run.note("reused_times", reused)


def _controls(
    run: Run,
    earlier: list[RunDir],
    taken: Mapping[tuple[str, str], int],
    wanted: Mapping[str, Sequence[Variant]],
) -> None:
    """Where all times of a size are of one earlier run, its copies of the same bytes come with them."""
    for size, variants in wanted.items():
        places = {taken.get((variant.name, size)) for variant in variants}
        place = places.pop() if len(places) == 1 else None
        if place is None or size not in earlier[place].manifest["timing"].get("controls", {}):
            continue
        old, timing = earlier[place], dict(run.dir.manifest["timing"])
        timing["controls"] = {**timing.get("controls", {}), size: old.manifest["timing"]["controls"][size]}
        run.note("timing", timing)
        ceilings = old.frame("ceilings")
        rows = [row for row in frames.rows_of(ceilings) if (parse_row_name(str(row["name"])) or ("", ""))[1] == size]
        run.dir.update_frame("ceilings", rows, replacing={"name": {row["name"] for row in rows}})
