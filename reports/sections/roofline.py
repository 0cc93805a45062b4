"""Section 2: the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiler import metrics
from profiler.analysis import formatting
from profiler.analysis.ladder import LadderRow
from profiler.analysis.roofline import LEVELS, Point, Roof, Roofline
from profiler.analysis.rundata import RunData
from reports.roofline_figure import drawn_lines, roofline_figure

_ROOF_ORIGIN = {
    "counter": "counter, at this pass's clock",
    "measured": "measured by a small kernel in this run",
    "nominal": "nominal: units, rate and highest clock multiplied",
}


def build(data: RunData, lines: Sequence[Roofline], rows: Sequence[LadderRow]) -> dict[str, Any]:
    """Return what the template of section 2 shows."""
    profile = data.manifest.get("profile") or {}
    drawn = drawn_lines(lines)
    return {
        "figure": roofline_figure(drawn, data.sizes, data.baselines, data.main_size),
        "model": any(line.model for line in drawn),
        "undrawn": _undrawn(lines, drawn),
        "why": str(profile.get("reason") or "") or _no_dot(lines),
        "hint": str(profile.get("hint") or ""),
        "flags": sorted({f"{p.variant}: {p.flag}" for line in lines for p in line.points if p.flag}),
        "tables": [
            {
                "label": formatting.size(line.size),
                "points": [_point(point) for point in line.points],
                "roofs": [_roof(roof) for roof in line.roofs],
            }
            for line in lines
            if line.points or line.roofs
        ],
        "shares": _shares(rows, data.main_size),
    }


def _undrawn(lines: Sequence[Roofline], drawn: Sequence[Roofline]) -> str:
    """The sizes that have no counters while others do, in words; empty when the chart has all of them."""
    left = [formatting.size(line.size) for line in lines if line not in drawn]
    return ", ".join(left)


def _no_dot(lines: Sequence[Roofline]) -> str:
    """Why no variant has a dot, when all of them lack it for the same few reasons."""
    reasons = list(dict.fromkeys(point.why for line in lines for point in line.points if point.why))
    return "; ".join(reasons[:2]) if reasons and not any(line.model for line in lines) else ""


def _point(point: Point) -> dict[str, Any]:
    labels = {level.key: level.label for level in LEVELS}
    return {
        "variant": point.variant,
        "dtype": point.dtype,
        "level": labels.get(point.level, point.level),
        "bytes": formatting.si(point.amount_bytes, "B") if point.amount_bytes is not None else "",
        "intensity": formatting.number(point.intensity) if point.intensity is not None else "",
        "performance": formatting.si(point.performance, "FLOP/s") if point.performance is not None else "",
        "share": formatting.percent(point.share) if point.share is not None else "",
        "pipe_share": formatting.percent(point.pipe_share) if point.pipe_share is not None else "",
        "clock": f"{point.clock_hz / 1e9:.3f} GHz" if point.clock_hz else "",
        "origin": "model" if point.origin == "model" else "counters",
        "why": point.why,
    }


def _roof(roof: Roof) -> dict[str, str]:
    return {
        "label": roof.label,
        "value": formatting.si(roof.value, roof.unit),
        "clock": f"{roof.clock_hz / 1e9:.3f} GHz" if roof.clock_hz else "not stated",
        "origin": _ROOF_ORIGIN.get(roof.origin, roof.origin),
    }


def _shares(rows: Sequence[LadderRow], size: str) -> dict[str, Any]:
    """The matrix of roof shares: variants down, roofs across; each cell a share or the reason why there is none."""
    mine = [row for row in rows if row.size == size and any(use.share is not None for use in row.uses)]
    keys: dict[str, str] = {}
    for row in mine:
        for use in row.uses:
            keys.setdefault(use.key, use.label)
    ordered = sorted(
        keys,
        key=lambda key: ([*(level.key for level in LEVELS)].index(key) if key in _LEVEL_KEYS else 9, key == "issue"),
    )
    return {
        "size": formatting.size(size),
        "columns": [{"label": keys[key], "meaning": _meaning(key)} for key in ordered],
        "rows": [
            {"variant": row.variant, "limit": row.limit.label, "cells": [_cell(row, key) for key in ordered]}
            for row in mine
        ],
    }


def _meaning(key: str) -> str:
    """The metric table's sentence for a roof."""
    one = metrics.table().get("issue_active" if key == "issue" else f"roof.{key}")
    return one.meaning if one is not None else "The unit's own peak, as the profiler reports the share of it."


_LEVEL_KEYS = frozenset(level.key for level in LEVELS)


def _cell(row: LadderRow, key: str) -> dict[str, Any]:
    for use in row.uses:
        if use.key == key:
            achieved = (
                f"{formatting.si(use.achieved, use.unit)} of {formatting.si(use.roof.value or 0, use.unit)}"
                if use.achieved and use.key != "issue"
                else ""
            )
            return {
                "text": formatting.percent(use.share) if use.share is not None else "",
                "heat": round(min(1.0, use.share), 3) if use.share is not None else 0,
                "title": achieved or use.why,
                "why": use.why,
                "binds": row.limit.key == key,
                "above": use.above,
            }
    return {
        "text": "",
        "heat": 0,
        "title": "this variant does not use it",
        "why": "not used",
        "binds": False,
        "above": False,
    }
