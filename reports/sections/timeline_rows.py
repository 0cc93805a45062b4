"""Rows of the tables under a timeline: numbers as text, the value to sort by, and a link to where it happened."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from profiler.analysis import formatting
from profiler.analysis.timeline import Timeline, stream_word
from profiler.analysis.timeline_gaps import CAUSES, Idle, StreamUse
from profiler.analysis.timeline_lanes import Picture, extent
from profiler.analysis.timeline_tables import CLASS_LABELS, Copies, Group, Latency, Overlap, Quantiles, Range
from profiler.analysis.timeline_variants import TracedVariant

#: Longer tables are cut; what is left out is summed up in a line.
MOST_ROWS = 50
MOST_GAPS = 25
CAUSE_WORDS = {
    "launch": "waiting for launches", "sync": "after the host had waited for it",
    "host": "while the host ran its own code", "api": "while the host was in other CUDA calls",
    "queued": "between spans that were queued", "unknown": "of unknown cause",
}  # fmt: skip
_DIRECTIONS = {
    "h2d": "host to device", "d2h": "device to host", "d2d": "within the device", "p2p": "device to device",
    "h2h": "host to host", "managed": "managed memory", "other": "other",
}  # fmt: skip


class Places:
    """Which lane of the picture holds a span, and the address of the view that shows it."""

    def __init__(self, line: Timeline, drawn: Picture) -> None:
        self._lane = np.full(len(line), -1, np.int64)
        for number, lane in enumerate(drawn.lanes):
            self._lane[lane.rows] = number
        self._extent = extent(line)

    def link(self, line: Timeline, span: int) -> dict[str, str]:
        """Return the name of a span, when it was, and a link that shows it."""
        start, time = int(line.start[span]), int(line.duration[span])
        return {
            "name": plain(name_of(line, span)),
            "title": name_of(line, span),
            "when": f"at {moment(start)} for {duration(float(time))}",
            "href": self.view(start, start + time, span),
        }

    def view(self, start: int, end: int, span: int = -1) -> str:
        """Return the address that shows a stretch of time with as much again on both sides."""
        around = max(end - start, 1000)
        first = max(self._extent[0], start - around)
        last = min(self._extent[1], end + around)
        lane = int(self._lane[span]) if span >= 0 else -1
        return f"#t={first}-{last}" + (f"&pick={lane}-{start}" if lane >= 0 else "")


def name_of(line: Timeline, span: int) -> str:
    """Return the full name of a span."""
    return line.names[line.name[span]] if line.name[span] >= 0 else "without a name"


_RETURN = re.compile(r"^(?:void|int|float|double|bool) (?=\S)")


def plain(name: str) -> str:
    """Return a kernel's name without its arguments and template arguments, as far as that leaves something."""
    text = _RETURN.sub("", name)
    depth, kept = 0, []
    for character in text.replace("<unnamed>::", "").replace("(anonymous namespace)::", ""):
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif depth <= 0:
            kept.append(character)
    return re.sub(r"\s+", " ", "".join(kept)).strip() or name


def device_name(device: int, gpus: Mapping[int, str]) -> str:
    """Return a device with its name, where the trace names it."""
    return f"GPU {device} ({gpus[device]})" if device in gpus else f"GPU {device}"


def moment(at_ns: int) -> str:
    """Return a moment of the trace in milliseconds, to the microsecond."""
    return f"{at_ns / 1e6:,.3f} ms".replace(",", "\u202f")


def duration(value: float, digits: int = 4) -> str:
    """Return a duration in the unit that suits it; nanoseconds are whole."""
    return formatting.time_ns(value, min(digits, 3) if value < 1000 else digits)


def cell(value: float | None, text: str = "", why: str = "") -> dict[str, Any]:
    """Return a sortable cell; without a value it says why."""
    return {"text": text if value is not None else "", "sort": value, "why": why}


def time_cell(value: float | None, why: str = "") -> dict[str, Any]:
    """Return a sortable cell with a duration."""
    return cell(value, duration(float(value)) if value is not None else "", why)


def group_rows(line: Timeline, groups: Sequence[Group], places: Places) -> dict[str, Any]:
    """Return a table of spans by name: the longest totals, and what is left out."""
    shown, rest = groups[:MOST_ROWS], groups[MOST_ROWS:]
    short = [plain(one.name) for one in shown]
    return {
        "rows": [
            {
                "name": plain(one.name),
                "full": one.name,
                "apart": formatting.short(one.name, 110) if short.count(plain(one.name)) > 1 else "",
                "count": one.count,
                "total": time_cell(one.total_ns),
                "share": formatting.percent(one.share),
                "width": 100 * one.share,
                "mean": time_cell(one.mean_ns),
                "median": time_cell(one.median_ns),
                "least": time_cell(one.least_ns),
                "most": time_cell(one.most_ns),
                "href": places.view(int(line.start[one.longest]), int(line.end[one.longest]), one.longest),
                "untimed": one.untimed,
            }
            for one in shown
        ],
        "rest": f"{len(rest)} more names: {sum(one.count for one in rest)} spans, "
        f"{duration(float(sum(one.total_ns for one in rest)))}"
        if rest
        else "",
    }


def range_rows(line: Timeline, listed: Sequence[Range], places: Places) -> dict[str, Any]:
    """Return a table of NVTX ranges by name."""
    table = group_rows(line, [one.group for one in listed], places)
    for row, one in zip(table["rows"], listed, strict=False):
        row["full"] = row["name"] = one.group.name
        row["apart"] = ""
        row["device"] = time_cell(one.device_ns or None, "nothing was asked for directly in it")
        row["device_spans"] = one.device_spans
    return table


def device_row(one: Idle, gpus: Mapping[int, str]) -> dict[str, Any]:
    """Return how a device spent its window: kernels, copies alone, idle by cause. The parts add up to the window."""
    by_cause = one.by_cause()
    parts = [("kernel", "kernels", one.kernel_ns, 0)]
    parts += [("copy", "copies and memsets alone", one.copy_ns, 0)] if one.copy_ns else []
    parts += [(cause, f"idle: {cause}", *by_cause[cause]) for cause in CAUSES if cause in by_cause]
    return {
        "name": device_name(one.device, gpus),
        "window": duration(float(one.window_ns)),
        "busy": formatting.percent(one.busy_ns / one.window_ns) if one.window_ns else "",
        "parts": [
            {
                "key": key,
                "label": label,
                "time": duration(float(time)),
                "share": formatting.percent(time / one.window_ns),
                "width": 100 * time / one.window_ns,
                "pieces": pieces,
                "mean": duration(time / pieces) if pieces else "",
            }
            for key, label, time, pieces in parts
            if one.window_ns
        ],
        "latency": duration(float(one.latency_ns)) if one.latency_ns else "",
    }


def gap_rows(line: Timeline, idles: Sequence[Idle], places: Places) -> list[dict[str, Any]]:
    """Return the longest idle pieces of all devices, each with what was before and after."""
    listed = []
    for one in idles:
        time = one.end - one.start
        for piece in np.argsort(-time, kind="stable")[:MOST_GAPS].tolist():
            listed.append((int(time[piece]), one, piece))
    listed.sort(key=lambda item: -item[0])
    return [
        {
            "at": cell(int(one.start[piece]), moment(int(one.start[piece]))),
            "time": time_cell(time),
            "cause": CAUSES[one.cause[piece]],
            "device": one.device,
            "before": plain(name_of(line, int(one.before[piece]))),
            "after": plain(name_of(line, int(one.after[piece]))),
            "href": places.view(int(one.start[piece]), int(one.end[piece]), int(one.after[piece])),
        }
        for time, one, piece in listed[:MOST_GAPS]
    ]


def overlap_matrix(matrix: Overlap, gpus: Mapping[int, str]) -> dict[str, Any]:
    """Return the overlap of each pair of classes: time, and its share of the shorter one."""

    def pair(one: str, other: str) -> dict[str, Any]:
        share = matrix.share(one, other) or 0.0
        return {
            "time": duration(float(matrix.pairs[one, other])) if matrix.pairs[one, other] else "none",
            "share": formatting.percent(share) if matrix.pairs[one, other] else "",
            "heat": round(share, 3),
        }

    return {
        "device": device_name(matrix.device, gpus),
        "classes": [CLASS_LABELS[name] for name in matrix.classes],
        "rows": [
            {
                "label": CLASS_LABELS[name],
                "total": duration(float(matrix.total_ns[name])),
                "cells": [pair(name, other) for other in matrix.classes],
            }
            for name in matrix.classes
        ],
    }


def copy_row(line: Timeline, one: Copies, places: Places) -> dict[str, Any]:
    """Return copies of one direction and kind of memory."""
    why = "no copy has a size and a duration"

    def rate(value: float | None) -> dict[str, Any]:
        return cell(value, formatting.si(value, "B/s") if value is not None else "", why)

    return {
        "direction": _DIRECTIONS[one.direction],
        "memory": one.memory,
        "count": one.count,
        "bytes": cell(one.bytes, formatting.si(one.bytes, "B")),
        "time": time_cell(one.total_ns),
        "rate": rate(one.rate),
        "median": rate(one.median_rate),
        "large": rate(one.largest_rate),
        "largest": formatting.si(one.largest_bytes, "B"),
        "href": places.view(int(line.start[one.longest]), int(line.end[one.longest]), one.longest),
    }


def latency_rows(one: Latency) -> dict[str, Any]:
    """Return launch latency: the three distributions, and the histogram with bars."""

    def numbers(label: str, meaning: str, found: Quantiles | None) -> dict[str, Any]:
        return {
            "label": label,
            "meaning": meaning,
            "count": found.count if found else 0,
            "cells": [time_cell(v) for v in (found.least, found.median, found.p95, found.most)] if found else [],
        }

    pairs = list(zip(one.direct_counts, one.behind_counts, strict=True))
    most = max((direct + behind for direct, behind in pairs), default=0)
    used = [i for i, pair in enumerate(pairs) if any(pair)]
    bins: list[int | None] = []  # None: a stretch without a launch
    for i in used:
        if bins and bins[-1] is not None and i - bins[-1] > 3:
            bins.append(None)
        elif bins and bins[-1] is not None:
            bins += range(bins[-1] + 1, i)
        bins.append(i)
    return {
        "table": [
            numbers("the call", "the host inside the call that launches", one.call),
            numbers("call to start, idle stream", "from the call's beginning to the kernel's start, where the stream "
                    "had nothing left to do: what a launch costs", one.direct),
            numbers("call to start, busy stream", "the same where earlier work was still queued or running: how far "
                    "the host is ahead", one.behind),
        ],
        "bins": [
            {"label": "", "direct": 0, "behind": 0, "direct_width": 0, "behind_width": 0}
            if i is None
            else {
                "label": f"{_edge(one.edges_ns[i])} to {_edge(one.edges_ns[i + 1])}",
                "direct": one.direct_counts[i],
                "behind": one.behind_counts[i],
                "direct_width": 100 * one.direct_counts[i] / most,
                "behind_width": 100 * one.behind_counts[i] / most,
            }
            for i in bins
        ],
        "last": bool(used) and used[-1] == len(pairs) - 1,
        "remarks": [
            text
            for count, text in (
                (one.backwards, f"{one.backwards} kernels seem to start before their call: the two clocks disagree"),
                (one.unknown, f"the trace does not hold the call of {one.unknown} kernels"),
            )
            if count
        ],
    }  # fmt: skip


def _edge(value: int) -> str:
    return duration(float(value), 2) if value else "0"


def stream_row(one: StreamUse) -> dict[str, Any]:
    """Return the use of a stream."""
    return {
        "name": f"GPU {one.device}, stream {one.stream}" + (f", process {one.process}" if one.process > 0 else ""),
        "kind": stream_word(one.stream_type),
        "spans": one.spans,
        "busy": time_cell(one.busy_ns),
        "gaps": one.gaps,
        "gap": time_cell(one.gap_ns),
        "median": time_cell(one.median_gap_ns, "it has no gap"),
        "longest": time_cell(one.longest_gap_ns or None, "it has no gap"),
    }


def lane_rows(line: Timeline, drawn: Picture) -> list[dict[str, Any]]:
    """Return the lanes of the picture as a table: the twin of the chart."""
    found = []
    for lane in drawn.lanes:
        union = line.covered(lane.rows)
        busy = int((union[1] - union[0]).sum())
        first, last = int(line.start[lane.rows].min()), int(line.end[lane.rows].max())
        found.append(
            {
                "group": lane.group,
                "label": lane.label,
                "spans": len(lane.rows),
                "busy": time_cell(busy),
                "share": formatting.percent(busy / (last - first)) if last > first else "",
                "first": moment(first),
                "last": moment(last),
            }
        )
    return found


def variant_row(one: TracedVariant) -> dict[str, Any]:
    """Return what the trace says of one variant at one size."""
    why = "nothing of it ran on the device"
    return {
        "variant": one.variant,
        "size": formatting.size(one.size),
        "launches": one.launches,
        "spans": cell(one.spans_per_launch, formatting.number(one.spans_per_launch)),
        "kernel": time_cell(one.kernel_ns, why),
        "period": time_cell(one.period_ns, "it was launched once"),
        "overhead": time_cell(one.overhead_ns, "it was launched once"),
        "busy": cell(one.busy_share, formatting.percent(one.busy_share) if one.busy_share is not None else "", why),
    }
