"""Names, numbers and texts of the roofline: none covers another, in any view of any room; below it stand the keys."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from make_run import RUNGS, SIZE, make_run

from profiler.analysis.roofline import roofline
from profiler.analysis.rundata import RunData
from profiler.rundir import RunDir
from reports.label_places import HEIGHT, Box
from reports.roofline_figure import drawn_lines, roofline_figure
from reports.roofline_labels import NUMBERED, ROOMS, Room, numbers_text

RECORDED = Path(__file__).resolve().parents[2] / "experiments" / "recorded" / "h200"
PAGE = Path(__file__).resolve().parents[2] / "reports" / "assets" / "report.js"


def spec_of(data: RunData) -> dict[str, Any]:
    lines = [roofline(data, size) for size in data.sizes]
    figure = roofline_figure(drawn_lines(lines), data.sizes, data.baselines, data.main_size)
    assert figure is not None
    return figure.spec()


def boxes(spec: dict[str, Any], tags: dict[str, str], room: Room) -> list[tuple[str, Box]]:
    """What each text of a view covers, in pixels of the room's plot."""
    (patch,) = [p["layout"] for p in spec["patches"] if p["when"] == tags]
    (x_low, x_high), (y_low, y_high) = patch["xaxis"]["range"], patch["yaxis"]["range"]
    found = []
    for note, of in zip(spec["annotations"], spec["annotationTags"], strict=True):
        if of != {**tags, "room": room.key} or not note["text"] or note.get("xref") == "paper":
            continue
        x = (note["x"] - x_low) / (x_high - x_low) * room.plot[0]
        y = (note["y"] - y_low) / (y_high - y_low) * room.plot[1]
        width = len(note["text"]) * note["font"]["size"] * 0.55
        x += note["ax"] if note["showarrow"] else note["xshift"]
        left = x if note["xanchor"] == "left" else x - width
        if note["showarrow"]:
            middle = y - note["ay"]
        else:
            middle = y + note["yshift"] + (-HEIGHT / 2 if note["yanchor"] == "top" else HEIGHT / 2)
        found.append((note["text"], Box(left, middle - 6, left + width, middle + 6)))
    return found


@pytest.mark.parametrize("name", [p.name for p in RECORDED.iterdir() if p.name not in ("memory_access",)])
@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.key)
def test_no_text_covers_another_and_none_leaves_the_chart(name: str, room: Room) -> None:
    spec = spec_of(RunData.load(RunDir.open(RECORDED / name)))
    views = [patch["when"] for patch in spec["patches"]]
    assert len(views) >= 1
    for tags in views:
        placed = boxes(spec, tags, room)
        assert len(placed) > 1
        for (first, a), (second, b) in itertools.combinations(placed, 2):
            assert a.overlap(b) == 0, (tags, first, second)
        for text, box in placed:
            assert box.left >= -room.plot[0] * 0.02, (tags, text)
            assert box.right <= room.plot[0] * 1.02, (tags, text)


def test_numbers_stand_for_the_same_rungs_at_every_level_and_the_keys_name_them(tmp_path: Path) -> None:
    spec = spec_of(RunData.load(make_run(tmp_path / "run")))
    names = [rung.name for rung in RUNGS if rung.dtype == "fp32"]
    keys = [keys for keys in spec["keys"] if keys["when"]["contract"] == "fp32"]
    assert {keys["when"]["level"] for keys in keys} >= {"dram", "l2", "all"}
    for one in keys:
        assert set(map(tuple, one["numbers"])) <= set(enumerate(names, start=1))
        assert one["when"]["room"] == NUMBERED
    tags = {"size": SIZE, "contract": "fp32", "level": "dram"}
    shown = {
        room.key: {
            note["text"]
            for note, of in zip(spec["annotations"], spec["annotationTags"], strict=True)
            if of == {**tags, "room": room.key} and note["showarrow"]
        }
        for room in ROOMS
    }
    assert shown["wide"] == shown["paper"] == set(names)
    for key in NUMBERED:
        listed = [int(n) for text in shown[key] for n in re.findall(r"\d+", text)]
        assert set(listed) <= set(range(1, len(names) + 1))
        assert 1 in listed


def test_keys_hold_every_roof_with_its_clock(tmp_path: Path) -> None:
    spec = spec_of(RunData.load(make_run(tmp_path / "run")))
    one = next(k for k in spec["keys"] if (k["when"]["contract"], k["when"]["level"]) == ("fp32", "dram"))
    texts = [text for _, _, text in one["lines"]]
    assert any(re.fullmatch(r"DRAM .* TB/s at [\d.]+ GHz", text) for text in texts)
    assert any(text.startswith("FMA pipe (FP32) ") for text in texts)
    every = next(k for k in spec["keys"] if (k["when"]["contract"], k["when"]["level"]) == ("fp32", "all"))
    assert [line[2] for line in every["lines"]][:2] == ["DRAM", "L2"]


def test_the_page_knows_the_rooms() -> None:
    source = PAGE.read_text(encoding="utf-8")
    assert all(f'"{room.key}"' in source for room in ROOMS)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([3], "3"), ([2, 1], "1, 2"), ([7, 5, 6], "5–7"), ([1, 4, 5, 6, 9, 10], "1, 4–6, 9, 10")],
)
def test_numbers_in_a_row_are_a_run(numbers: list[int], text: str) -> None:
    assert numbers_text(numbers) == text
