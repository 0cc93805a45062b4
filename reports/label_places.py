"""Places for names beside dots: where they cover no dot, no other name and no line, as far as that is possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

HEIGHT = 15.0  #: pixels of a line of text
_DOT = 9.0  #: pixels from a dot's middle that a name must leave free
#: Directions in the order of preference: sideways first, for there a name is read with its dot.
_WAYS = ((1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))
_REACHES = (16.0, 30.0, 46.0, 64.0, 88.0)


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels, upwards positive."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def area(self) -> float:
        """Its area."""
        return (self.right - self.left) * (self.top - self.bottom)

    def overlap(self, other: Box) -> float:
        """Return the area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return width * height if width > 0 and height > 0 else 0.0


@dataclass(frozen=True)
class Place:
    """Where a name stands: the shift of its near end from the dot, and whether it lies to the right of it."""

    dx: float
    dy: float
    right: bool


Segment = tuple[float, float, float, float]


def places(
    dots: Sequence[tuple[float, float]],
    widths: Sequence[float],
    area: Box,
    *,
    lines: Sequence[Segment] = (),
    taken: Sequence[Box] = (),
    others: Sequence[tuple[float, float]] = (),
) -> list[Place]:
    """Return a place for the name of each dot, in the order of the dots.

    ``lines`` are arrows and roofs, ``taken`` boxes of text that is already there, ``others`` dots without a name.
    """
    spots = [Box(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in (*dots, *others)]
    used = list(taken)
    found: dict[int, Place] = {}
    leaders: list[Segment] = []
    for index in sorted(range(len(dots)), key=lambda i: (dots[i][1], dots[i][0])):
        best, least = Place(_REACHES[0], 0, True), float("inf")
        best_box = _box(dots[index], best, widths[index])
        x, y = dots[index]
        beside = [spot for spot in spots if not (spot.left < x < spot.right and spot.bottom < y < spot.top)]
        for rank, place in enumerate(_candidates()):
            box = _box(dots[index], place, widths[index])
            leader = (x, y, x + place.dx, y + place.dy)
            through = sum(crosses(leader, other) for other in (*beside, *used[len(taken) :]))  # it would seem theirs
            cost = rank * 3.0 + _cost(box, area, used, spots, (*lines, *leaders)) + 90.0 * through
            if cost < least:
                best, least, best_box = place, cost, box
            if least <= (rank + 1) * 3.0:
                break  # every later one costs more by its rank alone
        found[index] = best
        used.append(best_box)
        leaders.append((x, y, x + best.dx, y + best.dy))
    return [found[index] for index in range(len(dots))]


def _candidates() -> Iterator[Place]:
    for reach in _REACHES:
        for sideways, upwards in _WAYS:
            yield Place(sideways * max(12.0, reach * 0.8 if upwards else reach), upwards * reach * 0.8, sideways > 0)


def _box(dot: tuple[float, float], place: Place, width: float) -> Box:
    x, y = dot[0] + place.dx, dot[1] + place.dy
    left = x if place.right else x - width
    return Box(left, y - HEIGHT / 2, left + width, y + HEIGHT / 2)


def _cost(box: Box, area: Box, used: Sequence[Box], spots: Sequence[Box], lines: Sequence[Segment]) -> float:
    outside = box.area - box.overlap(area)
    return (
        4.0 * outside
        + 6.0 * sum(box.overlap(other) for other in used)
        + 3.0 * sum(box.overlap(spot) for spot in spots)
        + 40.0 * sum(crosses(line, box) for line in lines)
    )


def crosses(line: Segment, box: Box) -> bool:
    """Return whether a segment passes through a box (Liang and Barsky's clipping)."""
    x, y, to_x, to_y = line
    start, end = 0.0, 1.0
    for way, room in (
        (x - to_x, x - box.left), (to_x - x, box.right - x), (y - to_y, y - box.bottom), (to_y - y, box.top - y),
    ):  # fmt: skip
        if way == 0:
            if room < 0:
                return False
        elif way < 0:
            start = max(start, room / way)
        else:
            end = min(end, room / way)
    return start < end
