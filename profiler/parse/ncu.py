"""Nsight Compute's values -> rows of the frames ``metrics``, ``stalls``, ``source`` and ``rules``. Pure.

What is absent says why: ``not_collected`` when the name is not in the report, ``not_supported`` when the chip has no
such counter, ``failed`` when the profiler recorded that there is no value, ``not_applicable`` for a ratio to nothing.
Values below zero or above a hundred percent come from collecting in several passes, and are kept as they are.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from profiler.metrics import METRICS, Metric, NoValue, base_name, evaluate, supported_source
from profiler.parse.ncu_tensor import tensor_scalars
from profiler.parse.ncu_units import to_si

Row = dict[str, Any]
#: Names of the experiment's own ``profile.metrics`` in the frame ``metrics``.
RAW_PREFIX = "ncu."

#: Files of 2019 give no units: what the name alone says.
_UNITLESS: dict[str, str] = {"gpu__time_duration": "ns", "gpu__time_duration.sum": "ns"}

_RATIO = re.compile(r"^smsp__average_warps_issue_stalled_(.+)_per_issue_active\.ratio$")
_SAMPLED = re.compile(r"^smsp__pcsamp_warps_issue_stalled_(?!.*_not_issued$)(.+)$")
#: The samples' names of two reasons that the ratios call otherwise.
_SAME_REASON = {"no_instructions": "no_instruction", "warpgroup_arrive": "gmma"}
_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
_LATENCY_TOLERANCE = 0.01

_MARKUP = re.compile(r"@(section|url|sass|source):([^@:]*):([^@]*)@")
_KINDS = {1: "local", 2: "global"}  # ncu's speedup types are 0 unknown, 1 local, 2 global
_NO_MESSAGE = 0


@dataclass(frozen=True)
class RawLaunch:
    """One launch as the report holds it. ``scalars``: ncu's name -> value and unit, None where it recorded no value."""

    function: str
    demangled: str
    mangled: str
    ranges: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]  #: domain, push/pop names, start/end names
    scalars: Mapping[str, tuple[Any, str] | None]
    pcs: Mapping[str, Any] | None = None
    rules: tuple[Mapping[str, Any], ...] = ()
    opcodes: Mapping[str, float] | None = None  #: warp instructions by opcode with all modifiers

    def pushed(self, domain: str) -> tuple[str, ...]:
        """Return the names of the push/pop ranges of a domain, outermost first."""
        return tuple(name for found, names, _ in self.ranges if found == domain for name in names)


@dataclass(frozen=True)
class RawReport:
    """A whole report: its launches in order, the file's SHA-256, and what it says of the tool that wrote it."""

    launches: tuple[RawLaunch, ...]
    sha256: str = ""
    reader: str = ""
    session: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RawReport:
        """Return the report from the document that the reading child wrote."""
        launches = tuple(
            RawLaunch(
                function=one["function"],
                demangled=one["demangled"],
                mangled=one["mangled"],
                ranges=tuple((domain, tuple(pushed), tuple(started)) for domain, pushed, started in one["ranges"]),
                scalars={name: None if pair is None else (pair[0], pair[1]) for name, pair in one["scalars"].items()},
                pcs=one["pcs"],
                rules=tuple(one["rules"]),
                opcodes=one.get("opcodes"),
            )
            for one in data["launches"]
        )
        return cls(launches, data.get("sha256", ""), data.get("reader", ""), data.get("session", {}))


@dataclass
class Rows:
    """Rows of the four frames, and remarks on values that do not fit together."""

    metrics: list[Row] = field(default_factory=list)
    stalls: list[Row] = field(default_factory=list)
    source: list[Row] = field(default_factory=list)
    rules: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def frames(self) -> dict[str, list[Row]]:
        """Return the rows by the frame's name."""
        return {"metrics": self.metrics, "stalls": self.stalls, "source": self.source, "rules": self.rules}


@dataclass(frozen=True)
class Place:
    """Which variant, size and number a launch has."""

    variant: str
    size: str
    launch: int


def places_by_range(report: RawReport, domain: str, pairs: Mapping[str, tuple[str, str]]) -> dict[int, Place]:
    """Return, by the launch's number in the report, the place that its range names.

    Launches of no known range are left out. ``pairs`` maps range names to (variant, size); the launches of a pair are
    counted from 0.
    """
    counts: dict[tuple[str, str], int] = {}
    found: dict[int, Place] = {}
    for number, launch in enumerate(report.launches):
        pair = next((pairs[name] for name in launch.pushed(domain) if name in pairs), None)
        if pair is not None:
            found[number] = Place(*pair, counts.get(pair, 0))
            counts[pair] = counts.get(pair, 0) + 1
    return found


def places_by_name(report: RawReport) -> dict[int, Place]:
    """Return places for a report from elsewhere, each launch a variant of its own.

    Its name is the innermost range, with the kernel's where a range holds several kernels, else the kernel's function;
    repeated names are numbered from the second on. Its number is that of the report.
    """
    bases = [_innermost(launch) for launch in report.launches]
    kernels: dict[str, set[str]] = {}
    for base, launch in zip(bases, report.launches, strict=True):
        kernels.setdefault(base, set()).add(launch.function)
    counts: dict[str, int] = {}
    taken: set[str] = set()
    found: dict[int, Place] = {}
    for number, (base, launch) in enumerate(zip(bases, report.launches, strict=True)):
        name = launch.function if not base else f"{base}: {launch.function}" if len(kernels[base]) > 1 else base
        unique = name
        while unique in taken or not unique:
            counts[name] = counts.get(name, 1) + 1
            unique = f"{name or 'launch'} #{counts[name]}"
        taken.add(unique)
        found[number] = Place(unique, "", number)
    return found


def _innermost(launch: RawLaunch) -> str:
    names = [name for _, pushed, started in launch.ranges for name in (*started, *pushed) if name]
    return names[-1] if names else ""


def rows_of_report(
    report: RawReport,
    places: Mapping[int, Place],
    *,
    available: Collection[str] | None = None,
    extra: Sequence[str] = (),
) -> Rows:
    """Return the rows of the placed launches.

    ``available``: the chip's base names, where they are known; ``extra``: ncu names that the experiment asked for.
    """
    rows = Rows()
    for number, place in sorted(places.items()):
        launch = report.launches[number]
        key: Row = {"variant": place.variant, "size": place.size, "launch": place.launch, "kernel": launch.demangled}
        rows.metrics += metric_rows(launch, key, available, extra)
        rows.stalls += stall_rows(launch, key)
        rows.source += source_rows(launch, key)
        rows.rules += rule_rows(launch, key)
        remark = latency_remark(launch)
        if remark:
            where = f"{place.variant} at {place.size}" if place.size else place.variant
            rows.remarks.append(f"{where}: {remark}")
        dropped = number_of(launch.scalars.get("smsp__pcsamp_dropped_bytes"))
        if dropped:
            rows.remarks.append(f"{place.variant}: {dropped:.0f} bytes of program counter samples were lost")
    return rows


def metric_rows(
    launch: RawLaunch, key: Mapping[str, Any], available: Collection[str] | None, extra: Sequence[str] = ()
) -> list[Row]:
    """Return one row per metric of the table, and per extra name, with a value or a reason."""
    values = _Values({**launch.scalars, **tensor_scalars(launch.opcodes)}, available)
    rows = []
    for one in METRICS.values():
        row: Row = {**key, "metric": one.name, "unit": one.unit, "origin": one.origin}
        try:
            row["text" if one.unit == "text" else "value"] = values.text(one) if one.unit == "text" else values.of(one)
        except NoValue as missing:
            if not one.asked:
                continue
            row["why"] = missing.why
        rows.append(row)
    for name in extra:
        row = {**key, "metric": RAW_PREFIX + name, "origin": "ncu"}
        try:
            row["unit"] = values.unit(name)
            raw = (launch.scalars.get(name) or (None, ""))[0]
            row["text" if isinstance(raw, str) else "value"] = raw if isinstance(raw, str) else values.leaf(name)
        except NoValue as missing:
            row["why"] = missing.why
        rows.append(row)
    return rows


def reason_rows(key: Mapping[str, Any], names: Iterable[str], why: str) -> list[Row]:
    """Return rows that say why these metrics have no value."""
    return [{**key, "metric": name, "unit": METRICS[name].unit, "origin": "ncu", "why": why} for name in names]


def stall_rows(launch: RawLaunch, key: Mapping[str, Any]) -> list[Row]:
    """Return one row per reason that the report has: cycles per issued instruction, samples, or both."""
    cycles: dict[str, float | None] = {}
    samples: dict[str, float | None] = {}
    for name, pair in launch.scalars.items():
        if found := _RATIO.match(name):
            cycles[normal_reason(found.group(1))] = number_of(pair)
        elif found := _SAMPLED.match(name):
            samples[normal_reason(found.group(1))] = number_of(pair)
    rows = []
    for reason in sorted({*cycles, *samples}):
        sampled = samples.get(reason)
        rows.append(
            {
                **key,
                "reason": reason,
                "cycles_per_issue": cycles.get(reason),
                "samples": None if sampled is None else int(sampled),
            }
        )
    return rows


def latency_remark(launch: RawLaunch) -> str:
    """Return a remark when the stall reasons do not add up to the latency within 1 %.

    An empty text when they do, or when the report does not hold both.
    """
    latency = number_of(launch.scalars.get(_LATENCY))
    parts = [number_of(pair) for name, pair in launch.scalars.items() if _RATIO.match(name)]
    if not latency or not parts or any(part is None for part in parts):
        return ""
    total = sum(part for part in parts if part is not None)
    if abs(total - latency) <= _LATENCY_TOLERANCE * latency:
        return ""
    return f"the stall reasons add up to {total:.3f} cycles, the latency is {latency:.3f}"


def source_rows(launch: RawLaunch, key: Mapping[str, Any]) -> list[Row]:
    """Return one row per instruction that ran or was sampled."""
    if launch.pcs is None:
        return []
    rows = []
    for values in launch.pcs["rows"]:
        pc = dict(zip(launch.pcs["columns"], values, strict=True))
        reasons = {normal_reason(reason): count for reason, count in pc["stalls"].items()}
        rows.append(
            {
                **key,
                "file": pc["file"],
                "line": pc["line"],
                "pc": pc["pc"],
                "sass": pc["sass"] or None,
                "executed": pc["executed"],
                "samples": pc["samples"],
                "samples_by_reason": json.dumps(reasons, sort_keys=True, separators=(",", ":")) if reasons else None,
                "sectors": pc["sectors"],
                "excess_sectors": _excess(pc["sectors"], pc["sectors_ideal"]),
                "shared_wavefronts": pc["shared_wavefronts"],
                "excess": _excess(pc["shared_wavefronts"], pc["shared_wavefronts_ideal"]),
            }
        )
    return rows


def rule_rows(launch: RawLaunch, key: Mapping[str, Any]) -> list[Row]:
    """Return ncu's own advice, one row per message, as plain text; ``speedup`` in percent, local and global apart."""
    place = {name: value for name, value in key.items() if name != "kernel"}
    rows = []
    for rule in launch.rules:
        said = rule.get("rule_message") or {}
        message = plain_text(str(said.get("message") or ""))
        if not message or said.get("type") == _NO_MESSAGE:
            continue
        estimate = rule.get("speedup_estimation") or {}
        kind = _KINDS.get(estimate.get("type", 0))
        rows.append(
            {
                **place,
                "rule": str(rule.get("rule_identifier") or rule.get("name") or ""),
                "title": plain_text(str(said.get("title") or rule.get("name") or "")),
                "message": message,
                "kind": kind,
                "speedup": float(estimate["speedup"]) if kind and "speedup" in estimate else None,
            }
        )
    return rows


def plain_text(message: str) -> str:
    """Return a rule's message with its links replaced by what they show."""

    def shown(link: re.Match[str]) -> str:
        kind, first, second = link.groups()
        return (first or second) if kind == "url" else (second or first)

    return " ".join(_MARKUP.sub(shown, message.replace("\\n", " ")).split())


def normal_reason(name: str) -> str:
    """Return a stall reason under the one name that both of ncu's tables share here."""
    return _SAME_REASON.get(name, name)


def number_of(pair: tuple[Any, str] | None) -> float | None:
    """Return a scalar's number as it is; None when there is none."""
    if pair is None or isinstance(pair[0], (str, bool)) or pair[0] is None:
        return None
    value = float(pair[0])
    return value if math.isfinite(value) else None


class _Values:
    """Evaluates the metric table over one launch."""

    def __init__(self, scalars: Mapping[str, tuple[Any, str] | None], available: Collection[str] | None) -> None:
        self._scalars = scalars
        self._available = available
        self._done: dict[str, float | NoValue] = {}

    def of(self, one: Metric) -> float:
        """The value of the first formula that has one; else ``NoValue`` with the reason that says most."""
        if one.name not in self._done:
            self._done[one.name] = self._evaluate(one)
        result = self._done[one.name]
        if isinstance(result, NoValue):
            raise NoValue(result.why)
        return result

    def leaf(self, name: str) -> float:
        """The value of one of ours, or of one of ncu's names in SI."""
        if name in METRICS:
            return self.of(METRICS[name])
        value = number_of(self._pair(name))
        if value is None:
            raise NoValue("failed")
        unit = (self._scalars[name] or (None, ""))[1]
        return to_si(value, unit or _UNITLESS.get(name, ""))[0]

    def text(self, one: Metric) -> str:
        pair = self._pair(one.source[0])
        if not isinstance(pair[0], str) or not pair[0]:
            raise NoValue("failed")
        return pair[0]

    def unit(self, name: str) -> str:
        return to_si(0.0, self._pair(name)[1])[1]

    def _pair(self, name: str) -> tuple[Any, str]:
        if name not in self._scalars:
            known = self._available is None or base_name(name) in self._available or "__" not in name
            raise NoValue("not_collected" if known or name.startswith(_UNLISTED) else "not_supported")
        pair = self._scalars[name]
        if pair is None:
            raise NoValue("failed")
        return pair

    def _evaluate(self, one: Metric) -> float | NoValue:
        reasons: list[str] = []
        for formula in one.source:
            try:
                value = evaluate(formula, self.leaf)
                if value == 0 and one.zero:
                    raise NoValue(one.zero)
                return value
            except NoValue as missing:
                reasons.append(missing.why)
        if self._available is not None and supported_source(one, self._available) is None:
            return NoValue("not_supported")
        return NoValue(min(reasons, key=_TELLING.index, default="not_collected"))


#: Of several formulas without a value, the reason that says most.
_TELLING = ("failed", "not_applicable", "not_supported", "not_collected")
_UNLISTED = ("launch__", "device__", "profiler__", "derived__", "sass__", "sm__maximum_", "smsp__pcsamp_")


def _excess(actual: int | None, ideal: int | None) -> int | None:
    return None if actual is None or ideal is None else actual - ideal
