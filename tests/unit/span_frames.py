"""Frames ``spans`` from short rows, for the tests of the analysis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from profiler import frames
from profiler.analysis.timeline import Timeline, timeline


def kernel(
    name: str, start: int, time: int | None, *, correlation: int | None = None, stream: int = 7, **more: Any
) -> Any:
    return {"kind": "kernel", "name": name, "start_ns": start, "duration_ns": time, "stream": stream, "device": 0,
            "process": 0, "correlation": correlation, **more}  # fmt: skip


def copy(direction: str, start: int, time: int, size: int = 1 << 20, memory: str = "pinned", **more: Any) -> Any:
    return {"kind": "copy", "name": f"copy {direction}", "start_ns": start, "duration_ns": time, "bytes": size,
            "direction": direction, "memory": memory, "stream": 7, "device": 0, "process": 0, **more}  # fmt: skip


def call(name: str, start: int, time: int, correlation: int | None = None, thread: int = 0) -> Any:
    return {"kind": "api", "name": name, "start_ns": start, "duration_ns": time, "thread": thread, "process": 0,
            "correlation": correlation}  # fmt: skip


def launch(name: str, called: tuple[int, int], ran: tuple[int, int], number: int, **more: Any) -> list[Any]:
    """A kernel with its call; both as (start, end)."""
    return [call("cudaLaunchKernel", called[0], called[1] - called[0], number),
            kernel(name, ran[0], ran[1] - ran[0], correlation=number, **more)]  # fmt: skip


def nvtx(name: str, start: int, time: int, thread: int = 0) -> Any:
    return {"kind": "nvtx", "name": name, "start_ns": start, "duration_ns": time, "thread": thread, "process": 0}


def line_of(rows: Iterable[Any]) -> Timeline:
    return timeline(frames.frame("spans", list(rows)))
