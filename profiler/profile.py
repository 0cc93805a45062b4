"""Stage profile: one ncu process for all variants that are still alive, its report read into frames.

Launches are matched to (variant, size) by the name of their NVTX range. A pair without a result is profiled again, its
variant alone, once. Where the counters are refused, nothing is asked twice: the rows stay ok, and say why they are
empty.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from profiler import frames, ncu_command, process, profile_cache
from profiler.build_sources import project_files, source_name
from profiler.errors import LadderError
from profiler.metrics import HEADLINE, base_name, requests
from profiler.ncu_command import DOMAIN, Outcome, ProfileOptions, classify_log, profile_argv, range_name
from profiler.ncu_reader import read_report, reader_paths
from profiler.parse.folders import without_folders
from profiler.parse.ncu import Rows, places_by_range, reason_rows, rows_of_report
from profiler.profile_cache import Pair, Profile
from profiler.run import Run
from profiler.sizes import size_key
from profiler.toolchain import OLDEST_NCU, Tool

_PROGRAM = "profiler.worker.profile_program"
#: However many pairs: an ncu that has not ended after this long will not end.
_LONGEST_S = 1800.0
_NOTE_NAMES = {"permission": "not_permitted"}


@dataclass
class Collected:
    """What one ncu process gave: frames per pair, why the other pairs have none, and how it ended."""

    outcome: Outcome
    profiles: dict[Pair, Profile] = field(default_factory=dict)
    failures: dict[Pair, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    reports: dict[str, str] = field(default_factory=dict)  #: file in raw/ -> sha256
    seconds: float = 0.0  #: that ncu ran

    def absorb(self, other: Collected) -> None:
        """Take over what another process gave."""
        self.profiles |= other.profiles
        self.failures = {
            pair: why for pair, why in self.failures.items() if pair not in other.profiles
        } | other.failures
        self.remarks += other.remarks
        self.reports |= other.reports
        self.seconds += other.seconds


@dataclass(frozen=True)
class Plan:
    """What to ask ncu for in this run."""

    ncu: Tool
    metrics: tuple[str, ...]
    extra: tuple[str, ...]
    available: frozenset[str] | None
    options: ProfileOptions


def profile_stage(run: Run) -> None:
    """Profile every living variant at every size; write ``metrics`` (of ncu), ``stalls``, ``source`` and ``rules``."""
    pairs = pairs_of(run)
    ncu = run.toolchain.ncu
    _collect_or_say_why(run, ncu, pairs)
    if left_out := [variant.name for variant in run.alive() if variant.name in run.experiment.profile.skip]:
        run.note("profile", {**run.dir.manifest["profile"], "skip": left_out})  # the reason that their rows give


def _collect_or_say_why(run: Run, ncu: Tool | None, pairs: Sequence[Pair]) -> None:
    if not pairs:
        run.note("profile", {"outcome": "nothing_to_profile"})
    elif run.gpu is None:
        run.note("profile", {"outcome": "no_gpu", "reason": "there is no GPU here"})
    elif ncu is None:
        reason = run.toolchain.why_missing("ncu") or "ncu was not found"
        _without_counters(run, pairs, Outcome("other", reason, "install Nsight Compute 2022 or newer"), "no_ncu")
    elif ncu_command.too_old(ncu.version, OLDEST_NCU):
        old = Outcome("too_old", f"ncu {ncu.version} is too old", f"install Nsight Compute {OLDEST_NCU} or newer")
        _without_counters(run, pairs, old, "too_old")
    else:
        _profile(run, ncu, pairs)


def living_pairs(run: Run) -> list[Pair]:
    """Return the (variant, size key) that can be launched, in the order of the file; no programs."""
    return pairs_at(run, [variant.name for variant in run.alive() if variant.kind != "command"])


def pairs_at(run: Run, names: Iterable[str]) -> list[Pair]:
    """Return some variants with each size that they do not skip."""
    skipped: Mapping[str, Any] = run.dir.manifest.get("skips", {})
    return [(name, size) for name in names for size in run.experiment.size_keys if size not in skipped.get(name, {})]


def to_profile(run: Run, pairs: Iterable[Pair]) -> list[Pair]:
    """Return those at the sizes of ``profile.sizes``, and without the variants of its ``skip``."""
    wanted = run.experiment.profile
    chosen = {size_key(dims) for dims in wanted.sizes} or set(run.experiment.size_keys)
    return [(name, size) for name, size in pairs if size in chosen and name not in wanted.skip]


def pairs_of(run: Run) -> list[Pair]:
    """Return the (variant, size key) to profile; no programs."""
    return to_profile(run, living_pairs(run))


def prefetch_metric_names(run: Run) -> None:
    """Ask ncu for the chip's metric names, so that the stage finds them in the cache; may run beside another stage."""
    if run.toolchain.ncu is not None and run.gpu is not None:
        profile_cache.metric_names(run.toolchain.ncu, run.gpu.compute_capability)


def plan_for(run: Run, ncu: Tool) -> Plan:
    """Return what to ask this ncu for on the run's GPU."""
    wanted = run.experiment.profile
    names = profile_cache.metric_names(ncu, run.gpu.compute_capability if run.gpu is not None else None)
    available = None if names is None else frozenset(names)
    options = ProfileOptions(set=_set_of(run), sources=wanted.sources)
    return Plan(ncu, tuple(requests(available, wanted.metrics)), wanted.metrics, available, options)


def _profile(run: Run, ncu: Tool, pairs: Sequence[Pair]) -> None:
    plan = plan_for(run, ncu)
    collected = {"metrics": plan.metrics, "extra": plan.extra, **_options_of(plan.options)}
    keys = profile_cache.keys(run, pairs, collected)
    kept: dict[Pair, Profile] = {}
    if not run.settings.force:
        for pair in pairs:
            profile = profile_cache.load(keys[pair], pair[0])
            if profile is not None:
                kept[pair] = profile
    missing = [pair for pair in pairs if pair not in kept]
    for pair in pairs:
        found = "in the cache" if pair in kept else "--force: taken anew" if run.settings.force else "not in the cache"
        run.detail(f"{pair[0]} at {pair[1]}: profile {keys[pair][:12]}: {found}")
    result = _collect_all(run, plan, missing) if missing else Collected(Outcome("ok"))
    if result.outcome.final and not result.profiles:
        why = "not_permitted" if result.outcome.kind == "permission" else "not_collected"
        write(run, list(kept), kept.values(), [])
        _without_counters(run, missing, result.outcome, result.outcome.kind, why, plan)
        return
    for pair, profile in result.profiles.items():
        profile_cache.store(keys[pair], profile)
    failed = [pair for pair in missing if pair not in result.profiles]
    empty = rows_of_reason(failed, "failed")
    write(run, pairs, [*kept.values(), *result.profiles.values()], empty)
    note: dict[str, Any] = {
        **_note_of(plan, result.outcome if failed else Outcome("ok")),
        "passes": _passes([*kept.values(), *result.profiles.values()]),
        "reports": result.reports,
        "profiled": len(result.profiles),
        "ncu_seconds": round(result.seconds, 3),
        "reused": len(kept),
    }
    if result.remarks:
        note["remarks"] = result.remarks
    if failed:
        note["failed"] = {f"{name} at {size}": result.failures[name, size] for name, size in failed}
    run.note("profile", note)
    reasons: dict[str, tuple[str, str]] = {}
    for name, size in failed:
        reasons.setdefault(name, ("profile_failed", f"{size}: {result.failures[name, size]}"))
        run.say(f"{name} at {size}: profile_failed: {result.failures[name, size]}")
    run.fail(reasons)


def _collect_all(run: Run, plan: Plan, pairs: Sequence[Pair]) -> Collected:
    """One process for all pairs; then, for what is missing, one process per variant, once."""
    run.say(f"profile: {len(pairs)} launches in one ncu process" if len(pairs) > 1 else f"profile: {pairs[0][0]}")
    result = _collect(run, plan, pairs, "profile")
    if result.outcome.kind == "unknown_metric":
        plan = without_names(plan, result.outcome.names)
        run.say(f"profile: {result.outcome.message}; profiled without")
        result = _collect(run, plan, pairs, "profile")
    if result.outcome.final or result.outcome.kind == "unknown_metric":
        return result
    missing: dict[str, list[Pair]] = {}
    for pair in pairs:
        if pair not in result.profiles:
            missing.setdefault(pair[0], []).append(pair)
    for number, (name, again) in enumerate(missing.items(), 1):
        run.say(f"profile: {name} once more, alone ({result.failures[again[0]]})")
        alone = _collect(run, plan, again, f"profile-again-{number}")
        result.absorb(alone)
        if alone.failures:
            result.outcome = alone.outcome
        if alone.outcome.final:
            break
    return result


def _collect(run: Run, plan: Plan, pairs: Sequence[Pair], stem: str) -> Collected:
    """Run ncu once over these pairs and read its report."""
    from profiler.worker.spec import profile_spec

    report, log = run.dir.raw(f"{stem}.ncu-rep"), run.dir.raw(f"{stem}.ncu.log")
    for old in (report, log):
        old.unlink(missing_ok=True)
    timeout = min(_LONGEST_S, run.settings.timeout_s * len(pairs))
    ranges = {range_name(index): pair for index, pair in enumerate(pairs)}
    with tempfile.TemporaryDirectory(prefix="kernel-ladder-") as scratch:
        folder = Path(scratch)
        spec = folder / "profile.json"
        spec.write_text(json.dumps(profile_spec(run, pairs)), encoding="utf-8")
        program = [sys.executable, "-P", "-m", _PROGRAM, str(spec)]
        argv = profile_argv(plan.ncu, program, report, log, plan.metrics, list(ranges), plan.options)
        try:
            done = process.run(argv, timeout=timeout, env=_environment(run), label="ncu")
        except process.ToolMissing as error:
            why = str(error).rpartition(": ")[2]  # without the path, which stays out of the manifest
            outcome = Outcome("other", f"ncu cannot be started: {why}", "run `ncu --version` by hand")
            return Collected(outcome, failures=dict.fromkeys(pairs, outcome.message))
        run.dir.raw(f"{stem}.ncu.out").write_text(done.output, encoding="utf-8")
        outcome = classify_log(read_text(log) + done.output, done.returncode)
        if done.timed_out and not outcome.final:
            outcome = Outcome(
                "other", f"ncu did not end within {timeout:.0f} s",
                "replay cannot profile kernels that wait for one another; raise --timeout", (), 124,
            )  # fmt: skip
        result = Collected(outcome, seconds=done.seconds)
        if not outcome.final:
            _read_result(run, plan, report, ranges, result, folder)
        told = _told_failures(spec.with_suffix(".status"))
    for index, pair in enumerate(pairs):
        if pair not in result.profiles:
            fallback = result.outcome.message or "its range holds no launch"
            result.failures[pair] = told.get(index) or fallback
    return result


def _read_result(
    run: Run, plan: Plan, report: Path, ranges: Mapping[str, Pair], result: Collected, folder: Path
) -> None:
    """Read the report, if there is one, into ``result``."""
    if not report.is_file():
        if result.outcome.kind == "ok":
            result.outcome = Outcome("other", "ncu ended well but wrote no report", "its log is in raw/")
        return
    try:
        raw = read_report(
            report, folder, timeout_s=max(120.0, run.settings.timeout_s), reader_path=reader_paths(plan.ncu.path)
        )
    except LadderError as error:
        if result.outcome.kind in ("ok", "app_failed"):
            result.outcome = Outcome("other", error.message, error.hint)
        return
    result.reports[report.name] = raw.sha256
    places = places_by_range(raw, DOMAIN, ranges)
    rows = rows_of_report(raw, places, available=plan.available, extra=plan.extra)
    _name_files(run, rows)
    result.remarks += rows.remarks
    lost = len(raw.launches) - len(places)
    if lost:
        result.remarks.append(f"{lost} launches of {report.name} lie in no known range")
    result.profiles |= by_pair(rows)


def _name_files(run: Run, rows: Rows) -> None:
    """Call each file as ``sources/<variant>/`` does; of a file that is not the project's only the name stays."""
    known: dict[str, dict[str, str]] = {}
    for row in rows.source:
        file, variant = row["file"], row["variant"]
        if not file:
            continue
        if variant not in known:
            try:
                known[variant] = {str(f.path): f.name for f in project_files(run.experiment.variant(variant))}
            except OSError:
                known[variant] = {}
        short = source_name(file)
        row["file"] = known[variant].get(file) or (Path(short).name if Path(short).is_absolute() else short)


def by_pair(rows: Rows) -> dict[Pair, Profile]:
    """Return the rows of a report as frames of each pair."""
    grouped: dict[Pair, dict[str, list[dict[str, Any]]]] = {}
    for name, listed in rows.frames().items():
        for row in listed:
            pair = (row["variant"], row["size"])
            grouped.setdefault(pair, {frame: [] for frame in profile_cache.FRAMES})[name].append(row)
    return {
        pair: {name: frames.frame(name, listed) for name, listed in parts.items()} for pair, parts in grouped.items()
    }


def write(run: Run, pairs: Sequence[Pair], profiles: Iterable[Profile], empty: list[dict[str, Any]]) -> None:
    """Write the frames; older rows of the same variants and sizes, and of ncu, give way."""
    listed = list(profiles)
    gone = set(pairs)
    for name in profile_cache.FRAMES:
        old = run.dir.frame(name)
        if len(old):
            stale = [(v, s) in gone for v, s in zip(old["variant"], old["size"], strict=True)]
            drop = pd.Series(stale, index=old.index)
            if name == "metrics":
                drop &= (old["origin"] == "ncu").fillna(False).astype(bool)
            old = old[~drop]
        parts = [old, *(profile[name] for profile in listed)]
        if name == "metrics" and empty:
            parts.append(frames.frame("metrics", empty))
        run.dir.write_frame(name, frames.concat(name, parts))


def _without_counters(
    run: Run, pairs: Sequence[Pair], outcome: Outcome, name: str, why: str = "not_collected", plan: Plan | None = None
) -> None:
    """Rows that say why there are no counters, the manifest's note, and one line for the user; statuses stay."""
    rows = rows_of_reason(pairs, why)
    write(run, pairs, [], rows)
    run.note("profile", {**_note_of(plan, outcome), "outcome": _NOTE_NAMES.get(name, name)})
    run.say(f"no hardware counters: {outcome.message}; {outcome.hint}" if outcome.hint else outcome.message)


def rows_of_reason(pairs: Iterable[Pair], why: str) -> list[dict[str, Any]]:
    """Return rows of ``metrics`` that say why pairs have no counters."""
    return [row for name, size in pairs for row in reason_rows({"variant": name, "size": size}, HEADLINE, why)]


def _note_of(plan: Plan | None, outcome: Outcome) -> dict[str, Any]:
    note: dict[str, Any] = {"outcome": _NOTE_NAMES.get(outcome.kind, outcome.kind)}
    if outcome.message:
        note |= {"reason": outcome.message, "hint": outcome.hint}
    if plan is not None:
        note |= {"ncu_version": plan.ncu.version, "metrics": list(plan.metrics), **_options_of(plan.options)}
    return note


def _options_of(options: ProfileOptions) -> dict[str, Any]:
    return {
        "set": options.set,
        "sources": options.sources,
        "cache_control": options.cache_control,
        "clock_control": options.clock_control,
    }


def without_names(plan: Plan, refused: Sequence[str]) -> Plan:
    """Return the plan without the metrics that ncu refused, and without all of their suffixes."""
    bases = {base_name(name) for name in refused}
    kept = tuple(name for name in plan.metrics if base_name(name) not in bases)
    return Plan(plan.ncu, kept, plan.extra, plan.available, plan.options)


def _passes(profiles: Iterable[Profile]) -> int | None:
    most = 0.0
    for profile in profiles:
        data = profile["metrics"]
        values = data.loc[data["metric"] == "replay_passes", "value"].dropna()
        most = max([most, *values.astype(float)])
    return int(most) or None


def _told_failures(status: Path) -> dict[int, str]:
    """What the profiled program said of the pairs that it could not launch, by index."""
    told = {}
    for line in read_text(status).splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if said.get("status") != "ok":
            told[int(said["index"])] = without_folders(str(said.get("reason") or "could not be launched"))
    return told


def _environment(run: Run) -> dict[str, str]:
    """The worker's environment, and plain English from the tool.

    Modules load lazily here: no stream is held in the profiled program, and loading all of a library's kernels eagerly
    under ncu nearly doubled the time of the stage (90 s instead of 49 s for the GEMM ladder).
    """
    from profiler.worker_session import worker_env

    return {**worker_env(run.settings.gpu, os.environ), "CUDA_MODULE_LOADING": "LAZY", "LC_ALL": "C"}


def _set_of(run: Run) -> Any:
    return run.settings.profile_set or run.experiment.profile.set


def read_text(path: Path) -> str:
    """Return a file's text; empty when it is not there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
