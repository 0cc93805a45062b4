"""Each finding where it must be, and where it must not be; each names spans that show it."""

from __future__ import annotations

from typing import Any

import pytest

from profiler import frames
from profiler.analysis.timeline_findings import Finding, finding_rows, findings
from tests.unit.span_frames import call, copy, kernel, launch, line_of

US = 1_000


def found(rows: list[Any]) -> dict[str, Finding]:
    line = line_of(rows)
    listed = findings(line)
    for one in listed:
        assert one.spans
        assert all(0 <= span < len(line) for span in one.spans)
        assert one.evidence.endswith(".")
        assert one.gain_bound is None or one.gain_bound > 1
    frames.frame("findings", finding_rows(line, listed))
    return {one.key: one for one in listed}


def eager(count: int, kernel_us: int, period_us: int) -> list[Any]:
    rows = []
    for i in range(count):
        at = i * period_us * US
        rows += launch(
            "small", (at, at + (period_us - 1) * US), (at + period_us * US, at + (period_us + kernel_us) * US), i
        )
    return rows


def test_small_kernels_launched_one_by_one_are_launch_bound() -> None:
    finding = found(eager(100, 2, 8))["launch_bound"]
    assert finding.gain_bound == pytest.approx(4, rel=0.02)  # 2 of 8 us are work
    assert "6 of" not in finding.evidence
    assert "inside calls that launch" in finding.evidence
    assert "median kernel takes 2" in finding.evidence


def test_large_kernels_are_not() -> None:
    rows = [
        row
        for i in range(50)
        for row in launch("large", (10 * US * i, 10 * US * i + 2_000), (100 * US * i, 100 * US * (i + 1)), i)
    ]
    assert found(rows) == {}


def test_a_wait_after_each_kernel_is_a_finding_that_names_the_calls() -> None:
    rows = []
    for i in range(20):
        at = 50 * US * i
        rows += launch("k", (at, at + 2 * US), (at + 5 * US, at + 25 * US), i)
        rows.append(call("cudaStreamSynchronize", at + 3 * US, 24 * US))
    line = line_of(rows)
    finding = found(rows)["synchronous"]
    assert "19 times" in finding.evidence
    assert "cudaStreamSynchronize (19 times)" in finding.evidence
    assert {line.names[line.name[span]] for span in finding.spans} == {"cudaStreamSynchronize"}


def test_one_wait_at_the_end_is_none() -> None:
    rows = eager(30, 7, 8)
    rows.append(call("cudaDeviceSynchronize", 30 * 8 * US, 10 * US))
    assert "synchronous" not in found(rows)


def serialised(kind: str) -> list[Any]:
    rows = []
    for i in range(20):
        at = 100 * US * i
        rows += launch("a", (at, at + US), (at + 5 * US, at + 45 * US), 2 * i, stream=7, stream_type="default")
        rows += launch(
            "b", (at + US, at + 2 * US), (at + 46 * US, at + 86 * US), 2 * i + 1, stream=13, stream_type=kind
        )
    return rows


def test_streams_that_wait_for_the_default_stream() -> None:
    finding = found(serialised("blocking"))["default_stream"]
    assert "1 blocking stream never run side by side" in finding.evidence
    assert finding.gain_bound is not None
    assert 1.3 < finding.gain_bound < 2


def test_non_blocking_streams_do_not_wait_for_it() -> None:
    assert "default_stream" not in found(serialised("non_blocking"))


def test_pageable_copies_are_told_with_what_pinned_ones_reach() -> None:
    rows = [copy("h2d", 0, 1_000 * US, 5_000_000, "pageable"), copy("h2d", 1_100 * US, 100 * US, 5_000_000, "pinned"),
            kernel("k", 1_300 * US, 500 * US)]  # fmt: skip
    finding = found(rows)["pageable"]
    assert "5.00 GB/s" in finding.evidence
    assert "pinned memory reaches 50.0 GB/s" in finding.evidence
    assert finding.gain_bound == pytest.approx(1800 / 900)
    assert "pageable" not in found([copy("h2d", 0, 1_000 * US), kernel("k", 1_000 * US, 1_000 * US)])


@pytest.mark.parametrize(("streams", "words"), [((7, 7), "on one stream"), ((7, 8), "different streams")])
def test_copies_and_kernels_that_take_turns_could_overlap(streams: tuple[int, int], words: str) -> None:
    rows = []
    for i in range(10):
        rows += [
            copy("h2d", 200 * US * i, 100 * US, stream=streams[0]),
            kernel("k", 200 * US * i + 100 * US, 100 * US, stream=streams[1]),
        ]
    one = found(rows)["no_overlap"]
    assert words in one.evidence
    assert one.gain_bound == pytest.approx(2)
    assert len(one.spans) == 2


def test_copies_beside_kernels_are_no_finding() -> None:
    rows = [copy("h2d", 100 * US * i, 90 * US, stream=8) for i in range(10)] + [kernel("k", 0, 1_000 * US)]
    assert "no_overlap" not in found(rows)


def test_a_device_that_mostly_copies() -> None:
    finding = found([copy("h2d", 0, 900 * US), kernel("k", 900 * US, 20 * US)])["copies_alone"]
    assert "copy H2D 900" in finding.evidence


def test_an_empty_trace_has_none() -> None:
    assert findings(line_of([])) == []
