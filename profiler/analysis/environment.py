"""What the run was made with, how it measured, what is missing and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.own_times import METHOD_WORDS as OWN_WORDS
from profiler.analysis.rundata import WHY_TEXT, RunData
from profiler.analysis.sustained import LEAST_DOF
from profiler.analysis.taken_over import reused_text
from profiler.controls import parse_row_name

Pairs = tuple[tuple[str, str], ...]

STAGES = ("plan", "build", "static", "verify", "time", "profile", "trace", "report")


@dataclass(frozen=True)
class Gap:
    """Something that is not in the report: what, for which variants, and why."""

    what: str
    where: str
    why: str
    hint: str = ""


@dataclass(frozen=True)
class Environment:
    """The facts of section 6."""

    machine: Pairs
    tools: Pairs
    method: tuple[str, ...]
    stages: tuple[tuple[str, str, float | None], ...]
    command: str
    experiment: str
    gaps: tuple[Gap, ...]
    notes: tuple[str, ...]
    origins: Pairs
    controls: Pairs = ()  #: what small kernels reached in the same run


def environment(data: RunData) -> Environment:
    """Return what section 6 shows."""
    manifest = data.manifest
    stages = manifest.get("stages") or {}
    return Environment(
        machine=_machine(manifest),
        tools=_tools(manifest),
        method=_method(data),
        stages=tuple(
            (name, str(stages[name].get("status", "")), stages[name].get("seconds")) for name in _in_order(stages)
        ),
        command=_command(manifest.get("command")),
        experiment=str((manifest.get("experiment") or {}).get("text") or ""),
        gaps=gaps(data),
        notes=tuple(str(note) for note in manifest.get("notes") or ()),
        origins=origins(data),
        controls=controls(data),
    )


def _in_order(stages: Mapping[str, Any]) -> list[str]:
    return sorted(stages, key=lambda name: STAGES.index(name) if name in STAGES else len(STAGES))


def _command(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(str(part) for part in value)
    return str(value or "")


def _machine(manifest: Mapping[str, Any]) -> Pairs:
    gpu = manifest.get("gpu") or {}
    pairs = [
        ("GPU", gpu.get("name")),
        ("GPU id", gpu.get("uuid")),
        ("compute capability", gpu.get("compute_capability")),
        ("multiprocessors", gpu.get("sm_count")),
        ("memory", f"{gpu['memory_bytes'] / 2**30:.0f} GiB" if gpu.get("memory_bytes") else None),
        ("driver", gpu.get("driver")),
        ("clocks", _clocks(gpu.get("clocks"))),
        ("compiled for", manifest.get("arch")),
        ("replayed" if manifest.get("replay") else "taken", manifest.get("created")),
    ]
    return tuple((name, str(value)) for name, value in pairs if value)


def _clocks(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(_clock(str(name), text) for name, text in value.items())
    return str(value or "")


def _clock(name: str, value: Any) -> str:
    words, _, unit = name.rpartition("_")
    if unit.lower() in ("mhz", "hz"):
        return f"{words.replace('_', ' ')} {value} {unit.replace('mhz', 'MHz').replace('hz', 'Hz')}"
    return f"{name.replace('_', ' ')} {value}"


def _tools(manifest: Mapping[str, Any]) -> Pairs:
    found: dict[str, str] = {}
    for table in (manifest.get("tools") or {}, manifest.get("versions") or {}):
        for name, value in table.items():
            if value:
                found.setdefault(str(name), str(value))
    return tuple(found.items())


def _method(data: RunData) -> tuple[str, ...]:
    """How times and counters were taken, in sentences; only what the manifest or the samples say."""
    rows = data.rows.get("samples", ())
    timing, profile = (data.manifest.get("timing") or {}) if rows else {}, data.manifest.get("profile") or {}
    lines: list[str] = []
    methods = sorted({str(r["method"]) for r in rows if r["method"]})
    rows = [r for r in rows if r["method"] not in OWN_WORDS]
    if apart := [OWN_WORDS[one] for one in methods if one in OWN_WORDS]:
        methods = [one for one in methods if one not in OWN_WORDS]
        lines += [f"Programs: {formatting.listed(apart)}, one sample of each process; their answers are unverified."]
    words = {
        "single": "device events around one launch",
        "graph": "a captured graph of launches over rotated buffers, for kernels too short to time singly",
        "sustained": "blocks of at least half a second, back to back (the power-limited regime)",
    }
    if methods:
        lines.append("Times: " + formatting.listed(words.get(m, m) for m in methods) + "; the median ranks.")
    if timing.get("blocking"):
        lines.append("The cost of launching is hidden behind a blocking kernel.")
    cache = timing.get("cache")
    if cache:
        flush = timing.get("flush")
        if not flush and timing.get("flush_bytes"):
            flush = f"flushed before each launch through a buffer of {timing['flush_bytes'] / 2**20:.0f} MiB, untimed"
        lines.append(f"L2 cache: {cache}{f' ({flush})' if flush and cache == 'cold' else ''}.")
    if timing.get("warmup_ms"):
        lines.append(f"Warm-up: {timing['warmup_ms']} ms of the exact timed path.")
    if rows:
        processes = max(Counter(v for v, _ in {(r["variant"], r["process"]) for r in rows}).values())
        lines.append(
            "Intervals: 95 %, bootstrap of the median over interleaved samples, ratios over the same rounds where both "
            "were in all of them; "
            + (
                "one process, so differences between processes are not in them."
                if processes < 2
                else f"{processes} processes, resampled first."
            )
        )
    if "sustained" in methods:
        lines.append(
            "Intervals of sustained ratios: 95 %, Student's t; how far blocks scatter, apart from what those of a "
            "variant or a pass share, is taken from all variants of a size that met the power limit, or from all that "
            f"did not; none of fewer than {LEAST_DOF} degrees of freedom."
        )
    throttles = sorted({str(r["throttle"]) for r in rows if r["throttle"] and r["throttle"] not in ("none", "0")})
    if throttles:
        lines.append(f"Clock events seen while timing: {formatting.listed(throttles)}.")
    foreign = sum(1 for r in rows if r["foreign"])
    if foreign:
        lines.append(
            f"{foreign} samples were taken beside another process; the medians leave them out where others remain."
        )
    if profile.get("outcome"):
        facts = [
            f"{label} {profile[key]}"
            for key, label in (
                ("ncu_version", "Nsight Compute"), ("cache_control", "cache control"),
                ("clock_control", "clock control"), ("passes", "passes"),
            )
            if profile.get(key) not in (None, "")
        ]  # fmt: skip
        lines.append(
            f"Counters: {str(profile['outcome']).replace('_', ' ')}" + (f" ({', '.join(facts)})." if facts else ".")
        )
    trace = data.manifest.get("trace") or {}
    if trace.get("outcome") == "ok":
        tool = {"nsys": "Nsight Systems", "cupti": "CUPTI, through PyTorch's profiler"}.get(
            str(trace.get("route")), "a tracer"
        )
        version = f" {trace['version']}" if trace.get("version") else ""
        lines.append(f"Timeline: {tool}{version}, CUDA and NVTX; its durations are the tracer's own and rank nothing.")
    lines += [f"The profiler's reader remarks: {remark}" for remark in profile.get("remarks") or ()]
    if data.rows.get("metrics") and any(r["origin"] == "ncu" and r["value"] is not None for r in data.rows["metrics"]):
        lines.append(
            "The file holds no event times: durations are the profiler's own, under its own cache control and clock."
            if data.foreign
            else "The profiler's duration serves rates inside its own pass only: it replays each kernel under its own "
            "cache control and clock, so it differs from the event times, which alone rank, compare and decide."
        )
    return tuple(lines)


def origins(data: RunData) -> Pairs:
    """Return the origin labels that occur, each with its meaning in this run."""
    found = {str(row["origin"]) for row in data.variants}
    sources = {str(row["origin"]) for row in data.rows.get("metrics", ()) if row["value"] is not None}
    pairs = []
    if "measured" in found:
        gpu = (data.manifest.get("gpu") or {}).get("name")
        pairs.append(("measured", f"taken in this run{f' on {gpu}' if gpu else ''}"))
    if taken := reused_text(data.manifest):
        pairs.append(("reused", taken.removeprefix("reused: ")))
    if "recorded" in found:
        pairs.append(("recorded", recorded_text(data.manifest.get("replay") or {})))
    if sources & {"ptxas", "sass"}:
        pairs.append(("binary", "computed from the compiled binary (ptxas log, SASS)"))
    if data.foreign:
        file = data.manifest["foreign"].get("file", "")
        return (("recorded", f"read from the file {file}{f': {pairs[0][1]}' if pairs else ''}"),)
    pairs.append(("model", "computed from the problem's own operation and byte counts; no counter was read"))
    return tuple(pairs)


def controls(data: RunData) -> Pairs:
    """Return what the ceiling kernels reached, each with its SM clock."""
    pairs = []
    for row in data.rows.get("ceilings", ()):
        if row["origin"] == "measured" and row["value"]:
            clock = f" at {row['clock_mhz'] / 1e3:.3f} GHz" if row["clock_mhz"] else ""
            control = parse_row_name(str(row["name"]))
            name = (
                f"{control[0]} of the bytes at {formatting.size(control[1])}, {control[2]}" if control else row["name"]
            )
            pairs.append((str(name), f"{formatting.si(row['value'], str(row['unit']))}{clock}"))
    return tuple(pairs)


def recorded_text(replay: Mapping[str, Any]) -> str:
    """Return where recorded numbers come from: GPU, date, driver."""
    gpu = replay.get("gpu")
    facts = [
        str((gpu.get("name") if isinstance(gpu, Mapping) else gpu) or "another machine"),
        str(replay.get("date") or "")[:10],
        f"driver {replay['driver']}" if replay.get("driver") else "",
    ]
    return "recorded on " + ", ".join(fact for fact in facts if fact)


def gaps(data: RunData) -> tuple[Gap, ...]:
    """Return what is missing, with reasons: variants without a result, counters, stages."""
    failed: dict[tuple[str, str], list[str]] = {}
    for row in data.variants:
        if row["status"] not in ("ok", None):
            key = (formatting.status(str(row["status"])), str(row["reason"] or "no reason given"))
            failed.setdefault(key, []).append(formatting.short(str(row["name"]), 60))
    found = [Gap(what, _where(names, data), why) for (what, why), names in failed.items()]
    profile = data.manifest.get("profile") or {}
    left_out = [str(name) for name in profile.get("skip") or ()]
    if left_out:
        found.append(Gap("counters", _where(left_out, data), WHY_TEXT["left_out"]))
    fine = ("ok", "done", "collected", *(["nothing_to_profile"] if left_out else []))
    if profile.get("outcome") not in (None, *fine):
        found.append(
            Gap(
                "counters",
                "all variants",
                str(profile.get("reason") or profile["outcome"]),
                str(profile.get("hint") or ""),
            )
        )
    trace = data.manifest.get("trace") or {}
    if trace.get("outcome") not in (None, "ok"):
        found.append(Gap("timeline", "all variants", str(trace.get("reason") or ""), str(trace.get("hint") or "")))
    stages = data.manifest.get("stages") or {}
    ended: dict[tuple[str, str], list[str]] = {}
    for name in _in_order(stages):
        if stages[name].get("status") in ("failed", "skipped") and stages[name].get("reason"):
            ended.setdefault((str(stages[name]["reason"]), str(stages[name].get("hint") or "")), []).append(name)
    for (why, hint), names in ended.items():
        found.append(
            Gap(f"{'stage' if len(names) == 1 else 'stages'} {formatting.listed(names)}", "whole run", why, hint)
        )
    found += _metric_gaps(data)
    return tuple(found)


def _metric_gaps(data: RunData) -> list[Gap]:
    """Missing counters, gathered by metric and reason."""
    where: dict[tuple[str, str], list[str]] = {}
    for row in data.rows.get("metrics", ()):
        if row["value"] is None and row["text"] is None and row["why"] not in (None, "not_applicable"):
            names = where.setdefault((str(row["metric"]), str(row["why"])), [])
            if row["variant"] not in names:
                names.append(str(row["variant"]))
    by_names: dict[tuple[str, str], list[str]] = {}
    for (metric, why), names in where.items():
        by_names.setdefault((_where(names, data), why), []).append(metric)
    return [Gap(_some(metrics), names, WHY_TEXT.get(why, why)) for (names, why), metrics in by_names.items()]


def _where(names: Sequence[str], data: RunData) -> str:
    if len(names) > 1 and len(names) == len(data.variants):
        return "all variants"
    return formatting.listed(formatting.short(name, 60) for name in names)


def _some(metrics: Sequence[str], limit: int = 6) -> str:
    if len(metrics) <= limit:
        return ", ".join(metrics)
    return ", ".join(metrics[:limit]) + f" and {len(metrics) - limit} more"
