"""A timeline as a picture: which spans share a lane, and fewer, longer marks for when it is seen from afar. Pure.

A million spans do not fit into a page, and a screen has a thousand columns. So spans come in levels. In the level of
resolution ``r`` every span of at least ``r`` nanoseconds is itself; shorter ones that begin in the same ``r`` are one
mark with a count and the time that they cover. A reader who looks at more than ``r`` nanoseconds per pixel cannot tell
that level from the spans themselves. The finest level is exact unless there are too many spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler.analysis import intervals
from profiler.analysis.intervals import Bools, Ints
from profiler.analysis.timeline import API, COPY, NVTX, Timeline, grouped, stream_word
from profiler.parse.span_table import DIRECTIONS, STREAM_TYPES, Codes

#: Marks of the finest level at most; more spans than this are merged there, too.
MOST_MARKS = 300_000
#: Each level is coarser than the one before by this factor.
STEP = 4
MOST_STREAMS, MOST_THREADS, MOST_DEPTH = 16, 8, 6
_COPY_LANES = (
    ("copy H2D", ("h2d",)),
    ("copy D2H", ("d2h",)),
    ("other copies", ("d2d", "p2p", "h2h", "managed", "other")),
)
_FINEST = 64


@dataclass(frozen=True)
class Lane:
    """One row of the picture. ``rows`` are its spans by depth, then start; nested ones lie ``depth`` lines deep."""

    group: str
    label: str
    kind: str  #: kernel, copy, api, nvtx
    rows: Ints
    depth: Ints
    thread: int = -1

    @property
    def lines(self) -> int:
        """How many lines the lane needs."""
        return int(self.depth.max(initial=0)) + 1


@dataclass(frozen=True)
class Marks:
    """What is drawn of a lane at one level. ``span`` is the span itself, or the longest of those merged."""

    span: Ints
    start: Ints
    end: Ints
    depth: Ints
    count: Ints
    busy: Ints  #: nanoseconds that the merged spans cover

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Picture:
    """The lanes, and their marks by level, the finest first; ``resolutions[0]`` is zero when that level is exact."""

    lanes: tuple[Lane, ...]
    resolutions: tuple[int, ...]
    levels: tuple[tuple[Marks, ...], ...]
    left_out: int  #: spans that no lane holds: threads and depths past the limit


def lanes(line: Timeline) -> list[Lane]:
    """Return the lanes from top to bottom: streams and copies of each device, then ranges and calls of each thread."""
    found: list[Lane] = []
    flat = np.empty(0, np.int64)
    for device in line.devices:
        group = f"GPU {device}"
        rows = np.flatnonzero(line.on_device & (line.device == device))
        work = rows[line.kind[rows] != COPY]
        found += [Lane(group, label, "kernel", own, flat) for label, own in _streams(line, work)]
        for label, directions in _COPY_LANES:
            wanted = [DIRECTIONS.index(one) for one in directions]
            own = rows[(line.kind[rows] == COPY) & np.isin(line.direction[rows], wanted)]
            if len(own):
                found.append(Lane(group, label, "copy", own, flat))
    host = np.flatnonzero((line.kind == API) | (line.kind == NVTX))
    counts = pd.Series(line.thread[host]).value_counts()
    for thread in sorted(int(one) for one in counts.index[:MOST_THREADS]):
        own = host[line.thread[host] == thread]
        group = f"thread {thread}" if thread >= 0 else "host"
        for label, kind, code in (("ranges", "nvtx", NVTX), ("calls", "api", API)):
            rows = own[line.kind[own] == code]
            if len(rows):
                rows, depth = _nested(line, rows)
                found.append(Lane(group, label, kind, rows, depth, thread))
    return [_flat(one) for one in found]


def picture(line: Timeline, most: int = MOST_MARKS) -> Picture:
    """Return lanes and levels; the finest level has at most ``most`` marks, as far as spans can be merged."""
    rows = lanes(line)
    total = sum(len(lane.rows) for lane in rows)
    finest = 0 if total <= most else _resolution(line, rows, most)
    resolutions = [finest]
    levels = [tuple(_marks(line, lane, finest) for lane in rows)]
    window = int(line.end.max(initial=0) - line.start.min(initial=0))
    coarser = max(finest, _FINEST) * STEP
    while coarser * 300 < window:
        level = tuple(_marks(line, lane, coarser) for lane in rows)
        if sum(map(len, level)) < 0.7 * sum(map(len, levels[-1])):
            resolutions.append(coarser)
            levels.append(level)
        coarser *= STEP
    return Picture(tuple(rows), tuple(resolutions), tuple(levels), len(line) - total)


def profile(line: Timeline, device: int, bins: int = 600) -> tuple[list[int], int, int]:
    """Return a device's busy share in percent for so many equal parts of the trace, and the trace's two ends."""
    begin, end = extent(line)
    edges = np.linspace(begin, end, bins + 1).round().astype(np.int64)
    busy = intervals.within(line.covered(line.of_device(device)), edges[:-1], edges[1:])
    share = 100 * busy / np.maximum(np.diff(edges), 1)
    return np.rint(share).astype(int).tolist(), begin, end


def extent(line: Timeline) -> tuple[int, int]:
    """Return where the trace begins and ends; at least a nanosecond apart."""
    begin, end = int(line.start.min(initial=np.iinfo(np.int64).max)), int(line.end.max(initial=0))
    return (begin, max(end, begin + 1)) if len(line) else (0, 1)


def _streams(line: Timeline, rows: Ints) -> Iterator[tuple[str, Ints]]:
    """The spans of each stream with its label, the first ones by number; the least busy ones of many share a lane."""
    if not len(rows):
        return
    unique, inverse = grouped(line.process[rows], line.stream[rows])
    busy = np.bincount(inverse, line.duration[rows])
    own = np.sort(np.argsort(-busy, kind="stable")[: MOST_STREAMS if len(unique) > MOST_STREAMS + 1 else len(unique)])
    several = len(np.unique(unique[:, 0])) > 1
    for number in own.tolist():
        spans = rows[inverse == number]
        process, stream = unique[number].tolist()
        kind = int(line.stream_type[spans].max())
        name = f"stream {stream}" if stream >= 0 else "no stream"
        words = [f"process {process}"] if several else []
        words += [stream_word(kind)] if kind == STREAM_TYPES.index("default") else []
        yield f"{name}{f' ({chr(44).join(words)})' if words else ''}", spans
    rest = np.setdiff1d(np.arange(len(unique)), own)
    if len(rest):
        yield f"{len(rest)} other streams", rows[np.isin(inverse, rest)]


def _nested(line: Timeline, rows: Ints) -> tuple[Ints, Ints]:
    """Spans of one thread in drawing order, each with how many of them it lies in."""
    order = np.lexsort((-line.end[rows], line.start[rows]))
    rows = rows[order]
    start, end = line.start[rows], line.end[rows]
    # open at a start: those begun before it, less those ended by then (one of no length has ended at its own start)
    ended = np.searchsorted(np.sort(end), start, side="right") - (end == start)
    depth = np.arange(len(rows)) - ended
    return rows, np.maximum(depth, 0)


def _flat(lane: Lane) -> Lane:
    """A lane in its order, without what lies too deep to be drawn."""
    depth = lane.depth if len(lane.depth) else np.zeros(len(lane.rows), np.int64)
    kept = np.flatnonzero(depth < MOST_DEPTH)  # in the order of their start
    order = kept[np.argsort(depth[kept].astype(np.int8), kind="stable")]
    return Lane(lane.group, lane.label, lane.kind, lane.rows[order], depth[order], lane.thread)


def _new_marks(line: Timeline, lane: Lane, resolution: int) -> Bools:
    """Where a new mark begins among the spans of a lane."""
    new = np.ones(len(lane.rows), np.bool_)
    if resolution and len(new):
        small = line.duration[lane.rows] < resolution
        bucket = line.start[lane.rows] // resolution
        together = small[1:] & small[:-1] & (bucket[1:] == bucket[:-1]) & (lane.depth[1:] == lane.depth[:-1])
        new[1:] = ~together
    return new


def _marks(line: Timeline, lane: Lane, resolution: int) -> Marks:
    new, rows = _new_marks(line, lane, resolution), lane.rows
    first = np.flatnonzero(new)
    if not len(first):
        return Marks(*(np.empty(0, np.int64) for _ in range(6)))
    start, end = line.start[rows], line.end[rows]
    count = np.diff(np.append(first, len(rows)))
    reach = np.maximum.reduceat(end, first)
    # Spans of a mark may overlap, on merged streams or in graphs: what each adds to those before it in its mark.
    busy = np.add.reduceat(np.maximum(end - np.maximum(start, _reach_before(end, new)), 0), first)
    longest = first if len(first) == len(rows) else _longest(end - start, first)
    return Marks(rows[longest], start[first], reach, lane.depth[first], count, busy)


def _reach_before(end: Ints, new: Bools) -> Ints:
    """Until when earlier spans of the same mark reach; the least integer for the first one of a mark."""
    nothing = np.iinfo(np.int64).min
    ordinal = np.cumsum(new) - 1
    span = int(end.max() - end.min()) + 1
    reach = np.maximum.accumulate(end - int(end.min()) + ordinal * span) - ordinal * span + int(end.min())
    found = np.full(len(end), nothing, np.int64)
    found[1:] = np.where(new[1:], nothing, reach[:-1])
    return found


def _longest(time: Ints, first: Ints) -> Ints:
    """The first of the longest spans of each mark."""
    count = np.diff(np.append(first, len(time)))
    longest = np.flatnonzero(time == np.repeat(np.maximum.reduceat(time, first), count))
    found: Ints = longest[np.searchsorted(longest, first)]
    return found


def _resolution(line: Timeline, rows: Sequence[Lane], most: int) -> int:
    """The finest power of two that leaves few enough marks; the coarsest tried where spans are long and many."""
    resolution = _FINEST
    longest = int(line.duration.max(initial=1))
    while resolution <= longest:
        if sum(int(_new_marks(line, lane, resolution).sum()) for lane in rows) <= most:
            break
        resolution *= 2
    return resolution


def used_names(line: Timeline, levels: Sequence[Sequence[Marks]]) -> Codes:
    """Return the codes of the names that the marks need."""
    spans = [marks.span for level in levels for marks in level if len(marks)]
    return np.sort(pd.unique(line.name[np.concatenate(spans)])) if spans else np.empty(0, np.int32)
