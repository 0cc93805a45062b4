"""Which rung is the fastest, and what is said where the samples do not tell it from others, or where sizes differ."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from make_run import RUNGS, SIZE, SMALL_SIZES, make_run

from profiler import frames
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.leads import Lead, Tie, elsewhere, lead, leads, listed_names
from profiler.analysis.rundata import RunData
from profiler.analysis.statistics import median_interval
from profiler.analysis.verdicts import verdict_document, verdict_lines, verdicts
from profiler.rundir import RunDir
from reports.runs_index import summarise
from reports.sections import ladder as section

#: What both of two rungs see in a round, far larger than what tells them apart.
COMMON = [1.0 + 0.02 * ((7 * i) % 11 - 5) for i in range(50)]
JITTER = [1.0 + 0.0004 * ((5 * i) % 7 - 3) for i in range(50)]


def run_with(path: Path, times: dict[tuple[str, str], list[float]], sizes: tuple[str, ...] = (SIZE,)) -> RunDir:
    """A run in which some variants take these times, by (variant, size), in the order of the rounds."""
    run = make_run(path / "run", sizes=sizes)
    rows = frames.rows_of(run.frame("samples"))
    for (name, size), values in times.items():
        mine = sorted((r for r in rows if (r["variant"], r["size"]) == (name, size)), key=lambda r: r["order"])
        for row, value in zip(mine, values, strict=True):
            row["time_ns"] = value
    run.write_frame("samples", rows)
    return run


def times(middle: float, jitter: list[float] = JITTER) -> list[float]:
    return [middle * common * own for common, own in zip(COMMON, jitter, strict=True)]


def led(data: RunData, dtype: str = "fp32", size: str = SIZE) -> Lead:
    return leads(data, ladder_rows(data))[dtype, size]


def test_rungs_of_one_speed_tie_and_the_lowest_median_leads(tmp_path: Path) -> None:
    wanted = {("tile_2d", SIZE): times(1e6), ("double_buffer", SIZE): times(1.0001e6, JITTER[::-1])}
    data = RunData.load(run_with(tmp_path, wanted))
    found = led(data)
    medians = {row.variant: row.time.value for row in ladder_rows(data) if row.time and row.dtype == "fp32"}
    assert set(found.names) == {"tile_2d", "double_buffer"}
    assert found.names[0] == min(found.names, key=lambda name: medians[name])
    assert found.among == 4
    (tie,) = found.ties
    assert tie.ratio.low is not None
    assert tie.ratio.low <= 1 <= tie.ratio.value


def test_a_difference_within_the_rounds_decides_where_the_intervals_of_the_times_overlap(tmp_path: Path) -> None:
    wanted = {("tile_2d", SIZE): times(1.003e6), ("double_buffer", SIZE): times(1e6, JITTER[::-1])}
    data = RunData.load(run_with(tmp_path, wanted))
    slow, fast = (median_interval(data.samples(name, SIZE)) for name in ("tile_2d", "double_buffer"))
    assert slow.low is not None
    assert fast.high is not None
    assert slow.low < fast.high
    assert led(data).names == ("double_buffer",)


def test_a_tie_is_said_first_and_each_of_its_rungs_is_marked(tmp_path: Path) -> None:
    wanted = {(name, SIZE): times(1e6, jitter) for name, jitter in (("tile_2d", JITTER), ("shared", JITTER[::-1]))}
    data = RunData.load(run_with(tmp_path, wanted))
    rows = ladder_rows(data)
    first, second = led(data).names
    line = verdict_lines(data, rows)[0]
    assert line.startswith(f"{first} and {second} tie for the fastest: the second takes 1.00")
    assert f"] of the first's time. {first} " in line
    (document, _) = verdict_document(verdicts(data, leads(data, rows)))
    assert (document["fastest"], [tie["variant"] for tie in document["ties"]]) == (first, [second])
    assert document["sentences"] == [line]
    (size,) = section.build(data, rows, leads(data, rows))["sizes"]
    marks = {row["name"]: row["fastest"]["text"] for group in size["groups"] for row in group["rows"] if row["fastest"]}
    assert marks == {first: "ties for fastest", second: "ties for fastest", "triton": "fastest rung"}


def test_the_list_of_runs_says_that_a_rung_ties(tmp_path: Path) -> None:
    wanted = {(name, SIZE): times(1e6, jitter) for name, jitter in (("tile_2d", JITTER), ("shared", JITTER[::-1]))}
    found = {one["dtype"]: one["variant"] for one in summarise(run_with(tmp_path, wanted).path).verdicts}
    assert found["fp32"] in ("tile_2d (tied)", "shared (tied)")
    assert found["bf16"] == "triton"


def test_the_mark_is_that_of_the_verdict_where_the_baseline_is_faster(tmp_path: Path) -> None:
    data = RunData.load(make_run(tmp_path / "run"))
    rows = ladder_rows(data)
    (size,) = section.build(data, rows, leads(data, rows))["sizes"]
    marks = {row["name"] for group in size["groups"] for row in group["rows"] if row["fastest"]}
    assert marks == {v.row.variant for v in verdicts(data, leads(data, rows))} == {"double_buffer", "triton"}


def test_a_lone_rung_is_marked_nowhere_and_leads_at_no_other_size(tmp_path: Path) -> None:
    lone = [rung for rung in RUNGS if rung.name in ("tile_2d", "cublas_fp32")]
    data = RunData.load(make_run(tmp_path / "run", rungs=lone, sizes=SMALL_SIZES, baseline={"fp32": "cublas_fp32"}))
    rows = ladder_rows(data)
    (verdict,) = verdicts(data, leads(data, rows))
    assert (verdict.row.variant, verdict.elsewhere) == ("tile_2d", "")
    sizes = section.build(data, rows, leads(data, rows))["sizes"]
    assert not any(row["fastest"] for size in sizes for group in size["groups"] for row in group["rows"])


def test_a_few_samples_tell_rungs_apart_only_where_none_of_them_meet(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", samples=3)
    rows = frames.rows_of(run.frame("samples"))
    values = {"tile_2d": (100.0, 101.0, 105.0), "double_buffer": (104.0, 106.0, 107.0), "shared": (106.0, 107.0, 108.0)}
    for row in rows:
        row["time_ns"] = values.get(row["variant"], (900.0, 901.0, 902.0))[row["order"]]
    run.write_frame("samples", rows)
    data = RunData.load(run)
    assert led(data).names == ("tile_2d", "double_buffer")
    assert led(data).tied_text.endswith("the second takes 1.05× of the first's time")


def test_no_rung_leads_where_none_has_a_time(tmp_path: Path) -> None:
    data = RunData.load(make_run(tmp_path / "run", timed=False))
    assert lead(data, ladder_rows(data)) is None
    assert leads(data, ladder_rows(data)) == {}


def test_the_same_winner_at_every_size_is_said_to_be(tmp_path: Path) -> None:
    data = RunData.load(make_run(tmp_path / "run", sizes=SMALL_SIZES))
    lines = verdict_lines(data, ladder_rows(data))
    assert lines[1] == "double_buffer is the fastest fp32 rung at 1024³ and 2048³ too."
    assert lines[3] == "triton is the fastest bf16 rung at 1024³ and 2048³ too."


def test_another_winner_at_another_size_is_named(tmp_path: Path) -> None:
    small, middle, _ = SMALL_SIZES
    wanted = {
        ("shared", small): times(10.0), ("tile_2d", small): times(10.0, JITTER[::-1]), ("naive", middle): times(10.0),
    }  # fmt: skip
    data = RunData.load(run_with(tmp_path, wanted, SMALL_SIZES))
    tied = " and ".join(led(data, size=small).names)
    line = verdict_lines(data, ladder_rows(data))[1]
    assert line == f"The fastest fp32 rung differs by size: {tied} (tied) at 1024³; naive at 2048³."


@pytest.mark.parametrize(
    ("main", "others", "text"),
    [
        (["a"], [], ""),
        (["a"], [["a", "b"]], "Fastest fp32 rung elsewhere: a and b (tied) at 1³. None beats a at any size."),
        (["a", "b"], [["a"], ["a"]], "Fastest fp32 rung elsewhere: a at 1³ and 2³. None beats a at any size."),
        (
            ["a", "b", "c"], [["b"], ["b", "c"]],
            "The fastest fp32 rung differs by size: b at 1³; b and c (tied) at 2³. None beats b at any size.",
        ),
        (["a"], [["a"]] * 7, "a is the fastest fp32 rung at 7 other sizes too."),
        (
            ["a"], [[name] for name in "bcdefgh"],
            "The fastest fp32 rung differs by size: "
            "b at 1³; c at 2³; d at 3³; e at 4³; f at 5³; others at 2 more sizes.",
        ),
    ],
)  # fmt: skip
def test_what_other_sizes_say(tmp_path: Path, main: list[str], others: list[list[str]], text: str) -> None:
    data = RunData.load(make_run(tmp_path / "run"))
    row = next(row for row in ladder_rows(data) if row.variant == "naive")
    assert row.time is not None
    interval = row.time

    def made(names: list[str], size: int) -> Lead:
        key = f"M={size},N={size},K={size}"
        rows = [dataclasses.replace(row, variant=name, size=key) for name in names]
        return Lead(rows[0], tuple(Tie(one, interval) for one in rows[1:]), among=3)

    assert elsewhere(made(main, 4096), [made(names, i) for i, names in enumerate(others, start=1)]) == text


def test_a_long_list_of_names_ends_with_how_many_more() -> None:
    assert listed_names("a") == "a"
    assert listed_names("abcd", "or") == "a, b, c or d"
    assert listed_names("abcdefg") == "a, b, c, d and 3 more"
