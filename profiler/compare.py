"""Two runs side by side: times, counters and identity of each variant, and whether they may be compared at all.

This version gives no verdict on speed: it says what was measured on each side, and refuses what cannot be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from profiler.analysis.rundata import Row as FrameRow
from profiler.analysis.rundata import RunData, Value
from profiler.analysis.statistics import Interval, Sample, median_interval, ratio_interval
from profiler.errors import Exit
from profiler.frames import SKIPPED

Status = Literal["compared", "incomparable", "new", "removed", "broken", "not_measured", "skipped"]
Identity = Literal["same", "changed", "unknown"]

NO_VERDICT = "no verdict on speed: this version shows both sides and does not judge the difference"
INTERVAL_NOTE = "the interval of a ratio speaks of these samples; two runs of the same code differ by more"

#: What must be equal for two times to be comparable, and what it is.
KEYS: Mapping[str, str] = {
    "gpu": "the GPU's name",
    "arch": "the architecture that the kernel was built for",
    "problem": "the problem and its options",
    "init": "how the inputs are made",
    "dtype": "the numeric contract",
    "cache": "the cache policy of the timing",
    "method": "the timing method",
}

Combine = Literal["total", "average", "first"]


@dataclass(frozen=True)
class CounterSpec:
    """A counter that is shown on both sides: the metric's name, a label, how several launches combine (``first``: of
    the binary, or of the longest launch), and the metric that stands in where the first has no value.
    """

    metric: str
    label: str
    combine: Combine
    otherwise: tuple[str, ...] = ()


COUNTERS: tuple[CounterSpec, ...] = (
    CounterSpec("ptxas.registers", "registers", "first", ("registers",)),
    CounterSpec("ptxas.spill_store_bytes", "spilled", "first"),
    CounterSpec("duration", "profiled duration", "total"),
    CounterSpec("instructions", "instructions", "total"),
    CounterSpec("dram_bytes_read", "DRAM read", "total"),
    CounterSpec("dram_bytes_write", "DRAM written", "total"),
    CounterSpec("l2_bytes", "L2 traffic", "total"),
    CounterSpec("shared_wavefronts", "shared wavefronts", "total"),
    CounterSpec("shared_bank_conflicts", "bank conflicts", "total"),
    CounterSpec("achieved_occupancy", "achieved occupancy", "average"),
    CounterSpec("issue_active", "issue slots busy", "average"),
)


@dataclass(frozen=True)
class Mismatch:
    """A key on which two sides differ."""

    key: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.key}: {self.before} before, {self.after} after"


@dataclass(frozen=True)
class CounterPair:
    """A counter on both sides; a missing value says why."""

    spec: CounterSpec
    before: Value
    after: Value

    @property
    def ratio(self) -> float | None:
        """After over before; None when either is missing or before is zero."""
        if self.before.value is None or self.after.value is None or self.before.value == 0:
            return None
        return self.after.value / self.before.value


@dataclass(frozen=True)
class Row:
    """One variant at one size."""

    variant: str
    dtype: str
    size: str
    status: Status
    reason: str = ""
    before: Interval | None = None  #: median time in nanoseconds
    after: Interval | None = None
    ratio: Interval | None = None  #: time after over time before: below one is less time
    mismatches: tuple[Mismatch, ...] = ()
    source: Identity = "unknown"
    binary: Identity = "unknown"
    counters: tuple[CounterPair, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """The whole of it."""

    before: str
    after: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()

    @property
    def code(self) -> Exit:
        """The exit code: incomparable (3) before broken, removed or not measured (5) before passed (0)."""
        statuses = {row.status for row in self.rows}
        if "incomparable" in statuses:
            return Exit.NOTHING
        if statuses - {"compared", "new", SKIPPED} or "compared" not in statuses:
            return Exit.BROKEN
        return Exit.OK

    @property
    def refused(self) -> tuple[str, ...]:
        """The keys that stand in the way."""
        found = {m.key for row in self.rows if row.status == "incomparable" for m in row.mismatches}
        return tuple(key for key in KEYS if key in found and key not in self.allowed)


def compare(before: RunData, after: RunData, *, names: tuple[str, str], allow: Collection[str] = ()) -> Comparison:
    """Return two runs side by side; ``allow`` names keys of :data:`KEYS` whose mismatch is accepted."""
    order: dict[tuple[str, str], None] = {}
    for run in (after, before):
        for variant in run.variants:
            for size in run.sizes:
                order[(str(variant["name"]), size)] = None
    rows = tuple(_row(before, after, variant, size, allow) for variant, size in order)
    return Comparison(*names, rows, _notes(before, after), tuple(key for key in KEYS if key in allow))


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as a JSON document."""
    return {
        "schema": 1,
        "before": comparison.before,
        "after": comparison.after,
        "verdict": None,
        "verdict_reason": NO_VERDICT,
        "interval_note": INTERVAL_NOTE,
        "allowed_mismatches": list(comparison.allowed),
        "notes": list(comparison.notes),
        "exit_code": int(comparison.code),
        "rows": [_row_json(row) for row in comparison.rows],
    }


# --- one row --------------------------------------------------------------------------------------------------------


def _row(before: RunData, after: RunData, name: str, size: str, allow: Collection[str]) -> Row:
    old, new = before.variant(name), after.variant(name)
    dtype = str((new or old or {}).get("dtype") or "")
    source, binary = (_identity(old, new, column) for column in ("source_hash", "binary_hash"))
    bare = Row(name, dtype, size, "not_measured", source=source, binary=binary)
    status, reason = _presence(before, after, name, size)
    if status != "compared":
        return replace(bare, status=status, reason=reason)
    first, second = before.samples(name, size), after.samples(name, size)
    row = replace(
        bare,
        status="compared",
        reason=reason,
        before=median_interval(first),
        after=median_interval(second),
        counters=_counters(before, after, name, size),
        mismatches=_mismatches(before, after, name, size),
    )
    refused = [m for m in row.mismatches if m.key not in allow]
    if refused:
        return replace(row, status="incomparable", reason="; ".join(map(str, refused)))
    return replace(row, ratio=ratio_interval(_apart(second), first))


def _presence(before: RunData, after: RunData, name: str, size: str) -> tuple[Status, str]:
    """Return ``compared`` when both sides have times of their own, otherwise what the row is and why."""
    was, now = _side(before, name, size), _side(after, name, size)
    if now == ("measured", "") and was == ("measured", ""):
        return "compared", ""
    if now[0] == was[0] == SKIPPED:
        return "skipped", now[1]
    if now[0] == "absent" or (now[0] == SKIPPED and was[0] == "measured"):
        return ("removed", now[1]) if was[0] != "absent" else ("not_measured", now[1])
    if now[0] == "failed":
        return ("broken", now[1]) if was[0] == "measured" else ("not_measured", f"{now[1]}; before: {was[1] or was[0]}")
    if was[0] == "absent":
        return ("new", was[1]) if now[0] in ("measured", SKIPPED) else ("not_measured", f"after: {now[1]}")
    if now[0] == "measured" and was[0] in ("failed", SKIPPED):
        return "new", f"no time before: {was[1]}"
    sides = [f"{label}: {side[1]}" for label, side in (("before", was), ("after", now)) if side[0] != "measured"]
    return "not_measured", "; ".join(sides)


def _side(run: RunData, name: str, size: str) -> tuple[str, str]:
    """Return what a run has of a variant at a size: measured, absent, skipped, failed or not_measured, and why."""
    variant = run.variant(name)
    if variant is None:
        return "absent", "the run has no such variant"
    if size not in run.sizes:
        return "absent", "the run has no such size"
    status, reason = str(variant["status"] or "not_run"), str(variant["reason"] or "")
    text = f"{status} ({reason})" if reason else status
    if status == SKIPPED:
        return SKIPPED, text
    if status == "not_run":
        return "not_measured", text
    if not run.timed(name):
        return "failed", text
    if variant["origin"] != "measured":
        return "not_measured", f"the times are {variant['origin'] or 'of unknown origin'}, not measured in this run"
    if not run.samples(name, size):
        skipped = [check for check in run.checks(name) if check["size"] == size and check["status"] == SKIPPED]
        return (SKIPPED, str(skipped[0]["reason"] or SKIPPED)) if skipped else ("not_measured", "no times at this size")
    return "measured", ""


def _mismatches(before: RunData, after: RunData, name: str, size: str) -> tuple[Mismatch, ...]:
    was, now = _identity_keys(before, name, size), _identity_keys(after, name, size)
    return tuple(
        Mismatch(key, was[key] or "unknown", now[key] or "unknown")
        for key in KEYS
        if was[key] != now[key] or (key == "gpu" and not was[key])
    )


def _identity_keys(run: RunData, name: str, size: str) -> dict[str, str]:
    manifest = run.manifest
    problem = _mapping(manifest.get("problem"))
    gpu = _mapping(manifest.get("gpu"))
    build = _mapping(_mapping(manifest.get("builds")).get(name))
    variant = run.variant(name) or {}
    options = {key: problem[key] for key in ("options", "layout") if problem.get(key)}
    timed = [row for row in run.sample_rows(name, size) if row["method"] != "sustained"]
    return {
        "gpu": str(gpu.get("name") or ""),
        "arch": str(build.get("arch") or manifest.get("arch") or ""),
        "problem": " ".join([str(problem.get("kind") or ""), *(f"{k}={_text(v)}" for k, v in options.items())]).strip(),
        "init": _text(problem.get("init")),
        "dtype": str(variant.get("dtype") or ""),
        "cache": "+".join(sorted({str(row["cache"]) for row in timed})),
        "method": "+".join(sorted({str(row["method"]) for row in timed})),
    }


def _counters(before: RunData, after: RunData, name: str, size: str) -> tuple[CounterPair, ...]:
    pairs = [
        CounterPair(spec, _counter(before, spec, name, size), _counter(after, spec, name, size)) for spec in COUNTERS
    ]
    return tuple(pair for pair in pairs if pair.before.value is not None or pair.after.value is not None)


def _counter(run: RunData, spec: CounterSpec, name: str, size: str) -> Value:
    if spec.combine == "first":
        return run.first(name, size, spec.metric, *spec.otherwise)
    return run.total(name, size, spec.metric) if spec.combine == "total" else run.average(name, size, spec.metric)


def _identity(old: FrameRow | None, new: FrameRow | None, column: str) -> Identity:
    was, now = (side[column] if side else None for side in (old, new))
    if not was or not now:
        return "unknown"
    return "same" if was == now else "changed"


def _apart(samples: Sequence[Sample]) -> list[Sample]:
    """Return samples under process numbers that no other run has: two runs share no rounds to pair."""
    return [replace(sample, process=-1 - sample.process) for sample in samples]


# --- the whole ------------------------------------------------------------------------------------------------------


def _notes(before: RunData, after: RunData) -> tuple[str, ...]:
    """Return differences that do not forbid a comparison."""
    notes = []
    if before.manifest == after.manifest and before.rows == after.rows:
        notes.append("BEFORE and AFTER are the same run")
    for key, text in (("driver", "driver"), ("uuid", "GPU (another card of the same name)")):
        was, now = (str(_mapping(run.manifest.get("gpu")).get(key) or "") for run in (before, after))
        if was and now and was != now:
            notes.append(f"another {text}: {was} before, {now} after")
    was, now = (_compilers(run) for run in (before, after))
    if was and now and was != now:
        notes.append(f"another compiler: {was} before, {now} after")
    return tuple(notes)


def _compilers(run: RunData) -> str:
    builds = _mapping(run.manifest.get("builds")).values()
    return ", ".join(sorted({str(build["compiler"]) for build in builds if _mapping(build).get("compiler")}))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(item)}" for key, item in sorted(value.items()))
    return "" if value is None else str(value)


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "variant": row.variant,
        "dtype": row.dtype,
        "size": row.size,
        "status": row.status,
        "reason": row.reason,
        "before_ns": _interval_json(row.before),
        "after_ns": _interval_json(row.after),
        "ratio": _interval_json(row.ratio),
        "mismatches": [{"key": m.key, "before": m.before, "after": m.after} for m in row.mismatches],
        "source": row.source,
        "binary": row.binary,
        "counters": [
            {
                "metric": pair.spec.metric,
                "unit": pair.before.unit or pair.after.unit,
                "before": pair.before.value,
                "after": pair.after.value,
                "missing": pair.before.why or pair.after.why or None,
            }
            for pair in row.counters
        ],
    }


def _interval_json(interval: Interval | None) -> dict[str, Any] | None:
    if interval is None:
        return None
    return {"value": interval.value, "low": interval.low, "high": interval.high, "samples": interval.samples}
