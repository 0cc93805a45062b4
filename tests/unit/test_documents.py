"""Tables of the documentation that scripts fill: of the recorded runs, and of runs that lack something."""

from __future__ import annotations

import dataclasses
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from profiler.analysis.ladder import LadderRow

ROOT = Path(__file__).resolve().parents[2]
AT = "M=8192,N=8192"  # a size of `transpose`


def test_tables_are_current() -> None:
    argv = [sys.executable, ROOT / "scripts" / "kernel_tables.py", "--check"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == ["README.md is current", "docs/kernels.md is current"]


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernel_tables", ROOT / "scripts" / "kernel_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def changed(
    tables: ModuleType, patch: pytest.MonkeyPatch, change: Callable[[LadderRow], LadderRow | None]
) -> Callable[[str], list[list[str]]]:
    """Return what makes a table of changed rows, as its cells; None leaves a row out."""
    loaded = tables.loaded

    def other(name: str) -> tuple[object, tuple[LadderRow, ...]]:
        data, rows = loaded(name)
        return data, tuple(new for row in rows if (new := change(row)) is not None)

    patch.setattr(tables, "loaded", other)

    def cells(kind: str) -> list[list[str]]:
        lines = tables.KINDS[kind](["transpose"]).splitlines()
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]

    return cells


def test_the_best_is_a_timed_rung_of_ours(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def slower(row: LadderRow) -> LadderRow:
        if row.kind in ("cuda", "triton") and row.variant != "naive":
            return dataclasses.replace(row, time=None)  # it failed
        return row

    rows = changed(tables, monkeypatch, slower)("best")
    assert [row[3] for row in rows] == ["`naive`"] * 2
    assert all(float(row[-1].removesuffix("x torch")) < 1 for row in rows)  # which a library may beat


def test_the_best_of_a_contract_is_no_rung_of_another(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = changed(
        tables, monkeypatch, lambda row: dataclasses.replace(row, dtype="bf16") if row.variant == "plain" else row
    )("best")
    assert {(row[1], row[3]) for row in rows if row[1] == "bf16"} == {("bf16", "`plain`")}
    assert {row[-1] for row in rows if row[1] == "bf16"} == {""}  # there is no library of this contract
    assert all(row[3] != "`plain`" and "torch" in row[-1] for row in rows if row[1] == "fp32")


def test_what_was_not_recorded_is_an_empty_cell(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = changed(tables, monkeypatch, lambda row: None if (row.variant, row.size) == ("plain", AT) else row)
    assert [row[0] for row in cells("best")] == ["`transpose`"] * 2
    (plain,) = [row for row in cells("shares") if row[0] == "`plain`"]
    assert plain[1] == ""
    assert 0.9 < float(plain[2]) < 1
    assert len([row for row in cells("rungs") if row[2] == "`plain`"]) == 1


def test_a_size_without_a_rung_of_ours_has_no_row(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = changed(tables, monkeypatch, lambda row: row if row.size != AT or row.variant == "torch" else None)
    assert len(cells("best")) == 1


def test_a_table_of_no_recording_says_so(tables: ModuleType) -> None:
    text = "a\n<!-- table: shares of_nothing -->\nold\n<!-- end -->\nb\n"
    assert tables.filled(text) == text.replace("old", "Not recorded yet.")


@pytest.mark.parametrize(
    "text",
    [
        "<!-- table: share transpose -->\n<!-- end -->\n",
        "<!-- table: shares transpose topk -->\n<!-- end -->\n",
        "<!-- table: shares trans-pose -->\n<!-- end -->\n",
        "<!-- table: shares topk -->\nwords that stay\n<!-- table: shares transpose -->\n<!-- end -->\n",
        "<!-- table: shares topk -->\nwords that stay\n",
    ],
    ids=["kind", "two_experiments", "name", "swallows_another", "not_closed"],
)
def test_a_comment_that_is_no_table_is_an_error_and_removes_nothing(tables: ModuleType, text: str) -> None:
    with pytest.raises(ValueError, match="table"):
        tables.filled(text)
