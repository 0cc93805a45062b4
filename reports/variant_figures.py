"""The chart of one variant: occupancy against registers, block size and shared memory, with the kernel's own point."""

from __future__ import annotations

from profiler.analysis import formatting
from profiler.analysis.occupancy_view import Curve, OccupancyView
from reports.figures import Figure, Spec
from reports.formatting import plotly_text, short

#: Axis -> title, unit of the hover text, divisor of its values.
AXES: dict[str, tuple[str, str, float]] = {
    "registers": ("registers a thread", "registers a thread", 1),
    "block_size": ("threads a block", "threads a block", 1),
    "shared_bytes": ("shared memory a block, KiB", "KiB of shared memory a block", 1024),
}
_STYLE: Spec = {"gridcolor": "@hair", "linecolor": "@rule", "zerolinecolor": "@rule", "tickcolor": "@rule"}
_WIDE = ((0.0, 0.295), (0.3525, 0.6475), (0.705, 1.0))
_STACKED = ((0.76, 1.0), (0.38, 0.62), (0.0, 0.24))


def occupancy_figure(figure_id: str, variant: str, view: OccupancyView) -> Figure | None:
    """Return the three curves side by side (one below the other where it is narrow); None when there is none."""
    if not view.curves:
        return None
    figure = Figure(figure_id, f"Occupancy of {short(variant, 40)} by the model, around what it uses")
    top = next(step for step in (25, 50, 100) if step >= 100 * max(s for c in view.curves for _, s in c.points) - 0.01)
    ticks = [top * part / 4 for part in range(5)]
    layout: Spec = {"height": 230, "margin": {"l": 60, "r": 10, "t": 10, "b": 44}, "showlegend": False}
    narrow: Spec = {"height": 520}
    for index, curve in enumerate(view.curves):
        _panel(figure, curve, index)
        number = "" if index == 0 else str(index + 1)
        title = {"text": AXES[curve.axis][0], "standoff": 8, "font": {"size": 12, "color": "@muted"}}
        layout[f"xaxis{number}"] = {
            **_STYLE, "domain": list(_WIDE[index]), "anchor": f"y{number}", "title": title, "rangemode": "tozero",
            "showgrid": False, "nticks": 6,
        }  # fmt: skip
        layout[f"yaxis{number}"] = {
            **_STYLE, "domain": [0, 1], "anchor": f"x{number}", "range": [0, 1.06 * top], "tickvals": ticks,
            "ticktext": [f"{tick:g} %" for tick in ticks], "showticklabels": index == 0,
        }  # fmt: skip
        narrow[f"xaxis{number}"] = {"domain": [0, 1]}
        narrow[f"yaxis{number}"] = {"domain": list(_STACKED[index]), "showticklabels": True}
    figure.layout, figure.narrow = layout, narrow
    return figure


def _panel(figure: Figure, curve: Curve, index: int) -> None:
    _, unit, scale = AXES[curve.axis]
    axes = {"xaxis": f"x{index + 1}" if index else "x", "yaxis": f"y{index + 1}" if index else "y"}
    figure.trace(
        {}, type="scatter", mode="lines", **axes, name="allowed", x=[_x(value, scale) for value, _ in curve.points],
        y=[round(100 * share, 2) for _, share in curve.points],
        line={"shape": "vh", "width": 2, "color": "@c0"}, hovertemplate="%{x} " + unit + ": %{y} %<extra></extra>",
    )  # fmt: skip
    text = f"this kernel: {curve.here / scale:.4g} {unit}, {formatting.number(100 * curve.share)} %"
    figure.trace(
        {}, type="scatter", mode="markers", **axes, name="this kernel", x=[_x(curve.here, scale)],
        y=[round(100 * curve.share, 2)], marker={"symbol": "diamond", "size": 12, "color": "@c1",
                                          "line": {"width": 1.5, "color": "@paper"}},
        hovertext=[plotly_text(text)], hovertemplate="%{hovertext}<extra></extra>", cliponaxis=False,
    )  # fmt: skip


def _x(value: int, scale: float) -> float:
    return value if scale == 1 else round(value / scale, 2)


def steps_text(curve: Curve) -> str:
    """Return a curve in words, the highest value that still allows each share: the table twin of its panel."""
    if curve.axis == "block_size":
        best = max(share for _, share in curve.points)
        sizes = [value for value, share in curve.points if share == best]
        return f"best at {formatting.listed(map(str, sizes))}: {formatting.number(100 * best)} %"
    last: dict[float, int] = {}
    for value, share in curve.points:
        last[share] = value
    unit = " KiB" if curve.axis == "shared_bytes" else ""
    return "; ".join(
        f"up to {_x(value, AXES[curve.axis][2]):g}{unit}: {formatting.number(100 * share)} %"
        for share, value in last.items()
    )
