"""Charts as plain plotly specifications, free of colours: ``@name`` stands for a custom property of the style sheet,
which the page's script resolves for the theme in force.
Filters, axis ranges per choice, and label places are decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.ladder import LadderRow
from reports.formatting import plotly_text, short

Spec = dict[str, Any]
Tags = dict[str, str | list[str]]

SERIES = ("@c0", "@c1", "@c2", "@c3", "@c4", "@c5", "@c6", "@c7")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")


@dataclass
class Control:
    """A choice above a chart: its key, label, options (value, label) and the one chosen at first."""

    key: str
    label: str
    options: list[tuple[str, str]]
    value: str


@dataclass
class Figure:
    """A chart: traces and annotations with the choices they belong to, and what each choice changes in the layout."""

    id: str
    label: str
    traces: list[Spec] = field(default_factory=list)
    trace_tags: list[Tags] = field(default_factory=list)
    annotations: list[Spec] = field(default_factory=list)
    annotation_tags: list[Tags] = field(default_factory=list)
    layout: Spec = field(default_factory=dict)
    patches: list[Spec] = field(default_factory=list)
    narrow: Spec = field(default_factory=dict)  #: what changes in the layout where the page is narrow
    keys: list[Spec] = field(default_factory=list)  #: lists below the chart that explain numbers and lines of it
    controls: list[Control] = field(default_factory=list)

    def trace(self, tags: Tags, **spec: Any) -> None:
        """Add a trace."""
        self.traces.append(spec)
        self.trace_tags.append(tags)

    def annotate(self, tags: Tags, **spec: Any) -> None:
        """Add an annotation."""
        self.annotations.append(spec)
        self.annotation_tags.append(tags)

    def spec(self) -> Spec:
        """Return what the page's script is given."""
        return {
            "id": self.id, "label": self.label, "data": self.traces, "tags": self.trace_tags,
            "annotations": self.annotations, "annotationTags": self.annotation_tags, "layout": self.layout,
            "patches": self.patches, "narrow": self.narrow, "keys": self.keys,
            "controls": [vars(control) for control in self.controls],
        }  # fmt: skip


def choice(key: str, label: str, options: Sequence[tuple[str, str]], value: str = "") -> list[Control]:
    """Return a control, or none when there is nothing to choose."""
    return [Control(key, label, list(options), value or options[0][0])] if len(options) > 1 else []


def first_of(sizes: Sequence[str], first: str) -> str:
    """Return the size that a chart shows at first: the one that the verdict speaks of, else the last."""
    return first if first in sizes else sizes[-1]


def rate_scale(rows: Sequence[LadderRow]) -> tuple[float, str]:
    """Return the divisor and unit that suit the rates of a ladder."""
    unit = rows[0].rate_unit if rows else "FLOP/s"
    top = max((row.rate for row in rows if row.rate), default=1e12)
    for scale, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if top >= scale:
            return scale, prefix + unit
    return 1.0, unit


def ladder_figure(rows: Sequence[LadderRow], sizes: Sequence[str], first: str = "") -> Figure | None:
    """Return the bars of rate with their intervals, per size and contract; None when nothing was timed.

    ``first`` is the size shown at first, where it was timed.
    """
    timed = [row for row in rows if row.rate is not None and row.time is not None]
    if not timed:
        return None
    scale, unit = rate_scale(timed)
    figure = Figure("chart-ladder", f"Rate of each variant in {unit}, with 95 % intervals")
    dtypes = list(dict.fromkeys(row.dtype for row in timed))
    figure.layout = {
        "margin": {"l": 8, "r": 24, "t": 8, "b": 56},
        "xaxis": {"title": {"text": unit}, "rangemode": "tozero", "zeroline": True},
        "yaxis": {"automargin": True, "showgrid": False, "zeroline": False},
        "showlegend": False, "barmode": "overlay",
    }  # fmt: skip
    here = [size for size in sizes if any(row.size == size for row in timed)]
    for size in here:
        for view in ("all", *dtypes) if len(dtypes) > 1 else ("all",):
            shown = [r for r in timed if r.size == size and view in ("all", r.dtype)]
            _ladder_bars(figure, shown, dtypes, view, scale, unit)
    figure.controls = [
        *choice("size", "Size", [(size, formatting.size(size)) for size in here], first_of(here, first)),
        *(choice("contract", "Contract", [("all", "all"), *((d, d) for d in dtypes)]) if len(dtypes) > 1 else ()),
    ]
    return figure


def _ladder_bars(
    figure: Figure, rows: Sequence[LadderRow], dtypes: Sequence[str], view: str, scale: float, unit: str
) -> None:
    if not rows:
        return
    tags: Tags = {"size": rows[0].size, "contract": view}
    places: list[tuple[float, LadderRow]] = []
    place = 0.0
    several = len({row.dtype for row in rows}) > 1
    for dtype in dtypes:
        mine = [row for row in rows if row.dtype == dtype]
        if mine and several:  # the contract in words, so that colour is not the only sign of it
            figure.annotate(
                tags, xref="paper", x=0, y=place - 0.1, text=plotly_text(dtype or "no contract"), showarrow=False,
                xanchor="left", yanchor="middle", xshift=2, font={"size": 11, "color": "@muted"},
            )  # fmt: skip
            place += 0.75
        places += [(place + i, row) for i, row in enumerate(mine)]
        place += len(mine) + (0.25 if mine else 0)
    for index, dtype in enumerate(dtypes):
        colour = SERIES[index % 8]
        for baseline in (False, True):
            bars = [(y, row) for y, row in places if row.dtype == dtype and row.is_baseline == baseline]
            if not bars:
                continue
            hatch = {"shape": "/", "fgcolor": colour, "bgcolor": "@paper", "size": 7, "solidity": 0.25}
            figure.trace(
                tags, type="bar", orientation="h", name=plotly_text(f"{dtype}, baseline" if baseline else dtype),
                width=0.68,
                y=[y for y, _ in bars], x=[(row.rate or 0) / scale for _, row in bars],
                error_x=_errors([row for _, row in bars], scale),
                marker={"color": colour, "line": {"color": colour, "width": 1.5}}
                | ({"pattern": hatch} if baseline else {}),
                hovertext=[_bar_text(row, scale, unit) for _, row in bars],
                hovertemplate="%{hovertext}<extra></extra>",
            )  # fmt: skip
    for dtype in dtypes:
        mine_at = [(y, row.copy) for y, row in places if row.dtype == dtype and row.copy is not None]
        if mine_at:  # the roof of a problem that memory bounds
            figure.trace(
                tags, type="scatter", mode="lines", name=mine_at[0][1].kind, x=[mine_at[0][1].rate / scale] * 2,
                y=[mine_at[0][0] - 0.5, mine_at[-1][0] + 0.5], line={"color": "@muted", "width": 1.5, "dash": "dash"},
                hovertemplate=f"{mine_at[0][1].kind} of the same bytes: "
                f"{formatting.number(mine_at[0][1].rate / scale)} {unit}<extra></extra>",
            )  # fmt: skip
    widest = max(max(row.rate or 0, row.copy.rate if row.copy else 0) / scale for row in rows)
    for y, row in places:
        text = formatting.number((row.rate or 0) / scale)
        if row.ratio is not None and not row.is_baseline:
            text += f"  {formatting.ratio(row.ratio.value)}"
        figure.annotate(
            tags, x=_upper(row, scale), y=y, text=text, showarrow=False, xanchor="left", xshift=6,
            font={"size": 12, "color": "@ink2"},
        )  # fmt: skip
    figure.patches.append(
        {
            "when": tags,
            "layout": {
                "height": int(30 * place + 72),
                "xaxis": {"range": [0, widest * 1.22]},
                "yaxis": {
                    "range": [place - 0.9, -0.6],
                    "tickvals": [y for y, _ in places],
                    "ticktext": [plotly_text(short(row.variant, 24)) for _, row in places],
                },
            },
        }
    )


def _upper(row: LadderRow, scale: float) -> float:
    assert row.rate is not None and row.time is not None
    low = row.time.low or row.time.value
    return row.rate * row.time.value / low / scale


def _errors(rows: Sequence[LadderRow], scale: float) -> Spec:
    plus, minus = [], []
    for row in rows:
        assert row.rate is not None and row.time is not None
        low, high = row.time.low or row.time.value, row.time.high or row.time.value
        plus.append((row.rate * row.time.value / low - row.rate) / scale)
        minus.append((row.rate - row.rate * row.time.value / high) / scale)
    return {"type": "data", "array": plus, "arrayminus": minus, "color": "@ink", "thickness": 1.2, "width": 4}


def _bar_text(row: LadderRow, scale: float, unit: str) -> str:
    assert row.time is not None
    lines = [f"<b>{plotly_text(short(row.variant, 60))}</b> ({plotly_text(row.dtype)})"]
    lines.append(f"{formatting.number((row.rate or 0) / scale)} {unit}, {formatting.time_ns(row.time.value)}")
    if row.ratio is not None and row.baseline and not row.is_baseline:
        ratio = formatting.bounded_ratio(row.ratio.value, row.ratio.low, row.ratio.high)
        lines.append(f"{ratio} of {plotly_text(short(row.baseline, 40))}")
    if row.limit.text:
        lines.append(plotly_text(row.limit.text))
    lines.append(f"{row.time.samples} samples, {row.origin}")
    return "<br>".join(lines)


def sizes_figure(rows: Sequence[LadderRow], sizes: Sequence[str]) -> Figure | None:
    """Return rate against size, a line per variant; None with fewer than two timed sizes."""
    timed = [row for row in rows if row.rate is not None]
    here = [size for size in sizes if any(row.size == size for row in timed)]
    if len(here) < 2:
        return None
    scale, unit = rate_scale(timed)
    figure = Figure("chart-sizes", f"Rate against size in {unit}")
    dtypes = list(dict.fromkeys(row.dtype for row in timed))
    for dtype in dtypes:
        names = list(dict.fromkeys(row.variant for row in timed if row.dtype == dtype))
        for index, name in enumerate(names):
            mine = sorted((r for r in timed if r.variant == name), key=lambda r: here.index(r.size))
            figure.trace(
                {"contract": dtype}, type="scatter", mode="lines+markers", name=plotly_text(short(name)),
                x=[here.index(row.size) for row in mine], y=[(row.rate or 0) / scale for row in mine],
                error_y=_errors(mine, scale),
                line={"color": SERIES[index % 8], "width": 2, "dash": "dash" if mine[0].is_baseline else "solid"},
                marker={"symbol": SYMBOLS[index % 8], "size": 9, "color": SERIES[index % 8]},
                hovertext=[
                    _bar_text(row, scale, unit) + f"<br>{plotly_text(formatting.size(row.size))}" for row in mine
                ],
                hovertemplate="%{hovertext}<extra></extra>",
            )  # fmt: skip
    figure.layout = {
        "height": 380, "margin": {"l": 64, "r": 16, "t": 8, "b": 60},
        "xaxis": {"tickvals": list(range(len(here))), "ticktext": [plotly_text(formatting.size(s)) for s in here],
                  "range": [-0.2, len(here) - 0.8]},
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
        "legend": {"orientation": "h", "y": -0.18, "x": 0},
    }  # fmt: skip
    figure.controls = choice("contract", "Contract", [(d, d) for d in dtypes])
    return figure
