"""Arithmetic on many intervals of whole nanoseconds at once: unions, what lies in them, where several overlap. Pure.

An interval is half open, ``[start, end)``; one of no length covers nothing. A *union* is a pair of arrays of disjoint
intervals in ascending order that do not touch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Union = tuple[Ints, Ints]

_NONE: Ints = np.empty(0, np.int64)
EMPTY: Union = (_NONE, _NONE)


def union(start: Ints, end: Ints) -> Union:
    """Return the union of intervals, in any order."""
    solid = end > start
    start, end = start[solid], end[solid]
    if not len(start):
        return EMPTY
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate([[True], start[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return start[first], reach[last]


def length(of: Union) -> int:
    """Return the length of a union."""
    return int((of[1] - of[0]).sum())


def before(of: Union, at: Ints) -> Ints:
    """Return how much of a union lies before each time."""
    start, end = of
    if not len(start):
        return np.zeros(len(at), np.int64)
    total = np.concatenate([[0], np.cumsum(end - start)])
    index = np.searchsorted(start, at, side="right")
    last = np.maximum(index - 1, 0)
    part = np.where(index > 0, np.minimum(at, end[last]) - start[last], 0)
    found: Ints = np.where(index > 0, total[last] + part, 0)
    return found


def within(of: Union, start: Ints, end: Ints) -> Ints:
    """Return how much of a union lies in each interval."""
    found: Ints = before(of, end) - before(of, start)
    return found


def holds(of: Union, at: Ints) -> Bools:
    """Return whether each time lies in a union."""
    start, end = of
    if not len(start):
        return np.zeros(len(at), np.bool_)
    index = np.searchsorted(start, at, side="right") - 1
    found: Bools = (index >= 0) & (at < end[np.maximum(index, 0)])
    return found


def gaps(of: Union) -> Union:
    """Return what lies between the intervals of a union."""
    return of[1][:-1], of[0][1:]


def deep(start: Ints, end: Ints, depth: int = 2) -> Union:
    """Return the union of the times at which at least so many of the intervals are open."""
    solid = end > start
    start, end = start[solid], end[solid]
    if not len(start):
        return EMPTY
    at = np.concatenate([start, end])
    step = np.concatenate([np.ones(len(start), np.int64), -np.ones(len(end), np.int64)])
    order = np.lexsort((step, at))  # at one time the ends come first
    at, open_ = at[order], np.cumsum(step[order])
    enough = open_ >= depth
    return union(at[:-1][enough[:-1]], at[1:][enough[:-1]])


def both(one: Union, other: Union) -> Union:
    """Return the intersection of two unions."""
    return deep(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]]))
