"""What a timeline adds up to: kernels, copies, calls, ranges, launch latency, and what ran beside what. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profiler.analysis import intervals
from profiler.analysis.intervals import Bools, Ints
from profiler.analysis.timeline import API, COPY, MEMSET, NVTX, SYNC_CALL, Timeline, grouped, members
from profiler.parse.span_table import DIRECTIONS, MEMORIES, Codes

#: Kinds of device work that the overlap matrix tells apart.
CLASSES = ("kernel", "h2d", "d2h", "other copy", "memset")
CLASS_LABELS: Mapping[str, str] = {
    "kernel": "kernel", "h2d": "copy H2D", "d2h": "copy D2H", "other copy": "other copy", "memset": "memset",
}  # fmt: skip
#: What frameworks append to a range's name to make each one different.
_SERIAL = re.compile(r",? ?(?:op_id|seq|seq_id) ?= ?\d+\b|(?<=step|iter)[\W_]*\d+$|(?<=epoch|batch)[\W_]*\d+$|#\d+$")
_LATENCY_EDGES = np.concatenate([[0], np.geomspace(500, 0.1024e9, 29).round()]).astype(np.int64)


@dataclass(frozen=True)
class Group:
    """Spans of one name: how many, and the times of those that have one, in nanoseconds."""

    name: str
    count: int
    total_ns: int
    share: float  #: of the total of all groups
    mean_ns: float
    median_ns: float
    least_ns: int
    most_ns: int
    longest: int  #: the span that took longest
    untimed: int = 0


def groups(line: Timeline, rows: Ints, codes: Codes | None = None, names: tuple[str, ...] = ()) -> list[Group]:
    """Return spans by name, the largest total first; ``codes`` and ``names`` group them otherwise."""
    codes = line.name[rows] if codes is None else codes
    names = names or line.names
    if not len(rows):
        return []
    time = line.duration[rows]
    untimed = np.bincount(codes[~line.timed[rows]], minlength=len(names))
    counted = line.timed[rows]
    rows, codes, time = rows[counted], codes[counted], time[counted]
    order = np.lexsort((time, codes))
    rows, codes, time = rows[order], codes[order], time[order]
    unique, first = np.unique(codes, return_index=True)
    last = np.append(first[1:], len(codes)) - 1
    total = np.add.reduceat(time, first) if len(first) else np.empty(0, np.int64)
    everything = int(total.sum())
    count = last - first + 1
    median = (time[first + (count - 1) // 2] + time[first + count // 2]) / 2
    found = [
        Group(
            names[int(code)], int(count[i]), int(total[i]), int(total[i]) / everything if everything else 0.0,
            float(total[i] / count[i]), float(median[i]), int(time[first[i]]), int(time[last[i]]), int(rows[last[i]]),
            int(untimed[int(code)]),
        )
        for i, code in enumerate(unique)
    ]  # fmt: skip
    return sorted(found, key=lambda group: (-group.total_ns, group.name))


def kernels(line: Timeline, device: int | None = None) -> list[Group]:
    """Return the kernels (graphs traced as a whole, too) by name."""
    wanted = line.computes if device is None else line.computes & (line.device == device)
    return groups(line, np.flatnonzero(wanted))


def api_calls(line: Timeline) -> list[Group]:
    """Return the calls of the host by name."""
    return groups(line, np.flatnonzero(line.kind == API))


@dataclass(frozen=True)
class Range:
    """NVTX ranges of one name, serial numbers aside, and the device's time that was asked for directly in them."""

    group: Group
    device_ns: int
    device_spans: int


def ranges(line: Timeline) -> list[Range]:
    """Return the NVTX ranges by name without serial numbers, by the device's time first."""
    rows = np.flatnonzero(line.kind == NVTX)
    if not len(rows):
        return []
    plain: dict[str, int] = {}
    of_name = _plain_codes(line.names, np.unique(line.name[rows]), plain)
    of_parent = _plain_codes(line.parents, np.arange(len(line.parents)), plain)
    found = groups(line, rows, of_name[line.name[rows]], tuple(plain))
    work = np.flatnonzero(line.on_device & line.timed & (line.parent >= 0))
    codes = of_parent[line.parent[work]]
    time = np.bincount(codes, line.duration[work], len(plain))
    count = np.bincount(codes, minlength=len(plain))
    listed = [Range(group, int(time[plain[group.name]]), int(count[plain[group.name]])) for group in found]
    return sorted(listed, key=lambda one: (-one.device_ns, -one.group.total_ns))


def _plain_codes(texts: tuple[str, ...], used: Ints, plain: dict[str, int]) -> Codes:
    codes = np.full(len(texts), -1, np.int32)
    for code in used.tolist():
        codes[code] = plain.setdefault(_SERIAL.sub("", texts[code]) or texts[code], len(plain))
    return codes


@dataclass(frozen=True)
class Copies:
    """Copies of one direction and kind of host memory."""

    direction: str
    memory: str  #: of the host's side; empty where no host is part of it
    count: int
    bytes: int
    total_ns: int
    rate: float | None  #: bytes a second over the copies that have a duration and a size
    median_rate: float | None  #: of single copies
    largest_rate: float | None  #: of the copies of at least half of the largest size: what the link gives
    largest_bytes: int
    longest: int


def copies(line: Timeline) -> list[Copies]:
    """Return the copies by direction and memory, the longest total first."""
    found = []
    for direction in range(len(DIRECTIONS)):
        for memory in range(-1, len(MEMORIES)):
            rows = np.flatnonzero((line.kind == COPY) & (line.direction == direction) & (line.memory == memory))
            if not len(rows):
                continue
            time, size = line.duration[rows], np.maximum(line.bytes[rows], 0)
            rated = (time > 0) & (line.bytes[rows] > 0)
            rates = size[rated] / time[rated] * 1e9
            large = rated & (size * 2 >= size.max())
            found.append(
                Copies(
                    DIRECTIONS[direction], MEMORIES[memory] if memory >= 0 else "", len(rows), int(size.sum()),
                    int(time.sum()), float(size[rated].sum() / time[rated].sum() * 1e9) if rated.any() else None,
                    float(np.median(rates)) if len(rates) else None,
                    float(size[large].sum() / time[large].sum() * 1e9) if large.any() else None,
                    int(size.max()), int(rows[np.argmax(time)]),
                )
            )  # fmt: skip
    return sorted(found, key=lambda one: -one.total_ns)


@dataclass(frozen=True)
class Overlap:
    """What ran beside what on one device: nanoseconds, by pairs of ``CLASSES`` that occur."""

    device: int
    classes: tuple[str, ...]
    total_ns: Mapping[str, int]  #: time in which at least one span of the class ran
    pairs: Mapping[tuple[str, str], int]  #: of a class with itself: time in which at least two of it ran

    def share(self, one: str, other: str) -> float | None:
        """Return the overlap as a share of the shorter side, which is the most that could overlap."""
        least = min(self.total_ns[one], self.total_ns[other])
        return self.pairs[one, other] / least if least else None


def overlap(line: Timeline, device: int) -> Overlap:
    """Return the overlap matrix of a device; symmetric."""
    rows = line.of_device(device)
    members = {name: rows[mask[rows]] for name, mask in class_masks(line).items()}
    members = {name: own for name, own in members.items() if len(own)}
    unions = {name: line.covered(own) for name, own in members.items()}
    pairs = {}
    for one in unions:
        for other in unions:
            twice = (
                intervals.deep(line.start[members[one]], line.end[members[one]])
                if one == other
                else intervals.both(unions[one], unions[other])
            )
            pairs[one, other] = intervals.length(twice)
    return Overlap(device, tuple(unions), {name: intervals.length(one) for name, one in unions.items()}, pairs)


def class_masks(line: Timeline) -> dict[str, Bools]:
    """Return which spans belong to each of ``CLASSES``."""
    to_device, to_host = DIRECTIONS.index("h2d"), DIRECTIONS.index("d2h")
    copy = line.kind == COPY
    masks = (
        line.computes,
        copy & (line.direction == to_device),
        copy & (line.direction == to_host),
        copy & (line.direction != to_device) & (line.direction != to_host),
        line.kind == MEMSET,
    )
    return dict(zip(CLASSES, masks, strict=True))


@dataclass(frozen=True)
class Quantiles:
    """A distribution of times in nanoseconds."""

    count: int
    least: int
    median: float
    p95: float
    most: int


@dataclass(frozen=True)
class Latency:
    """What launching costs: the call itself, and the time from its beginning to the kernel's first cycle.

    ``direct`` are launches whose stream had nothing left to do when they were called; ``behind`` those that had to wait
    for their turn, whose time says how far the host was ahead.
    """

    call: Quantiles | None
    direct: Quantiles | None
    behind: Quantiles | None
    edges_ns: tuple[int, ...]
    direct_counts: tuple[int, ...]
    behind_counts: tuple[int, ...]
    backwards: int  #: kernels that seem to start before their call
    unknown: int  #: kernels whose call the file does not hold


def latency(line: Timeline) -> Latency | None:
    """Return the distribution of launch latency over all kernels; None where no kernel has a known call."""
    kernels_ = np.flatnonzero(line.computes)
    known = kernels_[line.call[kernels_] >= 0]
    if not len(known):
        return None
    called = line.start[line.call[known]]
    late = line.start[known] - called
    backwards = late < 0
    direct = previous_end(line, known) <= called
    calls_ = pd.unique(line.call[known])
    calls_ = calls_[line.timed[calls_] & (line.call_class[calls_] != SYNC_CALL)]
    times = [late[~backwards & direct], late[~backwards & ~direct]]
    counts = [np.histogram(np.minimum(one, _LATENCY_EDGES[-1] - 1), _LATENCY_EDGES)[0] for one in times]
    return Latency(
        _quantiles(line.duration[calls_]), _quantiles(times[0]), _quantiles(times[1]),
        tuple(_LATENCY_EDGES.tolist()), tuple(counts[0].tolist()), tuple(counts[1].tolist()), int(backwards.sum()),
        len(kernels_) - len(known),
    )  # fmt: skip


def previous_end(line: Timeline, rows: Ints) -> Ints:
    """Return until when the stream of each span was busy with what started before it; the least integer for none."""
    nothing = np.iinfo(np.int64).min
    found = np.full(len(line), nothing, np.int64)
    work = np.flatnonzero(line.on_device)
    unique, inverse = grouped(line.device[work], line.process[work], line.stream[work])
    order = np.concatenate([work[places] for places in members(inverse, len(unique))] or [work])
    first = np.zeros(len(order), np.bool_)
    first[np.cumsum(np.bincount(inverse, minlength=len(unique)))[:-1]] = True
    first[:1] = True
    # a running maximum that begins anew with each stream: shifted so that a later stream lies above every earlier one
    number = np.cumsum(first) - 1
    span = int(line.end.max(initial=0)) - int(line.start.min(initial=0)) + 1
    reach = np.maximum.accumulate(line.end[order] + number * span) - number * span
    found[order[1:]] = np.where(first[1:], nothing, reach[:-1])
    return found[rows]


def _quantiles(values: Ints) -> Quantiles | None:
    if not len(values):
        return None
    return Quantiles(len(values), int(values.min()), float(np.median(values)), float(np.quantile(values, 0.95)),
                     int(values.max()))  # fmt: skip
