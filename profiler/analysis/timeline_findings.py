"""What a timeline says should be changed; each finding names the spans that prove it and bounds its gain. Pure.

A gain is an upper bound on the speed-up of the window: the window's length over what would be left of it if all of the
time in question vanished. Several findings may speak of the same time; their bounds do not multiply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profiler.analysis import formatting, intervals
from profiler.analysis.intervals import Ints
from profiler.analysis.timeline import COPY, SYNC_CALL, Timeline
from profiler.analysis.timeline_gaps import Idle, idle
from profiler.analysis.timeline_tables import CLASS_LABELS, class_masks, copies, overlap, previous_end
from profiler.parse.span_table import MEMORIES, STREAM_TYPES

#: Less of the window than this is not worth a finding.
LEAST_SHARE = 0.05
#: A synchronising call in a loop comes at least so often.
LEAST_CALLS = 5
#: Two kinds of work that overlap less than this share of the shorter one did not overlap.
LITTLE_OVERLAP = 0.2
#: A span that was kept waiting starts within this of the end of what it waited for.
PROMPT_NS = 20_000
#: A device that copies for this share of the window while no kernel runs mostly moves data.
MUCH_ALONE = 0.3
_PROOFS = 5


@dataclass(frozen=True)
class Finding:
    """One thing to change: what it is, the sentence that proves it, the spans that the sentence rests on."""

    key: str
    title: str
    evidence: str
    advice: str
    gain_bound: float | None
    spans: tuple[int, ...]
    device: int


def findings(line: Timeline, pieces: Sequence[Idle] | None = None) -> list[Finding]:
    """Return the findings of all devices, the largest bound first."""
    found: list[Finding] = []
    for one in [idle(line, device) for device in line.devices] if pieces is None else pieces:
        if one.window_ns > 0:
            for rule in (_launch_bound, _synchronous, _default_stream, _pageable, _copies_alone, _no_overlap):
                found += rule(line, one)
    return sorted(found, key=lambda finding: -(finding.gain_bound or 0))


def finding_rows(line: Timeline, found: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return findings as rows of the frame ``findings``; ``lines`` names the spans."""
    return [
        {
            "name": one.key,
            "evidence": one.evidence,
            "lines": "; ".join(span_text(line, span) for span in one.spans),
            "gain_bound": one.gain_bound,
            "advice": one.advice,
        }
        for one in found
    ]


def span_text(line: Timeline, span: int) -> str:
    """Return how a span is named in a sentence: its name, when it began, how long it took."""
    name = formatting.short(line.names[line.name[span]] if line.name[span] >= 0 else "a span", 60)
    return f"{name} at {moment(int(line.start[span]))} for {formatting.time_ns(float(line.duration[span]))}"


def moment(at_ns: int) -> str:
    """Return a moment of the trace in milliseconds, to the microsecond."""
    return f"{at_ns / 1e6:,.3f} ms".replace(",", "\u202f")


def _launch_bound(line: Timeline, one: Idle) -> Iterator[Finding]:
    which = np.sort(np.concatenate([one.of_cause("launch"), one.of_cause("host")]))
    lost = int((one.end - one.start)[which].sum())
    if lost < LEAST_SHARE * one.window_ns or len(which) < LEAST_CALLS:
        return
    work = line.of_device(one.device)
    kernels = work[line.computes[work]]
    handing = line.duration[np.unique(line.call[kernels][line.call[kernels] >= 0])]
    inside = int((one.end - one.start)[one.of_cause("launch")].sum())
    more = (
        f"; its median kernel takes {formatting.time_ns(float(np.median(line.duration[kernels])))}, the median "
        f"call that launches one {formatting.time_ns(float(np.median(handing)))}"
        if len(kernels) and len(handing)
        else ""
    )
    where = "inside calls that launch" if 2 * inside >= lost else "in the program's own code between calls"
    yield Finding(
        "launch_bound",
        "Launch-bound: the device waits for the host",
        f"Device {one.device} is idle for {_part(lost, one)} because the next work was not handed over in time, in "
        f"{len(which)} pieces, most of it while the host is {where}{more}.",
        "Hand over more at once: capture the launches in a CUDA graph, fuse small kernels, let one launch do "
        "more work, or take the host's work off the launching thread.",
        _bound(lost, one),
        _longest(one, which),
        one.device,
    )


def _synchronous(line: Timeline, one: Idle) -> Iterator[Finding]:
    which = one.of_cause("sync")
    lost = int((one.end - one.start)[which].sum())
    if lost < LEAST_SHARE * one.window_ns or len(which) < LEAST_CALLS:
        return
    waits = _open_waits(line, one, which)
    names, counts = np.unique(line.name[waits], return_counts=True)
    common = names[np.argsort(-counts)][:2]
    said = formatting.listed(f"{line.names[name]} ({int(counts[names == name][0])} times)" for name in common.tolist())
    proof = waits[np.argsort(-(one.end - one.start)[which], kind="stable")][:_PROOFS]
    yield Finding(
        "synchronous",
        "The host waits for the device in a loop",
        f"{len(which)} times device {one.device} runs dry while the host waits for it in {said}; it is idle for "
        f"{_part(lost, one)} until the next work arrives.",
        "Wait once at the end: keep results on the device, copy with cudaMemcpyAsync, order streams by events "
        "(cudaStreamWaitEvent) instead of waiting on the host, and avoid .item() or printing inside the loop.",
        _bound(lost, one),
        tuple(dict.fromkeys(proof.tolist())),
        one.device,
    )


def _open_waits(line: Timeline, one: Idle, which: Ints) -> Ints:
    """The waiting call that was open when each piece began."""
    thread = line.thread[line.call[one.after[which]]]
    found = np.full(len(which), -1, np.int64)
    waits = np.flatnonzero((line.call_class == SYNC_CALL) & line.timed)
    for number in np.unique(thread):
        own, pieces = waits[line.thread[waits] == number], np.flatnonzero(thread == number)
        last = np.searchsorted(line.start[own], one.start[which[pieces]], side="right") - 1
        found[pieces] = np.where(last >= 0, own[np.maximum(last, 0)], -1) if len(own) else -1
    return found[found >= 0]


def _default_stream(line: Timeline, one: Idle) -> Iterator[Finding]:
    rows = line.of_device(one.device)
    default = rows[line.stream_type[rows] == STREAM_TYPES.index("default")]
    others = rows[line.stream_type[rows] == STREAM_TYPES.index("blocking")]
    if not len(default) or not len(others):
        return
    default_union = line.covered(default)
    if intervals.length(intervals.both(default_union, line.covered(others))):
        return  # they do run side by side
    # Ready: handed over, and its own stream done. Kept waiting: ready while the default stream worked, and started
    # promptly after that. The same the other way round, for the default stream waits for all blocking ones.
    kept: list[tuple[Ints, Ints]] = []
    for waiting, worked in ((others, default), (default, others)):
        known = waiting[line.call[waiting] >= 0]
        ready = np.maximum(line.end[line.call[known]], previous_end(line, known))
        ends = np.sort(line.end[worked])
        last = np.searchsorted(ends, line.start[known], side="right") - 1
        until = ends[np.maximum(last, 0)]
        held = (last >= 0) & (ready < until) & (line.start[known] - until <= PROMPT_NS)
        kept.append((known[held], (until - ready)[held]))
    spans, time = np.concatenate([kept[0][0], kept[1][0]]), np.concatenate([kept[0][1], kept[1][1]])
    # what could have been saved at most: the shorter side running beside the longer one
    lost = min(int(time.sum()), intervals.length(default_union), intervals.length(line.covered(others)))
    if len(spans) < 2 or lost < LEAST_SHARE * one.window_ns:
        return
    blocking = len(np.unique(line.stream[others]))
    yield Finding(
        "default_stream",
        "Serialised by the default stream",
        f"On device {one.device} the default stream and {blocking} blocking stream{'s' * (blocking > 1)} never run "
        f"side by side; {len(spans)} spans that were handed over and whose own stream was done started only when the "
        f"other side ended, together {formatting.time_ns(float(time.sum()))} late.",
        "Create streams with cudaStreamNonBlocking, or compile with --default-stream per-thread, and give the default "
        "stream's work a stream of its own.",
        _bound(lost, one),
        tuple(spans[np.argsort(-time, kind="stable")][:_PROOFS].tolist()),
        one.device,
    )


def _pageable(line: Timeline, one: Idle) -> Iterator[Finding]:
    rows = line.of_device(one.device)
    which = rows[(line.kind[rows] == COPY) & (line.memory[rows] == MEMORIES.index("pageable"))]
    covered = line.covered(which)
    kernels = line.covered(rows[line.computes[rows]])
    alone = intervals.length(covered) - intervals.length(intervals.both(covered, kernels))
    if intervals.length(covered) < LEAST_SHARE * one.window_ns:
        return
    size, time = int(np.maximum(line.bytes[which], 0).sum()), int(line.duration[which].sum())
    pinned = [copy for copy in copies(line) if copy.memory == "pinned" and copy.rate and copy.largest_bytes >= 1 << 20]
    best = max((copy.largest_rate or 0.0 for copy in pinned), default=0.0)
    rate = size / time * 1e9
    beside = f"; pinned memory reaches {formatting.si(best, 'B/s')} in the same trace" if best > rate else ""
    saved = int(alone * (1 - rate / best)) if best > rate else alone
    yield Finding(
        "pageable",
        "Copies from or to pageable memory",
        f"{len(which)} cop{'ies' if len(which) != 1 else 'y'} on device {one.device} move {formatting.si(size, 'B')} "
        f"of pageable memory at {formatting.si(rate, 'B/s')}, {_part(intervals.length(covered), one)}{beside}. They go "
        "through a staging buffer, and the host waits in the call.",
        "Allocate the host side with cudaMallocHost or cudaHostRegister (pin_memory=True in PyTorch) and copy with "
        "cudaMemcpyAsync on a stream of its own (non_blocking=True).",
        _bound(saved, one),
        tuple(which[np.argsort(-line.duration[which], kind="stable")][:_PROOFS].tolist()),
        one.device,
    )


def _copies_alone(line: Timeline, one: Idle) -> Iterator[Finding]:
    if one.copy_ns < MUCH_ALONE * one.window_ns:
        return
    rows = line.of_device(one.device)
    moved = rows[~line.computes[rows]]
    masks = class_masks(line)
    parts = {
        name: intervals.length(line.covered(moved[masks[name][moved]])) for name in CLASS_LABELS if name != "kernel"
    }
    said = formatting.listed(
        f"{CLASS_LABELS[name]} {formatting.time_ns(float(time))}"
        for name, time in sorted(parts.items(), key=lambda item: -item[1])
        if time >= LEAST_SHARE * one.copy_ns
    )
    yield Finding(
        "copies_alone",
        "The device mostly moves data",
        f"For {_part(one.copy_ns, one)}, device {one.device} copies or sets memory and runs no kernel ({said}); "
        f"kernels run for {formatting.percent(one.kernel_ns / one.window_ns)} of it.",
        "Move less: keep data on the device between uses, copy what changed only, use a smaller type; then let copies "
        "of the next chunk run beside the kernels of this one.",
        _bound(one.copy_ns, one),
        tuple(moved[np.argsort(-line.duration[moved], kind="stable")][:_PROOFS].tolist()),
        one.device,
    )


def _no_overlap(line: Timeline, one: Idle) -> Iterator[Finding]:
    matrix = overlap(line, one.device)
    masks = class_masks(line)
    rows = line.of_device(one.device)
    for first, second in (("kernel", "h2d"), ("kernel", "d2h"), ("h2d", "d2h")):
        share = matrix.share(first, second) if first in matrix.total_ns and second in matrix.total_ns else None
        if share is None or share >= LITTLE_OVERLAP:
            continue
        least = min(matrix.total_ns[first], matrix.total_ns[second])
        could = least - matrix.pairs[first, second]
        if could < LEAST_SHARE * one.window_ns:
            continue
        own = [rows[masks[name][rows]] for name in (first, second)]
        streams = [set(line.stream[which].tolist()) for which in own]
        same = streams[0] == streams[1] and len(streams[0]) == 1
        why = (
            "all of it is on one stream, which runs it in order"
            if same
            else "they are on different streams, but come one after the other"
        )
        labels = [CLASS_LABELS[name] for name in (first, second)]
        yield Finding(
            "no_overlap",
            f"{labels[0][:1].upper()}{labels[0][1:]} and {labels[1]} hardly overlap",
            f"On device {one.device} {labels[0]} work takes {formatting.time_ns(float(matrix.total_ns[first]))} and "
            f"{labels[1]} {formatting.time_ns(float(matrix.total_ns[second]))} of {_window(one)}; they overlap for "
            f"{formatting.percent(share)} of the shorter one: {why}.",
            "If the data allow it, split the work into chunks and put copies in each direction and kernels on streams "
            "of their own, with pinned memory and events between them.",
            _bound(could, one),
            tuple(int(which[np.argmax(line.duration[which])]) for which in own),
            one.device,
        )


def _longest(one: Idle, which: Ints) -> tuple[int, ...]:
    """The spans around the longest idle pieces: the one before and the one after."""
    order = which[np.argsort(-(one.end - one.start)[which], kind="stable")][:_PROOFS]
    pairs = np.stack([one.before[order], one.after[order]], axis=1)
    return tuple(dict.fromkeys(pairs.reshape(-1).tolist()))


def _bound(lost: int, one: Idle) -> float | None:
    left = one.window_ns - lost
    return one.window_ns / left if 0 < left < one.window_ns else None


def _window(one: Idle) -> str:
    return f"a window of {formatting.time_ns(float(one.window_ns))}"


def _part(lost: int, one: Idle) -> str:
    return f"{formatting.time_ns(float(lost))}, {formatting.percent(lost / one.window_ns)} of {_window(one)}"
