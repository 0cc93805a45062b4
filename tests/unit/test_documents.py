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


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    return script("kernel_tables")


class Made:
    """A script that makes two files, in a folder that stands for the checkout."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.module, self.capsys = script("generated"), capsys
        patch.setattr(self.module, "ROOT", folder)
        self.files = {folder / "a.md": "a\n", folder / "docs" / "b.md": "b\n"}

    def __call__(self, *argv: str) -> tuple[int, list[str], str]:
        code = self.module.write_or_check("make.py", "Makes two files.", lambda: self.files, argv)
        out, err = self.capsys.readouterr()
        return code, out.splitlines(), err


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Made:
    return Made(tmp_path, monkeypatch, capsys)


def test_a_check_names_what_differs_and_writes_nothing(made: Made) -> None:
    first, second = made.files
    first.write_text("old\n", encoding="utf-8")
    said = ["a.md differs", "docs/b.md differs", "2 of 2 differ: run python scripts/make.py"]
    assert made("--check") == (1, said, "")
    assert first.read_text(encoding="utf-8") == "old\n"
    assert not second.exists()


def test_what_differs_is_written_and_the_rest_left_alone(made: Made) -> None:
    first, second = made.files
    first.write_text("a\n", encoding="utf-8")
    before = first.stat().st_mtime_ns
    assert made() == (0, ["docs/b.md written", "1 of 2 written"], "")
    assert second.read_text(encoding="utf-8") == "b\n"
    assert first.stat().st_mtime_ns == before
    assert made() == made("--check") == (0, ["all of 2 are current"], "")


def test_what_cannot_be_made_is_an_error_and_writes_nothing(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> dict[Path, str]:
        raise ValueError("a.md has no table to fill")

    assert made.module.write_or_check("make.py", "", broken, []) == 1
    assert capsys.readouterr() == ("", "error: a.md has no table to fill\n")
    with pytest.raises(SystemExit) as ended:
        made("--chekc")
    assert ended.value.code == 2


@pytest.mark.parametrize("name", ["generate_metrics_doc", "kernel_tables", "update_golden"])
def test_each_script_has_it(name: str) -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / f"{name}.py", "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.startswith("all of ")


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
