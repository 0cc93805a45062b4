from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.label_places import HEIGHT, Box, crosses, places

AREA = Box(0, 0, 1100, 470)


def boxes(dots: list[tuple[float, float]], widths: list[float]) -> list[Box]:
    found = []
    for (x, y), width, place in zip(dots, widths, places(dots, widths, AREA), strict=True):
        left = x + place.dx - (0 if place.right else width)
        found.append(Box(left, y + place.dy - HEIGHT / 2, left + width, y + place.dy + HEIGHT / 2))
    return found


def test_a_lone_name_stands_to_the_right_and_at_the_edge_to_the_left() -> None:
    assert [p.right for p in places([(500, 200), (1090, 100)], [80, 80], AREA)] == [True, False]


def test_names_of_dots_in_one_place_do_not_cover_each_other() -> None:
    found = boxes([(600, 300)] * 6, [90.0] * 6)
    assert max(a.overlap(b) for a, b in itertools.combinations(found, 2)) == 0


def test_a_name_keeps_clear_of_a_dot_beside_it() -> None:
    first, _ = boxes([(500, 200), (530, 200)], [80, 80])
    assert first.overlap(Box(521, 191, 539, 209)) == 0


def test_a_name_avoids_an_arrow() -> None:
    (place,) = places([(500, 200)], [80], AREA, lines=[(500, 200, 700, 202)])
    assert not place.right


@given(st.lists(st.tuples(st.floats(0, 1100), st.floats(0, 470)), max_size=12))
def test_there_is_a_place_for_every_dot(dots: list[tuple[float, float]]) -> None:
    assert len(places(dots, [70.0] * len(dots), AREA)) == len(dots)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ((0, 0, 10, 10), True),
        ((0, 6, 10, 6), True),
        ((0, 8, 10, 8), False),
        ((4, 0, 4, 3), False),
        ((5, 5, 5, 5), True),
    ],
)
def test_what_crosses_a_box(line: tuple[float, float, float, float], expected: bool) -> None:
    assert crosses(line, Box(3.5, 4, 7, 7)) is expected


def test_the_line_to_a_name_passes_through_no_other_dot() -> None:
    dots = [(500.0, 200.0), (540.0, 200.0)]
    for (x, y), place, (other_x, other_y) in zip(dots, places(dots, [60, 60], AREA), reversed(dots), strict=True):
        spot = Box(other_x - 9, other_y - 9, other_x + 9, other_y + 9)
        assert not crosses((x, y, x + place.dx, y + place.dy), spot)


def test_the_line_to_a_name_passes_through_no_other_name() -> None:
    dots = [(500.0, 200.0), (503.0, 200.0), (506.0, 201.0), (502.0, 203.0), (640.0, 200.0)]
    found = places(dots, [60.0] * 5, AREA)
    for (i, one), (j, other) in itertools.permutations(enumerate(found), 2):
        (x, y), (to_x, to_y) = dots[i], dots[j]
        left = to_x + other.dx - (0 if other.right else 60)
        text = Box(left, to_y + other.dy - HEIGHT / 2, left + 60, to_y + other.dy + HEIGHT / 2)
        assert not crosses((x, y, x + one.dx, y + one.dy), text), (i, j)
