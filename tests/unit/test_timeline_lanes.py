"""Levels of a timeline: nothing is lost, nothing merged that is long enough; and their bytes read back."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analysis.timeline_lanes import MOST_DEPTH, Marks, lanes, picture
from reports.timeline_data import leb128, timeline_data
from tests.unit.span_frames import call, copy, kernel, launch, line_of, nvtx


def unpack(data: str, count: int, columns: list[str]) -> dict[str, list[int]]:
    """The page's own reader, in Python."""
    content, at, found = base64.b64decode(data), 0, {}
    for column in columns:
        values = []
        for _ in range(count):
            value, scale = 0, 1
            while True:
                byte = content[at]
                at += 1
                value += (byte & 127) * scale
                scale *= 128
                if not byte & 128:
                    break
            values.append(value)
        found[column] = values
    assert at == len(content)
    return found


@given(st.lists(st.integers(0, 2**60), max_size=20))
def test_numbers_read_back(values: list[int]) -> None:
    data = base64.b64encode(leb128(np.array(values, np.int64))).decode()
    assert unpack(data, len(values), ["x"])["x"] == values


@pytest.fixture(scope="module")
def many() -> Any:
    rng = np.random.default_rng(1)
    rows = []
    at = 0
    for i in range(3000):
        at += int(rng.integers(100, 3_000))
        time = int(rng.integers(50, 2_000)) if i % 100 else 100_000
        rows += launch(f"k{i % 7}", (at, at + 50), (at + 60, at + 60 + time), i, stream=i % 3)
    return line_of([*rows, *(copy("h2d", 5_000 * i, 2_000) for i in range(300))])


@pytest.mark.parametrize("most", [1_000_000, 2_000, 300])
def test_levels_lose_no_span_and_merge_no_long_one(many: Any, most: int) -> None:
    drawn = picture(many, most)
    assert (drawn.resolutions[0] == 0) == (most == 1_000_000)
    assert sum(len(marks) for marks in drawn.levels[0]) <= most
    assert drawn.left_out == 0
    for resolution, level in zip(drawn.resolutions, drawn.levels, strict=True):
        for lane, marks in zip(drawn.lanes, level, strict=True):
            assert marks.count.sum() == len(lane.rows)
            merged = marks.count > 1
            assert (marks.busy[merged] <= (marks.end - marks.start)[merged]).all()
            assert (many.duration[marks.span[merged]] < max(resolution, 1)).all()
            assert ((marks.end - marks.start)[merged] < 2 * resolution).all()
            long = many.duration[lane.rows] >= resolution
            assert (marks.count[np.isin(marks.span, lane.rows[long])] == 1).all()
            assert many.end[lane.rows].max() == marks.end.max()


def test_a_level_is_coarser_than_the_one_before(many: Any) -> None:
    drawn = picture(many)
    assert list(drawn.resolutions) == sorted(set(drawn.resolutions))
    totals = [sum(len(marks) for marks in level) for level in drawn.levels]
    assert all(later < 0.7 * earlier for earlier, later in itertools.pairwise(totals))


def test_nested_ranges_lie_one_under_the_other_and_no_deeper_than_drawn() -> None:
    rows = [
        nvtx("a", 0, 100),
        nvtx("b", 0, 50),
        nvtx("c", 10, 10),
        nvtx("d", 50, 10),
        nvtx("e", 100, 10),
        nvtx("z", 30, 0),
    ]
    line = line_of([*rows, kernel("k", 0, 5)])
    lane = next(lane for lane in lanes(line) if lane.kind == "nvtx")
    found = dict(zip([line.names[line.name[row]] for row in lane.rows], lane.depth.tolist(), strict=True))
    assert found == {"a": 0, "b": 1, "c": 2, "d": 1, "e": 0, "z": 2}
    deep = line_of([nvtx(f"r{i}", i, 100 - 2 * i) for i in range(20)])
    drawn = picture(deep)
    assert drawn.lanes[0].lines == MOST_DEPTH
    assert drawn.left_out == 20 - MOST_DEPTH


def test_many_streams_share_a_lane() -> None:
    line = line_of([kernel("k", 10 * i, 5 + i, stream=i) for i in range(40)])
    found = lanes(line)
    assert [lane.label for lane in found][-1] == "24 other streams"
    assert sum(len(lane.rows) for lane in found) == 40


def test_the_page_carries_every_column_that_says_something() -> None:
    rows = [
        *launch("k", (0, 20), (50, 90), 1),
        copy("d2h", 100, 10, 640, "pageable"),
        call("cudaFree", 200, 10),
        nvtx("r", 0, 300),
    ]
    line = line_of(rows)
    data = timeline_data(line, picture(line), {0: "GPU name"})
    json.dumps(data)
    lane = {entry["label"]: number for number, entry in enumerate(data["lanes"])}
    kernel_ = data["levels"][0][lane["stream 7"]]
    values = unpack(kernel_["data"], kernel_["n"], kernel_["columns"])
    assert (values["start"], values["time"], values["late"]) == ([50], [40], [51])
    assert values["caller"] == [lane["calls"] + 1]
    assert data["names"][values["name"][0]] == "k"
    copied = data["levels"][0][lane["copy D2H"]]
    values = unpack(copied["data"], copied["n"], copied["columns"])
    assert (values["bytes"], values["memory"]) == ([640], [1])
    assert data["devices"][0]["name"] == "GPU name"
    assert (data["begin"], data["end"]) == (0, 300)
    calls = data["levels"][0][lane["calls"]]
    assert unpack(calls["data"], calls["n"], calls["columns"])["class"] == [0, 1]


def test_an_empty_lane_has_no_marks() -> None:
    assert len(Marks(*(np.empty(0, np.int64) for _ in range(6)))) == 0
    assert picture(line_of([])).lanes == ()
