"""Which size the charts open at and what they leave out; registers of one kernel; the cure of a full memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from make_run import RUNGS, SMALL_SIZES, make_run

from profiler import frames
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


def test_where_memory_is_full_no_more_loads_in_flight_are_advised(tmp_path: Path) -> None:
    data = RunData.load(make_run(tmp_path / "run"))
    rows = ladder_rows(data)
    name = RUNGS[0].name
    for verdict, advice in (("near", "fewer bytes help"), ("between", "keep more loads in flight")):
        limited = [
            replace(row, limit=replace(row.limit, key="dram", verdict=verdict)) if row.variant == name else row
            for row in rows
        ]
        tables = stall_tables(data, {(row.variant, row.size): row.limit.key for row in limited})
        cures = next(one for one in stalls.build(data, tables, limited)["cures"] if one["variant"] == name)
        assert any(advice in item["cure"] for item in cures["found"])
        assert sum("more loads in flight do not" in item["cure"] for item in cures["found"]) == (
            len(cures["found"]) if verdict == "near" else 0
        )
