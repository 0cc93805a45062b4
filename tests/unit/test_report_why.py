"""The report's part 4: what the page says of each step, that its numbers multiply, and what it says where they lack."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import pytest
from make_run import FAULTS, RUNGS, SIZE, SMALL_SIZES, make_run

from profiler import frames
from profiler.analysis.decomposition import explain, profiled_sides
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.rundata import RunData
from profiler.analysis.steps import steps
from profiler.metrics import metric
from profiler.rundir import RunDir
from reports.render import render
from reports.sections import why
from reports.why_figure import tick_values, value_text, waterfall, why_figure

RECORDED = Path(__file__).resolve().parents[2] / "experiments" / "recorded" / "h200" / "gemm_ladder"


def section(data: RunData) -> dict[str, Any]:
    rows = ladder_rows(data)
    return why.build(data, steps(data, rows), profiled_sides(data), rows)


def synthetic(path: Path, **options: Any) -> RunData:
    return RunData.load(make_run(path / "run", **options))


def part(html: str) -> str:
    start = html.index('<section aria-labelledby="why">')
    return html[start : html.index("</section>", start)]


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.fixture(scope="module")
def recorded() -> RunData:
    return RunData.load(RunDir.open(RECORDED))


def rungs(data: RunData) -> dict[str, list[str]]:
    """Return the names of a run's rungs by contract, baselines left out."""
    found: dict[str, list[str]] = {}
    for row in data.variants:
        if row["name"] not in data.baselines:
            found.setdefault(row["dtype"], []).append(row["name"])
    return found


def test_a_waterfall_ends_at_the_speed_up_and_each_bar_starts_where_the_one_before_ended(recorded: RunData) -> None:
    for step in steps(recorded, ladder_rows(recorded)):
        bars = waterfall(step.decomposition)
        factors = [bar for bar in bars if bar.role == "factor"]
        at = 0.0
        for bar in factors:
            assert bar.start == pytest.approx(at)
            at += bar.length
        assert bars[-1].role == "total"
        assert 2 ** bars[-1].length == pytest.approx(step.interval.value)
        latency = next(bar for bar in factors if bar.label.startswith("latency"))
        inner = [bar for bar in bars if bar.role == "part"]
        if inner:
            assert inner[0].start == pytest.approx(latency.start)
            assert math.fsum(bar.length for bar in inner) == pytest.approx(latency.length)


def test_the_chart_has_a_waterfall_for_every_step_and_says_where_there_is_none(recorded: RunData) -> None:
    found = steps(recorded, ladder_rows(recorded))
    figure = why_figure(found, recorded.sizes, "tile_2d")
    assert figure is not None
    spec = figure.spec()
    assert {control["key"]: control["value"] for control in spec["controls"]} == {
        "against": "before",
        "step": "tile_2d",
    }
    names = list(dict.fromkeys(step.variant for step in found))
    assert len(spec["patches"]) == 2 * len(names)
    bars = [tags for trace, tags in zip(spec["data"], spec["tags"], strict=True) if trace["type"] == "bar"]
    assert len(bars) == len(found)
    texts = [note["text"] for note in spec["annotations"]]
    assert any("naive is the first timed rung of its contract" in text.replace("<br>", " ") for text in texts)


def test_saved_and_lost_time_differ_in_pattern_and_in_colour(recorded: RunData) -> None:
    figure = why_figure(steps(recorded, ladder_rows(recorded)), recorded.sizes, "tile_2d")
    assert figure is not None
    for trace in figure.traces:
        if trace["type"] != "bar":
            continue
        marker = trace["marker"]
        for x, colour, shape in zip(trace["x"][:-1], marker["color"], marker["pattern"]["shape"], strict=False):
            assert (colour, shape) == (("@c1", "/") if x < 0 else ("@c0", "")) or x == 0


def test_the_chart_opens_with_the_fastest_rung(recorded: RunData) -> None:
    figure = section(recorded)["figure"]
    times = {row.variant: row.time.value for row in ladder_rows(recorded) if row.time is not None}
    fastest = min(rungs(recorded)["fp32"], key=lambda name: times[name])
    assert next(control.value for control in figure.controls if control.key == "step") == fastest


def test_numbers_carry_the_sentence_of_the_metric_table(recorded: RunData) -> None:
    found = section(recorded)
    (article,) = [one for one in found["articles"] if one["name"] == "tile_2d"]
    pieces = [piece for sentence in article["steps"][0]["sentences"] for piece in sentence]
    titles = " ".join(piece["title"] for piece in pieces)
    for name in ("instructions_per_scheduler", "warp_latency", "warps_per_scheduler"):
        assert metric(name).meaning in titles
    cells = found["matrices"][0]["rows"][0]["cells"]
    assert metric("instructions_per_scheduler").meaning in cells[0]["title"]


def test_the_overview_puts_latency_and_warps_together(recorded: RunData) -> None:
    before, baseline = section(recorded)["matrices"]
    labels = [column["label"] for column in before["columns"]]
    assert labels[:5] == ["instructions", "latency", "warps", "issue interval", "active share"]
    row = next(row for row in before["rows"] if row["name"] == "tile_2d")
    fp32 = rungs(recorded)["fp32"]
    one = explain(recorded, fp32[fp32.index("tile_2d") - 1], "tile_2d", recorded.main_size)
    assert one.issue_cycles is not None
    assert row["cells"][3]["text"] == f"{one.issue_cycles[1] / one.issue_cycles[0]:.2f}×"
    assert [row["over"] for row in baseline["rows"]][-1] == "cublas_bf16"


def test_the_table_checks_the_product_of_every_variant(recorded: RunData) -> None:
    (table,) = section(recorded)["sizes"]
    assert len(table["sides"]) == len(recorded.variants)
    assert all(side["holds"] and side["product"] and side["event"] for side in table["sides"])
    for row in table["steps"]:
        assert row["product"] == row["speedup"]
    ladders = rungs(recorded).values()
    expected = [sum(len(names) - 1 for names in ladders), sum(len(names) for names in ladders)]
    assert [len(reasons["columns"]) for reasons in table["reasons"]] == expected
    for reasons in table["reasons"]:
        for i, total in enumerate(reasons["totals"]):
            cells = [row["cells"][i]["text"] for row in reasons["rows"]]
            rounding = 5e-5 * (len(cells) + 1)  # five digits are shown of each factor
            assert math.prod(float(text) for text in cells if text) == pytest.approx(float(total), rel=rounding)


def test_the_page_has_an_id_per_rung_and_a_link_to_its_chart(recorded: RunData) -> None:
    html = part(render(recorded))
    names = [name for ladder in rungs(recorded).values() for name in ladder]
    assert re.findall(r'<li id="(why-[^"]+)"', html) == [f"why-{name}" for name in names]
    assert 'href="#chart-why&amp;against=before&amp;step=tile_2d"' in html
    assert 'href="#chart-why&amp;against=baseline&amp;step=naive"' in html


def test_a_baseline_of_another_contract_is_labelled(tmp_path: Path) -> None:
    data = synthetic(tmp_path, baseline={"fp32": "cublas_fp32", "bf16": "cublas_fp32"})
    assert "another contract, fp32" in words(part(render(data)))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"timed": False}, "No step can be explained: nothing was timed."),
        ({"counters": False}, "No step can be explained: the driver does not permit counters"),
        ({"rungs": RUNGS[:1], "baseline": {}}, "there is only one timed variant in each contract"),
        ({"faults": FAULTS}, "double_buffer is"),
        ({"sizes": SMALL_SIZES}, "1024³, the factors of each variant"),
    ],
    ids=["static", "no-counters", "one-variant", "faults", "sizes"],
)
def test_a_run_with_less_in_it_says_why(tmp_path: Path, options: dict[str, Any], expected: str) -> None:
    assert expected in words(part(render(synthetic(tmp_path, **options))))


def test_a_counter_that_one_variant_lacks_is_named_on_the_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    rows = frames.rows_of(run.frame("metrics"))
    for row in rows:
        if (row["variant"], row["metric"]) == ("tile_2d", "warp_latency"):
            row["value"], row["why"] = None, "not_supported"
    run.write_frame("metrics", rows)
    data = RunData.load(run)
    text = words(part(render(data)))
    assert "tile_2d has no warp_latency (this chip has no such counter)" in text
    found = section(data)
    row = next(row for row in found["matrices"][0]["rows"] if row["name"] == "tile_2d")
    labels = [column["label"] for column in found["matrices"][0]["columns"]]
    assert row["cells"][labels.index("latency")]["text"] == ""
    assert row["cells"][labels.index("not separated")]["text"] != ""


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    rungs = [dataclasses.replace(RUNGS[0], name="</script><b>&step=x"), *RUNGS[1:]]
    html = part(render(synthetic(tmp_path, rungs=rungs)))
    assert "<b>&step" not in html
    assert "step=%3C/script%3E%3Cb%3E%26step%3Dx" in html


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 4.03, [1, 2, 4, 8, 16]),
        (-6.7, 0.0, [0.015625, 0.0625, 0.25, 1]),
        (0.0, 1.8, [1, 2, 3]),
        (-0.09, 0.02, [0.94, 0.96, 0.98, 1.0]),
        (0.0, 0.0, [1.0]),
    ],
)
def test_ticks_are_round_and_hold_1(low: float, high: float, expected: list[float]) -> None:
    found = tick_values(low, high)
    assert 1 in found
    assert len(found) <= 7
    assert all(low - 1e-9 <= math.log2(value) <= high + 1e-9 for value in found)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("clock", 1.9756e9, "1.976 GHz"), ("active", 0.9675, "96.8 %"), ("instructions", 6187629.0, "6.188 M"),
        ("latency", 6.459512, "6.460 cycles"), ("warps", 3.876336, "3.876 warps"), ("event", 1.0007, "1.001"),
    ],
)  # fmt: skip
def test_a_factor_reads_with_its_unit(key: str, value: float, text: str) -> None:
    assert value_text(key, value) == text


def test_the_size_of_the_largest_work_is_the_one_in_words(tmp_path: Path) -> None:
    found = section(synthetic(tmp_path, sizes=SMALL_SIZES, samples=12))
    assert found["size"] == "4096³"
    assert [table["label"] for table in found["sizes"]] == ["4096³", "1024³", "2048³"]
    assert {control.key for control in found["figure"].controls} == {"size", "against", "step"}
    assert next(control.value for control in found["figure"].controls if control.key == "size") == SIZE


def test_a_small_step_is_told_in_four_decimals() -> None:
    data = RunData.load(RunDir.open(RECORDED))
    bars = waterfall(explain(data, "register_banks", "in_step", "M=4096,N=4096,K=4096"))
    texts = {bar.label.partition(" 1.0")[0].partition(" 0.9")[0]: bar.text for bar in bars}
    assert texts["instructions"] == "saves 1.0023×"
    assert texts["warps"] == "no change"
    assert texts["<b>speed-up</b>"] == "<b>1.0057×</b>"
    whole = waterfall(explain(data, "shared", "tile_1d", "M=4096,N=4096,K=4096"))[-1]
    assert whole.text == "<b>2.08×</b>"
