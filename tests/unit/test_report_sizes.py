"""Which size the charts open at and what they leave out; registers of one kernel; the cure of a full memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from make_run import RUNGS, SMALL_SIZES, make_run

from profiler import frames
from profiler.analysis import formatting
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.roofline import Roofline, roofline
from profiler.analysis.rundata import RunData
from profiler.analysis.stalls import stall_tables
from profiler.analysis.steps import steps
from profiler.rundir import RunDir
from reports.figures import Figure, ladder_figure
from reports.render import render_run
from reports.roofline_figure import drawn_lines, roofline_figure
from reports.sections import stalls
from reports.why_figure import why_figure

FIRST, LAST = SMALL_SIZES[0], SMALL_SIZES[-1]


def profiled_at(path: Path, size: str) -> RunDir:
    """A run of three sizes whose counters are of one of them."""
    run = make_run(path / "run", sizes=SMALL_SIZES)
    for name in ("metrics", "stalls"):
        rows = frames.rows_of(run.frame(name))
        run.write_frame(name, [row for row in rows if row["size"] in (size, None, "")])
    return run


def chosen(figure: Figure | None, key: str) -> str | None:
    assert figure is not None
    return next((control.value for control in figure.controls if control.key == key), None)


def lines_of(data: RunData) -> list[Roofline]:
    return [roofline(data, size) for size in data.sizes]


def test_charts_open_at_the_size_of_the_verdict(tmp_path: Path) -> None:
    data = RunData.load(profiled_at(tmp_path, FIRST))
    assert data.main_size == FIRST
    rows = ladder_rows(data)
    unknown = {row.limit.text for row in rows if row.size != FIRST}
    assert unknown == {"not profiled at this size"}
    assert chosen(ladder_figure(rows, data.sizes, data.main_size), "size") == FIRST
    assert chosen(ladder_figure(rows, data.sizes), "size") == LAST


def test_sizes_without_counters_are_named_and_not_drawn_where_another_has_them(tmp_path: Path) -> None:
    run = profiled_at(tmp_path, FIRST)
    data = RunData.load(run)
    lines = lines_of(data)
    assert [line.size for line in lines if line.model] == list(SMALL_SIZES[1:])
    assert [line.size for line in drawn_lines(lines)] == [FIRST]
    assert chosen(roofline_figure(drawn_lines(lines), data.sizes, data.baselines, data.main_size), "size") is None
    found = steps(data, ladder_rows(data))
    assert chosen(why_figure(found, data.sizes, found[0].variant, data.main_size), "size") is None
    html = render_run(run.path, tmp_path / "x.html").read_text(encoding="utf-8")
    assert "Not profiled, and so not in the chart: 2048³, 4096³." in html
    assert "<strong>Model.</strong>" not in html


def test_without_any_counters_the_model_is_drawn_at_every_size(tmp_path: Path) -> None:
    data = RunData.load(make_run(tmp_path / "run", sizes=SMALL_SIZES, counters=False))
    lines = lines_of(data)
    assert [line.size for line in drawn_lines(lines)] == list(SMALL_SIZES)
    assert chosen(roofline_figure(drawn_lines(lines), data.sizes, data.baselines, data.main_size), "size") == LAST


def test_registers_and_occupancy_are_of_one_kernel_where_no_launch_says_which(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", counters=False)
    rows = [row for row in frames.rows_of(run.frame("metrics")) if row["origin"] != "ncu"]
    of = [row for row in rows if row["variant"] == "naive" and row["origin"] in ("ptxas", "sass", "model")]
    values = {"ptxas.registers": 252.0, "model.occupancy.percent": 12.5}
    assert values.keys() <= {row["metric"] for row in of}
    rows += [{**row, "kernel": "heavy", "value": values[row["metric"]]} for row in of if row["metric"] in values]
    run.write_frame("metrics", rows)
    data = RunData.load(run)
    row = next(one for one in ladder_rows(data) if one.variant == "naive")
    assert (row.registers.value, row.occupancy.value) == (252.0, 12.5)


@pytest.mark.parametrize(
    ("key", "verdict", "advice"),
    [
        ("dram", "near", "fewer bytes help"),
        ("l2", "near", "loads that a cluster shares help"),
        ("l1", "near", "values kept in registers and fewer sectors"),
        ("dram", "between", "keep more loads in flight"),
        ("l2", "between", "keep more loads in flight"),
    ],
)
def test_where_a_level_of_memory_is_full_no_more_loads_in_flight_are_advised(
    tmp_path: Path, key: str, verdict: Literal["near", "between"], advice: str
) -> None:
    data = RunData.load(make_run(tmp_path / "run"))
    name = RUNGS[0].name
    limited = [
        replace(row, limit=replace(row.limit, key=key, verdict=verdict)) if row.variant == name else row
        for row in ladder_rows(data)
    ]
    tables = stall_tables(data, {(row.variant, row.size): row.limit.key for row in limited})
    findings = stalls.build(data, tables, limited)["cures"]
    mine = [one["cure"] for one in findings if any(item["variant"] == name for item in one["variants"])]
    assert any(advice in cure for cure in mine)
    full = sum("more loads in flight do not" in cure for cure in mine)
    assert full == (1 if verdict == "near" else 0)  # for all of its reasons once


def test_advice_stands_once_with_the_variants_that_it_is_for(tmp_path: Path) -> None:
    data = RunData.load(make_run(tmp_path / "run"))
    rows = ladder_rows(data)
    tables = stall_tables(data, {(row.variant, row.size): row.limit.key for row in rows})
    findings = stalls.build(data, tables, rows)["cures"]
    cures = [one["cure"] for one in findings]
    assert len(cures) == len(set(cures))
    said = {(item["variant"], share["label"] or one["label"], share["text"])
            for one in findings for item in one["variants"] for share in item["shares"]}  # fmt: skip
    wanted = {(table.variant, row.reason.label, formatting.percent(row.share))
              for table in tables for row in [row for row in table.rows if row.cure][:3]}  # fmt: skip
    assert said == wanted
    assert {item["limit"] for one in findings for item in one["variants"]} >= {"latency", "shared memory 88 %"}


def test_reasons_with_the_same_advice_are_named_where_they_are_not_the_first(tmp_path: Path) -> None:
    data = RunData.load(make_run(tmp_path / "run"))
    name = RUNGS[0].name
    rows = [
        replace(row, limit=replace(row.limit, key="dram", verdict="near")) if row.variant == name else row
        for row in ladder_rows(data)
    ]
    tables = stall_tables(data, {(row.variant, row.size): row.limit.key for row in rows})
    full = next(
        one for one in stalls.build(data, tables, rows)["cures"] if "more loads in flight do not" in one["cure"]
    )
    assert (full["label"], full["also"]) == ("LG throttle", "long scoreboard")
    assert [share["label"] for share in full["variants"][0]["shares"]] == ["", "long scoreboard"]


def test_of_many_variants_with_the_same_advice_the_longest_waits_are_shown_first(tmp_path: Path) -> None:
    many = [replace(RUNGS[0], name=f"rung_{i:02d}") for i in range(15)]
    data = RunData.load(make_run(tmp_path / "run", rungs=[*many, *RUNGS[4:]]))
    rows = ladder_rows(data)
    tables = stall_tables(data, {(row.variant, row.size): row.limit.key for row in rows})
    finding = stalls.build(data, tables, rows)["cures"][0]
    assert (len(finding["variants"]), len(finding["others"])) == (12, 3)
    html = render_run(tmp_path / "run", tmp_path / "x.html").read_text(encoding="utf-8")
    assert html.count(finding["cure"]) == 1
    assert "<summary>3 more</summary>" in html
