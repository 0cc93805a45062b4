"""Measured and nominal ceilings where a reader meets them: lines, labels, the table of roofs, the controls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from make_run import SIZE, make_run

from profiler.analysis.environment import controls
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.roofline import roofline
from profiler.analysis.rundata import RunData
from reports.sections import roofline as section

MEASURED = (
    ("copy", "dram", 4.22e12, "B/s", 1950.0), ("read", "dram", 4.6e12, "B/s", 1950.0),
    ("L2 read", "l2", 6e12, "B/s", None), ("FFMA", "ffma", 65e12, "FLOP/s", 1965.0),
    ("wgmma BF16", "hgmma_bf16", 990e12, "FLOP/s", 1850.0),
)  # fmt: skip
NOMINAL = (("DRAM", "dram", 4.92e12, "B/s", 3201.0), ("wgmma BF16", "hgmma_bf16", 1070e12, "FLOP/s", 1980.0))


@pytest.fixture
def data(tmp_path: Path) -> RunData:
    run = make_run(tmp_path / "run")
    keys = ("name", "level_or_pipe", "value", "unit", "clock_mhz")
    rows = [
        {**dict(zip(keys, row, strict=True)), "origin": origin}
        for origin, table in (("measured", MEASURED), ("nominal", NOMINAL))
        for row in table
    ]
    run.write_frame("ceilings", rows)
    return RunData.load(run)


def built(data: RunData) -> dict[str, Any]:
    return section.build(data, [roofline(data, SIZE)], ladder_rows(data))


def drawn(data: RunData, dtype: str, level: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return the dash of every line by its hover text, and the labels of roofs, in one view."""
    spec = built(data)["figure"].spec()
    wanted = {"size": SIZE, "contract": dtype, "level": level}
    lines = {
        trace["hovertext"]: trace["line"]["dash"]
        for trace, tags in zip(spec["data"], spec["tags"], strict=True)
        if tags == wanted and trace.get("mode") == "lines"
    }
    labels = [
        note
        for note, tags in zip(spec["annotations"], spec["annotationTags"], strict=True)
        if tags == {**wanted, "room": "wide"} and note.get("name") == "roof"
    ]
    return lines, labels


def test_measured_roofs_are_dashed_and_nominal_ones_dotted(data: RunData) -> None:
    lines, _ = drawn(data, "bf16", "dram")
    assert lines["copy 4.22 TB/s at 1.95 GHz, measured by a small kernel"] == "dash"
    assert lines["read 4.60 TB/s at 1.95 GHz, measured by a small kernel"] == "dash"
    assert lines["wgmma BF16 1.07 PFLOP/s at 1.98 GHz, nominal"] == "dot"
    assert {dash for text, dash in lines.items() if text.endswith("by counters")} == {"solid"}


def test_ceilings_of_one_level_share_a_label(data: RunData) -> None:
    texts = [label["text"] for label in drawn(data, "bf16", "dram")[1]]
    assert "copy 4.22 TB/s and read 4.60 TB/s (measured); 4.92 TB/s (nominal)" in texts
    assert "wgmma BF16 990 TFLOP/s at 1.85 GHz (measured); 1.07 PFLOP/s (nominal)" in texts
    assert len(texts) == len(set(texts)) == 5  # DRAM, two pipes, and the two above


def test_labels_of_lines_that_lie_close_stand_on_their_outer_sides(data: RunData) -> None:
    bf16 = {label["text"].partition(") ")[0]: label["yanchor"] for label in drawn(data, "bf16", "dram")[1]}
    measured = next(side for text, side in bf16.items() if text.startswith("wgmma BF16"))
    assert (measured, bf16["tensor pipe (BF16, wgmma"]) == ("bottom", "top")  # measured above what counters say
    fp32 = {label["text"][:4]: label["yanchor"] for label in drawn(data, "fp32", "dram")[1]}
    assert (fp32["FFMA"], fp32["FMA "]) == ("top", "bottom")


def test_the_table_of_roofs_has_all_with_clock_and_origin(data: RunData) -> None:
    roofs = [tuple(roof.values()) for roof in built(data)["tables"][0]["roofs"]]
    assert ("L2 read", "6.00 TB/s", "not stated", "measured by a small kernel in this run") in roofs
    assert ("copy", "4.22 TB/s", "1.950 GHz", "measured by a small kernel in this run") in roofs
    assert any(value == "4.92 TB/s" and origin.startswith("nominal") for _, value, _, origin in roofs)


def test_controls_are_what_was_measured(data: RunData) -> None:
    assert controls(data) == (
        ("copy", "4.22 TB/s at 1.950 GHz"), ("read", "4.60 TB/s at 1.950 GHz"), ("L2 read", "6.00 TB/s"),
        ("FFMA", "65.0 TFLOP/s at 1.965 GHz"), ("wgmma BF16", "990 TFLOP/s at 1.850 GHz"),
    )  # fmt: skip
