"""The frame ``spans`` as arrays: what the analysis of a timeline works on. Pure; no loop over spans."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.analysis.intervals import Bools, Ints, Union, union
from profiler.parse.span_table import DEVICE_KINDS, DIRECTIONS, KINDS, MEMORIES, MISSING, STREAM_TYPES, Codes, calls

Small = npt.NDArray[np.int8]

KERNEL, COPY, MEMSET, GRAPH, API, NVTX = range(len(KINDS))
#: What a call of the host does to it: hands work over, waits for the device, or something else.
LAUNCH_CALL, SYNC_CALL, OTHER_CALL = 0, 1, 2
_LAUNCH = re.compile(r"Launch|Async|EventRecord|StreamWait|GraphUpload", re.IGNORECASE)
_WAIT = re.compile(
    r"Synchronize|^(?:cuda|cu)Memcpy(?!.*Async)|^(?:cuda|cu)Memset(?!.*Async)|^cudaFree(?:Host)?$|^cuMemFree"
)


@dataclass(frozen=True)
class Timeline:
    """Spans in the order of their start. Codes index ``KINDS``, ``DIRECTIONS`` and so on; -1 is none"""

    kind: Small
    name: Codes
    names: tuple[str, ...]
    start: Ints
    end: Ints  #: start, where the duration is not known
    timed: Bools  #: whether the duration is known
    device: Ints  #: -1 where there is none, as for the four below
    stream: Ints
    process: Ints
    thread: Ints
    bytes: Ints
    direction: Small
    memory: Small
    stream_type: Small
    parent: Codes
    parents: tuple[str, ...]
    call: Ints  #: the API span that asked for a span of the device

    def __len__(self) -> int:
        return len(self.start)

    @cached_property
    def duration(self) -> Ints:
        """Nanoseconds; zero where not known."""
        found: Ints = self.end - self.start
        return found

    @cached_property
    def on_device(self) -> Bools:
        """Whether the device works on a span."""
        return np.isin(self.kind, [code for code, kind in enumerate(KINDS) if kind in DEVICE_KINDS])

    @cached_property
    def computes(self) -> Bools:
        """Whether a span is a kernel, or a graph that was traced as a whole."""
        found: Bools = (self.kind == KERNEL) | (self.kind == GRAPH)
        return found

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """The devices that did something, by number."""
        return tuple(sorted(int(one) for one in pd.unique(self.device[self.on_device & self.timed])))

    def of_device(self, device: int) -> Ints:
        """Return the spans that took time on a device."""
        return np.flatnonzero(self.on_device & (self.device == device) & (self.end > self.start))

    def covered(self, rows: Ints) -> Union:
        """Return the union of some spans."""
        return union(self.start[rows], self.end[rows])

    @cached_property
    def call_class(self) -> Small:
        """What each API span does to the host; -1 for others. A pageable copy waits, whatever its call is named."""
        of_name = np.array([_class_of(name) for name in self.names] or [OTHER_CALL], np.int8)
        found = np.where(self.kind == API, of_name[np.maximum(self.name, 0)], -1).astype(np.int8)
        pageable = (self.kind == COPY) & (self.memory == MEMORIES.index("pageable")) & (self.call >= 0)
        found[self.call[pageable]] = SYNC_CALL
        return found

    @property
    def window(self) -> tuple[int, int]:
        """From the first work of any device to the last; the whole trace where no device worked."""
        rows = self.on_device & self.timed
        if not rows.any():
            return (int(self.start.min(initial=0)), int(self.end.max(initial=0)))
        return int(self.start[rows].min()), int(self.end[rows].max())


def timeline(spans: pd.DataFrame) -> Timeline:
    """Return the frame ``spans`` as a timeline, sorted by start; rows without a start are left out."""
    spans = spans[spans["start_ns"].notna()]
    start = _ints(spans["start_ns"])
    order = np.argsort(start, kind="stable")
    if len(order) and (np.diff(order) != 1).any():
        spans, start = spans.iloc[order], start[order]
    duration = _ints(spans["duration_ns"])
    name, names = _codes(spans["name"])
    parent, parents = _codes(spans["parent"])
    raw = {key: _ints(spans[key]) for key in ("device", "stream", "process", "thread", "bytes", "correlation")}
    kind = _known(spans["kind"], KINDS)
    asked = calls({"kind": kind, "start": start, "process": raw["process"], "correlation": raw["correlation"]})
    columns = {key: np.where(values == MISSING, -1, values) for key, values in raw.items() if key != "correlation"}
    return Timeline(
        kind=kind,
        name=name,
        names=names,
        start=start,
        end=start + np.maximum(duration, 0),
        timed=duration >= 0,
        direction=_known(spans["direction"], DIRECTIONS),
        memory=_known(spans["memory"], MEMORIES),
        stream_type=_known(spans["stream_type"], STREAM_TYPES),
        parent=parent,
        parents=parents,
        call=asked,
        **columns,
    )


def stream_word(code: int) -> str:
    """Return what a code of ``stream_type`` means to a reader; empty for none."""
    return STREAM_TYPES[code].replace("_", "-") if code >= 0 else ""


def _class_of(name: str) -> int:
    if _WAIT.search(name):
        return SYNC_CALL
    return LAUNCH_CALL if _LAUNCH.search(name) else OTHER_CALL


def _ints(column: Any) -> Ints:
    found: Ints = column.to_numpy(np.int64, na_value=MISSING)
    return found


def _codes(column: Any) -> tuple[Codes, tuple[str, ...]]:
    category = column.astype("category").cat
    return category.codes.to_numpy(np.int32), tuple(str(one) for one in category.categories)


def _known(column: Any, words: tuple[str, ...]) -> Small:
    codes, texts = _codes(column)
    place = np.array([*(words.index(text) if text in words else -1 for text in texts), -1], np.int8)
    found: Small = place[codes]  # -1, the code of a missing value, is the last place
    return found


def grouped(*columns: Ints) -> tuple[Ints, Ints]:
    """Return the distinct rows of some columns in ascending order, and for each element the number of its row."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        own, values = pd.factorize(column, sort=True)
        code = code * max(len(values), 1) + own
    inverse, unique = pd.factorize(code, sort=True)
    first = np.empty(len(unique), np.int64)
    first[inverse[::-1]] = np.arange(len(inverse))[::-1]  # the first one is written last
    return np.stack([column[first] for column in columns], axis=1), np.asarray(inverse, np.int64)


def members(numbers: Ints, groups: int) -> list[Ints]:
    """Return the elements of each group, in their order."""
    small = numbers.astype(np.int16) if groups < 1 << 15 else numbers  # of short integers the sort is linear
    order = np.argsort(small, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=groups))
    return np.split(order, ends[:-1]) if groups else []
