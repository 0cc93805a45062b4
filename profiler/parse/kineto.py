"""The trace that PyTorch's profiler writes (CUPTI through Kineto), as the frame ``spans``. Pure: text in, frame out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from profiler.parse.span_table import DIRECTIONS, MEMORIES, MISSING, Ints, Names, Part, Spans, ordinals, spans

_KINDS = {
    "kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "memset", "cuda_runtime": "api", "cuda_driver": "api",
    "user_annotation": "nvtx",
}  # fmt: skip
_DIRECTION = {"HtoD": "h2d", "DtoH": "d2h", "DtoD": "d2d", "PtoP": "p2p", "HtoH": "h2h"}
_MEMORY = {"Pageable": "pageable", "Pinned": "pinned", "Managed": "managed", "Unified": "managed"}


class NotKineto(ValueError):
    """The text is no trace of PyTorch's profiler."""


def read(text: str) -> Spans:
    """Return a trace as spans; ``NotKineto`` when the text is none. Times are kept to the nanosecond."""
    try:
        document = json.loads(text, parse_float=Decimal)
        events = document["traceEvents"] if isinstance(document, dict) else document
        known = [event for event in events if event.get("ph") == "X" and event.get("cat") in _KINDS]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotKineto("it is no trace of PyTorch's profiler") from error
    names = Names()
    threads = {tid: number for number, tid in enumerate(dict.fromkeys(str(event.get("tid")) for event in known))}
    parts = []
    for kind in ("kernel", "copy", "memset", "api", "nvtx"):
        own = [event for event in known if _KINDS[event["cat"]] == kind]
        if own:
            parts.append(_part(kind, own, names, threads))
    return spans(parts, names)


def _part(kind: str, events: Sequence[Mapping[str, Any]], names: Names, threads: Mapping[str, int]) -> Part:
    start = np.array([_nanoseconds(event.get("ts")) for event in events], np.int64)
    time = np.array([_nanoseconds(event.get("dur")) for event in events], np.int64)
    end = np.where((start == MISSING) | (time == MISSING), MISSING, start + time)
    facts = [event.get("args") or {} for event in events]
    zero = np.zeros(len(events), np.int64)
    if kind in ("api", "nvtx"):
        thread = np.array([threads[str(event.get("tid"))] for event in events], np.int64)
        return Part(
            kind,
            names.codes(str(event.get("name")) for event in events),
            start=start,
            end=end,
            process=zero,
            thread=ordinals(thread),
            correlation=_numbers(facts, "correlation") if kind == "api" else None,
        )
    more: dict[str, Any] = {}
    if kind == "copy":
        words = [str(event.get("name")) for event in events]  # Memcpy HtoD (Pageable -> Device)
        direction = [next((way for word, way in _DIRECTION.items() if word in text), "other") for text in words]
        more["direction"] = np.array([DIRECTIONS.index(one) for one in direction], np.int32)
        more["memory"] = np.array([_memory(text, way) for text, way in zip(words, direction, strict=True)], np.int32)
        name = names.codes(f"copy {way}" for way in direction)
    else:
        name = names.codes("memset" if kind == "memset" else str(event.get("name")) for event in events)
    return Part(
        kind,
        name,
        start=start,
        end=end,
        device=_numbers(facts, "device"),
        stream=_numbers(facts, "stream"),
        process=zero,
        correlation=_numbers(facts, "correlation"),
        bytes=_numbers(facts, "bytes") if kind != "kernel" else None,
        **more,
    )


def _nanoseconds(microseconds: Any) -> int:
    if not isinstance(microseconds, (int, Decimal)):
        return MISSING
    return int((Decimal(microseconds) * 1000).to_integral_value())


def _numbers(facts: Sequence[Mapping[str, Any]], key: str) -> Ints:
    values = [fact.get(key) for fact in facts]
    return np.array([int(v) if isinstance(v, (int, Decimal)) else MISSING for v in values], np.int64)


def _memory(text: str, direction: str) -> int:
    if direction not in ("h2d", "d2h"):
        return -1
    return MEMORIES.index(next((kind for word, kind in _MEMORY.items() if word in text), "unknown"))
