"""The stall reasons as a chart: stacked bars, colour by family and pattern by reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profiler.analysis import formatting
from profiler.analysis.stalls import Reason, StallTable
from reports.figures import Figure, Tags, choice
from reports.formatting import plotly_text, short

PATTERNS = ("", "/", "x", ".", "\\", "-", "+", "|")
FAMILY_COLOUR = {
    "issue": "@c0", "pipe": "@c5", "memory": "@c1", "shared": "@c2", "synchronisation": "@c3", "front end": "@c4",
    "other": "@c7",
}  # fmt: skip


def stall_figure(tables: Sequence[StallTable], reasons: Sequence[Reason], sizes: Sequence[str]) -> Figure | None:
    """Return the stacked bars of cycles per issued instruction; None when no kernel has stall reasons."""
    if not tables:
        return None
    figure = Figure("chart-stalls", "Cycles per issued instruction, by reason")
    shown = [size for size in sizes if any(table.size == size for table in tables)]
    styles = _stall_styles(reasons)
    for size in shown:
        mine = [table for table in tables if table.size == size]
        for scale in ("cycles", "share"):
            tags: Tags = {"size": size, "scale": scale}
            _stall_bars(figure, tags, mine, reasons, styles, scale)
            figure.patches.append(
                {
                    "when": tags,
                    "layout": {
                        "height": 34 * len(mine) + 136,
                        "xaxis": {
                            "title": {"text": "cycles per issued instruction" if scale == "cycles" else "share, %"},
                            "range": [0, max(t.total for t in mine) * 1.1 if scale == "cycles" else 100],
                        },
                        "yaxis": {
                            "range": [len(mine) - 0.4, -0.6],
                            "tickvals": list(range(len(mine))),
                            "ticktext": [plotly_text(short(table.variant, 24)) for table in mine],
                        },
                    },
                }
            )
    figure.layout = {
        "barmode": "stack", "bargap": 0.3, "margin": {"l": 8, "r": 24, "t": 8, "b": 112},
        "yaxis": {"automargin": True, "showgrid": False, "zeroline": False},
        "legend": {"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom", "x": 0,
                   "traceorder": "normal", "font": {"size": 12}},
    }  # fmt: skip
    figure.controls = [
        *choice("size", "Size", [(s, formatting.size(s)) for s in shown], shown[-1]),
        *choice("scale", "Show", [("cycles", "cycles"), ("share", "share of the latency")]),
    ]
    return figure


def _stall_styles(reasons: Sequence[Reason]) -> dict[str, tuple[str, str]]:
    styles: dict[str, tuple[str, str]] = {}
    counts: dict[str, int] = {}
    for reason in reasons:
        index = counts.get(reason.family, 0)
        counts[reason.family] = index + 1
        styles[reason.name] = (FAMILY_COLOUR.get(reason.family, "@c7"), PATTERNS[index % len(PATTERNS)])
    return styles


def _stall_bars(
    figure: Figure,
    tags: Tags,
    tables: Sequence[StallTable],
    reasons: Sequence[Reason],
    styles: Mapping[str, tuple[str, str]],
    scale: str,
) -> None:
    small = {r.name for r in reasons if all(_share(table, r.name) < 0.02 for table in tables)}
    groups = [(r.label, [r.name], styles[r.name], r.meaning) for r in reasons if r.name not in small]
    if small:
        groups.append(
            ("others, below 2 %", sorted(small), ("@c7", ""), "Each below 2 % everywhere; the table has them.")
        )
    for label, names, (colour, pattern), meaning in groups:
        cycles = [sum(table.cycles(name) or 0.0 for name in names) for table in tables]
        shares = [value / table.total if table.total else 0.0 for value, table in zip(cycles, tables, strict=True)]
        figure.trace(
            tags, type="bar", orientation="h", name=label, y=list(range(len(tables))),
            x=cycles if scale == "cycles" else [100 * share for share in shares],
            marker={"color": colour, "line": {"color": "@paper", "width": 0.8},
                    "pattern": {"shape": pattern, "fgcolor": "@paper", "fillmode": "overlay", "size": 7,
                                "solidity": 0.3}},
            hovertext=[
                f"<b>{plotly_text(short(table.variant, 60))}</b>: {label}<br>{formatting.number(value)} cycles, "
                f"{formatting.percent(share)}<br>{meaning}"
                for table, value, share in zip(tables, cycles, shares, strict=True)
            ],
            hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    if scale == "cycles":
        for index, table in enumerate(tables):
            figure.annotate(
                tags, x=table.total, y=index, text=formatting.number(table.total), showarrow=False, xanchor="left",
                xshift=6, font={"size": 12, "color": "@ink2"},
            )  # fmt: skip


def _share(table: StallTable, reason: str) -> float:
    return (table.cycles(reason) or 0.0) / table.total if table.total else 0.0
