"""Section 3: where a warp's cycles go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.ladder import LadderRow
from profiler.analysis.roofline import Limit
from profiler.analysis.rundata import RunData
from profiler.analysis.stalls import StallTable, present_reasons
from reports.stall_figure import stall_figure

#: The cure of a wait for memory where a level of it is near its roof: a wait is then how a full level looks, and loads
#: that begin earlier stand in the same queue. By the limit's key: the family of the waits, and the advice.
_FULL: Mapping[str, tuple[str, str]] = {
    "dram": ("memory", "Device memory is near its roof: fewer bytes help; more loads in flight do not."),
    "l2": (
        "memory",
        "L2 is near its roof: larger tiles and loads that a cluster shares help; more loads in flight do not.",
    ),
    "l1": (
        "memory",
        "L1 is near its roof: values kept in registers and fewer sectors an access help; more loads in flight do not.",
    ),
    "shared": (
        "shared",
        "Shared memory is near its roof: values kept in registers, no bank conflicts help; reading earlier does not.",
    ),
}
#: So many reasons of a variant get advice; so many variants of one piece of advice are shown at first.
_MOST_CURES = 3
_SHOWN = 12


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
    """What to try, each piece of advice once, with the variants that it is for and how much each of them waits.

    Only for reasons that a variant's limit makes relevant, at most three of each; the longest wait comes first.
    """
    limits = {row.variant: row.limit for row in rows if row.size == size}
    found: dict[str, dict[str, dict[str, float]]] = {}  # advice -> variant -> reason -> share
    for table in tables:
        if table.size != size:
            continue
        family, full = _full(limits.get(table.variant))
        for row in [row for row in table.rows if row.cure][:_MOST_CURES]:
            cure = full if row.reason.family == family else row.cure
            found.setdefault(cure, {}).setdefault(table.variant, {})[row.reason.label] = row.share
    return [
        _finding(cure, found[cure], limits)
        for cure in sorted(found, key=lambda one: -max(map(_longest, found[one].values())))
    ]


def _finding(cure: str, variants: Mapping[str, Mapping[str, float]], limits: Mapping[str, Limit]) -> dict[str, Any]:
    longest: dict[str, float] = {}
    for label, share in (item for shares in variants.values() for item in shares.items()):
        longest[label] = max(share, longest.get(label, 0.0))
    labels = sorted(longest, key=lambda label: -longest[label])
    items = []
    for name in sorted(variants, key=lambda one: -_longest(variants[one])):
        limit = limits.get(name)
        items.append(
            {
                "variant": name,
                "shares": [
                    {"label": "" if label == labels[0] else label, "text": formatting.percent(share)}
                    for label, share in variants[name].items()
                ],
                "limit": _short_limit(limit),
                "title": limit.text if limit is not None else "",
            }
        )
    return {
        "label": labels[0],
        "also": formatting.listed(labels[1:]),
        "cure": cure,
        "variants": items[:_SHOWN],
        "others": items[_SHOWN:],
    }


def _longest(shares: Mapping[str, float]) -> float:
    return max(shares.values())


def _full(limit: Limit | None) -> tuple[str, str]:
    """The family of waits that a full level of memory explains, and what to do about them; empty where none is full."""
    return _FULL.get(limit.key, ("", "")) if limit is not None and limit.verdict == "near" else ("", "")


def _short_limit(limit: Limit | None) -> str:
    """What binds a variant, in a word or two and its share."""
    if limit is None or limit.verdict == "unknown":
        return ""
    share = formatting.percent(limit.share) if limit.share is not None and limit.verdict != "latency" else ""
    return f"{limit.label} {share}".strip()
