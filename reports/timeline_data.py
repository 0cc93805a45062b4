"""The marks of a timeline as the page carries them: columns of numbers as base64 of little bytes, names once.

A column is a sequence of LEB128 numbers (seven bits a byte, lowest first, the top bit says that more follow). Starts
are differences to the start before, so that a mark takes eight to ten bytes in all. ``timeline.js`` reads this.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.analysis.timeline import SYNC_CALL, Timeline
from profiler.analysis.timeline_lanes import Lane, Marks, Picture, extent, profile, used_names

Ints = npt.NDArray[np.int64]

FORMAT = 1
#: Names beyond this many are told apart no more, for there are traces that name each of their ranges differently.
MOST_NAMES = 40_000
LONGEST_NAME = 300


def timeline_data(line: Timeline, picture: Picture, gpus: Mapping[int, str]) -> dict[str, Any]:
    """Return what the page's script needs to draw a picture; JSON can carry it."""
    codes = used_names(line, picture.levels)
    place = np.full(len(line.names) + 1, 0, np.int64)
    kept = codes[codes >= 0][:MOST_NAMES]
    place[kept] = np.arange(1, len(kept) + 1)
    lane_of_thread = {lane.thread: number + 1 for number, lane in enumerate(picture.lanes) if lane.kind == "api"}
    begin, end = extent(line)
    return {
        "format": FORMAT,
        "begin": begin,
        "end": end,
        "home": _home(line, begin, end),
        "exact": picture.resolutions[0] == 0,
        "resolutions": list(picture.resolutions),
        "names": ["another name", *(_cut(line.names[code]) for code in kept.tolist())],
        "lanes": [
            {"group": lane.group, "label": lane.label, "kind": lane.kind, "lines": lane.lines, "spans": len(lane.rows)}
            for lane in picture.lanes
        ],
        "devices": [
            {"device": device, "name": gpus.get(device, ""), "busy": profile(line, device)[0]}
            for device in line.devices
        ],
        "levels": [
            [
                _packed(line, lane, marks, place, lane_of_thread if not picture.resolutions[number] else {})
                for lane, marks in zip(picture.lanes, level, strict=True)
            ]
            for number, level in enumerate(picture.levels)
        ],
    }


def _home(line: Timeline, begin: int, end: int) -> list[int]:
    """What is seen first: from the first work of a device to the last, with a little around it."""
    first, last = line.window
    around = max((last - first) // 40, 100)
    return [max(begin, first - around), min(end, last + around)]


def _packed(line: Timeline, lane: Lane, marks: Marks, place: Ints, lanes: Mapping[int, int]) -> dict[str, Any]:
    """A lane's marks: how many, which columns, and their bytes. A column that is zero throughout is left out."""
    columns: dict[str, Ints] = {
        "start": np.diff(marks.start, prepend=0),
        "time": marks.end - marks.start,
        "name": place[line.name[marks.span]],
        "depth": marks.depth,
        "more": marks.count - 1,
        "busy": np.where(marks.count > 1, marks.busy, 0),
    }
    alone = marks.count == 1
    columns["untimed"] = (alone & ~line.timed[marks.span]).astype(np.int64)
    if lane.kind == "copy":
        columns["bytes"] = np.where(alone, np.maximum(line.bytes[marks.span], 0), 0)
        columns["memory"] = np.where(alone, line.memory[marks.span].astype(np.int64) + 1, 0)
        columns["direction"] = line.direction[marks.span].astype(np.int64) + 1
    if lane.kind == "api":
        columns["class"] = (line.call_class[marks.span] == SYNC_CALL).astype(np.int64)
    if lanes and lane.kind in ("kernel", "copy"):
        call = line.call[marks.span]
        late = line.start[marks.span] - line.start[np.maximum(call, 0)]
        known = alone & (call >= 0) & (late >= 0)
        columns["late"] = np.where(known, late + 1, 0)
        thread = np.where(known, line.thread[np.maximum(call, 0)], -1)
        number = np.zeros(len(thread), np.int64)
        for one, lane_number in lanes.items():
            number[thread == one] = lane_number
        columns["caller"] = np.where(known, number, 0)
    used = {name: values for name, values in columns.items() if values.any()}
    signed = "start" in used and bool((used["start"] < 0).any())  # lines of nested ranges start anew
    if signed:
        used["start"] = np.where(used["start"] < 0, -2 * used["start"] - 1, 2 * used["start"])
    return {
        "n": len(marks),
        "columns": list(used),
        "signed": signed,
        "data": base64.b64encode(b"".join(leb128(values) for values in used.values())).decode("ascii"),
    }


def leb128(values: Ints) -> bytes:
    """Return numbers from zero up as LEB128, one after the other."""
    rest = values.astype(np.uint64)
    if not len(rest):
        return b""
    sizes = np.ones(len(rest), np.int64)
    for power in range(7, 64, 7):
        sizes += rest >= np.uint64(1 << power)
    ends = np.cumsum(sizes)
    made = np.zeros(int(ends[-1]), np.uint8)
    first = ends - sizes
    for byte in range(int(sizes.max())):
        own = np.flatnonzero(sizes > byte)
        more = (sizes[own] > byte + 1).astype(np.uint8) << 7
        made[first[own] + byte] = ((rest[own] >> np.uint64(7 * byte)) & np.uint64(0x7F)).astype(np.uint8) | more
    return made.tobytes()


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
