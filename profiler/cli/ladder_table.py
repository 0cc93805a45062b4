"""The ladder in the terminal: time, rate, ratio to the baseline with its interval, what binds it, status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from profiler.analysis import formatting
from profiler.analysis.ladder import LadderRow
from profiler.analysis.own_times import own_ratio_text

_STYLES = {"ok": "green", "skipped": "dim", "not_run": "dim"}


def ladder_table(rows: Sequence[LadderRow], title: str) -> Table:
    """Return the table of a ladder."""
    table = Table(title=title, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    several = len({row.size for row in rows}) > 1
    table.add_column("variant", no_wrap=True)
    table.add_column("contract")
    if several:
        table.add_column("size")
    copied = any(row.copy is not None for row in rows)
    sustained = any(row.sustained is not None for row in rows)
    further = [*(["sustained"] if sustained else []), *(["of copy"] if copied else [])]
    for name in ("time", "rate", "of baseline", *further):
        table.add_column(name, justify="right", no_wrap=True)
    owned = any(row.own is not None for row in rows)
    if owned:
        table.add_column("traced or printed", justify="right", no_wrap=True)
    table.add_column("bound by")
    table.add_column("origin")
    table.add_column("status")
    for row in rows:
        cells: list[Any] = [row.variant, row.dtype]
        if several:
            cells.append(formatting.size(row.size))
        cells += [
            formatting.time_ns(row.time.value) if row.time else "-",
            formatting.si(row.rate, row.rate_unit) if row.rate else "-",
            ratio_text(row),
            *([sustained_text(row)] if sustained else []),
            *([copy_text(row)] if copied else []),
            *([own_text(row)] if owned else []),
            row.limit.text if row.time or (row.own and row.limit.verdict != "unknown") else "",
            row.origin,
            status_text(row),
        ]
        table.add_row(*(Text(c) if isinstance(c, str) else c for c in cells))
    return table


def ratio_text(row: LadderRow) -> str:
    """Return the ratio to the baseline with its interval."""
    if row.ratio is None:
        return "-"
    if row.is_baseline:
        return "baseline"
    label = f" of {row.baseline}" if row.cross_contract else ""
    return formatting.bounded_ratio(row.ratio.value, row.ratio.low, row.ratio.high) + label


def sustained_text(row: LadderRow) -> str:
    """Return the ratio to the baseline in the sustained regime; where there is none, and of the baseline, the time."""
    if row.sustained is None:
        return "-"
    if row.sustained_ratio is None or row.is_baseline:
        return formatting.time_ns(row.sustained.value)
    return formatting.bounded_ratio(row.sustained_ratio.value, row.sustained_ratio.low, row.sustained_ratio.high)


def copy_text(row: LadderRow) -> str:
    """Return the share of the control's rate, and its kind where that is not a copy."""
    if row.copy is None:
        return "-"
    return formatting.percent(row.copy.share, 1) + ("" if row.copy.kind == "copy" else f" ({row.copy.kind})")


def own_text(row: LadderRow) -> str:
    """Return the traced or printed time with its ratio to the baseline's, and its rank."""
    if row.own is None:
        return "-"
    parts = [formatting.time_ns(row.own.time.value), own_ratio_text(row.own, is_baseline=row.is_baseline)]
    parts += ["printed" if row.own.method == "printed" else "", f"#{row.own.rank}" if row.own.rank else ""]
    return " ".join(part for part in parts if part)


def status_text(row: LadderRow) -> Text:
    """Return the status, with its reason where it is not ok."""
    text = Text(formatting.status(row.status), style=_STYLES.get(row.status, "red"))
    if row.verified == "unverified" and row.status in ("ok", "profile_failed"):
        text.append(", unverified", style="yellow")
    if row.reason and row.status != "ok":
        text.append(f": {row.reason}", style="default")
    return text


def ladder_document(rows: Sequence[LadderRow]) -> list[dict[str, Any]]:
    """Return the ladder as JSON can carry it; times in ns, rates in SI units, intervals as [low, high]."""
    return [
        {
            "variant": row.variant,
            "dtype": row.dtype,
            "size": row.size,
            "status": row.status,
            "reason": row.reason,
            "origin": row.origin,
            "time_ns": row.time.value if row.time else None,
            "time_interval_ns": [row.time.low, row.time.high] if row.time else None,
            "rate": row.rate,
            "rate_unit": row.rate_unit,
            "ratio": row.ratio.value if row.ratio else None,
            "ratio_interval": [row.ratio.low, row.ratio.high] if row.ratio else None,
            "baseline": row.baseline,
            "sustained_ns": row.sustained.value if row.sustained else None,
            "sustained_ratio": row.sustained_ratio.value if row.sustained_ratio else None,
            "sustained_ratio_interval": [row.sustained_ratio.low, row.sustained_ratio.high]
            if row.sustained_ratio
            else None,
            "copy_share": row.copy.share if row.copy else None,
            "copy_rate": row.copy.rate if row.copy else None,
            "copy_kind": row.copy.kind if row.copy else None,
            "verified": row.verified,
            "own_method": row.own.method if row.own else None,
            "own_time_ns": row.own.time.value if row.own else None,
            "own_ratio": row.own.ratio.value if row.own and row.own.ratio else None,
            "own_rank": row.own.rank if row.own else None,
            "method": row.method,
            "sm_clock_mhz": row.clock_mhz,
            "bound_by": row.limit.text,
        }
        for row in rows
    ]
