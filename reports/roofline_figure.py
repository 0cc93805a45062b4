"""The roofline as a chart: roofs, dots with their names, and the path from rung to rung."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from profiler.analysis import formatting
from profiler.analysis.roofline import LEVELS, Point, Roof, Roofline
from reports.figures import SERIES, SYMBOLS, Figure, Tags, choice, first_of
from reports.formatting import plotly_text, short
from reports.roofline_labels import NAMED, NUMBERED, ROOMS, Frame, Line, place_labels

LEVEL_STYLE = {level.key: (SERIES[i], SYMBOLS[i]) for i, level in enumerate(LEVELS)} | {"model": ("@c4", "star")}
_LEVEL_MARKS = {"circle": "●", "square": "■", "diamond": "◆", "triangle-up": "▲"}
_ROOF_MARKS = {"counter": "━━", "measured": "╺ ╸", "nominal": "···"}
_ROOF_ORIGIN = {"counter": "by counters", "measured": "measured by a small kernel", "nominal": "nominal"}


def drawn_lines(lines: Sequence[Roofline]) -> list[Roofline]:
    """Return the sizes that the chart shows: those with counters alone, where any has them."""
    placed = [line for line in lines if any(_placed(point) for point in line.points)]
    return [line for line in placed if not line.model] or placed


def roofline_figure(
    drawn: Sequence[Roofline], sizes: Sequence[str], baselines: Collection[str], first: str = ""
) -> Figure | None:
    """Return the roofline with its choices of size, contract and level; None when no dot can be placed.

    ``drawn`` are the sizes of :func:`drawn_lines`; ``first`` is the one shown at first, where it is drawn.
    """
    if not drawn:
        return None
    figure = Figure("chart-roofline", "Roofline: performance against arithmetic intensity")
    dtypes = list(dict.fromkeys(p.dtype for line in drawn for p in line.points if _placed(p)))
    levels = [key for key in (*(level.key for level in LEVELS), "model") if any(
        point.level == key and _placed(point) for line in drawn for point in line.points
    )]  # fmt: skip
    labels = {level.key: level.label for level in LEVELS} | {"model": "model", "all": "all levels"}
    for line in drawn:
        for dtype in dtypes:
            views = [*levels, "all"] if len(levels) > 1 else levels
            for view in views:
                _roofline_view(figure, line, dtype, view, labels, baselines)
    figure.layout = {
        "height": 540, "margin": {"l": 72, "r": 16, "t": 12, "b": 60}, "showlegend": False, "hovermode": "closest",
        "xaxis": {"type": "log", "title": {"text": "arithmetic intensity, FLOP per byte"}, "dtick": 1},
        "yaxis": {"type": "log", "title": {"text": "performance, FLOP/s"}},
    }  # fmt: skip
    options = [(key, labels[key]) for key in levels]
    if len(levels) > 1:
        options.append(("all", labels["all"]))
    shown = [line.size for line in drawn]
    figure.controls = [
        *choice("size", "Size", [(s, formatting.size(s)) for s in sizes if s in shown], first_of(shown, first)),
        *choice("contract", "Contract", [(d, d) for d in dtypes]),
        *choice("level", "Bytes counted at", options),
    ]
    return figure


def _merged(roofs: Sequence[Roof]) -> list[Roof]:
    """Roofs of the same height drawn once, under both names."""
    kept: list[Roof] = []
    for roof in roofs:
        same = next((i for i, other in enumerate(kept) if abs(other.value / roof.value - 1) < 0.01), None)
        if same is None:
            kept.append(roof)
        else:
            kept[same] = replace(kept[same], label=f"{kept[same].label}, {roof.label}")
    return kept


def _placed(point: Point) -> bool:
    return point.intensity is not None and point.performance is not None


def _roofline_view(
    figure: Figure, line: Roofline, dtype: str, view: str, labels: Mapping[str, str], baselines: Collection[str]
) -> None:
    tags: Tags = {"size": line.size, "contract": dtype, "level": view}
    points = [p for p in line.points if p.dtype == dtype and _placed(p) and view in ("all", p.level)]
    if not points:
        return
    x_range, y_range, roofs = _ranges(line, dtype, view, points)
    flats = [r for r in roofs if r.family == "compute"]
    slopes = [r for r in roofs if r.family == "memory"]
    top = max((roof.value for roof in flats), default=10 ** y_range[1])
    labels_of = _roof_labels(roofs)
    drawn: list[Line] = []
    known = {roof.key for roof in roofs if roof.origin == "counter"}
    for index, roof in enumerate(_merged(slopes) if view == "all" else slopes):
        colour = LEVEL_STYLE[roof.key][0] if roof.key in LEVEL_STYLE and view == "all" else "@ink2"
        label = _counter_label(roof) if view == "all" else labels_of.get(roof, "")
        slope = _slope(roof, x_range, y_range, top)
        shift = 0.13 * index if view == "all" else 0.0
        drawn += _roof_line(figure, tags, roof, slope, colour, label, known, sloped=True, shift=shift)
    steepest = max((roof.value for roof in slopes if roof.origin == "counter"), default=0.0) or max(
        (roof.value for roof in slopes), default=0.0
    )
    for roof in flats:
        start = roof.value / steepest if steepest else 10 ** x_range[0]
        flat = [max(start, 10 ** x_range[0]), 10 ** x_range[1]], [roof.value, roof.value]
        label, under = labels_of.get(roof, ""), _label_under(roof, flats, labels_of)
        drawn += _roof_line(figure, tags, roof, flat, "@ink2", label, known, sloped=False, under=under)
    for key in dict.fromkeys(point.level for point in points):
        mine = [point for point in points if point.level == key]
        colour, symbol = LEVEL_STYLE[key]
        figure.trace(
            tags, type="scatter", mode="markers", name=f"kernels, bytes at {labels[key]}",
            x=[p.intensity for p in mine], y=[p.performance for p in mine],
            marker={
                "size": 12, "color": colour, "line": {"color": "@paper", "width": 1.5},
                "symbol": [f"{symbol}-open" if p.variant in baselines else symbol for p in mine],
            },
            hovertext=[_point_text(point, labels[key]) for point in mine],
            hovertemplate="%{hovertext}<extra></extra>",
        )  # fmt: skip
    arrows = [arrow for arrow in line.arrows if arrow.dtype == dtype and arrow.level == view]  # none of all levels
    for arrow in arrows:
        _arrow(figure, tags, arrow.before, arrow.after)
    named = points
    if view == "all":
        _level_keys(figure, {**tags, "room": NAMED}, _level_marks(points, labels))
        named = list({p.variant: p for p in sorted(points, key=lambda p: -(p.intensity or 0))}.values())
    order = dict.fromkeys(p.variant for p in line.points if p.dtype == dtype and _placed(p))
    numbers = {variant: number for number, variant in enumerate(order, start=1)}
    for room in ROOMS:
        place_labels(
            figure, tags, Frame(x_range, y_range, room),
            lines=drawn, named=named, points=points, arrows=arrows, numbers=numbers,
        )  # fmt: skip
    marks = _level_marks(points, labels) if view == "all" else []
    shown, here = _merged(slopes) + flats if view == "all" else roofs, {point.variant for point in points}
    figure.keys.append(
        {
            "when": {**tags, "room": NUMBERED},
            "numbers": [[number, short(variant, 60)] for variant, number in numbers.items() if variant in here],
            "lines": [*marks, *(_roof_mark(roof, view) for roof in shown)],
        }
    )
    ticks = _ticks(y_range)
    y_axis = {
        "range": list(y_range),
        "tickvals": ticks,
        "ticktext": [formatting.si(value, "", 1).strip() for value in ticks],
    }
    figure.patches.append({"when": tags, "layout": {"xaxis": {"range": list(x_range)}, "yaxis": y_axis}})


def _ticks(span: tuple[float, float]) -> list[float]:
    """Decades, with 2 and 5 between them where there are few."""
    steps = (1, 2, 5) if span[1] - span[0] < 2.5 else (1,)
    values = [m * 10.0**e for e in range(math.floor(span[0]), math.ceil(span[1]) + 1) for m in steps]
    return [value for value in values if span[0] <= math.log10(value) <= span[1]]


def _ranges(
    line: Roofline, dtype: str, view: str, points: Sequence[Point]
) -> tuple[tuple[float, float], tuple[float, float], list[Roof]]:
    levels = {point.level for point in points}
    used = {point.pipe for point in points if point.pipe}
    if "model" in levels:
        roofs = [r for r in line.roofs if r.key == "dram" or (r.family == "compute" and _suits(r.key, dtype))]
    else:
        roofs = [
            r for r in line.roofs
            if (r.key in levels if r.family == "memory" else r.key in used or dtype in r.dtypes)
            and (view != "all" or r.origin == "counter")
        ]  # fmt: skip
    flats = [r.value for r in roofs if r.family == "compute"]
    ridges = [f / r.value for r in roofs if r.family == "memory" for f in flats]
    xs = [p.intensity or 1 for p in points] + ridges
    ys = [p.performance or 1 for p in points] + flats
    x_low, x_high = math.log10(min(xs)) - 0.35, math.log10(max(xs)) + 0.65
    y_low, y_high = math.log10(min(ys)) - 0.3, math.log10(max(ys)) + 0.3
    return (x_low, x_high), (y_low, y_high), roofs


def _suits(pipe: str, dtype: str) -> bool:
    return pipe == "ffma" if dtype == "fp32" else dtype in pipe


def _slope(
    roof: Roof, x_range: tuple[float, float], y_range: tuple[float, float], top: float
) -> tuple[list[float], list[float]]:
    start = max(10 ** x_range[0], 10 ** y_range[0] / roof.value)
    end = min(10 ** x_range[1], top / roof.value)
    return [start, end], [start * roof.value, end * roof.value]


def _roof_labels(roofs: Sequence[Roof]) -> dict[Roof, str]:
    """The text beside each line. Ceilings of one level or pipe lie so close that the lowest is labelled for all."""
    texts = {roof: _counter_label(roof) for roof in roofs if roof.origin == "counter"}
    others: dict[str, list[Roof]] = {}
    for roof in roofs:
        if roof.origin != "counter":
            others.setdefault(roof.key, []).append(roof)
    for same in others.values():
        measured = [roof for roof in same if roof.origin == "measured"]
        parts = [f"{plotly_text(short(roof.label, 30))} {formatting.si(roof.value, roof.unit)}" for roof in measured]
        if len(measured) == 1:
            parts[0] += _clock(measured[0])
        text = f"{' and '.join(parts)} (measured)" if parts else ""
        nominal = [formatting.si(roof.value, roof.unit) for roof in same if roof.origin == "nominal"]
        lone = "" if text else f"{plotly_text(short(same[0].label, 30))} "
        texts[min(same, key=lambda roof: roof.value)] = "; ".join(
            part for part in (text, f"{lone}{', '.join(nominal)} (nominal)" if nominal else "") if part
        )
    return texts


def _label_under(roof: Roof, flats: Sequence[Roof], labels: Mapping[Roof, str]) -> bool:
    """Whether a flat roof's label goes below its line: away from the other labelled line of its pipe."""
    others = [flat for flat in flats if flat.key == roof.key and flat is not roof and flat in labels]
    if others:
        return roof.value <= others[0].value
    return roof.origin != "counter"


def _counter_label(roof: Roof) -> str:
    return f"{plotly_text(short(roof.label, 30))} {formatting.si(roof.value, roof.unit)}{_clock(roof)}"


def _clock(roof: Roof) -> str:
    return f" at {roof.clock_hz / 1e9:.2f} GHz" if roof.clock_hz else ""


def _roof_line(
    figure: Figure,
    tags: Tags,
    roof: Roof,
    line: tuple[list[float], list[float]],
    colour: str,
    label: str,
    known: Collection[str],
    *,
    sloped: bool,
    under: bool | None = None,
    shift: float = 0.0,
) -> list[Line]:
    """Draw one roof, and return it for its label; nothing where it lies outside.

    Where there is little room only the roofs of counters are labelled, and others of keys that are not ``known``.
    """
    xs, ys = line
    if xs[0] >= xs[1]:
        return []
    steps = 24
    logs = [math.log10(xs[0]) + (math.log10(xs[1]) - math.log10(xs[0])) * i / steps for i in range(steps + 1)]
    figure.trace(
        tags, type="scatter", mode="lines", name=plotly_text(roof.label), x=[10**v for v in logs],
        y=[10**v * roof.value for v in logs] if sloped else [ys[0]] * len(logs),
        line={"color": colour, "width": 1.6 if roof.origin == "counter" else 1.2,
              "dash": {"counter": "solid", "measured": "dash"}.get(roof.origin, "dot")},
        hovertext=_roof_text(roof), hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip
    counter, value = roof.origin == "counter", formatting.si(roof.value, roof.unit)
    return [
        Line(
            (xs[0], xs[1]), (ys[0], ys[1]), label, f"{plotly_text(short(roof.label, 30))} {value}", value,
            counter or roof.key not in known, colour, sloped, counter, not counter if under is None else under, shift,
        )
    ]  # fmt: skip


def _roof_text(roof: Roof) -> str:
    what = f"{plotly_text(roof.label)} {formatting.si(roof.value, roof.unit)}{_clock(roof)}"
    return f"{what}, {_ROOF_ORIGIN[roof.origin]}"


def _arrow(figure: Figure, tags: Tags, before: Point, after: Point) -> None:
    assert before.intensity and before.performance and after.intensity and after.performance
    figure.annotate(
        tags, x=math.log10(after.intensity), y=math.log10(after.performance), ax=math.log10(before.intensity),
        ay=math.log10(before.performance), xref="x", yref="y", axref="x", ayref="y", text="", showarrow=True,
        arrowhead=2, arrowsize=1.1, arrowwidth=1.4, arrowcolor="@ink2", standoff=8, startstandoff=8, opacity=0.75,
    )  # fmt: skip


def _level_marks(points: Sequence[Point], labels: Mapping[str, str]) -> list[list[str]]:
    """The mark, colour and name of each level that has dots."""
    keys = [level.key for level in LEVELS if any(point.level == level.key for point in points)]
    return [[_LEVEL_MARKS.get(LEVEL_STYLE[key][1], "●"), LEVEL_STYLE[key][0], labels[key]] for key in keys]


def _roof_mark(roof: Roof, view: str) -> list[str]:
    """The mark, colour and text of a roof."""
    colour = LEVEL_STYLE[roof.key][0] if roof.key in LEVEL_STYLE and view == "all" else "@ink2"
    value = formatting.si(roof.value, roof.unit)
    return [_ROOF_MARKS[roof.origin], colour, f"{short(roof.label, 60)} {value}{_clock(roof)}"]


def _level_keys(figure: Figure, tags: Tags, marks: Sequence[Sequence[str]]) -> None:
    for index, (mark, colour, label) in enumerate(marks):
        figure.annotate(
            tags, xref="paper", yref="paper", x=1, y=0, xanchor="right", yanchor="bottom",
            yshift=8 + 18 * (len(marks) - 1 - index), xshift=-8, text=f"{mark} {label}",
            showarrow=False, font={"size": 12, "color": colour}, bgcolor="@paper-veil",
        )  # fmt: skip


def _point_text(point: Point, level: str) -> str:
    lines = [f"<b>{plotly_text(short(point.variant, 60))}</b>, bytes at {level}"]
    lines.append(f"{formatting.number(point.intensity or 0)} FLOP/B, {formatting.si(point.performance or 0, 'FLOP/s')}")
    if point.share is not None:
        lines.append(f"{formatting.percent(point.share)} of the {level} roof")
    if point.pipe_share is not None:
        lines.append(f"{formatting.percent(point.pipe_share)} of its pipe's roof")
    if point.clock_hz:
        lines.append(f"clock of this pass {point.clock_hz / 1e9:.2f} GHz")
    if point.origin == "model":
        lines.append("model: the problem's own counts over the timed median")
    if point.flag:
        lines.append(plotly_text(point.flag))
    return "<br>".join(lines)
