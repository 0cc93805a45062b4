"""A step of the ladder as a chart: the factors of its speed-up as a waterfall, in log space."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from profiler.analysis import formatting
from profiler.analysis.decomposition import Decomposition, Effect, Part
from profiler.analysis.decomposition_words import gain
from profiler.analysis.steps import Step
from reports.figures import Figure, Tags, choice, first_of
from reports.formatting import plotly_text, short

AGAINST = {"before": "the rung before", "baseline": "the baseline"}
#: A stall reason has its own bar when it moves the latency by this much; at most so many have.
_NOTABLE = math.log(1.02)
_MOST_PARTS = 5
#: Where no factor moves the time by this much, four decimals tell them apart.
_SMALL = math.log(1.02)
#: What one unit of y is high.
_ROW_PX = 27
_UNITS = {"instructions": "", "latency": " cycles", "warps": " warps"}


@dataclass(frozen=True)
class Bar:
    """One bar of a waterfall, in powers of two of the speed-up: where it starts, how far it goes."""

    label: str
    start: float
    length: float
    text: str
    hover: str
    role: str  #: factor, part, total


def why_figure(steps: Sequence[Step], sizes: Sequence[str], first: str, main: str = "") -> Figure | None:
    """Return the waterfalls, one per step, chosen by variant; None when there is no step.

    ``first`` is the variant shown at first, ``main`` the size. Sizes at which no step could be explained are left out.
    """
    if not steps:
        return None
    explained = {step.decomposition.after.size for step in steps if step.decomposition.effects}
    steps = [step for step in steps if step.decomposition.after.size in explained] or steps
    figure = Figure("chart-why", "Factors of a speed-up, as a waterfall")
    names = list(dict.fromkeys(step.variant for step in steps))
    shown = [size for size in sizes if any(step.decomposition.after.size == size for step in steps)]
    kinds = [kind for kind in AGAINST if any(step.against == kind for step in steps)]
    by_key = {(step.decomposition.after.size, step.against, step.variant): step for step in steps}
    for size in shown:
        for kind in kinds:
            for name in names:
                tags: Tags = {"size": size, "against": kind, "step": name}
                step = by_key.get((size, kind, name))
                if step is None:
                    _nothing(figure, tags, _no_step(name, kind))
                elif not step.decomposition.effects:
                    _nothing(figure, tags, step.decomposition.why)
                else:
                    _waterfall(figure, tags, step)
    figure.layout = {
        "margin": {"l": 8, "r": 16, "t": 30, "b": 52}, "showlegend": False, "barmode": "overlay",
        "xaxis": {"title": {"text": "speed-up so far, log scale"}, "zeroline": True, "zerolinewidth": 1.5,
                  "tickangle": 0},
        "yaxis": {"automargin": True, "showgrid": False, "zeroline": False},
    }  # fmt: skip
    figure.controls = [
        *choice("size", "Size", [(s, formatting.size(s)) for s in shown], first_of(shown, main)),
        *choice("against", "Against", [(kind, AGAINST[kind]) for kind in kinds]),
        *choice("step", "Explain", [(name, short(name, 24)) for name in names], first),
    ]
    return figure


def _no_step(name: str, kind: str) -> str:
    if kind == "before":
        return f"{short(name, 60)} is the first timed rung of its contract: there is none before it to compare with."
    return f"{short(name, 60)} has no timed baseline to compare with."


def _nothing(figure: Figure, tags: Tags, text: str) -> None:
    lines = "<br>".join(plotly_text(line) for line in textwrap.wrap(text, 52)[:6])
    figure.annotate(
        tags, x=0, y=0.5, xref="paper", yref="paper", xanchor="left", align="left", text=lines, showarrow=False,
        font={"size": 13, "color": "@ink2"},
    )  # fmt: skip
    hidden = {"visible": False, "range": [-1, 1]}
    figure.patches.append({"when": tags, "layout": {"height": 130, "xaxis": hidden, "yaxis": hidden}})


def _waterfall(figure: Figure, tags: Tags, step: Step) -> None:
    bars = waterfall(step.decomposition)
    places, place = [], 0.0
    for i, bar in enumerate(bars):
        thin = bar.role == "part" or (i > 0 and bars[i - 1].role == "part")
        place += (0.0 if i == 0 else 0.74 if thin else 1.0) + (0.22 if bar.role == "total" else 0.0)
        places.append(round(place, 2))
    costs = [bar.length < 0 for bar in bars]
    colours = ["@c7" if b.role == "total" else "@c1" if cost else "@c0" for b, cost in zip(bars, costs, strict=True)]
    ends = [(min(b.start, b.start + b.length), max(b.start, b.start + b.length)) for b in bars]
    low, high = min(0.0, *(low for low, _ in ends)), max(0.0, *(high for _, high in ends))
    span = max(high - low, 0.06)
    figure.trace(
        tags, type="bar", orientation="h", y=places, base=[_round(bar.start) for bar in bars],
        x=[_round(bar.length) for bar in bars], width=[0.36 if bar.role == "part" else 0.62 for bar in bars],
        marker={"color": colours, "line": {"color": colours, "width": 1.2},
                "opacity": [0.7 if bar.role == "part" else 1 for bar in bars],
                "pattern": {"shape": ["/" if cost and b.role != "total" else "" for b, cost in
                                      zip(bars, costs, strict=True)],
                            "fgcolor": "@paper", "bgcolor": colours, "fillmode": "replace", "size": 7,
                            "solidity": 0.35}},
        hovertext=[bar.hover for bar in bars], hovertemplate="%{hovertext}<extra></extra>",
    )  # fmt: skip
    xs: list[float | None] = []
    ys: list[float | None] = []
    for i, bar in enumerate(bars[1:]):
        at = bar.start if bar.role != "total" else bar.start + bar.length
        xs += [_round(at), _round(at), None]
        ys += [places[i], places[i + 1], None]
    figure.trace(
        tags, type="scatter", mode="lines", x=xs, y=ys, hoverinfo="skip",
        line={"color": "@muted", "width": 1, "dash": "dot"},
    )  # fmt: skip
    figure.trace(
        tags, type="scatter", mode="text", x=[_round(end) for _, end in ends], y=places, hoverinfo="skip",
        text=[f" {bar.text}" for bar in bars], textposition="middle right", cliponaxis=False,
        textfont={"size": 12, "color": "@ink2"},
    )  # fmt: skip
    ticks = tick_values(low, high)
    one = step.decomposition
    figure.annotate(
        tags, x=0, y=1, xref="paper", yref="paper", xanchor="left", yanchor="bottom", yshift=6, showarrow=False,
        text=f"<b>{plotly_text(short(step.variant, 24))}</b> over {plotly_text(short(one.before.variant, 24))}",
        font={"size": 13, "color": "@ink"},
    )  # fmt: skip
    figure.patches.append(
        {
            "when": tags,
            "layout": {
                "height": int(_ROW_PX * (place + 1.2) + 82),
                "xaxis": {
                    "visible": True,
                    "range": [_round(low - 0.04 * span), _round(high + 0.34 * span)],
                    "tickvals": [_round(math.log2(value)) for value in ticks],
                    "ticktext": [f"{value:g}×" for value in ticks],
                },
                "yaxis": {
                    "visible": True,
                    "range": [place + 0.6, -0.6],
                    "tickvals": places,
                    "ticktext": [bar.label for bar in bars],
                },
            },
        }
    )


def waterfall(one: Decomposition) -> list[Bar]:
    """Return a step's bars: each factor from where the one before ended, the latency's reasons under it, the whole."""
    bars: list[Bar] = []
    at = 0.0
    fine = all(abs(effect.log_gain) < _SMALL for effect in one.effects)
    for effect in one.effects:
        length = effect.log_gain / math.log(2)
        label = f"{effect.kind.label} {f'{effect.ratio:.4f}×' if fine else formatting.ratio(effect.ratio)}"
        bars.append(Bar(label, at, length, gain(effect.log_gain, fine), _effect_text(effect, fine), "factor"))
        bars += _parts(effect, at)
        at += length
    whole = at * math.log(2)
    times = "event times" if one.measured else "the profiler's times"
    text = f"{math.exp(whole):.4f}×" if fine else formatting.ratio(math.exp(whole))
    before, after = (side.event_s.value if one.measured else side.profiled_s.value for side in (one.before, one.after))
    hover = (
        f"<b>speed-up</b>: {text}<br>{formatting.time_ns((before or 0.0) * 1e9)} to "
        f"{formatting.time_ns((after or 0.0) * 1e9)}, {times}"
    )
    return [*bars, Bar("<b>speed-up</b>", 0.0, at, f"<b>{text}</b>", hover, "total")]


def _parts(effect: Effect, at: float) -> list[Bar]:
    """The reasons that moved the latency, largest gain first, and the others as one bar: together the latency's bar."""
    own = [part for part in effect.parts if abs(part.log_gain) >= _NOTABLE][:_MOST_PARTS]
    others = [part for part in effect.parts if part not in own]
    if not own:
        return []
    bars: list[Bar] = []
    for part in sorted(own, key=lambda part: -part.log_gain):
        length = part.log_gain / math.log(2)
        bars.append(Bar(f"· {part.reason.label}", at, length, gain(part.log_gain), _part_text(part), "part"))
        at += length
    rest = sum(part.log_gain for part in others)
    if others:
        hover = f"<b>{len(others)} other stall reasons</b>: {gain(rest)} together<br>The table has each of them."
        bars.append(Bar(f"· {len(others)} others", at, rest / math.log(2), gain(rest), hover, "part"))
    return bars


def _effect_text(effect: Effect, fine: bool) -> str:
    lines = [f"<b>{effect.kind.label}</b>: {gain(effect.log_gain, fine)}"]
    if effect.before is not None and effect.after is not None:
        values = " to ".join(value_text(effect.kind.key, value) for value in (effect.before, effect.after))
        lines.append(f"{values}, {formatting.ratio(effect.ratio)}")
    return "<br>".join([*lines, *textwrap.wrap(effect.kind.meaning, 80)])


def _part_text(part: Part) -> str:
    cycles = f"{formatting.number(part.before)} to {formatting.number(part.after)} cycles per instruction"
    return f"<b>{part.reason.label}</b>: {gain(part.log_gain)}<br>{cycles}<br>{part.reason.meaning}"


def value_text(key: str, value: float, digits: int = 4) -> str:
    """Return a factor's own value with its unit."""
    if key == "clock":
        return f"{value / 1e9:.3f} GHz"
    if key == "active":
        return formatting.percent(value, 1)
    if key == "instructions":
        return formatting.si(value, "", digits).strip()
    return f"{formatting.number(value, digits)}{_UNITS.get(key, '')}"


def tick_values(low: float, high: float) -> list[float]:
    """Return the speed-ups that stand at an axis from ``low`` to ``high`` in powers of two: round, and 1 among them."""
    span = high - low
    if span >= 2.5:
        every = 1 if span < 6 else 2 if span < 12 else 4 if span < 24 else 8
        return [2.0**i for i in range(math.ceil(low / every) * every, math.floor(high) + 1, every)]
    first, last = 2**low, 2**high
    step = next((s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if (last - first) / s <= 4.5), 2.0)
    count = range(math.ceil((first - 1) / step - 1e-9), math.floor((last - 1) / step + 1e-9) + 1)
    return [round(1 + i * step, 6) for i in count if 1 + i * step > 0]


def _round(value: float) -> float:
    return round(value, 5)
