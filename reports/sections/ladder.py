"""Section 1: the verdict and the ladder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.environment import recorded_text
from profiler.analysis.ladder import LadderRow
from profiler.analysis.leads import Lead
from profiler.analysis.own_times import own_ratio_text
from profiler.analysis.rundata import RunData
from profiler.analysis.statistics import Interval
from profiler.analysis.taken_over import reused_text
from profiler.analysis.verdicts import Verdict, remarks, verdicts
from profiler.frames import SKIPPED
from reports.figures import ladder_figure, sizes_figure
from reports.formatting import size_slug, slug

#: Status -> (mark, tone): a shape beside the colour.
STATUS_MARKS = {
    "ok": ("●", "good"),
    "skipped": ("○", "quiet"),
    "not_run": ("○", "quiet"),
    "profile_failed": ("◐", "warn"),
    "wrong_result": ("✕", "bad"),
    "wrong_after_timing": ("✕", "bad"),
}
ORIGIN_TEXT = {
    "measured": "measured",
    "recorded": "recorded",
    "reused": "measured in an earlier run",
    "none": "not measured",
}


def build(data: RunData, rows: Sequence[LadderRow], fastest: Mapping[tuple[str, str], Lead]) -> dict[str, Any]:
    """Return what the template of section 1 shows."""
    sizes = [size for size in data.sizes if any(row.size == size for row in rows)]
    found = verdicts(data, fastest)
    return {
        "verdicts": [_verdict(verdict) for verdict in found],
        "remarks": remarks(data, rows, found),
        "sizes": [
            {
                "key": size,
                "id": f"ladder-{size_slug(size)}",
                "label": formatting.size(size),
                "groups": _groups(data, rows, size, fastest),
                "timed": any(row.size == size and row.time for row in rows),
            }
            for size in sorted(sizes, key=lambda s: s != data.main_size)
        ],
        "filters": _filters(rows, sizes),
        "has_baselines": any(row.is_baseline for row in rows) and not all(row.is_baseline for row in rows),
        "several_origins": len({_from(row) for row in rows if row.status != SKIPPED}) > 1,
        "rate_unit": next((row.rate_unit for row in rows if row.rate is not None), "FLOP/s"),
        "has_own": any(row.own is not None for row in rows),
        "has_copy": any(row.copy is not None for row in rows),
        "has_sustained": any(row.sustained for row in rows),
        "figure": ladder_figure(rows, sizes, data.main_size),
        "sizes_figure": sizes_figure(rows, sizes),
        "origin": _origin(data, rows),
    }


def _filters(rows: Sequence[LadderRow], sizes: Sequence[str]) -> list[dict[str, Any]]:
    """The choices above the table, each only where there is something to choose; the empty value shows all."""
    statuses = [(text, text) for text in dict.fromkeys(formatting.status(row.status) for row in rows)]
    dtypes = [(dtype, dtype) for dtype in dict.fromkeys(row.dtype or "no contract" for row in rows)]
    shown = [(size, formatting.size(size)) for size in sizes]
    choices = (("contract", "Contract", dtypes), ("size", "Size", shown), ("status", "Status", statuses))
    return [
        {"key": key, "label": label, "options": [("", "all"), *options]}
        for key, label, options in choices
        if len(options) > 1
    ]


def _origin(data: RunData, rows: Sequence[LadderRow]) -> str:
    found = {row.origin for row in rows if row.time is not None}
    what = numbers(data)
    if found == {"recorded"}:
        return f"{what}: {recorded_text(data.manifest.get('replay') or {})}; nothing was measured here."
    if found == {"measured"}:
        gpu = (data.manifest.get("gpu") or {}).get("name")
        return f"{what}: measured{f' on {gpu}' if gpu else ' here'}."
    if "reused" in found:
        return f"{what}: measured in this run or an earlier one, as the column From says; {reused_text(data.manifest)}."
    if found:
        return f"{what}: measured or recorded, as the column From says."
    if any(row.own is not None for row in rows):
        return "Times of programs, as their traces hold or they print them: no event was put around their launches."
    return "No times: what stands here was computed from the compiled binaries."


def numbers(data: RunData) -> str:
    """Return what a run took on a GPU: times alone, or counters too."""
    counted = any(row["origin"] == "ncu" and row["value"] is not None for row in data.rows.get("metrics", ()))
    return "Times and counters" if counted else "Times"


def _verdict(verdict: Verdict) -> dict[str, Any]:
    row = verdict.row
    figure, _, rest = verdict.ratio.partition(" ")
    return {
        "figure": figure,
        "unit": rest,
        "variant": row.variant,
        "dtype": verdict.dtype,
        "sentence": verdict.sentence,
        "elsewhere": verdict.elsewhere,
        "href": f"#{row_id(row, verdict.size)}",
        "time": formatting.time_ns(row.time.value) if row.time else "",
        "rate": formatting.si(row.rate, row.rate_unit) if row.rate else "",
        "origin": ORIGIN_TEXT.get(row.origin, row.origin),
    }


def row_id(row: LadderRow, largest: str) -> str:
    """Return the id of a row, for links to it: ``row-NAME`` at the main size, else with the size."""
    name = f"row-{slug(row.variant)}"
    return name if row.size == largest else f"{name}-at-{size_slug(row.size)}"


def _groups(
    data: RunData, rows: Sequence[LadderRow], size: str, fastest: Mapping[tuple[str, str], Lead]
) -> list[dict[str, Any]]:
    groups = []
    for dtype in dict.fromkeys(row.dtype for row in rows if row.size == size):
        mine = [row for row in rows if row.size == size and row.dtype == dtype]
        widest = max([1.0, *(_top(row) for row in mine)])
        groups.append(
            {
                "dtype": dtype or "no contract",
                "baseline": data.baseline(dtype),
                "cross": next((row.baseline_dtype for row in mine if row.cross_contract), None),
                "rows": [
                    _row(row, widest, _before(mine, row), data.main_size)
                    | {"fastest": _fastest(row, fastest.get((dtype, size)))}
                    for row in mine
                ],
            }
        )
    return groups


def _before(rows: Sequence[LadderRow], row: LadderRow) -> str | None:
    """The rung that stands just above a row: where the step is over another one, the page must say which."""
    above = [r.variant for r in rows if r.order < row.order and not r.is_baseline]
    return above[-1] if above else None


def _fastest(row: LadderRow, lead: Lead | None) -> dict[str, str] | None:
    """The mark of the fastest rung of a contract and size, and of those that tie with it; none for a lone rung."""
    if lead is None or lead.among == 1 or row.variant not in lead.names:
        return None
    if not lead.ties:
        return {"text": "fastest rung", "title": "the lowest median of its contract here, baselines apart"}
    return {"text": "ties for fastest", "title": f"{lead.tied_text}; the 95 % interval does not exclude 1"}


def _top(row: LadderRow) -> float:
    if row.ratio is None:
        return 0.0
    return row.ratio.high or row.ratio.value


def _row(row: LadderRow, widest: float, above: str | None, largest: str) -> dict[str, Any]:
    mark, tone = STATUS_MARKS.get(row.status, ("✕", "bad"))
    return {
        "id": row_id(row, largest),
        "name": row.variant,
        "idea": row.idea,
        "kind": row.kind,
        "is_baseline": row.is_baseline,
        "status": formatting.status(row.status),
        "mark": mark,
        "tone": tone,
        "reason": row.reason if row.status != "ok" else "",
        "unverified": row.verified == "unverified",
        "own": _own(row),
        "time": _time(row),
        "time_sort": row.time.value if row.time else None,
        "time_title": _time_title(row),
        "why": row.why,
        "rate": formatting.si(row.rate, row.rate_unit) if row.rate else "",
        "rate_sort": row.rate,
        "ratio": _ratio(row, widest),
        "ratio_why": row.ratio_why,
        "of_copy": _copy(row),
        "of_copy_why": row.copy_why,
        "limit": limit_cell(row),
        "step": formatting.ratio(row.step.value) if row.step else "",
        "step_sort": row.step.value if row.step else None,
        "step_title": _step_title(row),
        "step_over": row.previous if row.previous != above else None,
        "check": _check(row),
        "clock": f"{row.clock_mhz / 1000:.2f}" if row.clock_mhz else "",
        "clock_sort": row.clock_mhz,
        "registers": f"{row.registers.value:.0f}" if row.registers.value is not None else "",
        "registers_sort": row.registers.value,
        "occupancy": formatting.percent(row.occupancy.value / 100) if row.occupancy.value is not None else "",
        "registers_why": row.registers.why_text,
        "spills": formatting.number(row.spill_bytes.value) if row.spill_bytes.value else "",
        "origin": _from(row),
        "sustained": _sustained(row),
        "foreign": row.foreign,
    }


def _from(row: LadderRow) -> str:
    if row.time is None and row.registers.origin in ("ptxas", "sass"):
        return "the binary"
    return ORIGIN_TEXT.get(row.origin, row.origin)


def _time(row: LadderRow) -> dict[str, str] | None:
    if row.time is None:
        return None
    return {"value": formatting.time_ns(row.time.value), "spread": _spread(row.time.half_width)}


def _spread(half: float | None) -> str:
    """Half of an interval as a share; what would round to zero is below the last digit, not zero."""
    if half is None:
        return "too few samples"
    if half < 0.00005:
        return "± < 0.01 %"
    return f"± {formatting.percent(half, 1 if half >= 0.001 else 2)}"


def _time_title(row: LadderRow) -> str:
    if row.time is None:
        return row.why
    parts = [f"median of {row.time.samples} samples"]
    if row.time.low is not None and row.time.high is not None:
        parts.append(f"95 % interval {formatting.time_ns(row.time.low)} to {formatting.time_ns(row.time.high)}")
    if row.spread is not None:
        parts.append(f"quartile spread {formatting.percent(row.spread, 1)}")
    if row.method:
        parts.append(f"method {row.method}")
    if row.foreign:
        parts.append(f"{row.foreign} samples beside another process on the card")
    return ", ".join(parts)


def _ratio(row: LadderRow, widest: float) -> dict[str, Any] | None:
    if row.ratio is None:
        return None
    low, high = row.ratio.low, row.ratio.high
    return {
        "value": formatting.ratio(row.ratio.value, low, high) if not row.is_baseline else "1",
        "bounds": formatting.interval(low, high),
        "sort": row.ratio.value,
        "width": 100 * row.ratio.value / widest,
        "low": 100 * low / widest if low is not None else None,
        "high": 100 * high / widest if high is not None else None,
        "one": 100 / widest,
    }


def _own(row: LadderRow) -> dict[str, Any] | None:
    own = row.own
    if own is None:
        return None
    title = f"median of {own.time.samples} processes; {own.word}"
    return {
        "value": formatting.time_ns(own.time.value),
        "sort": own.time.value,
        "word": own.word,
        "ratio": own_ratio_text(own, is_baseline=row.is_baseline),
        "ratio_why": own.ratio_why,
        "rank": own.rank,
        "title": title + (f"; {own.ratio_why}" if own.ratio_why else ""),
    }


def _copy(row: LadderRow) -> dict[str, Any] | None:
    if row.copy is None:
        return None
    what = "copies" if row.copy.kind == "copy" else "only reads"
    return {
        "value": formatting.percent(row.copy.share, 1),
        "sort": row.copy.share,
        "kind": "" if row.copy.kind == "copy" else row.copy.kind,
        "title": f"a kernel that {what} the same bytes, timed in the same rounds: "
        f"{formatting.si(row.copy.rate, 'B/s')}",
    }


def limit_cell(row: LadderRow) -> dict[str, Any]:
    """Return what a row shows of the roof that binds it."""
    limit = row.limit
    shares = ", ".join(f"{use.label} {formatting.percent(use.share)}" for use in row.uses if use.share is not None)
    return {
        "label": limit.label,
        "share": formatting.percent(limit.share) if limit.share is not None else "",
        "sort": limit.share,
        "width": min(100.0, 100 * limit.share) if limit.share is not None else None,
        "verdict": limit.verdict,
        "roof": limit.roof,
        "title": f"{limit.text}. Shares of all roofs in this pass: {shares}" if shares else limit.text,
        "above": [f"{use.label} {formatting.percent(use.share or 0)}" for use in row.uses if use.above],
    }


def _step_title(row: LadderRow) -> str:
    if row.step is None or row.previous is None:
        return ""
    return f"{_bounded(row.step)} of {row.previous}"


def _bounded(ratio: Interval) -> str:
    """A ratio with its interval."""
    return formatting.bounded_ratio(ratio.value, ratio.low, ratio.high)


def _check(row: LadderRow) -> dict[str, Any] | None:
    check = row.check
    if check is None:
        return None
    share = check.error / check.tolerance if check.error is not None and check.tolerance else None
    return {
        "error": formatting.number(check.error, 2) if check.error is not None else "none",
        "tolerance": formatting.number(check.tolerance, 2) if check.tolerance is not None else "none",
        "baseline": formatting.number(check.baseline_error, 2) if check.baseline_error is not None else "not taken",
        "sort": share,
        "bad": check.status != "ok",
        "size": formatting.size(check.size),
    }


def _sustained(row: LadderRow) -> Mapping[str, str] | None:
    if row.sustained is None:
        return None
    ratio = row.sustained_ratio
    return {
        "value": formatting.time_ns(row.sustained.value),
        "ratio": formatting.ratio(ratio.value, ratio.low, ratio.high) if ratio else "",
        "bounds": formatting.interval(ratio.low, ratio.high) if ratio else "",
    }
