"""Charts of a comparison: rows before and after with their intervals, and the waterfall of a row's cycles."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from profiler.analysis import formatting
from profiler.analysis.decomposition import Decomposition
from profiler.analysis.roofline import Arrow, Point, Roofline, roofline
from profiler.analysis.rundata import RunData
from profiler.comparison import words
from profiler.comparison.model import RowComparison, Times
from profiler.comparison.waterfall import Step, waterfall
from reports.figures import Figure, Spec, Tags, choice
from reports.formatting import plotly_text, short

#: Rows of the chart of rows; the table has all of them.
MOST_ROWS = 60
#: Verdict -> colour and symbol of the later side: the shape says it, too.
MARKS = {
    "regressed": ("@bad", "triangle-right"), "suspected": ("@warn", "diamond"),
    "inconclusive": ("@muted", "x-thin-open"), "improved": ("@good", "triangle-left"), "unchanged": ("@c0", "circle"),
}  # fmt: skip
_OTHER = ("@muted", "circle")
_ROW_PX = 27
_BEFORE = ", before"
#: Ticks of a log axis of ratios, of a small and of a large range.
_CLOSE = (0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7)
_WIDE = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def label(row: RowComparison, rows: Sequence[RowComparison], limit: int = 26) -> str:
    """Return a row's name in a chart: with its size where the variant has several."""
    several = sum(other.variant == row.variant for other in rows) > 1
    return short(row.variant, limit) + (f", {formatting.size(row.size)}" if several else "")


def rows_figure(rows: Sequence[RowComparison], equivalence: float) -> Figure | None:
    """Return both sides of each row as times over the time before, with intervals; None when nothing has a ratio."""
    timed = [row for row in rows if row.ratio is not None and math.isfinite(row.ratio.value)][:MOST_ROWS]
    if not timed:
        return None
    figure = Figure("chart-rows", "Time of each row over its time before, with intervals")
    places = list(range(len(timed)))
    befores = [_scaled(row.before) for row in timed]
    figure.trace(
        {}, type="scatter", mode="markers", name="before", x=[1.0] * len(timed), y=places,
        error_x=_bars(befores, "@muted"), marker={"symbol": "circle-open", "size": 9, "color": "@muted"},
        hovertext=[_side_text(row, row.before, "before") for row in timed], hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip
    for verdict in dict.fromkeys(row.verdict for row in timed):
        mine = [(place, row) for place, row in zip(places, timed, strict=True) if row.verdict == verdict]
        colour, symbol = MARKS.get(verdict, _OTHER)
        ratios = [row.ratio for _, row in mine if row.ratio is not None]
        bounds = [(one.value, one.low or one.value, one.high or one.value) for one in ratios]
        figure.trace(
            {}, type="scatter", mode="markers", name=words.VERDICT_TEXT.get(verdict, verdict),
            x=[one.value for one in ratios], y=[place for place, _ in mine], error_x=_bars(bounds, colour),
            marker={"symbol": symbol, "size": 11, "color": colour, "line": {"color": colour, "width": 1.5}},
            hovertext=[_row_text(row) for _, row in mine], hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    ends = [bound for one in befores for bound in one[1:]]
    for row in timed:
        assert row.ratio is not None
        ends += [row.ratio.value, row.ratio.low or row.ratio.value, row.ratio.high or row.ratio.value]
    low, high = min(ends), max(ends)
    figure.layout = {
        "height": int(_ROW_PX * len(timed) + 118), "margin": {"l": 8, "r": 24, "t": 8, "b": 92},
        "xaxis": _ratio_axis(low, high, equivalence),
        "yaxis": {"automargin": True, "showgrid": True, "zeroline": False, "range": [len(timed) - 0.4, -0.6],
                  "tickvals": places, "ticktext": [plotly_text(label(row, rows)) for row in timed]},
        "legend": {"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom", "x": 0, "font": {"size": 12}},
        "shapes": [
            {"type": "rect", "xref": "x", "yref": "paper", "x0": 1 - equivalence, "x1": 1 + equivalence, "y0": 0,
             "y1": 1, "fillcolor": "@c7", "opacity": 0.16, "line": {"width": 0}, "layer": "below"},
            {"type": "line", "xref": "x", "yref": "paper", "x0": 1, "x1": 1, "y0": 0, "y1": 1,
             "line": {"color": "@rule", "width": 1.5}, "layer": "below"},
        ],
    }  # fmt: skip
    return figure


def _ratio_axis(low: float, high: float, equivalence: float) -> Spec:
    axis: Spec = {"title": {"text": "time after / time before: right of 1 is slower"}, "zeroline": False}
    if high > 1.8 or low < 0.55:
        low, high = min(low, 1 - equivalence) / 1.1, max(high, 1 + equivalence) * 1.1
        steps = [value for value in (_CLOSE if high / low < 8 else _WIDE) if low <= value <= high]
        return axis | {
            "type": "log", "range": [math.log10(low), math.log10(high)], "tickvals": steps,
            "ticktext": [f"{v:g}×" for v in steps],
        }  # fmt: skip
    span = max(high - low, 2.6 * equivalence)
    low, high = min(low, 1 - equivalence) - 0.06 * span, max(high, 1 + equivalence) + 0.06 * span
    return axis | {"range": [low, high], "tickformat": ".3~f"}


def _scaled(times: Times | None) -> tuple[float, float, float]:
    if times is None or not times.value_ns:
        return 1.0, 1.0, 1.0
    low, high = times.low_ns or times.value_ns, times.high_ns or times.value_ns
    return 1.0, low / times.value_ns, high / times.value_ns


def _bars(bounds: Sequence[tuple[float, float, float]], colour: str) -> Spec:
    return {
        "type": "data", "array": [max(0.0, high - value) for value, _, high in bounds],
        "arrayminus": [max(0.0, value - low) for value, low, _ in bounds], "color": colour, "thickness": 1.4,
        "width": 4,
    }  # fmt: skip


def _side_text(row: RowComparison, times: Times | None, side: str) -> str:
    text = f"<b>{plotly_text(short(row.variant, 60))}</b> {side}: {words.time(times)}"
    return text if times is None else f"{text}<br>{times.samples} samples in {_processes(times)}"


def _processes(times: Times) -> str:
    return f"{times.processes} process{'' if times.processes == 1 else 'es'}"


def _row_text(row: RowComparison) -> str:
    lines = [_side_text(row, row.after, "after"), f"{words.ratio(row.ratio)}, {words.change(row.ratio)}"]
    lines.append(plotly_text(words.verdict(row)))
    lines += [plotly_text(line) for line in textwrap.wrap(row.words, 80)[:4]]
    return "<br>".join(line for line in lines if line)


# --- cycles ---------------------------------------------------------------------------------------------------------


def cycles_figure(found: Sequence[tuple[str, str, Decomposition]]) -> Figure | None:
    """Return the waterfalls of rows, chosen by row; None when no row has all factors. Each is key, label, factors."""
    drawn = [(key, text, steps) for key, text, one in found if (steps := waterfall(one))]
    if not drawn:
        return None
    figure = Figure("chart-why", "Cycles of a launch before and after, by what added or saved them")
    for key, text, steps in drawn:
        _waterfall(figure, {"row": key}, text, steps)
    figure.layout = {
        "margin": {"l": 8, "r": 16, "t": 30, "b": 52}, "showlegend": False, "barmode": "overlay",
        "xaxis": {"title": {"text": "cycles of one launch"}, "zeroline": True, "zerolinewidth": 1.5, "tickangle": 0,
                  "tickformat": "~s"},
        "yaxis": {"automargin": True, "showgrid": False, "zeroline": False},
    }  # fmt: skip
    figure.controls = choice("row", "Explain", [(key, short(text, 30)) for key, text, _ in drawn])
    return figure


def _waterfall(figure: Figure, tags: Tags, text: str, steps: Sequence[Step]) -> None:
    places = list(range(len(steps)))
    total = [step.role in ("before", "after") for step in steps]
    costs = [step.cycles > 0 for step in steps]
    colours = ["@c7" if whole else "@c1" if cost else "@c0" for whole, cost in zip(total, costs, strict=True)]
    ends = [(min(s.start, s.start + s.cycles), max(s.start, s.start + s.cycles)) for s in steps]
    high = max(end for _, end in ends)
    low = min(0.0, *(start for start, _ in ends))
    figure.trace(
        tags, type="bar", orientation="h", y=places, base=[round(step.start, 1) for step in steps],
        x=[round(step.cycles, 1) for step in steps],
        width=[0.42 if step.role == "reason" else 0.66 for step in steps],
        marker={"color": colours, "line": {"color": colours, "width": 1.2},
                "pattern": {"shape": ["/" if cost and not whole else "" for whole, cost in
                                      zip(total, costs, strict=True)],
                            "fgcolor": "@paper", "bgcolor": colours, "fillmode": "replace", "size": 7,
                            "solidity": 0.35}},
        hovertext=[_step_text(step, steps[0].cycles) for step in steps], hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip
    xs: list[float | None] = []
    ys: list[float | None] = []
    for index, step in enumerate(steps[1:]):
        at = step.start if step.role != "after" else step.cycles
        xs += [round(at, 1), round(at, 1), None]
        ys += [places[index], places[index + 1], None]
    figure.trace(
        tags, type="scatter", mode="lines", x=xs, y=ys, hoverinfo="skip",
        line={"color": "@muted", "width": 1, "dash": "dot"},
    )  # fmt: skip
    figure.trace(
        tags, type="scatter", mode="text", x=[round(end, 1) for _, end in ends], y=places, hoverinfo="skip",
        text=[f" {cycles_text(step)}" for step in steps], textposition="middle right", cliponaxis=False,
        textfont={"size": 12, "color": "@ink2"},
    )  # fmt: skip
    figure.annotate(
        tags, x=0, y=1, xref="paper", yref="paper", xanchor="left", yanchor="bottom", yshift=6, showarrow=False,
        text=f"<b>{plotly_text(short(text, 40))}</b>", font={"size": 13, "color": "@ink"},
    )  # fmt: skip
    figure.patches.append(
        {
            "when": tags,
            "layout": {
                "height": int(_ROW_PX * (len(steps) + 0.4) + 82),
                "xaxis": {"range": [round(low, 1), round(high + 0.22 * (high - low), 1)]},
                "yaxis": {"range": [len(steps) - 0.4, -0.6], "tickvals": places,
                          "ticktext": [_tick(step) for step in steps]},
            },
        }
    )  # fmt: skip


def _tick(step: Step) -> str:
    if step.role in ("before", "after"):
        return f"<b>{step.label}</b>"
    return f"· {step.label}" if step.role == "reason" else step.label


def cycles_text(step: Step) -> str:
    """Return a bar's cycles: with their sign where they are a change."""
    amount = formatting.si(abs(step.cycles), "").strip()
    if step.role in ("before", "after"):
        return amount
    return f"{'+' if step.cycles >= 0 else '−'}{amount}"


def _step_text(step: Step, before: float) -> str:
    share = "" if step.role in ("before", "after") or not before else (
        f", {words.signed_percent(step.cycles / before)} of the cycles before"
    )  # fmt: skip
    lines = [f"<b>{plotly_text(step.label)}</b>: {cycles_text(step)} cycles{share}"]
    if step.each is not None:
        lines.append(" to ".join(formatting.number(value) for value in step.each) + " cycles per instruction")
    return "<br>".join([*lines, *(plotly_text(line) for line in textwrap.wrap(step.meaning, 80))])


# --- roofline -------------------------------------------------------------------------------------------------------


def roofline_pairs(before: RunData, after: RunData, rows: Sequence[RowComparison]) -> list[Roofline]:
    """Return a roofline a size that holds the rows' dots of both runs, and an arrow from the one to the other."""
    found = []
    for size in dict.fromkeys(row.size for row in rows):
        names = {row.variant for row in rows if row.size == size}
        old, new = (_only(roofline(run, size), names) for run in (before, after))
        if old.model != new.model:
            continue
        renamed = {point: replace(point, variant=before_name(point.variant)) for point in old.points}
        arrows = [arrow for point, named in renamed.items() for arrow in _arrow(point, named, new.points)]
        points = (*renamed.values(), *new.points)
        found.append(Roofline(size, points, new.roofs or old.roofs, tuple(arrows), new.model))
    return found


def before_name(variant: str) -> str:
    """Return what a dot of the earlier run is called."""
    return f"{variant}{_BEFORE}"


def is_before(name: str) -> bool:
    """Whether a dot is one of the earlier run."""
    return name.endswith(_BEFORE)


def _only(one: Roofline, names: set[str]) -> Roofline:
    return replace(one, points=tuple(point for point in one.points if point.variant in names))


def _arrow(point: Point, named: Point, later: Sequence[Point]) -> list[Arrow]:
    return [
        Arrow(point.dtype, point.level, named, other)
        for other in later
        if (other.variant, other.dtype, other.level) == (point.variant, point.dtype, point.level)
        and None not in (named.intensity, named.performance, other.intensity, other.performance)
        and (named.intensity, named.performance) != (other.intensity, other.performance)
    ]
