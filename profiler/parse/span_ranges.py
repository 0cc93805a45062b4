"""Which spans of a trace belong to which range, and a trace cut down to its ranges. Pure; no loop over spans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from profiler.parse.span_table import KINDS, MISSING, Ints, calls, integers

#: What is left between two ranges when the time between them is cut out.
GAP_NS = 10_000


def cut(frame: pd.DataFrame, ranges: Mapping[str, tuple[str, str]], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the spans that lie in the named NVTX ranges, or were asked for in them, with ``variant`` and ``size`` set.

    ``ranges`` is name -> (variant, size), ``titles`` what each range is called afterwards. A span of the host, of any
    thread, belongs to the range that was open when it began; a span of the device to that of its call, or, where its
    call is unknown, to the one whose time it began in. The time between ranges is cut out: each range begins
    ``GAP_NS`` after the end of the one before. Ranges do not overlap, for one thread works through them.
    """
    start, time = _ints(frame["start_ns"]), _ints(frame["duration_ns"])
    names = [str(one) for one in frame["name"].cat.categories]
    codes = frame["name"].cat.codes.to_numpy()
    wanted = np.array([*(name in ranges for name in names), False])[codes]
    kind = np.array([*(KINDS.index(one) for one in frame["kind"].cat.categories), -1], np.int8)[
        frame["kind"].cat.codes.to_numpy()
    ]
    own = np.flatnonzero(wanted & (kind == KINDS.index("nvtx")) & (time != MISSING))
    own = own[np.argsort(start[own], kind="stable")]
    if not len(own):
        return frame.iloc[:0]
    begin, end = start[own], start[own] + time[own]
    call = calls({"kind": kind, "start": start, "process": _ints(frame["process"]),
                  "correlation": _ints(frame["correlation"])})  # fmt: skip
    asked = np.where(call >= 0, start[np.maximum(call, 0)], start)
    place = np.searchsorted(begin, asked, side="right") - 1
    near = np.maximum(place, 0)
    inside = (place >= 0) & (asked <= end[near])
    # From here to there the times of a range move, so that they follow one another closely.
    lengths = np.maximum(end - begin, _reach(start, time, near, inside, len(own)) - begin)
    moved = np.concatenate([[0], np.cumsum(lengths + GAP_NS)[:-1]])
    kept = np.flatnonzero(inside)
    found = frame.iloc[kept].copy()
    found["start_ns"] = integers((start - begin[near] + moved[near])[kept])
    of_range = [ranges[names[code]] for code in codes[own]]
    for column, part in (("variant", 0), ("size", 1)):
        values = [one[part] for one in of_range]
        categories = list(dict.fromkeys(values))
        numbers = np.array([categories.index(value) for value in values])[near[kept]]
        found[column] = pd.Categorical.from_codes(numbers, categories=pd.Index(categories, dtype=object))
    for column in ("name", "parent"):
        found[column] = _renamed(found[column], titles)
    order = np.argsort(found["start_ns"].to_numpy(np.int64), kind="stable")
    return found.iloc[order].reset_index(drop=True)


def _reach(start: Ints, time: Ints, near: Ints, inside: Any, count: int) -> Ints:
    """Until when the spans of each range reach: the device may end after the range."""
    found = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(found, near[inside], (start + np.where(time == MISSING, 0, time))[inside])
    return found


def _renamed(column: Any, titles: Mapping[str, str]) -> Any:
    """A column of names whose ranges have their titles; two ranges of one title share it."""
    used = column.cat.remove_unused_categories()
    texts = [titles.get(str(name), str(name)) for name in used.cat.categories]
    categories = list(dict.fromkeys(texts))
    place = np.array([*(categories.index(text) for text in texts), -1])
    return pd.Categorical.from_codes(place[used.cat.codes.to_numpy()], categories=pd.Index(categories, dtype=object))


def _ints(column: Any) -> Ints:
    found: Ints = column.to_numpy(np.int64, na_value=MISSING)
    return found
