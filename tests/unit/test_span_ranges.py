"""A trace cut down to the ranges of its variants."""

from __future__ import annotations

from typing import Any

from profiler import frames
from profiler.parse.span_ranges import GAP_NS, cut
from tests.unit.span_frames import call, kernel, launch, nvtx

RANGES = {"kl.0000": ("naive", "M=1"), "kl.0001": ("tiled", "M=1")}
TITLES = {"kl.0000": "naive at 1", "kl.0001": "tiled at 1"}


def cut_rows(rows: list[Any]) -> list[dict[str, Any]]:
    return frames.rows_of(cut(frames.frame("spans", rows), RANGES, TITLES))


def test_spans_belong_to_the_range_of_their_call() -> None:
    rows = [
        call("cudaMalloc", 0, 900),
        nvtx("kl.0000", 1_000, 500), nvtx("kl.launch", 1_000, 100),
        *launch("a", (1_010, 1_020), (1_100, 1_400), 1),
        call("cudaFree", 1_600, 5_000),
        nvtx("kl.0001", 9_000, 300),
        *launch("b", (9_010, 9_020), (9_100, 9_450), 2),  # runs on past its range
        call("cudaEventRecord", 9_050, 10, thread=5),  # of another thread of the variant's
        kernel("stranger", 9_200, 5),  # its call is not known: by its time
    ]  # fmt: skip
    found = cut_rows(rows)
    assert [(row["variant"], row["name"], row["start_ns"]) for row in found] == [
        ("naive", "naive at 1", 0), ("naive", "kl.launch", 0), ("naive", "cudaLaunchKernel", 10), ("naive", "a", 100),
        ("tiled", "tiled at 1", 500 + GAP_NS), ("tiled", "cudaLaunchKernel", 510 + GAP_NS),
        ("tiled", "cudaEventRecord", 550 + GAP_NS), ("tiled", "b", 600 + GAP_NS), ("tiled", "stranger", 700 + GAP_NS),
    ]  # fmt: skip
    assert {row["size"] for row in found} == {"M=1"}


def test_the_next_range_begins_after_all_work_of_the_one_before() -> None:
    rows = [nvtx("kl.0000", 0, 100), *launch("a", (10, 20), (50, 1_000), 1), nvtx("kl.0001", 2_000, 10)]
    assert [row["start_ns"] for row in cut_rows(rows) if row["kind"] == "nvtx"] == [0, 1_000 + GAP_NS]


def test_a_trace_without_the_ranges_is_empty() -> None:
    assert cut_rows([nvtx("other", 0, 10), kernel("k", 0, 5)]) == []
    assert cut_rows([]) == []
