"""The sustained regime in the terminal's ladder, in its JSON and in the report."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from profiler import data_files
from profiler.analysis.environment import environment
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.rundata import RunData
from profiler.cli.ladder_table import ladder_document, ladder_table
from profiler.rundir import RunDir
from reports.render import render_run

RECORDED = data_files.recorded() / "h200"


def printed(name: str) -> tuple[str, dict[tuple[str, str], dict[str, object]]]:
    rows = ladder_rows(RunData.load(RunDir.open(Path(RECORDED / name))))
    console = Console(file=io.StringIO(), width=400)
    console.print(ladder_table(rows, name))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue(), {(row["variant"], row["size"]): row for row in ladder_document(rows)}


def test_where_it_was_taken_it_stands_beside_the_ratio() -> None:
    text, document = printed("hopper_ladder")
    row = document["per_shape", "M=4096,N=4096,K=4096"]
    library = document["cublas_bf16", "M=4096,N=4096,K=4096"]
    assert isinstance(row["sustained_ns"], float)
    assert isinstance(library["sustained_ns"], float)
    assert row["sustained_ratio"] == pytest.approx(library["sustained_ns"] / row["sustained_ns"], rel=0.01)
    assert row["sustained_ratio_interval"] == pytest.approx([0.987, 1.037], abs=0.0005)
    assert library["sustained_ratio_interval"] == [None, None]
    line = next(line for line in text.splitlines() if line.strip().startswith("per_shape "))
    assert "sustained" in text
    assert line.count("×") == 2
    assert "1.01× [0.99, 1.04]" in line


def test_where_it_was_not_there_is_no_column() -> None:
    text, document = printed("transpose")
    assert "sustained" not in text
    assert {row["sustained_ratio"] for row in document.values()} == {None}
    assert {row["sustained_ratio_interval"] for row in document.values()} == {None}


@pytest.mark.parametrize(("name", "told"), [("hopper_ladder", True), ("transpose", False)])
def test_the_method_says_where_its_interval_comes_from(name: str, told: bool) -> None:
    method = environment(RunData.load(RunDir.open(Path(RECORDED / name)))).method
    assert any(line.startswith("Intervals of sustained ratios: 95 %, Student's t;") for line in method) == told


def test_the_page_has_it_with_its_bounds_which_stay_on_one_line(tmp_path: Path) -> None:
    page = render_run(Path(RECORDED / "hopper_ladder"), tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'sustained 1.01× <span class="bounds">[0.99, 1.04]</span>' in page
    assert "its interval from how far the blocks of all variants scatter" in page
