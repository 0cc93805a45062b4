"""Labels of the roofline, placed for the room that there is: names beside dots on a wide chart, numbers on others.

Where a chart is narrow, names cannot stand beside their dots; each dot has a number there, and the page lists numbers
and roofs below the chart. Places are found for the width of each kind of room, in pixels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from profiler.analysis.roofline import Arrow, Point
from reports.figures import Figure, Tags
from reports.formatting import plotly_text, short
from reports.label_places import Box, Segment, crosses, places


@dataclass(frozen=True)
class Room:
    """A kind of chart by its width. ``report.js`` draws the annotations of the room that it has."""

    key: str
    plot: tuple[float, float]  #: pixels of the plotting area for which places are found
    font: int  #: pixels, of roofs' labels
    letter: float  #: pixels of a letter of theirs
    numbered: bool


#: Narrow is the page of a telephone, medium a tablet upright; paper is as wide as what is printed.
ROOMS = (
    Room("wide", (1110.0, 468.0), 11, 6.4, numbered=False),
    Room("paper", (900.0, 468.0), 11, 6.4, numbered=False),
    Room("medium", (620.0, 468.0), 11, 6.4, numbered=True),
    Room("narrow", (238.0, 468.0), 10, 5.5, numbered=True),
)
NUMBERED = [room.key for room in ROOMS if room.numbered]
NAMED = [room.key for room in ROOMS if not room.numbered]
#: Dots whose middles are so many pixels from the first one's share a label: where there are numbers, and where names;
#: and no more than so many names.
_NEAR_NUMBERED, _NEAR_NAMED, _NAMES = 9.0, 4.0, 3
#: What a label across a line, one without its name, and none at all are as bad as: one over so much of a dot or of
#: another text, in square pixels.
_CROSSED, _SHORTER, _LEFT_OUT = 40.0, 120.0, 100.0


@dataclass(frozen=True)
class Line:
    """A roof as drawn, and what stands beside it; no text where a neighbour's label names it."""

    xs: tuple[float, float]
    ys: tuple[float, float]
    text: str
    brief: str  #: where the text finds no place, and where names are numbers
    value: str  #: where even that is too long
    main: bool  #: whether it is labelled where names are numbers
    colour: str
    sloped: bool
    counter: bool
    under: bool
    shift: float = 0.0  #: where along the line its label is tried first, beyond the usual place


@dataclass(frozen=True)
class _Label:
    """Where a roof's label stands: a point of the chart (logarithms), and how the text lies about it, in pixels."""

    x: float
    y: float
    left: bool  #: the text begins at the point, else it ends there
    below: bool
    aside: float
    width: float


@dataclass(frozen=True)
class Frame:
    """The ranges of the axes (logarithms), and where things stand in pixels of a room."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    room: Room

    @property
    def per_x(self) -> float:
        """Pixels of a decade of intensity."""
        return self.room.plot[0] / (self.x_range[1] - self.x_range[0])

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixels of a point given by its logarithms."""
        per_y = self.room.plot[1] / (self.y_range[1] - self.y_range[0])
        return (x - self.x_range[0]) * self.per_x, (y - self.y_range[0]) * per_y

    def point(self, point: Point) -> tuple[float, float]:
        """Return the pixels of a dot."""
        return self.at(math.log10(point.intensity or 1), math.log10(point.performance or 1))

    def segment(self, line: Line) -> Segment:
        """Return a roof in pixels."""
        (x, to_x), (y, to_y) = (map(math.log10, ends) for ends in (line.xs, line.ys))
        return *self.at(x, y), *self.at(to_x, to_y)

    def box(self, label: _Label) -> Box:
        """Return what a roof's label covers."""
        x, y = self.at(label.x, label.y)
        start = x + label.aside - (0 if label.left else label.width)
        bottom = y - 20 if label.below else y + 1
        return Box(start, bottom, start + label.width, bottom + 19)


def place_labels(
    figure: Figure,
    tags: Tags,
    frame: Frame,
    *,
    lines: Sequence[Line],
    named: Sequence[Point],
    points: Sequence[Point],
    arrows: Sequence[Arrow],
    numbers: Mapping[str, int],
) -> None:
    """Add the labels of roofs and dots for the room of a frame.

    ``named`` are the dots that get a name (or their number of ``numbers``), ``points`` all dots.
    """
    spots = [Box(x - 10, y - 10, x + 10, y + 10) for x, y in map(frame.point, points)]
    tags = {**tags, "room": frame.room.key}
    roofs = [frame.segment(line) for line in lines]
    written: list[Box] = []
    for index, line in enumerate(lines):
        others = roofs[:index] + roofs[index + 1 :]
        written += _roof_label(figure, tags, line, frame, written, spots, others)
    segments = [*((*frame.point(arrow.before), *frame.point(arrow.after)) for arrow in arrows), *roofs]
    groups = _together(named, frame)
    if frame.room.numbered:
        texts = [numbers_text(numbers[point.variant] for point in group) for group in groups]
        widths, font = [6.6 * len(text) + 4 for text in texts], 11
    else:
        texts = [", ".join(short(point.variant, 24) for point in group) for group in groups]
        widths, font = [7.2 * len(text) + 6 for text in texts], 12
    heads = [group[0] for group in groups]
    chosen = places(
        [frame.point(point) for point in heads],
        widths,
        Box(0, 0, *frame.room.plot),
        lines=segments,
        taken=written,
        others=[frame.point(point) for point in points if point not in heads],
    )
    for point, text, place in zip(heads, texts, chosen, strict=True):
        figure.annotate(
            tags, x=math.log10(point.intensity or 1), y=math.log10(point.performance or 1), ax=place.dx, ay=-place.dy,
            text=plotly_text(text),
            showarrow=True, arrowhead=0, arrowwidth=0.7, arrowcolor="@muted", standoff=6,
            xanchor="left" if place.right else "right", font={"size": font, "color": "@ink"},
        )  # fmt: skip


def _together(points: Sequence[Point], frame: Frame) -> list[list[Point]]:
    """Dots that lie on each other, in groups about the first of each."""
    groups: list[list[Point]] = []
    numbered = frame.room.numbered
    reach, most = (_NEAR_NUMBERED, len(points)) if numbered else (_NEAR_NAMED, _NAMES)
    for point in points:
        x, y = frame.point(point)
        near = (
            group for group in groups
            if len(group) < most
            and math.hypot(x - frame.point(group[0])[0], y - frame.point(group[0])[1]) < reach
        )  # fmt: skip
        group = next(near, None)
        if group is None:
            groups.append([point])
        else:
            group.append(point)
    return groups


def numbers_text(numbers: Iterable[int]) -> str:
    """Return numbers as a label has them, runs of three and more as such: ``1, 4–7``."""
    runs: list[list[int]] = []
    ordered = sorted(set(numbers))
    for before, number in pairwise([None, *ordered]):
        assert number is not None
        if before is not None and number == before + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(str(number) for number in run) for run in runs
    )


def _roof_label(
    figure: Figure,
    tags: Tags,
    line: Line,
    frame: Frame,
    written: Sequence[Box],
    spots: Sequence[Box],
    others: Sequence[Segment],
) -> list[Box]:
    """Add one roof's label, off text, dots, other lines and the chart's edge where it can be; return what it covers.

    A roof beside the main ones stays without a label where there is no place for one.
    """
    room = frame.room
    texts = ([line.brief, line.value] if line.main else []) if room.numbered else [line.text, line.brief]
    if not line.text or not texts:
        return []
    xs, ys = [math.log10(x) for x in line.xs], [math.log10(y) for y in line.ys]
    widths = [room.letter * len(text) + 4 for text in texts]
    begin = (0.04 if line.counter else 0.08) + line.shift
    tries: list[tuple[float, bool, bool]]  # where along the line, whether the text begins there, whether it is below
    if line.sloped:
        tries = [(begin + 0.04 * i, True, line.under) for i in range(16)]
    else:
        fits = 0.92 * (xs[1] - xs[0]) * frame.per_x > widths[0]  # else it would be cut off at the chart's end
        sides = [(begin, True), (1.0, False)] if fits and not line.counter else [(1.0, False), (begin, True)]
        sides += [(0.25, True), (0.4, True), (0.55, True)]
        tries = [(at, left, below) for at, left in sides for below in (line.under, not line.under)]
    tried = [
        (
            _Label(
                xs[0] + at * (xs[1] - xs[0]), ys[0] + at * (ys[1] - ys[0]), left, below,
                14 if line.sloped and below else 0, width,
            ),
            text,
        )
        for text, width in zip(texts, widths, strict=True) for at, left, below in tries
    ]  # fmt: skip
    area = Box(0, 0, *room.plot)

    def cost(one: tuple[_Label, str]) -> float:
        box = frame.box(one[0])
        lost = box.area - box.overlap(area) + sum(box.overlap(other) for other in written)
        crossed = 0 if line.sloped else sum(crosses(other, box) for other in others)
        shorter = _SHORTER if room.numbered and one[1] == line.value else 0.0
        return lost + sum(box.overlap(spot) for spot in spots) + _CROSSED * crossed + shorter

    place, text = min(tried, key=cost)
    if not line.main and cost((place, text)) > _LEFT_OUT:
        return []
    figure.annotate(
        tags, x=place.x, y=place.y, text=text, showarrow=False, xanchor="left" if place.left else "right",
        yanchor="top" if place.below else "bottom", yshift=-4 if place.below else 2, xshift=place.aside,
        font={"size": room.font, "color": line.colour}, name="roof", bgcolor="@paper-veil",
    )  # fmt: skip
    return [frame.box(place)]
