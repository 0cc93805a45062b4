"""When a device had nothing to do, and why: each idle piece between two of its spans gets one cause. Pure.

A piece ends with a span, which some call of the host asked for. What the host did until then is the cause:

- ``queued``: the call had ended before the piece began, by more than a launch takes to arrive. The work was there; it
  waited for another stream, an event, or the device itself.
- ``sync``: when the device ran dry, the host was in a call that waits for it, so nothing was queued.
- ``launch``, ``api``, ``host``: what took the larger part of the host's time from the start of the piece (or, where the
  call had ended by then, from the call before it) to the end of the call: handing work over, other calls of CUDA
  (allocation, loading of modules), or the program's own code. The way from its end to the start counts as launch.
- ``unknown``: the file does not say which call asked for the span.

Time in which no kernel ran but a copy or a memset did is ``copy``. So a device's time without a kernel is exactly the
sum over the causes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from profiler.analysis import intervals
from profiler.analysis.intervals import Ints, Union
from profiler.analysis.timeline import API, LAUNCH_CALL, SYNC_CALL, Small, Timeline, grouped, members

CAUSES = ("launch", "sync", "host", "api", "queued", "unknown")
MEANING: Mapping[str, str] = {
    "launch": "the device waited for launches: the host was in calls that hand work over, or one was on its way",
    "sync": "the host was waiting for the device when it ran dry, so nothing was queued behind the last span",
    "host": "the host was in the program's own code between two calls of CUDA",
    "api": "the host was in other calls of CUDA: allocation, loading of modules, queries",
    "copy": "no kernel ran, but a copy or a memset did",
    "queued": "the work had been handed over before: it waited for another stream, an event or the device",
    "unknown": "the file does not say which call asked for the next span",
}
#: A launch is on its way for at most this long; what waits longer was queued.
MOST_LATENCY_NS = 20_000


@dataclass(frozen=True)
class Idle:
    """The idle pieces of one device, from its first span to its last; arrays have one element a piece."""

    device: int
    window: tuple[int, int]
    busy_ns: int
    kernel_ns: int  #: time in which at least one kernel ran
    copy_ns: int  #: time in which a copy or memset ran and no kernel
    start: Ints
    end: Ints
    cause: Small  #: index into ``CAUSES``
    before: Ints  #: the span that ended where the piece begins
    after: Ints  #: the span that starts where the piece ends
    latency_ns: int  #: how long a launch may be on its way before it counts as queued

    @property
    def window_ns(self) -> int:
        """From the first span to the end of the last."""
        return self.window[1] - self.window[0]

    def of_cause(self, cause: str) -> Ints:
        """Return the pieces with a cause."""
        return np.flatnonzero(self.cause == CAUSES.index(cause))

    def by_cause(self) -> dict[str, tuple[int, int]]:
        """Return ``{cause: (nanoseconds, pieces)}`` of the time without a kernel, the largest first; zeros left out."""
        found = {cause: (int((self.end - self.start)[self.of_cause(cause)].sum()), len(self.of_cause(cause)))
                 for cause in CAUSES}  # fmt: skip
        if self.copy_ns:
            found["copy"] = (self.copy_ns, 0)
        return dict(sorted(((c, v) for c, v in found.items() if v[0]), key=lambda item: -item[1][0]))


def idle(line: Timeline, device: int) -> Idle:
    """Return when a device did nothing, and why."""
    rows = line.of_device(device)
    busy = line.covered(rows)
    kernels = line.covered(rows[line.computes[rows]])
    start, end = intervals.gaps(busy)
    after = rows[np.searchsorted(line.start[rows], end)]  # rows are sorted by start
    by_end = rows[np.argsort(line.end[rows], kind="stable")]
    before = by_end[np.searchsorted(line.end[by_end], start)]
    latency = launch_latency_bound(line, rows, busy)
    window = (int(busy[0][0]), int(busy[1][-1])) if len(busy[0]) else (0, 0)
    return Idle(
        device, window, intervals.length(busy), intervals.length(kernels),
        intervals.length(busy) - intervals.length(kernels), start, end,
        _causes(line, start, end, after, latency), before, after, latency,
    )  # fmt: skip


def launch_latency_bound(line: Timeline, rows: Ints, busy: Union) -> int:
    """Return how long a launch may be on its way: what 95 % of those took whose call ended while the device was idle
    and stayed so, from there to the start; at most ``MOST_LATENCY_NS``.
    """
    known = rows[line.call[rows] >= 0]
    done, start = line.end[line.call[known]], line.start[known]
    late = (start - done)[(start >= done) & (intervals.within(busy, done, start) == 0)]
    return min(MOST_LATENCY_NS, int(np.quantile(late, 0.95))) if len(late) else 0


def _causes(line: Timeline, start: Ints, end: Ints, after: Ints, latency: int) -> Small:
    found = np.full(len(start), CAUSES.index("unknown"), np.int8)
    call = line.call[after]
    thread = np.where(call >= 0, line.thread[call], -1)
    known = (call >= 0) & (thread >= 0)
    api = np.flatnonzero((line.kind == API) & line.timed)
    for one in sorted(set(thread[known].tolist())):
        pieces = np.flatnonzero(known & (thread == one))
        own = api[line.thread[api] == one]
        found[pieces] = _causes_of_thread(line, own, start[pieces], end[pieces], call[pieces], latency)
    return found


def _causes_of_thread(line: Timeline, own: Ints, start: Ints, end: Ints, call: Ints, latency: int) -> Small:
    """The causes of pieces whose next span one thread asked for; ``own`` are its calls."""
    called, done = line.start[call], line.end[call]
    classes = line.call_class[own]
    waits = line.covered(own[classes == SYNC_CALL])
    hands = line.covered(own[classes == LAUNCH_CALL])
    all_ = line.covered(own)
    early = done <= start
    # the host's period: since the piece began, or, for a call that had ended by then, since the call before it
    previous = np.searchsorted(line.start[own], called) - 1
    reach = np.maximum.accumulate(line.end[own]) if len(own) else own
    last = np.where(previous >= 0, reach[np.maximum(previous, 0)], called)
    since = np.where(early, np.minimum(last, called), start)
    until = np.where(early, done, np.minimum(done, end))
    waited = intervals.within(waits, since, until)
    handed = intervals.within(hands, since, until)
    other = np.maximum(intervals.within(all_, since, until) - waited - handed, 0)
    host = np.maximum(until - since - intervals.within(all_, since, until), 0)
    handed = handed + np.where(early, 0, np.maximum(end - until, 0))
    order = ("launch", "sync", "host", "api")  # of equal parts the first one wins
    parts = np.stack([handed, waited, host, other])
    found: Small = np.array([CAUSES.index(cause) for cause in order], np.int8)[np.argmax(parts, axis=0)]
    # Our own call may itself be one that waits, as cudaMemcpy: that counts when it had begun before the device ran dry.
    found[intervals.holds(waits, start)] = CAUSES.index("sync")
    found[early & (end - done > latency)] = CAUSES.index("queued")
    return found


@dataclass(frozen=True)
class StreamUse:
    """How one stream was used."""

    device: int
    process: int
    stream: int
    stream_type: int
    spans: int
    busy_ns: int
    gaps: int
    gap_ns: int  #: between its first span and its last
    median_gap_ns: float | None
    longest_gap_ns: int


def streams(line: Timeline) -> list[StreamUse]:
    """Return the use of each stream, the busiest first."""
    rows = np.flatnonzero(line.on_device & (line.end > line.start))
    if not len(rows):
        return []
    unique, inverse = grouped(line.device[rows], line.process[rows], line.stream[rows])
    found = []
    for (device, process, stream), places in zip(unique.tolist(), members(inverse, len(unique)), strict=True):
        own = rows[places]
        busy = line.covered(own)
        between = np.subtract(*reversed(intervals.gaps(busy)))
        found.append(
            StreamUse(
                device, process, stream, int(line.stream_type[own].max()), len(own), intervals.length(busy),
                len(between), int(between.sum()), float(np.median(between)) if len(between) else None,
                int(between.max(initial=0)),
            )
        )  # fmt: skip
    return sorted(found, key=lambda use: -use.busy_ns)
