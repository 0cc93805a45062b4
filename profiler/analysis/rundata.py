"""A run's manifest and frames in hand, with the look-ups that the analysis needs. Everything after loading is pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from profiler.analysis.kernel_names import kernel_function, kernel_instance
from profiler.analysis.statistics import Sample
from profiler.controls import memory_bound, parse_row_name
from profiler.frames import rows_of
from profiler.sizes import size_key

if TYPE_CHECKING:
    import pandas as pd

    from profiler.rundir import RunDir

Row = Mapping[str, Any]
Launch = tuple[int, str]  #: number and kernel name

#: Statuses whose times count: the profiler's failure does not touch the clock.
TIMED_STATUSES = frozenset({"ok", "profile_failed"})
#: What a missing metric's ``why`` says to a reader.
WHY_TEXT: Mapping[str, str] = {
    "not_collected": "not collected in this run",
    "not_supported": "this chip has no such counter",
    "not_permitted": "the driver does not permit counters here",
    "not_applicable": "does not apply to this kernel",
    "failed": "the profiler gave no value for this kernel",
    "left_out": "left out of the profile by the experiment (profile.skip)",
}
#: Methods whose samples no event times rank with: each is asked for by name.
APART = frozenset({"sustained", "trace", "printed"})
_STATIC_ORIGINS = frozenset({"ptxas", "sass"})
_FRAMES = ("variants", "checks", "samples", "metrics", "stalls", "ceilings")
#: What only the report reads: counters per instruction, and the profiler's own advice.
_DETAIL_FRAMES = ("source", "rules")


@dataclass(frozen=True)
class Value:
    """A number with its unit and origin, or None with the reason why it is missing."""

    value: float | None
    unit: str = ""
    origin: str = ""
    why: str = ""

    @property
    def why_text(self) -> str:
        """Return the reason for a reader."""
        return WHY_TEXT.get(self.why, self.why or WHY_TEXT["not_collected"])


@dataclass(frozen=True)
class RunData:
    """A run that has been read."""

    manifest: Mapping[str, Any]
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    spans: pd.DataFrame | None = None  #: the timeline as a frame, for it has too many rows for dicts

    @classmethod
    def load(cls, run: RunDir, *, details: bool = False) -> RunData:
        """Return a run's manifest and the frames that the analysis reads; ``details``: those per instruction, too."""
        wanted = (*_FRAMES, *_DETAIL_FRAMES) if details else _FRAMES
        spans = run.frame("spans") if details else None
        return cls(run.manifest, {name: rows_of(run.frame(name)) for name in wanted}, spans)

    @property
    def foreign(self) -> bool:
        """Whether this is a profiler's file from elsewhere: launches of unknown contracts, without event times."""
        return bool(self.manifest.get("foreign"))

    @property
    def traced(self) -> bool:
        """Whether there is a timeline to show."""
        return self.spans is not None and len(self.spans) > 0

    @property
    def gpu_names(self) -> dict[int, str]:
        """Device of the timeline -> its name, as far as it is known."""
        named = (self.manifest.get("trace") or {}).get("gpus") or {}
        return {int(device): str(name) for device, name in named.items()}

    @cached_property
    def variants(self) -> Sequence[Row]:
        """The variants in the order of the experiment file."""
        return sorted(self.rows.get("variants", ()), key=lambda row: (row["order"] is None, row["order"] or 0))

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The timed sizes: those of the manifest, then any other that a frame has."""
        problem = self.manifest.get("problem") or {}
        listed = [size if isinstance(size, str) else size_key(size) for size in problem.get("sizes") or ()]
        for name in ("samples", "stalls"):
            listed += [row["size"] for row in self.rows.get(name, ()) if row["size"]]
        return tuple(dict.fromkeys(listed)) or ("",)

    @property
    def main_size(self) -> str:
        """The size with the most work (operations, bytes, the last one listed) of those profiled, where any was."""
        counted = {size for _, size in self._counters}
        return max([size for size in self.sizes if size in counted] or self.sizes, key=self.work)

    def work(self, size: str) -> tuple[float, float, int]:
        """Return what sizes are ordered by: operations, then bytes, then their place in the file."""
        return (self.flops(size) or 0, self.min_bytes("", size) or 0, self.sizes.index(size))

    def flops(self, size: str) -> int | None:
        """Return the problem's operations at a size; None when it counts none."""
        found = ((self.manifest.get("problem") or {}).get("flops") or {}).get(size)
        return int(found) if found is not None else None

    def min_bytes(self, dtype: str, size: str) -> int | None:
        """Return the least bytes that must move under a contract (any contract when ``dtype`` is empty)."""
        table = (self.manifest.get("problem") or {}).get("min_bytes") or {}
        if not dtype:
            dtype = next(iter(table), "")
        found = (table.get(dtype) or {}).get(size)
        return int(found) if found is not None else None

    def memory_bound(self, dtype: str, size: str) -> bool:
        """Whether the problem is bound by memory under a contract at a size."""
        return memory_bound(self.flops(size), self.min_bytes(dtype, size))

    def control(self, dtype: str, size: str) -> Row | None:
        """Return the row of ``ceilings`` of the copy or read that moved the same bytes beside the variants."""
        return self._controls.get((size, dtype))

    @cached_property
    def _controls(self) -> Mapping[tuple[str, str], Row]:
        found: dict[tuple[str, str], Row] = {}
        for row in self.rows.get("ceilings", ()):
            parsed = parse_row_name(str(row["name"]))
            if parsed is not None and row["value"]:
                found[parsed[1], parsed[2]] = {**row, "kind": parsed[0]}
        return found

    def baseline(self, dtype: str) -> str | None:
        """Return the name of a contract's baseline."""
        found = (self.manifest.get("baseline") or {}).get(dtype)
        return str(found) if found else None

    @property
    def baselines(self) -> frozenset[str]:
        """The names of all baselines."""
        return frozenset(str(name) for name in (self.manifest.get("baseline") or {}).values() if name)

    def variant(self, name: str) -> Row | None:
        """Return the row of a variant."""
        return self._by_name.get(name)

    def timed(self, name: str) -> bool:
        """Whether a variant's times count: nothing failed, and its answers are right (a program's are unverified)."""
        row = self.variant(name)
        return row is not None and row["status"] in TIMED_STATUSES and row["verified"] != "no"

    def samples(self, name: str, size: str, method: str = "") -> list[Sample]:
        """Return a variant's samples at a size: of one method and cache state, foreign ones left out if others remain.

        ``method`` is one of ``APART``; otherwise the one that the times were ranked by.
        """
        rows = self._samples.get((name, size), ())
        rows = [r for r in rows if _of(r["method"], method) and _positive(r["time_ns"])]
        wanted = (self.manifest.get("timing") or {}).get("cache")
        if not method and any(r["cache"] == wanted for r in rows):
            rows = [r for r in rows if r["cache"] == wanted]
        if method in ("trace", "printed"):  # one of each process: the processes are the rounds
            return [Sample(float(r["time_ns"]), 0, int(r["process"] or 0)) for r in rows]
        clean = [r for r in rows if not r["foreign"]]
        return [
            Sample(float(r["time_ns"]), int(r["process"] or 0), int(r["order"] or 0))
            for r in (clean if len(clean) >= 3 else rows)
        ]

    def sample_rows(self, name: str, size: str) -> Sequence[Row]:
        """Return the raw rows of a variant's samples."""
        return self._samples.get((name, size), ())

    def checks(self, name: str) -> Sequence[Row]:
        """Return the checks of a variant."""
        return self._checks.get(name, ())

    def launches(self, name: str, size: str) -> list[Launch]:
        """Return the profiled launches of a variant at a size."""
        return list(self._counters.get((name, size), {}))

    def launch_value(self, name: str, size: str, launch: Launch, metric: str) -> Value:
        """Return a metric of one launch."""
        return _value(self._counters.get((name, size), {}).get(launch, {}).get(metric))

    def launch_weight(self, name: str, size: str, launch: Launch) -> float:
        """Return a launch's profiled duration, zero when unknown: for choosing the longest kernel."""
        return self.launch_value(name, size, launch, "duration").value or 0.0

    def total(self, name: str, size: str, metric: str) -> Value:
        """Return a count summed over a variant's launches; missing when it is missing for one of them."""
        values = [self.launch_value(name, size, launch, metric) for launch in self.launches(name, size)]
        if not values:
            return Value(None, why=self.profile_why(name))
        for value in values:
            if value.value is None:
                return value
        return Value(sum(v.value or 0.0 for v in values), values[0].unit, values[0].origin)

    def average(self, name: str, size: str, metric: str) -> Value:
        """Return a rate, a share or a clock averaged over a variant's launches by their durations."""
        pairs = [
            (self.launch_value(name, size, launch, metric), self.launch_weight(name, size, launch))
            for launch in self.launches(name, size)
        ]
        if not pairs:
            return Value(None, why=self.profile_why(name))
        for value, _ in pairs:
            if value.value is None:
                return value
        weight = sum(w for _, w in pairs)
        first = pairs[0][0]
        if weight <= 0:
            return first if len(pairs) == 1 else Value(None, why="not_collected")
        return Value(sum((v.value or 0.0) * w for v, w in pairs) / weight, first.unit, first.origin)

    def static(self, name: str, metric: str, kernel: str = "") -> Value:
        """Return a metric of the binary: of one kernel when the binary has it, else the largest over its kernels."""
        rows = self._static.get(name, {}).get(metric, ())
        compiled = self.compiled_kernel(name, kernel) if kernel else None
        values = [_value(row) for row in rows if compiled is None or row["kernel"] == compiled]
        known = [value for value in values if value.value is not None]
        if known:
            return max(known, key=lambda value: value.value or 0.0)
        return values[0] if values else Value(None, why="not_collected")

    def static_text(self, name: str, metric: str) -> str:
        """Return a text of the binary, such as what limits its occupancy; empty when there is none."""
        return str(next((row["text"] for row in self._static.get(name, {}).get(metric, ()) if row["text"]), ""))

    def static_counts(self, name: str, stem: str, kernel: str = "") -> dict[str, float]:
        """Return the known metrics of the binary whose names start with a stem, chosen as :meth:`static` does."""
        names = [metric for metric in self._static.get(name, {}) if metric.startswith(stem)]
        found = {metric: self.static(name, metric, kernel).value for metric in names}
        return {metric: value for metric, value in found.items() if value is not None}

    def compiled_kernels(self, name: str) -> list[str]:
        """Return the kernels in a variant's binary, in its order."""
        return self._compiled.get(name, [])

    def compiled_kernel(self, name: str, launched: str) -> str | None:
        """Return the kernel of a binary that a launch's name means, however a demangler wrote it; None when unsure."""
        kernels = self.compiled_kernels(name)
        if launched in kernels:
            return launched
        for part in (
            kernel_instance,
            kernel_function,
        ):  # tile<(bool)0> and tile<false>; then the only one of that function
            same = [kernel for kernel in kernels if part(kernel) == part(launched)]
            if len(same) == 1:
                return same[0]
        return None

    def first(self, name: str, size: str, *metrics: str) -> Value:
        """Return the first metric with a value: of the kernel that ran longest, else that of the most registers."""
        found = Value(None, why="not_collected")
        longest = max(self.launches(name, size), key=lambda one: self.launch_weight(name, size, one), default=None)
        kernel = longest[1] if longest is not None else self._most_registers(name)
        for metric in metrics:
            found = self.static(name, metric, kernel)
            if found.value is None and longest is not None:
                found = self.launch_value(name, size, longest, metric)
            if found.value is not None:
                return found
        return found

    def _most_registers(self, name: str) -> str:
        """The compiled kernel with the most registers; empty when there is none."""
        kernels = self.compiled_kernels(name)
        return max(kernels, key=lambda one: self.static(name, "ptxas.registers", one).value or 0.0, default="")

    def instructions(self, name: str, size: str, launch: Launch) -> Sequence[Row]:
        """Return the counters per instruction of one launch, in the order of the code."""
        return self._source.get((name, size), {}).get(launch[0], ())

    def advice(self, name: str, size: str) -> Sequence[Row]:
        """Return what the profiler's own rules say of a variant."""
        return self._rules.get((name, size), ())

    def stalls(self, name: str, size: str) -> Mapping[Launch, Mapping[str, float]]:
        """Return cycles per issued instruction by reason, per launch."""
        return self._stalls.get((name, size), {})

    def profile_why(self, name: str) -> str:
        """Return why a variant has no counters at all, in words."""
        row = self.variant(name)
        if row is not None and row["status"] not in TIMED_STATUSES:
            return str(row["status"]).replace("_", " ")
        if row is not None and row["status"] == "profile_failed":
            return "failed"
        profile = self.manifest.get("profile") or {}
        if name in profile.get("skip", ()):
            return "left_out"
        return str(profile.get("reason") or "not_collected")

    @cached_property
    def _by_name(self) -> Mapping[str, Row]:
        return {str(row["name"]): row for row in reversed(self.variants)}

    @cached_property
    def _samples(self) -> Mapping[tuple[str, str], list[Row]]:
        return _grouped(self.rows.get("samples", ()), "variant", "size")

    @cached_property
    def _rules(self) -> Mapping[tuple[str, str], list[Row]]:
        return _grouped(self.rows.get("rules", ()), "variant", "size")

    @cached_property
    def _source(self) -> Mapping[tuple[str, str], dict[int, list[Row]]]:
        found: dict[tuple[str, str], dict[int, list[Row]]] = {}
        for row in self.rows.get("source", ()):
            launches = found.setdefault((row["variant"], row["size"]), {})
            launches.setdefault(int(row["launch"] or 0), []).append(row)
        return found

    @cached_property
    def _checks(self) -> Mapping[str, list[Row]]:
        groups: dict[str, list[Row]] = {}
        for row in self.rows.get("checks", ()):
            groups.setdefault(row["variant"], []).append(row)
        return groups

    @cached_property
    def _counters(self) -> Mapping[tuple[str, str], dict[Launch, dict[str, Row]]]:
        found: dict[tuple[str, str], dict[Launch, dict[str, Row]]] = {}
        for row in self.rows.get("metrics", ()):
            if _of_binary(row):
                continue
            launches = found.setdefault((row["variant"], row["size"]), {})
            launches.setdefault((int(row["launch"]), str(row["kernel"] or "")), {})[row["metric"]] = row
        return found

    @cached_property
    def _static(self) -> Mapping[str, dict[str, list[Row]]]:
        found: dict[str, dict[str, list[Row]]] = {}
        for row in self.rows.get("metrics", ()):
            if _of_binary(row):
                found.setdefault(row["variant"], {}).setdefault(row["metric"], []).append(row)
        return found

    @cached_property
    def _compiled(self) -> Mapping[str, list[str]]:
        return {
            name: list(dict.fromkeys(str(r["kernel"]) for rows in found.values() for r in rows if r["kernel"]))
            for name, found in self._static.items()
        }

    @cached_property
    def _stalls(self) -> Mapping[tuple[str, str], dict[Launch, dict[str, float]]]:
        found: dict[tuple[str, str], dict[Launch, dict[str, float]]] = {}
        for row in self.rows.get("stalls", ()):
            if row["cycles_per_issue"] is None:
                continue
            launches = found.setdefault((row["variant"], row["size"]), {})
            key = (int(row["launch"] or 0), str(row["kernel"] or ""))
            launches.setdefault(key, {})[row["reason"]] = float(row["cycles_per_issue"])
        return found


def _grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        first, second = (row[key] for key in keys)
        groups.setdefault((first, second), []).append(row)
    return groups


def _of_binary(row: Row) -> bool:
    """Whether a row of the metrics is of the binary, not of a launch; launches from elsewhere state no size."""
    if row["origin"] in _STATIC_ORIGINS or row["launch"] is None:
        return True
    return not row["size"] and row["origin"] != "ncu"


def _of(method: str | None, wanted: str) -> bool:
    return method == wanted if wanted else method not in APART


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0


def _value(row: Row | None) -> Value:
    if row is None:
        return Value(None, why="not_collected")
    if row["value"] is None:
        return Value(None, row["unit"] or "", row["origin"] or "", row["why"] or "not_collected")
    return Value(float(row["value"]), row["unit"] or "", row["origin"] or "")
