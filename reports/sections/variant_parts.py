"""The parts of a variant's block as the template shows them: texts, shares and reasons, from the analysis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.access import Banks, GlobalAccess, Offender, Spills
from profiler.analysis.advice import Advice, AdviceView
from profiler.analysis.identity import Identity
from profiler.analysis.kernels import Kernel
from profiler.analysis.ladder import LadderRow
from profiler.analysis.limits import Estimate, LimitRow
from profiler.analysis.occupancy_view import OccupancyView
from profiler.analysis.rundata import Value
from profiler.analysis.sass_mix import Mix
from profiler.analysis.traffic import LevelTraffic, Traffic
from reports.sections.variant_cells import (
    Cell,
    byte_count,
    cell,
    integer,
    judged,
    kibibytes,
    none,
    of_sector,
    percentage,
    times_cell,
)
from reports.variant_figures import AXES, steps_text

_KERNELS = 6
_SCOPES = {"l1": "shared memory included, an upper bound", "shared": "an upper bound"}


def kernel_part(kernels: Sequence[Kernel]) -> dict[str, Any]:
    """Return which kernel the block speaks of, and what else the variant launched or compiled."""
    first = kernels[0]
    return {
        "name": first.name,
        "profiled": first.launch is not None,
        "count": len(kernels),
        "share": formatting.percent(first.share) if first.share is not None and len(kernels) > 1 else "",
        "others": [
            {
                "name": one.name,
                "share": formatting.percent(one.share) if one.share is not None else "",
                "duration": _seconds(one.counted("duration")),
                "registers": cell(
                    one.counted("registers") if one.launch is not None else one.compiled("ptxas.registers"), integer
                ),
            }
            for one in kernels[:_KERNELS]
        ] if len(kernels) > 1 else [],
        "left_out": max(0, len(kernels) - _KERNELS),
    }  # fmt: skip


def _seconds(value: Value) -> Cell:
    return cell(value, lambda seconds: formatting.time_ns(seconds * 1e9))


_LIMIT_TEXT: Mapping[str, Callable[[float], str]] = {
    "shared": kibibytes,
    "waves": lambda value: f"{value:.2f}",
    "reuse": formatting.number,
    "fma_per_load": lambda value: f"{value:.2f}",
}


def limits_part(rows: Sequence[LimitRow], why: str) -> dict[str, Any]:
    """Return the limits table; without a tile its column is replaced by one sentence."""
    return {
        "tile": not why,
        "why": why,
        "differ": sum(row.verdict == "differs" for row in rows),
        "compared": sum(bool(row.verdict) for row in rows),
        "rows": [
            {
                "label": row.label,
                "unit": row.unit,
                "tile": _estimate(row.tile, _LIMIT_TEXT.get(row.key, integer)),
                "binary": cell(row.binary, _LIMIT_TEXT.get(row.key, integer)),
                "counter": cell(row.counter, _LIMIT_TEXT.get(row.key, integer)),
                "verdict": row.verdict,
                "note": row.note,
            }
            for row in rows
        ],
    }


def _estimate(estimate: Estimate, text: Callable[[float], str]) -> Cell:
    if estimate.low is None or estimate.high is None:
        return none(estimate.why)
    low, high = text(estimate.low), text(estimate.high)
    shown = low if low == high else f"{low} to {high}"
    return cell(Value(estimate.low), lambda _: shown, title=estimate.formula)


def occupancy_part(view: OccupancyView) -> dict[str, Any]:
    """Return occupancy, its limiter by resource, and the curve's table twin."""
    return {
        "sentence": view.sentence,
        "theoretical": cell(view.theoretical, percentage),
        "achieved": cell(view.achieved, percentage),
        "model": view.theoretical.origin == "model",
        "notes": view.notes,
        "why": view.why,
        "known": view.theoretical.value is not None or any(one.counted.value is not None for one in view.resources),
        "resources": [
            {
                "name": one.name,
                "uses": one.uses,
                "counted": cell(one.counted, integer),
                "model": str(one.model) if one.model is not None else "",
                "limits": one.limits,
            }
            for one in view.resources
        ],
        "curves": [{"axis": AXES[curve.axis][0].split(",")[0], "steps": steps_text(curve)} for curve in view.curves],
    }


def traffic_part(found: Traffic) -> dict[str, Any]:
    """Return the bytes by level; bars are on a scale of logarithms, for the levels lie orders of magnitude apart."""
    return {
        "sentence": found.sentence,
        "least": byte_count(float(found.least)) if found.least is not None else "",
        "levels": [_level(level) for level in found.levels],
        "known": any(level.amount.value is not None for level in found.levels),
        "why": next((level.amount.why_text for level in found.levels), ""),
    }


def _level(level: LevelTraffic) -> dict[str, Any]:
    split = ""
    if level.read is not None and level.write is not None and level.read.value is not None:
        written = byte_count(level.write.value) if level.write.value is not None else "?"
        split = f"{byte_count(level.read.value)} read, {written} written"
    return {
        "label": level.label,
        "meaning": level.meaning,
        "scope": _SCOPES.get(level.key, ""),
        "amount": cell(level.amount, byte_count, under=split),
        "times": times_cell(level),
        "hit": cell(level.hit, percentage) if level.hit is not None else None,
        "note": level.note,
    }


def access_part(found: GlobalAccess) -> dict[str, Any]:
    """Return sectors and the bytes used of them, and the lines with the most excess."""
    return {
        "verdict": judged(found.judgement, found.text),
        "rows": [
            {
                "what": row.what,
                "requests": cell(row.requests, integer),
                "sectors": cell(row.sectors, integer),
                "per_request": cell(row.per_request, formatting.number),
                "used": cell(row.used, of_sector),
                "verdict": judged(row.judgement, row.text),
            }
            for row in found.rows
        ],
        "known": any(row.requests.value is not None for row in found.rows) or found.excess.value is not None,
        "excess": cell(found.excess, integer),
        "excess_share": percentage(100 * found.excess_share) if found.excess_share is not None else "",
        "offenders": [_offender(one) for one in found.offenders],
        "no_lines": found.why_no_lines,
    }


def banks_part(found: Banks) -> dict[str, Any]:
    """Return both witnesses of bank conflicts, and the lines with the most excess."""
    asynchronous = found.asynchronous_share or 0.0  # the verdict speaks of it where it is nearly all
    return {
        "verdict": judged(found.judgement, found.text),
        "known": found.judgement not in ("unknown", "not applicable"),
        "excess": cell(found.excess, integer),
        "wavefronts": cell(found.wavefronts, integer),
        "excess_share": percentage(100 * found.excess_share) if found.excess_share is not None else "",
        "counter": cell(found.counter, integer),
        "hardware": cell(found.hardware, integer),
        "counter_share": percentage(100 * found.counter_share) if found.counter_share is not None else "",
        "asynchronous": formatting.percent(asynchronous) if 0 < asynchronous <= 0.9 else "",
        "offenders": [_offender(one) for one in found.offenders],
        "no_lines": found.why_no_lines,
    }


def _offender(one: Offender) -> dict[str, str]:
    return {
        "where": f"{one.file.rpartition('/')[2]}:{one.line}" if one.line is not None else "no line information",
        "file": one.file,
        "opcodes": ", ".join(one.opcodes[:3]) + (f" and {len(one.opcodes) - 3} more" if len(one.opcodes) > 3 else ""),
        "excess": integer(float(one.excess)),
        "of": integer(float(one.total)),
        "share": formatting.percent(one.share),
    }


def spills_part(found: Spills) -> dict[str, Any]:
    """Return what lies in local memory, by the compiler and by the counters."""
    rows = (
        ("Stack frame", "ptxas.stack_bytes", found.stack, byte_count),
        ("Spill stores", "ptxas.spill_store_bytes", found.stores, byte_count),
        ("Spill loads", "ptxas.spill_load_bytes", found.loads, byte_count),
        ("Accesses in the code", "sass.local_accesses", found.accesses, integer),
        ("Loads executed", "local_load_instructions", found.executed_loads, integer),
        ("Stores executed", "local_store_instructions", found.executed_stores, integer),
        ("Of them, spilling", "spill_instructions", found.spilling, integer),
    )
    return {
        "verdict": judged(found.judgement, found.text),
        "rows": [{"label": label, "metric": name, "value": cell(value, text)} for label, name, value, text in rows],
    }


def mix_part(mix: Mix) -> dict[str, Any]:
    """Return the instruction mix as bars, and the widths of memory accesses."""
    widest = max(
        [bar.executed_share or 0.0 for bar in mix.bars] + [bar.static_share or 0.0 for bar in mix.bars] + [0.01]
    )
    widths = sorted({*mix.static_widths, *mix.executed_widths})
    return {
        "why_static": mix.why_static,
        "why_executed": mix.why_executed,
        "instructions": integer(mix.instructions) if mix.instructions else "",
        "executed": integer(mix.executed) if mix.executed else "",
        "sentence": _mix_sentence(mix),
        "bars": [
            {
                "label": bar.label,
                "meaning": bar.meaning,
                "static": _count(bar.static, bar.static_share, widest, mix.why_static),
                "executed": _count(bar.executed, bar.executed_share, widest, mix.why_executed),
            }
            for bar in mix.bars
        ],
        "widths": [
            {
                "opcode": opcode,
                "bits": bits,
                "static": _count(mix.static_widths.get((opcode, bits), 0), None, 1, mix.why_static),
                "executed": _count(mix.executed_widths.get((opcode, bits), 0), None, 1, mix.why_executed),
            }
            for opcode, bits in widths
        ],
    }


def _count(count: int | None, share: float | None, widest: float, why: str) -> Cell:
    if count is None or why:
        return none(why) | {"share": "", "width": 0}
    shown = cell(Value(float(count)), integer)
    return shown | {
        "share": formatting.percent(share) if share else "",
        "width": round(100 * share / widest, 2) if share else 0,
    }


def _mix_sentence(mix: Mix) -> str:
    where = "issued" if mix.executed else "in the binary"
    tensor, ffma = mix.share("tensor"), mix.ffma_share
    if tensor:
        return f"{formatting.percent(tensor)} of the instructions {where} are matrix instructions of the tensor cores."
    if ffma:
        by = " (by counters)" if mix.ffma_origin == "counters" else ""
        return f"{formatting.percent(ffma)} of the instructions issued are FFMA{by}: the rest loads, counts and waits."
    static = next((bar.static_share for bar in mix.bars if bar.key == "FFMA"), None)
    return f"{formatting.percent(static)} of the instructions in the binary are FFMA." if static else ""


def advice_part(view: AdviceView) -> dict[str, Any]:
    """Return the profiler's own advice, estimates of the launch and of a part apart."""
    return {
        "count": view.count,
        "why": view.why,
        "groups": [
            {"label": label, "meaning": meaning, "rules": [_advice(one) for one in items]}
            for label, meaning, items in (
                ("Of the whole launch", "estimated gain in the time of the launch", view.whole),
                (
                    "Of a part",
                    "estimated gain within what the rule looks at; not comparable with the others",
                    view.local,
                ),
                ("Without an estimate", "remarks", view.remarks),
            )
            if items
        ],
    }


def _advice(one: Advice) -> dict[str, str]:
    return {
        "title": one.title,
        "message": one.message,
        "rule": one.rule,
        "speedup": f"{formatting.number(one.speedup, 2)} %" if one.speedup is not None else "",
        "caution": one.caution,
    }


def identity_part(found: Identity, rows: Sequence[LadderRow]) -> dict[str, Any]:
    """Return what the variant was made from, its checks and its times."""
    facts = [
        ("Source", found.source), ("Call", found.call),
        ("Parameters", ", ".join(f"{name} = {value}" for name, value in found.params.items())),
        ("Requires", "; ".join(found.requires)), ("Compiler", found.compiler), ("Flags", found.flags),
        ("Source hash", found.source_hash), ("Binary hash", found.binary_hash),
    ]  # fmt: skip
    return {
        "facts": [(name, text) for name, text in facts if text],
        "command": found.command,
        "why_no_build": found.why_no_build,
        "checks": [
            {
                "size": formatting.size(line.size),
                "status": formatting.status(line.status),
                "bad": line.status not in ("ok", "skipped"),
                "error": formatting.number(line.error, 2) if line.error is not None else "",
                "tolerance": formatting.number(line.tolerance, 2) if line.tolerance is not None else "",
                "baseline": formatting.number(line.baseline_error, 2) if line.baseline_error is not None else "",
                "baseline_why": line.why_no_baseline,
                "count": line.checks,
            }
            for line in found.checks
        ],
        "times": [_time(row) for row in rows],
    }


def _time(row: LadderRow) -> dict[str, str]:
    time = row.time
    bounds = ""
    if time is not None and time.low is not None and time.high is not None:
        bounds = f"{formatting.time_ns(time.low)} to {formatting.time_ns(time.high)}"
    return {
        "size": formatting.size(row.size),
        "time": formatting.time_ns(time.value) if time is not None else "",
        "why": row.why,
        "bounds": bounds,
        "samples": str(time.samples) if time is not None else "",
        "rate": formatting.si(row.rate, row.rate_unit) if row.rate else "",
        "ratio": "" if row.is_baseline or row.ratio is None else formatting.ratio(row.ratio.value),
        "sustained": formatting.time_ns(row.sustained.value) if row.sustained is not None else "",
    }
