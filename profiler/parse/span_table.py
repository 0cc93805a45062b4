"""The frame ``spans`` from columns of numbers, whatever tool they come from. Pure; no loop over rows.

A trace has millions of rows, so that everything here is an array with one element a span. ``MISSING`` stands for what a
row does not have until the frame, where it is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.frames import columns

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]

MISSING = np.iinfo(np.int64).min
KINDS = ("kernel", "copy", "memset", "graph", "api", "nvtx")
#: Kinds that the device works on.
DEVICE_KINDS = frozenset({"kernel", "copy", "memset", "graph"})
DIRECTIONS = ("h2d", "d2h", "d2d", "p2p", "h2h", "managed", "other")
MEMORIES = ("pageable", "pinned", "managed", "unknown")
STREAM_TYPES = ("default", "blocking", "non_blocking")
#: Deeper nests of ranges than this are looked through no further.
_DEEPEST = 200


class Names:
    """A vocabulary: each text once, spans hold its number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        """Return a text's number."""
        found = self._codes.get(text)
        if found is None:
            found = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return found

    def codes(self, texts: Iterable[str | None]) -> Codes:
        """Return the numbers of texts; -1 for None."""
        return np.fromiter((-1 if text is None else self.code(text) for text in texts), np.int32)

    def of_ids(self, ids: Ints, texts: Mapping[int, str], unnamed: str = "") -> Codes:
        """Return the numbers of the texts that ids stand for; of ``unnamed`` for an id without one."""
        inverse, unique = pd.factorize(ids)
        known = self.codes(texts.get(int(one)) or (unnamed or None) for one in unique)
        found: Codes = known[inverse] if len(unique) else np.empty(0, np.int32)
        return found


@dataclass(frozen=True)
class Part:
    """Spans of one kind, column by column; a column that is left out is missing throughout."""

    kind: str
    name: Codes
    start: Ints
    end: Ints
    device: Ints | None = None
    stream: Ints | None = None
    process: Ints | None = None
    thread: Ints | None = None
    correlation: Ints | None = None
    bytes: Ints | None = None
    direction: Codes | None = None
    memory: Codes | None = None
    stream_type: Codes | None = None

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Spans:
    """The frame, sorted by start, and what was odd about the rows."""

    frame: pd.DataFrame
    origin_ns: int = 0  #: what was taken off every start, so that the first span starts at zero
    remarks: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)  #: spans by kind


def spans(parts: Sequence[Part], names: Names) -> Spans:
    """Return the parts as one frame.

    Rows without a start are left out; a row that ends before it starts keeps its place and has no duration. Both are
    counted in the remarks. ``parent`` is the innermost NVTX range of the thread that made a span, or asked for it.
    """
    joined = _joined(parts)
    remarks = []
    known = joined["start"] != MISSING
    if not known.all():
        remarks.append(f"{_rows(int((~known).sum()))} without a start {_were(int((~known).sum()))} left out")
        joined = {name: values[known] for name, values in joined.items()}
    order = np.argsort(joined["start"], kind="stable")
    joined = {name: values[order] for name, values in joined.items()}
    start, end = joined["start"], joined["end"]
    backwards = (end != MISSING) & (end < start)
    if backwards.any():
        remarks.append(
            f"{_rows(int(backwards.sum()))} {'ends' if backwards.sum() == 1 else 'end'} before "
            f"{'it starts' if backwards.sum() == 1 else 'they start'}, as if a clock had gone backwards: "
            "they have no duration here"
        )
    endless = int(((end == MISSING) & (joined["kind"] != KINDS.index("nvtx"))).sum())
    if endless:
        remarks.append(f"{_rows(endless)} without an end {_were(endless)} read without a duration")
    origin = int(start[0]) if len(start) else 0
    duration = np.where(backwards | (end == MISSING), MISSING, end - start)
    joined["parent"] = parents(joined, duration)
    frame = _frame(joined, duration, origin, names)
    counts = {kind: int((joined["kind"] == code).sum()) for code, kind in enumerate(KINDS)}
    return Spans(frame, origin, tuple(remarks), {kind: count for kind, count in counts.items() if count})


def parents(joined: Mapping[str, Any], duration: Ints) -> Codes:
    """Return the name of the innermost NVTX range that each span was made in, by its thread or its call's; -1: none."""
    kind, start, thread = joined["kind"], joined["start"], joined["thread"]
    found = np.full(len(start), -1, np.int32)
    ranges = np.flatnonzero((kind == KINDS.index("nvtx")) & (duration != MISSING) & (thread != MISSING))
    if not len(ranges):
        return found
    asked = start.copy()
    made_by = thread.copy()
    call = calls(joined)
    has_call = call >= 0
    asked[has_call], made_by[has_call] = start[call[has_call]], thread[call[has_call]]
    for one in pd.unique(thread[ranges]):
        own = ranges[thread[ranges] == one]
        of_thread = np.flatnonzero((made_by == one) & (kind != KINDS.index("nvtx")))
        where = innermost(start[own], start[own] + duration[own], asked[of_thread])
        hit = where >= 0
        found[of_thread[hit]] = joined["name"][own[where[hit]]]
    return found


def innermost(start: Ints, end: Ints, at: Ints) -> Ints:
    """Return which range is the innermost one open at each time, -1 for none; ranges are sorted by start."""
    order = np.lexsort((-end, start))
    start, end = start[order], end[order]
    # open ranges at each start: those begun, less those ended by then
    depth = np.arange(len(start)) - np.searchsorted(np.sort(end), start, side="right")
    found = np.full(len(at), -1, np.int64)
    open_ = np.arange(len(at))
    for level in range(min(int(depth.max(initial=-1)), _DEEPEST), -1, -1):
        members = np.flatnonzero(depth == level)
        if not len(members) or not len(open_):
            continue
        last = np.searchsorted(start[members], at[open_], side="right") - 1
        inside = (last >= 0) & (end[members[np.maximum(last, 0)]] > at[open_])
        found[open_[inside]] = order[members[last[inside]]]
        open_ = open_[~inside]
    return found


def calls(joined: Mapping[str, Any]) -> Ints:
    """Return the row of the API call that asked for each span of the device; -1 where none is known.

    A call is known by its process and correlation; of several (a runtime call over a driver call) the first counts.
    """
    kind, correlation, process = joined["kind"], joined["correlation"], joined["process"]
    found = np.full(len(kind), -1, np.int64)
    on_device = np.isin(kind, [code for code, name in enumerate(KINDS) if name in DEVICE_KINDS])
    work = np.flatnonzero(on_device & (correlation != MISSING))
    api = np.flatnonzero((kind == KINDS.index("api")) & (correlation != MISSING))
    if not len(work) or not len(api):
        return found
    api = api[np.lexsort((joined["start"][api], correlation[api], process[api]))]
    index = {"process": process[api], "correlation": correlation[api]}
    keys = pd.DataFrame({**index, "row": api}).drop_duplicates(["process", "correlation"])
    wanted = pd.DataFrame({"process": process[work], "correlation": correlation[work]})
    row = wanted.merge(keys, how="left", on=["process", "correlation"])["row"].to_numpy(np.float64)
    found[work] = np.where(np.isnan(row), -1, row).astype(np.int64)
    return found


def ordinals(values: Ints) -> Ints:
    """Return small numbers for ids, in the order in which they come; missing stays missing."""
    codes, unique = pd.factorize(values)
    found = np.asarray(codes, np.int64)
    missing = np.flatnonzero(np.asarray(unique) == MISSING)
    if len(missing):
        found = np.where(found == missing[0], MISSING, found - (found > missing[0]))
    return found


def _joined(parts: Sequence[Part]) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    listed = [part for part in parts if len(part)]
    joined["kind"] = np.concatenate(
        [np.full(len(part), KINDS.index(part.kind), np.int8) for part in listed] or [np.empty(0, np.int8)]
    )
    for one in fields(Part)[1:]:
        code = one.name in ("name", "direction", "memory", "stream_type")
        empty, kind = (-1, np.int32) if code else (MISSING, np.int64)
        arrays = [getattr(part, one.name) for part in listed]
        joined[one.name] = np.concatenate(
            [
                np.full(len(part), empty, kind) if values is None else values
                for part, values in zip(listed, arrays, strict=True)
            ]
            or [np.empty(0, kind)]
        )
    return joined


def _frame(joined: Mapping[str, Any], duration: Ints, origin: int, names: Names) -> pd.DataFrame:
    count = len(duration)
    nothing = np.full(count, -1, np.int8)
    made: dict[str, Any] = {
        "variant": _category(nothing, ()),
        "size": _category(nothing, ()),
        "kind": _category(joined["kind"], KINDS),
        "name": _used(joined["name"], names.texts),
        "start_ns": integers(joined["start"] - origin),
        "duration_ns": integers(duration),
        "parent": _used(joined["parent"], names.texts),
        "direction": _category(joined["direction"], DIRECTIONS),
        "memory": _category(joined["memory"], MEMORIES),
        "stream_type": _category(joined["stream_type"], STREAM_TYPES),
    }
    for name in ("stream", "device", "bytes", "process", "thread", "correlation"):
        made[name] = integers(joined[name])
    return pd.DataFrame({name: made[name] for name in columns("spans")})


def integers(values: Ints) -> Any:
    """Return a nullable column of integers."""
    missing = values == MISSING
    return pd.arrays.IntegerArray(np.where(missing, 0, values), missing)


def _category(codes: Any, texts: Sequence[str]) -> Any:
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(texts), dtype=object))


def _used(codes: Codes, texts: Sequence[str]) -> Any:
    """A category of the texts that occur, so that a frame holds no text of a row it has not."""
    present = np.bincount(codes[codes >= 0], minlength=len(texts)) > 0
    place = np.append(np.cumsum(present) - 1, -1).astype(np.int32)  # -1, the code of nothing, is the last place
    return _category(place[codes], [text for text, used in zip(texts, present, strict=True) if used])


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
