"""Busy share, idle pieces and overlap against a count of single nanoseconds; causes one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analysis.timeline_gaps import CAUSES, Idle, idle, streams
from profiler.analysis.timeline_tables import class_masks, latency, overlap, previous_end
from tests.unit.span_frames import call, copy, kernel, launch, line_of

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "h2d", "d2h", "d2d", "memset", "api"]),
        st.integers(0, 60), st.integers(0, 15), st.integers(0, 2), st.integers(1, 6), st.integers(0, 1),
    ),
    min_size=1, max_size=14,
)  # fmt: skip
CALLS = ("cudaLaunchKernel", "cudaDeviceSynchronize", "cudaMalloc")
TIMES = range(80)


def rows_of(drawn: list[tuple[str, int, int, int, int, int]]) -> list[Any]:
    rows = []
    for kind, start, time, stream, number, thread in drawn:
        if kind == "api":
            rows.append(call(CALLS[stream], start, time, number, thread))
        elif kind == "kernel":
            rows.append(kernel(f"k{stream}", start, time, correlation=number, stream=stream))
        elif kind == "memset":
            rows.append({**kernel("memset", start, time, stream=stream), "kind": "memset"})
        else:
            rows.append(copy(kind, start, time, stream=stream))
    return rows


@given(ROWS)
def test_the_time_of_a_device_adds_up_and_agrees_with_a_count(drawn: list[Any]) -> None:
    line = line_of(rows_of(drawn))
    work = [(kind, start, start + time) for kind, start, time, *_ in drawn if kind != "api" and time]
    if not work:
        assert line.devices == () or idle(line, 0).window_ns == 0
        return
    one = idle(line, 0)
    first, last = min(a for _, a, _ in work), max(b for _, _, b in work)
    busy = {at for at in TIMES if any(a <= at < b for _, a, b in work)}
    kernels = {at for at in TIMES if any(kind == "kernel" and a <= at < b for kind, a, b in work)}
    assert one.window == (first, last)
    assert one.busy_ns == len(busy)
    assert one.kernel_ns == len(kernels)
    assert one.copy_ns == len(busy - kernels)
    empty = set(range(first, last)) - busy
    assert {at for a, b in zip(one.start, one.end, strict=True) for at in range(a, b)} == empty
    assert sum(time for time, _ in one.by_cause().values()) + one.kernel_ns == one.window_ns
    assert (line.end[one.before] == one.start).all()
    assert (line.start[one.after] == one.end).all()
    assert (line.duration[one.after] > 0).all()


@given(ROWS)
def test_overlap_agrees_with_a_count(drawn: list[Any]) -> None:
    line = line_of(rows_of(drawn))
    matrix = overlap(line, 0)
    names = {"kernel": "kernel", "h2d": "h2d", "d2h": "d2h", "d2d": "other copy", "memset": "memset"}
    work = [(names[kind], start, start + time) for kind, start, time, *_ in drawn if kind != "api" and time]
    assert set(matrix.classes) == {name for name, _, _ in work}

    def open_(name: str, at: int) -> int:
        return sum(kind == name and a <= at < b for kind, a, b in work)

    for one in matrix.classes:
        assert matrix.total_ns[one] == sum(open_(one, at) > 0 for at in TIMES)
        for other in matrix.classes:
            both = sum(open_(one, at) > 1 if one == other else open_(one, at) and open_(other, at) > 0 for at in TIMES)
            assert matrix.pairs[one, other] == both
            assert matrix.pairs[other, one] == both
            assert 0 <= (matrix.share(one, other) or 0) <= 1


@given(ROWS)
def test_streams_and_what_was_before_agree_with_a_count(drawn: list[Any]) -> None:
    line = line_of(rows_of(drawn))
    for use in streams(line):
        own = [(s, s + t) for kind, s, t, stream, *_ in drawn if kind != "api" and t and stream == use.stream]
        busy = {at for at in TIMES if any(a <= at < b for a, b in own)}
        window = range(min(a for a, _ in own), max(b for _, b in own))
        assert (use.spans, use.busy_ns, use.gap_ns) == (len(own), len(busy), len(window) - len(busy))
    rows = np.flatnonzero(line.on_device)
    before = previous_end(line, rows)
    for row, reach in zip(rows, before, strict=True):
        earlier = [r for r in rows if r < row and line.stream[r] == line.stream[row]]
        assert reach == max((int(line.end[r]) for r in earlier), default=np.iinfo(np.int64).min)


@given(ROWS)
def test_every_span_of_a_device_has_one_class(drawn: list[Any]) -> None:
    line = line_of(rows_of(drawn))
    assert (sum(mask.astype(int) for mask in class_masks(line).values()) == line.on_device).all()


def cause_of(rows: list[Any]) -> tuple[Idle, list[str]]:
    one = idle(line_of(rows), 0)
    return one, [CAUSES[code] for code in one.cause]


FIRST = launch("a", (0, 2_000), (4_000, 10_000), 1)
QUICK = launch("quick", (100_000, 102_000), (104_000, 106_000), 9)  # an idle device: two microseconds on the way


@pytest.mark.parametrize(
    ("between", "second", "cause"),
    [
        ([], launch("b", (11_000, 28_000), (30_000, 40_000), 2), "launch"),
        ([call("cudaMalloc", 9_000, 19_000)], launch("b", (28_500, 29_000), (30_000, 40_000), 2), "api"),
        ([], launch("b", (28_500, 29_000), (30_000, 40_000), 2), "host"),
        ([call("cudaDeviceSynchronize", 3_000, 8_000)], launch("b", (28_500, 29_000), (30_000, 40_000), 2), "sync"),
        ([], launch("b", (2_500, 4_000), (30_000, 40_000), 2), "queued"),
        ([], [kernel("b", 30_000, 10_000)], "unknown"),
    ],
)
def test_the_cause_of_an_idle_piece(between: list[Any], second: list[Any], cause: str) -> None:
    one, causes = cause_of([*FIRST, *between, *second, *QUICK])
    assert causes[0] == cause
    assert (int(one.start[0]), int(one.end[0])) == (10_000, 30_000)


def test_a_launch_that_was_handed_over_just_before_the_device_ran_dry_is_a_launch_not_a_queue() -> None:
    # Calls every 5 us, kernels of 2 us, 4 us on the way: each call has ended when the kernel before it ends.
    rows = [
        row
        for i in range(20)
        for row in launch("k", (5_000 * i, 5_000 * i + 4_500), (5_000 * i + 8_500, 5_000 * i + 10_500), i)
    ]
    one, causes = cause_of(rows)
    assert set(causes) == {"launch"}
    assert len(causes) == 19
    assert one.latency_ns == 4_000


def test_a_pageable_copy_waits_whatever_its_call_is_named() -> None:
    rows = [
        *FIRST, call("cudaMemcpyAsync", 9_000, 30_000, 3), copy("h2d", 20_000, 5_000, memory="pageable", correlation=3),
        *launch("b", (39_500, 40_000), (41_000, 42_000), 2),
    ]  # fmt: skip
    _, causes = cause_of(rows)
    assert causes == ["sync", "sync"]


def test_spans_without_a_duration_are_no_work() -> None:
    line = line_of([kernel("a", 0, 10), kernel("b", 20, None), kernel("c", 30, 0), kernel("d", 40, 10)])
    one = idle(line, 0)
    assert (one.busy_ns, one.start.tolist(), one.end.tolist()) == (20, [10], [40])


def test_a_trace_without_work_has_no_device() -> None:
    line = line_of([call("cudaMalloc", 0, 10)])
    assert line.devices == ()
    assert streams(line) == []
    assert latency(line) is None
    assert line.window == (0, 10)


def test_launch_latency_is_told_apart_by_what_the_stream_had_left_to_do() -> None:
    rows = [
        *launch("a", (0, 2_000), (5_000, 50_000), 1), *launch("b", (10_000, 12_000), (50_000, 60_000), 2),
        *launch("c", (70_000, 72_000), (74_000, 80_000), 3), *launch("d", (90_000, 92_000), (89_000, 95_000), 4),
        kernel("e", 96_000, 10),
    ]  # fmt: skip
    found = latency(line_of(rows))
    assert found is not None
    assert found.direct is not None
    assert found.behind is not None
    assert (found.direct.count, found.direct.least, found.direct.most) == (2, 4_000, 5_000)
    assert (found.behind.count, found.behind.median) == (1, 40_000)
    assert (found.backwards, found.unknown) == (1, 1)
    assert sum(found.direct_counts) == 2
    assert found.call is not None
    assert found.call.median == 2_000
