"""Interval arithmetic against a count of single nanoseconds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from profiler.analysis import intervals

SPAN = 40
PAIRS = st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)


def arrays(pairs: list[tuple[int, int]]) -> tuple[intervals.Ints, intervals.Ints]:
    return np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64)


def depth(pairs: list[tuple[int, int]], at: int) -> int:
    return sum(a <= at < b for a, b in pairs)


TIMES = range(SPAN + 14)


@given(PAIRS)
def test_a_union_is_what_some_interval_covers(pairs: list[tuple[int, int]]) -> None:
    start, end = intervals.union(*arrays(pairs))
    covered = {at for at in TIMES if depth(pairs, at)}
    assert {at for a, b in zip(start, end, strict=True) for at in range(a, b)} == covered
    assert (start[1:] > end[:-1]).all()  # disjoint, in order, and not touching
    assert intervals.length((start, end)) == len(covered)


@given(PAIRS, st.lists(st.integers(0, SPAN + 13), min_size=1, max_size=6))
def test_what_lies_before_and_at_a_time(pairs: list[tuple[int, int]], times: list[int]) -> None:
    union = intervals.union(*arrays(pairs))
    at = np.array(times)
    assert intervals.before(union, at).tolist() == [sum(depth(pairs, t) > 0 for t in range(one)) for one in times]
    assert intervals.holds(union, at).tolist() == [depth(pairs, one) > 0 for one in times]


@given(PAIRS, st.integers(1, 4))
def test_where_several_are_open(pairs: list[tuple[int, int]], least: int) -> None:
    start, end = intervals.deep(*arrays(pairs), least)
    expected = {at for at in TIMES if depth(pairs, at) >= least}
    assert {at for a, b in zip(start, end, strict=True) for at in range(a, b)} == expected


@given(PAIRS, PAIRS)
def test_intersection_and_gaps(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    a, b = intervals.union(*arrays(one)), intervals.union(*arrays(other))
    expected = sum(depth(one, at) > 0 and depth(other, at) > 0 for at in TIMES)
    assert intervals.length(intervals.both(a, b)) == expected
    assert intervals.within(b, *a).sum() == expected
    if len(a[0]):
        between = intervals.length(intervals.gaps(a))
        assert between + intervals.length(a) == a[1][-1] - a[0][0]
