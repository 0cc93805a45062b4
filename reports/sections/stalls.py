"""Section 3: where a warp's cycles go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.ladder import LadderRow
from profiler.analysis.rundata import RunData
from profiler.analysis.stalls import StallTable, present_reasons
from reports.stall_figure import stall_figure

#: The cure of a wait for memory where device memory is near its roof: a wait is then how a full memory looks.
_FULL = "Device memory is near its roof: fewer bytes help; more loads in flight do not."


def build(data: RunData, tables: Sequence[StallTable], rows: Sequence[LadderRow]) -> dict[str, Any]:
    """Return what the template of section 3 shows."""
    reasons = present_reasons(tables)
    profile = data.manifest.get("profile") or {}
    return {
        "figure": stall_figure(tables, reasons, data.sizes),
        "why": str(profile.get("reason") or "no stall reasons were collected in this run"),
        "hint": str(profile.get("hint") or ""),
        "reasons": [{"name": r.name, "label": r.label, "family": r.family, "meaning": r.meaning} for r in reasons],
        "matrices": [
            _matrix([table for table in tables if table.size == size], [r.name for r in reasons], size)
            for size in data.sizes
            if any(table.size == size for table in tables)
        ],
        "cures": _cures(tables, rows, data.main_size),
        "missing": [
            row.variant
            for row in rows
            if row.size == data.main_size and row.time and not any(t.variant == row.variant for t in tables)
        ],
    }


def _matrix(tables: Sequence[StallTable], reasons: Sequence[str], size: str) -> dict[str, Any]:
    return {
        "label": formatting.size(size),
        "variants": [
            {
                "name": table.variant,
                "kernel": table.kernel,
                "kernels": table.kernels,
                "total": _cycles(table.total),
                "latency": _cycles(table.latency.value) if table.latency.value is not None else "",
                "latency_why": table.latency.why_text,
                "adds_up": table.adds_up,
            }
            for table in tables
        ],
        "rows": [{"reason": reason, "cells": [_cell(table, reason) for table in tables]} for reason in reasons],
    }


def _cycles(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _cell(table: StallTable, reason: str) -> dict[str, Any]:
    cycles = table.cycles(reason)
    share = cycles / table.total if cycles is not None and table.total else 0.0
    return {
        "text": _cycles(cycles) if cycles is not None else "",
        "share": formatting.percent(share),
        "heat": round(share, 3) if reason not in ("selected", "not_selected") else 0,
    }


def _cures(tables: Sequence[StallTable], rows: Sequence[LadderRow], size: str) -> list[dict[str, Any]]:
    """What to try, only for reasons that the variant's limit makes relevant."""
    limits = {row.variant: row.limit for row in rows if row.size == size}
    full = {name for name, limit in limits.items() if (limit.key, limit.verdict) == ("dram", "near")}
    found = []
    for table in tables:
        cures = [row for row in table.rows if row.cure]
        if table.size == size and cures:
            found.append(
                {
                    "variant": table.variant,
                    "limit": limits[table.variant].text if table.variant in limits else "",
                    "found": [
                        {
                            "label": row.reason.label,
                            "share": formatting.percent(row.share),
                            "cure": _FULL if row.reason.family == "memory" and table.variant in full else row.cure,
                        }
                        for row in cures[:3]
                    ],
                }
            )
    return found
