"""PyTorch's own trace gives the same frame."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from profiler import frames
from profiler.parse import kineto

HOST = {"ph": "X", "pid": 1, "tid": 77}
DEVICE = {"ph": "X", "pid": 0, "tid": 7}
EVENTS: list[dict[str, Any]] = [
    {**HOST, "cat": "user_annotation", "name": "kl.0000", "ts": 10.5, "dur": 100.125},
    {**HOST, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 20, "dur": 5.001, "args": {"correlation": 3}},
    {**DEVICE, "cat": "kernel", "name": "k", "ts": 30.25, "dur": 7.5,
     "args": {"device": 0, "stream": 7, "correlation": 3}},
    {**DEVICE, "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "ts": 40, "dur": 2,
     "args": {"device": 0, "stream": 7, "correlation": 4, "bytes": 4096}},
    {**DEVICE, "cat": "gpu_memset", "name": "Memset (Device)", "ts": 45, "dur": 1,
     "args": {"device": 0, "stream": 7, "bytes": 16}},
    {**HOST, "cat": "cpu_op", "name": "aten::mm", "ts": 15, "dur": 30},
    {"ph": "i", "name": "mark", "ts": 1},
]  # fmt: skip


@pytest.mark.parametrize("wrap", [lambda events: {"traceEvents": events, "schemaVersion": 1}, lambda events: events])
def test_a_trace_becomes_spans(wrap: Callable[[Any], Any]) -> None:
    made = kineto.read(json.dumps(wrap(EVENTS)))
    assert list(made.frame.columns) == frames.columns("spans")
    rows = frames.rows_of(made.frame)
    assert [(row["kind"], row["name"], row["start_ns"], row["duration_ns"]) for row in rows] == [
        ("nvtx", "kl.0000", 0, 100_125), ("api", "cudaLaunchKernel", 9_500, 5_001), ("kernel", "k", 19_750, 7_500),
        ("copy", "copy h2d", 29_500, 2_000), ("memset", "memset", 34_500, 1_000),
    ]  # fmt: skip
    assert rows[2]["parent"] == "kl.0000"
    assert (rows[3]["direction"], rows[3]["memory"], rows[3]["bytes"]) == ("h2d", "pageable", 4096)


def test_large_moments_keep_their_nanoseconds() -> None:
    text = '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1795983809708192.737, "dur": 0.032}]}'
    made = kineto.read(text)
    assert made.origin_ns == 1795983809708192737
    assert frames.rows_of(made.frame)[0]["duration_ns"] == 32


@pytest.mark.parametrize("text", ["", "no json", "{}", '{"traceEvents": 3}', '{"traceEvents": [3]}'])
def test_what_is_no_trace(text: str) -> None:
    with pytest.raises(kineto.NotKineto):
        kineto.read(text)
