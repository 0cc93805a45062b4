"""runs/index.html: what it lists, what it bears, what it does not read twice."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from make_run import FAULTS, RUNGS, make_run

from profiler.cli.after_run import list_runs, open_report
from profiler.rundir import RunDir
from reports import runs_index
from reports.runs_index import summarise, write_index


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    (folder / "gemm_ladder").mkdir(parents=True)
    make_run(folder / "gemm_ladder" / "20261129T200000Z-aaaa", samples=5)
    make_run(folder / "gemm_ladder" / "20261130T200000Z-bbbb", samples=5, faults=FAULTS)
    (folder / "gemm_ladder" / "20261129T200000Z-aaaa" / "report.html").write_text("", encoding="utf-8")
    return folder


def test_the_newest_run_comes_first_with_verdicts_statuses_and_link(runs: Path) -> None:
    html = write_index(runs).read_text(encoding="utf-8")
    assert html.index("20261130T200000Z-bbbb") < html.index("20261129T200000Z-aaaa")
    assert 'href="gemm_ladder/20261129T200000Z-aaaa/report.html"' in html
    assert "bbbb/report.html" not in html
    assert len(re.findall(r"0\.64\d*×", html)) >= 2
    assert "Started, UTC" in html  # a run that replays was not taken then
    assert "Taken" not in html
    assert "1 wrong result" in html
    assert "identifier &#34;smem_a&#34; is undefined" in html
    assert "<script" not in html
    assert "script-src &#39;none&#39;" in html


def test_damaged_and_foreign_folders_keep_a_line_with_the_reason(runs: Path) -> None:
    for name, text in (
        ("cut", "{"),
        ("list", "[1]"),
        ("shape", '{"schema": 1, "experiment": [1]}'),
        ("new", '{"schema": 99}'),
    ):
        (runs / "odd" / name).mkdir(parents=True)
        (runs / "odd" / name / "manifest.json").write_text(text, encoding="utf-8")
    (runs / "assets" / "0123").mkdir(parents=True)
    (runs / "notes.txt").write_text("mine", encoding="utf-8")
    (runs / "gemm_ladder" / "20261130T200000Z-bbbb" / "samples.parquet").write_bytes(b"PAR1")
    html = write_index(runs).read_text(encoding="utf-8")
    document = json.loads((runs / "index.json").read_text(encoding="utf-8"))
    problems = {run["run"]: run["problem"] for run in document["runs"]}
    assert set(problems) == {
        "odd/cut", "odd/list", "odd/shape", "odd/new",
        "gemm_ladder/20261129T200000Z-aaaa", "gemm_ladder/20261130T200000Z-bbbb",
    }  # fmt: skip
    assert problems["gemm_ladder/20261129T200000Z-aaaa"] == ""
    assert all(text for run, text in problems.items() if not run.endswith("aaaa"))
    assert "schema 99" in problems["odd/new"]
    assert str(runs) not in html


def test_hostile_titles_stay_text(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    rungs = [dataclasses.replace(RUNGS[0], name="<img src=x onerror=1>"), *RUNGS[1:]]
    make_run(tmp_path / "x" / "1", rungs=rungs, title="</title><script>alert(1)</script>", samples=5)
    html = write_index(tmp_path).read_text(encoding="utf-8")
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_a_run_is_read_again_only_when_its_manifest_changed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_index(runs)
    read: list[str] = []

    def counted(path: Path, run: str = "", stamp: str = "") -> runs_index.RunSummary:
        read.append(run)
        return summarise(path, run, stamp)

    monkeypatch.setattr(runs_index, "summarise", counted)
    write_index(runs)
    assert read == []
    changed = RunDir.open(runs / "gemm_ladder" / "20261130T200000Z-bbbb")
    changed.manifest["experiment"]["title"] = "another title"
    changed.save()
    assert "another title" in write_index(runs).read_text(encoding="utf-8")
    assert read == ["gemm_ladder/20261130T200000Z-bbbb"]


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1, "version": "0", "runs": []}', '{"schema": 1}'])
def test_a_damaged_or_older_list_is_made_anew(runs: Path, text: str) -> None:
    (runs / "index.json").write_text(text, encoding="utf-8")
    assert write_index(runs).read_text(encoding="utf-8").count("<tr>") == 3


def test_a_removed_run_leaves_the_list_and_an_empty_folder_says_how_to_begin(tmp_path: Path) -> None:
    assert "run_experiment gemm_ladder" in write_index(tmp_path).read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []


def test_a_run_elsewhere_lists_nothing_and_a_list_that_cannot_be_written_is_said(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    assert list_runs(tmp_path / "other", runs / "gemm_ladder" / "20261129T200000Z-aaaa", said.append) is None
    assert said == []
    (runs / "index.json").mkdir()
    assert list_runs(runs, runs / "gemm_ladder" / "20261129T200000Z-aaaa", said.append) is None
    assert "the list of runs was not written" in said[0]


@pytest.mark.parametrize(("screen", "opens"), [(":0", True), ("", False)])
def test_open_needs_a_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, screen: str, opens: bool) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    if screen:
        monkeypatch.setenv("DISPLAY", screen)
    monkeypatch.setattr("sys.platform", "linux")
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: bool(asked.append(url)) or True)
    said: list[str] = []
    report = tmp_path / "report 1.html"
    assert not open_report(report, said.append)
    assert said == ["--open: there is no report to open"]
    report.write_text("", encoding="utf-8")
    assert open_report(report, said.append) is opens
    assert asked == ([report.as_uri()] if opens else [])
