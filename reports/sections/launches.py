"""Section 1 of a report from elsewhere: its launches, with the profiler's own durations; no ratio, no rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.ladder import LadderRow
from profiler.analysis.roofline import dominant_pipe
from profiler.analysis.rundata import Launch, RunData, Value
from reports.formatting import slug
from reports.sections.ladder import limit_cell

_CACHES = {"all": "with all caches flushed before each pass", "none": "with the caches as the passes before left them"}
_CLOCKS = {
    "base": "with the clocks held at their base frequency",
    "none": "with the clocks left alone",
    "boost": "with the clocks held at their boost frequency",
}
#: A share of a peak below 0 or above 100 by more than this comes from the passes not fitting together.
_SLACK = 0.05


def build(data: RunData, rows: Sequence[LadderRow]) -> dict[str, Any]:
    """Return what the template of the launches shows."""
    known = [(row, _launch_of(data, row)) for row in rows]
    durations = {row.variant: _value(data, row, launch, "duration") for row, launch in known}
    total = sum(value.value or 0.0 for value in durations.values())
    foreign: Mapping[str, Any] = data.manifest.get("foreign") or {}
    return {
        "sentences": _sentences(data, [row for row, _ in known], durations, total),
        "method": _method(data),
        "left_out": int(foreign.get("left_out") or 0),
        "launches": int(foreign.get("launches") or len(rows)),
        "rows": [_row(data, row, launch, durations[row.variant], total) for row, launch in known],
    }


def _launch_of(data: RunData, row: LadderRow) -> Launch | None:
    return next(iter(data.launches(row.variant, row.size)), None)


def _value(data: RunData, row: LadderRow, launch: Launch | None, metric: str) -> Value:
    if launch is None:
        return Value(None, why="not_collected")
    return data.launch_value(row.variant, row.size, launch, metric)


def _sentences(data: RunData, rows: Sequence[LadderRow], durations: Mapping[str, Value], total: float) -> list[str]:
    gpu = (data.manifest.get("gpu") or {}).get("name")
    count = f"{len(rows)} launches" if len(rows) != 1 else "One launch"
    where = f" on {gpu}" if gpu else " on a GPU that the file does not name"
    timed = [row for row in rows if durations[row.variant].value]
    if not timed or total <= 0:
        return [f"{count}{where}; the file holds no duration."]
    longest = max(timed, key=lambda row: durations[row.variant].value or 0.0)
    seconds = durations[longest.variant].value or 0.0
    name, bound = formatting.short(longest.variant, 60), _bound(longest)
    if len(rows) == 1:
        return [f"{name}{where}: profiled duration {formatting.time_ns(seconds * 1e9)}{bound}."]
    lacking = len(rows) - len(timed)
    without = f"; {lacking} of the launches {'has' if lacking == 1 else 'have'} none" if lacking else ""
    return [
        f"{count}{where}: {formatting.time_ns(total * 1e9)} of profiled duration together{without}.",
        f"{name} takes {formatting.percent(seconds / total)} of it, {formatting.time_ns(seconds * 1e9)}{bound}.",
    ]


def _bound(row: LadderRow) -> str:
    words = {"near": "; bound by ", "between": "; it uses ", "latency": "; limited by "}.get(row.limit.verdict)
    return f"{words}{row.limit.text}" if words else ""


def _method(data: RunData) -> str:
    profile = data.manifest.get("profile") or {}
    tool = f"Nsight Compute {profile['ncu_version']}" if profile.get("ncu_version") else "Nsight Compute"
    how = [_CACHES.get(str(profile.get("cache_control"))), _CLOCKS.get(str(profile.get("clock_control")))]
    said = formatting.listed(text for text in how if text)
    return (
        f"Durations are those of {tool}'s own pass{f', taken {said}' if said else ''}: they are not event times, and "
        "say little about how fast the kernel runs in its application. The file does not state sizes or numeric "
        "contracts, so nothing is compared, ranked or checked here."
    )


def _row(data: RunData, row: LadderRow, launch: Launch | None, duration: Value, total: float) -> dict[str, Any]:
    kernel = launch[1] if launch else row.idea
    share = (duration.value or 0.0) / total if total > 0 and duration.value else None
    pipe = dominant_pipe(row.uses)
    rate = pipe.amount.value / duration.value if pipe and pipe.amount.value and duration.value else None
    value = {name: _value(data, row, launch, name) for name in _SHOWN}
    return {
        "id": f"row-{slug(row.variant)}",
        "name": row.variant,
        "kernel": kernel if kernel != row.variant else "",
        "number": launch[0] if launch else row.order,
        "duration": _cell(duration, lambda seconds: formatting.time_ns(seconds * 1e9)),
        "share": formatting.percent(share) if share is not None else "",
        "width": 100 * share if share is not None else 0.0,
        "limit": _limit(row),
        "rate": _text(rate, formatting.si(rate, "FLOP/s") if rate else "", _why_no_rate(row)),
        "rate_pipe": pipe.label if pipe and rate else "",
        "dram": _cell(value["dram_bytes"], lambda number: formatting.si(number, "B")),
        "clock": _cell(value["sm_clock"], lambda hertz: f"{hertz / 1e9:.2f}"),
        "shape": _shape(value["grid"], value["block"]),
        "registers": _cell(value["registers"], lambda number: f"{number:.0f}"),
        "achieved": _percent(value["achieved_occupancy"]),
        "theoretical": _percent(value["theoretical_occupancy"]),
        "tensor": _percent(value["pipe_tensor"]),
    }


_SHOWN = (
    "dram_bytes", "sm_clock", "grid", "block", "registers", "achieved_occupancy", "theoretical_occupancy",
    "pipe_tensor",
)  # fmt: skip


def _cell(value: Value, shown: Any) -> dict[str, Any]:
    """A number as it is, with a mark when it cannot be: a count or a time below zero."""
    if value.value is None:
        return _text(None, "", value.why_text)
    odd = "below zero, which this cannot be" if value.value < 0 else ""
    return {"text": shown(value.value) if not odd else f"{value.value:g} {value.unit}", "sort": value.value, "odd": odd}


def _percent(value: Value) -> dict[str, Any]:
    if value.value is None:
        return _text(None, "", value.why_text)
    odd = ""
    if value.value > 100 + _SLACK:
        odd = "above 100 %: its counters come from passes that do not fit together"
    elif value.value < -_SLACK:
        odd = "below zero: its counters come from passes that do not fit together"
    return {"text": f"{value.value:.1f} %", "sort": value.value, "odd": odd}


def _text(value: float | None, text: str, why: str) -> dict[str, Any]:
    sort = value if value is not None and math.isfinite(value) else None
    return {"text": text, "sort": sort, "odd": "", "why": why or "not in the file"}


def _shape(grid: Value, block: Value) -> dict[str, Any]:
    if grid.value is None or block.value is None:
        return _text(None, "", (grid if grid.value is None else block).why_text)
    return {"text": f"{grid.value:.0f} × {block.value:.0f}", "sort": grid.value * block.value, "odd": ""}


def _why_no_rate(row: LadderRow) -> str:
    counted = [use for use in row.uses if use.family == "compute"]
    missing = next((use.why for use in counted if use.why), "")
    return missing or "no arithmetic operation was counted: the file holds no such counters, or the kernel does none"


def _limit(row: LadderRow) -> dict[str, Any]:
    limit, cell = row.limit, limit_cell(row)
    return {
        **cell,
        "width": max(0.0, cell["width"] or 0.0),
        "own": any(use.key == limit.key and use.roof.value is None for use in row.uses)
        or (limit.verdict == "latency" and all(use.roof.value is None for use in row.uses if use.share is not None)),
    }
