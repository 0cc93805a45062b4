"""Controls: when a problem is timed beside a copy of its bytes, what the copy moves, and what becomes of its times."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from gpu_less_run import SIZE, fake_session, make_run
from make_run import SIZE as LADDER_SIZE
from make_run import make_run as make_ladder

from profiler import frames
from profiler.analysis.ladder import LadderRow, ladder_rows
from profiler.analysis.roofline import roofline
from profiler.analysis.rundata import RunData
from profiler.analysis.verdicts import verdict_lines
from profiler.cli.ladder_table import copy_text, ladder_document
from profiler.controls import Control, controls_for, is_control, memory_bound, parse_row_name, row_name
from profiler.model import Variant
from profiler.problem import Arg, In, InOut, Out, Problem, Scalar
from profiler.problems.gemm import Gemm
from profiler.timing import time_stage
from reports.render import render_run


class Scale(Problem):
    name = "scale"
    dims = ("M", "N")
    dtypes = ("fp32", "bf16")
    args: ClassVar[tuple[Arg | Scalar, ...]] = (
        In("x", "M N", {"fp32": "float32", "bf16": "bfloat16"}),
        In("w", "N", "float32"),
        Out("y", "M N", {"fp32": "float32", "bf16": "bfloat16"}),
    )


class RowSums(Problem):
    name = "row_sums"
    dims = ("M", "N")
    dtypes = ("fp32",)
    args = (In("x", "M N", "float32"), Out("y", "M", "float32"))


class InPlace(Problem):
    name = "in_place"
    dims = ("N",)
    dtypes = ("fp32",)
    args = (InOut("x", "N", "float32"),)


def variants(*dtypes: str) -> list[Variant]:
    return [Variant(f"v{i}", "cuda", dtype) for i, dtype in enumerate(dtypes)]


@pytest.mark.parametrize(
    ("problem", "dims", "expected"),
    [
        (Scale, {"M": 64, "N": 32}, [("copy", "fp32", 64 * 32 * 8 + 128), ("copy", "bf16", 64 * 32 * 4 + 128)]),
        (RowSums, {"M": 8, "N": 1024}, [("read", "fp32", 8 * 1024 * 4 + 32)]),
        (RowSums, {"M": 1024, "N": 8}, [("copy", "fp32", 8 * 1024 * 4 + 4096)]),  # a ninth of the bytes is written
        (InPlace, {"N": 4096}, [("copy", "fp32", 2 * 4096 * 4)]),
        (Gemm, {"M": 4096, "N": 4096, "K": 4096}, []),
        (Gemm, {"M": 4096, "N": 1, "K": 4096}, [("read", "fp32", 4 * (4096 * 4096 + 8192))]),  # reads a matrix
    ],
)
def test_a_problem_that_memory_bounds_is_held_against_the_same_bytes(
    problem: type[Problem], dims: Mapping[str, int], expected: list[tuple[str, str, int]]
) -> None:
    contracts = ("fp32",) if problem is Gemm else problem.dtypes
    found = controls_for(problem, variants(*contracts, "fp32"), dims, {"layout": "nn"})
    assert [(one.kind, one.contract, one.bytes) for one in found] == expected


def test_what_bounds_a_problem_follows_from_operations_and_bytes() -> None:
    assert memory_bound(None, 100)
    assert memory_bound(799, 100)
    assert not memory_bound(800, 100)
    assert not memory_bound(None, None)  # nothing is known of it


def test_names_of_controls_are_no_names_of_variants() -> None:
    control = Control("copy", "bf16->e4m3", 10)
    assert is_control(control.name)
    assert not is_control("copy_1.x-y")
    assert parse_row_name(row_name(control.name, "M=1,N=2")) == ("copy", "M=1,N=2", "bf16->e4m3")
    assert parse_row_name("copy") is None


def timed_beside_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str = "", **times: int
) -> tuple[dict[str, float], dict[str, str], list[str], list[str]]:
    run = make_run(tmp_path, "a", "b", timeout_s=5.0)
    monkeypatch.setattr(Gemm, "flops", classmethod(lambda cls, dims: None))
    if times:
        run.experiment = dataclasses.replace(
            run.experiment, measure=dataclasses.replace(run.experiment.measure, **times)
        )
    with fake_session(tmp_path, {"*": behaviour}) as session:
        time_stage(run, session, None, "ceilings.so")
    rows = {row["name"]: row["value"] for row in frames.rows_of(run.dir.frame("ceilings"))}
    timed = sorted(set(run.dir.frame("samples")["variant"]))
    controls = run.dir.manifest["timing"].get("controls", {})
    counts = {name: str(len(one["samples"])) for by_name in controls.values() for name, one in by_name.items()}
    return rows, counts, timed, list(run.dir.manifest["notes"])


def test_a_control_is_timed_in_every_process_and_is_no_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, counts, timed, notes = timed_beside_a_copy(tmp_path, monkeypatch, processes=2)
    moved = 2 * Gemm.min_bytes(SIZE, "fp32", {"layout": "nn"})  # as the fake worker rounds
    assert rows == {"copy@M=64,N=64,K=64@fp32": pytest.approx(moved / 800e-9)}
    assert counts == {"copy@fp32": "6"}
    assert timed == ["a", "b"]
    assert notes == []


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [("crash_in_control", "the worker was killed by SIGKILL"), ("refused_control", "out of memory")],
)
def test_a_control_that_fails_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, words: str
) -> None:
    rows, counts, timed, notes = timed_beside_a_copy(tmp_path, monkeypatch, behaviour)
    assert (rows, counts, timed) == ({}, {}, ["a", "b"])
    assert len(notes) == 1
    assert notes[0].startswith("No control copy@M=64,N=64,K=64@fp32: ")
    assert words in notes[0]


def bound_by_memory(tmp_path: Path, control: str) -> tuple[RunData, dict[str, LadderRow]]:
    data = RunData.load(make_ladder(tmp_path / "run"))
    problem = {**data.manifest["problem"], "flops": {LADDER_SIZE: 4 * 3 * 4096**2}}
    ceilings = [*data.rows["ceilings"]]
    if control:
        ceilings.append(
            {"name": f"{control}@{LADDER_SIZE}@fp32", "level_or_pipe": "dram", "value": 4e12, "unit": "B/s",
             "clock_mhz": None, "origin": "measured"}
        )  # fmt: skip
    data = dataclasses.replace(
        data, manifest={**data.manifest, "problem": problem}, rows={**data.rows, "ceilings": ceilings}
    )
    return data, {row.variant: row for row in ladder_rows(data) if row.size == LADDER_SIZE}


def test_the_ladder_shows_bytes_and_the_share_of_copy(tmp_path: Path) -> None:
    data, rows = bound_by_memory(tmp_path, "copy")
    row = rows["naive"]
    assert row.time is not None
    assert row.copy is not None
    assert row.rate == pytest.approx(3 * 4096**2 * 4 / (row.time.value * 1e-9))  # although it counts operations
    assert row.rate_unit == "B/s"
    assert row.copy.share == pytest.approx(row.rate / 4e12)
    assert rows["triton"].copy is None  # bf16 has no control in this run
    assert rows["triton"].copy_why == "no copy of the same bytes was timed in this run"
    assert " of copying the same bytes" in verdict_lines(data, list(rows.values()))[0]
    document = {one["variant"]: one for one in ladder_document(list(rows.values()))}
    assert document["naive"]["copy_share"] == row.copy.share
    assert (document["triton"]["copy_rate"], document["naive"]["copy_kind"]) == (None, "copy")


def test_a_reduction_is_held_against_reading(tmp_path: Path) -> None:
    data, rows = bound_by_memory(tmp_path, "read")
    assert copy_text(rows["naive"]).endswith(" % (read)")
    assert " of only reading the same bytes" in verdict_lines(data, list(rows.values()))[0]


def test_without_a_control_the_row_says_why(tmp_path: Path) -> None:
    _, rows = bound_by_memory(tmp_path, "")
    assert rows["naive"].copy is None
    assert rows["naive"].copy_why == "no copy of the same bytes was timed in this run"
    assert copy_text(rows["naive"]) == "-"


def test_the_page_has_the_share_its_rate_and_the_line_of_the_copy(tmp_path: Path) -> None:
    run = make_ladder(tmp_path / "run")
    run.manifest["problem"]["flops"] = {LADDER_SIZE: None}
    run.save()
    rows = frames.rows_of(run.frame("ceilings"))
    rows.append(
        {"name": f"copy@{LADDER_SIZE}@fp32", "level_or_pipe": "dram", "value": 4e12, "unit": "B/s", "clock_mhz": None,
         "origin": "measured"}
    )  # fmt: skip
    run.write_frame("ceilings", rows)
    page = render_run(run.path).read_text(encoding="utf-8")
    assert "Of copy" in page
    assert "a kernel that copies the same bytes, timed in the same rounds: 4.00 TB/s" in page
    assert "copy of the bytes at 4096³, fp32" in page  # among the controls
    assert "copy of the same bytes: 4" in page  # in the chart
    roofs = {roof.label for roof in roofline(RunData.load(run), LADDER_SIZE).roofs}
    assert not any("@" in label for label in roofs)


def test_other_problems_have_no_such_column(tmp_path: Path) -> None:
    page = render_run(make_ladder(tmp_path / "run").path).read_text(encoding="utf-8")
    assert "Of copy" not in page
