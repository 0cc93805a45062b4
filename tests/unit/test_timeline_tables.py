"""Tables of a timeline: by name, copies, ranges, variants; and the JSON for Perfetto."""

from __future__ import annotations

import json

import numpy as np

from profiler import frames
from profiler.analysis.timeline import timeline
from profiler.analysis.timeline_export import perfetto
from profiler.analysis.timeline_tables import api_calls, copies, kernels, ranges
from profiler.analysis.timeline_variants import traced_variants
from reports.sections.timeline_rows import plain
from tests.unit.span_frames import call, copy, kernel, launch, line_of, nvtx


def test_kernels_by_name_with_median_and_the_untimed_apart() -> None:
    line = line_of(
        [kernel("a", 0, 10), kernel("a", 20, 30), kernel("a", 60, None), kernel("b", 70, 100), call("c", 0, 1)]
    )
    b, a = kernels(line)
    assert (b.name, b.count, b.total_ns, b.share) == ("b", 1, 100, 100 / 140)
    assert (a.count, a.total_ns, a.median_ns, a.mean_ns, a.least_ns, a.most_ns, a.untimed) == (2, 40, 20, 20, 10, 30, 1)
    assert line.duration[a.longest] == 30
    assert [group.name for group in api_calls(line)] == ["c"]


def test_copies_by_direction_and_memory() -> None:
    rows = [
        copy("h2d", 0, 100, 1000),
        copy("h2d", 200, 10, 10),
        copy("h2d", 300, 0, 50),
        copy("d2d", 400, 10, 100, None),
    ]
    first, second = copies(line_of(rows))
    assert (first.direction, first.memory, first.count, first.bytes, first.total_ns) == ("h2d", "pinned", 3, 1060, 110)
    assert first.rate == 1010 / 110 * 1e9  # the copy without a duration has no rate
    assert first.largest_rate == 1e10
    assert (second.direction, second.memory) == ("d2d", "")


def test_ranges_by_name_without_serial_numbers_and_the_device_time_asked_for_in_them() -> None:
    rows = [nvtx("aten::mm, op_id = 1", 0, 10), nvtx("aten::mm, op_id = 2", 20, 30), nvtx("step 3", 0, 100)]
    spans = frames.frame("spans", [*rows, {**kernel("k", 5, 7), "parent": "aten::mm, op_id = 2"}])
    listed = ranges(timeline(spans))
    assert [(one.group.name, one.group.count, one.device_ns, one.device_spans) for one in listed] == [
        ("aten::mm", 2, 7, 1), ("step", 1, 0, 0),
    ]  # fmt: skip


def test_variants_of_a_trace_per_launch() -> None:
    rows = []
    for i in range(4):
        rows.append({**nvtx("kl.launch", 100 * i, 50), "variant": "a", "size": "M=1"})
        rows += [
            {**row, "variant": "a", "size": "M=1"}
            for row in launch("k", (100 * i, 100 * i + 40), (100 * i + 50, 100 * i + 90), i)
        ]
    rows.append({**nvtx("kl.launch", 1000, 10), "variant": "b", "size": "M=1"})
    spans = frames.frame("spans", rows)
    a, b = traced_variants(spans, timeline(spans))
    assert (a.variant, a.launches, a.spans_per_launch, a.kernel_ns, a.period_ns, a.overhead_ns) == (
        "a",
        4,
        1,
        40,
        85,
        45,
    )
    assert (b.variant, b.launches, b.kernel_ns) == ("b", 1, None)
    assert traced_variants(frames.frame("spans", [kernel("k", 0, 1)]), line_of([kernel("k", 0, 1)])) == []


def test_the_json_for_perfetto() -> None:
    rows = [
        *launch('a "quoted" <b>', (0, 2), (5, 9), 1),
        copy("h2d", 10, 10, 100),
        nvtx("range", 0, 30),
        kernel("u", 40, None),
    ]
    line = line_of(rows)
    document = json.loads("".join(perfetto(line, {0: "NVIDIA H200"}, "x")))
    events = document["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(rows) - 1
    assert {event["name"] for event in events if event["ph"] == "i"} == {"u"}
    one = next(event for event in spans if event["cat"] == "copy")
    assert one["args"] == {"direction": "h2d", "memory": "pinned", "bytes": 100, "GB/s": 10.0}
    assert (one["ts"], one["dur"]) == (0.01, 0.01)
    arrows = (
        [event for event in events if event["cat"] == "launch"]
        if all("cat" in e for e in events)
        else [event for event in events if event.get("cat") == "launch"]
    )
    assert [event["ph"] for event in arrows] == ["s", "f"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "process_name"}
    assert names == {"GPU 0 NVIDIA H200", "process 0"}
    assert json.loads("".join(perfetto(line_of([]), {}, "")))["traceEvents"] == []


def test_names_without_arguments() -> None:
    assert plain("void sgemm<(int)32>(int, const float *)") == "sgemm"
    assert plain("void at::native::<unnamed>::fill<float>(T1)") == "at::native::fill"
    assert plain("sgemm_naive") == "sgemm_naive"
    assert plain("(int)") == "(int)"
    assert np.array([plain("a  b")]).tolist() == ["a b"]
