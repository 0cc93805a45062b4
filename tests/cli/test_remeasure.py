"""compare_runs --remeasure with a card, a compiler and a worker that are fakes: the order, and what is kept."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from profiler import frames, gpu, pipeline, toolchain
from profiler.cli import compare_runs, render_report, run_experiment
from profiler.comparison import remeasure
from profiler.comparison.model import CONFIRMATION_BASE
from profiler.run import Run
from profiler.rundir import RunDir
from tests.fakes import with_gpu

FAKES = Path(__file__).resolve().parent.parent / "fakes"
KERNEL = """#include "gemm.h"
extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) { return cudaSuccess; }
"""
EXPERIMENT = """schema: 1
name: made
problem:
  kind: gemm
  sizes: [[64, 64, 64]]
  check_sizes: [[67, 131, 35]]
defaults: {dtype: fp32}
baseline: {fp32: good}
measure: {samples: 10, warmup_ms: 1}
variants:
  - {name: good, cuda: good.cu}
  - {name: other, cuda: other.cu}
"""
TIMES = {"*": 200e3, "good": 200e3, "other": 150e3}


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Put the fakes in place, and stand in a folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv(toolchain.PINNED, str(FAKES))
    monkeypatch.setenv("FAKE_TIMES", json.dumps(TIMES))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder.parent / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([with_gpu.FAKE_GPU], None))
    monkeypatch.setattr(pipeline, "worker_argv", lambda: [sys.executable, "-S", str(FAKES / "worker.py")])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder where ``made`` was run twice, with a change of ``good.cu`` between; its files are gone since."""
    folder = tmp_path_factory.mktemp("made") / "project"
    folder.mkdir()
    (folder / "other.cu").write_text(KERNEL + "int other;\n")
    with pytest.MonkeyPatch.context() as monkeypatch:
        pretend(monkeypatch, folder)
        for name, text in (("1-before", KERNEL), ("2-after", KERNEL + "int changed;\n")):
            run_it(folder, name, text)
    return folder.parent


@pytest.fixture
def project(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of that folder, on a machine that seems to have a GPU; what was built is in the cache."""
    shutil.copytree(made, tmp_path / "made")
    folder = tmp_path / "made" / "project"
    pretend(monkeypatch, folder)
    return folder


def run_it(folder: Path, name: str, kernel: str, experiment: str = EXPERIMENT) -> None:
    """Run the experiment with this kernel, call the run ``name``, and take the files away."""
    (folder / "made.yaml").write_text(experiment)
    (folder / "good.cu").write_text(kernel)
    assert run_experiment.main(["made.yaml", "--quick", "--runs-dir", "new", "-q"]) in (0, 1)
    (found,) = Path("new/made").iterdir()
    (folder / "runs" / "made").mkdir(parents=True, exist_ok=True)
    shutil.move(str(found), folder / "runs" / "made" / name)
    for file in ("made.yaml", "good.cu"):
        (folder / file).unlink()


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any], str]:
    capsys.readouterr()
    code = compare_runs.main([*argv, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out.strip() else {}, captured.err


def remeasured(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any], Path]:
    code, document, err = call(capsys, "1-before", "2-after", "--remeasure", *flags)
    kept = [line.removeprefix("kept: ") for line in err.splitlines() if line.startswith("kept: ")]
    assert len(kept) == 1, err
    return code, document, Path(kept[0])


def by_name(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["variant"]: row for row in document["rows"]}


def slower(monkeypatch: pytest.MonkeyPatch, **factors: float) -> None:
    """Let variants of AFTER be so many times slower."""
    times = {f"{side}:{name}": TIMES[name] for side in ("before", "after") for name in ("good", "other")}
    times.update({f"after:{name}": TIMES[name] * factor for name, factor in factors.items()})
    monkeypatch.setenv("FAKE_TIMES", json.dumps({**TIMES, **times}))


@pytest.mark.parametrize("design", ["--two-process", "--in-process"])
def test_a_slow_down_of_three_percent_is_found_and_kept(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, design: str
) -> None:
    slower(monkeypatch, good=1.03)
    code, document, kept = remeasured(capsys, design)
    rows = by_name(document)
    assert code == 1
    assert (rows["good"]["verdict"], rows["good"]["pairs"], rows["good"]["stage"]) == ("regressed", 8, "confirmed")
    assert 1.025 < rows["good"]["ratio"]["value"] < 1.035
    assert (rows["other"]["verdict"], rows["other"]["pairs"]) == ("unchanged", 3)
    assert (document["kind"], document["design"]) == ("side_by_side", design.strip("-").replace("-", "_"))
    assert (kept / "comparison.html").is_file()
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([], None))
    again, same, _ = call(capsys, str(kept))
    assert (again, same) == (code, document)
    assert call(capsys, f"compare/{kept.name}")[0] == code
    assert render_report.main([str(kept)]) == 2  # two sides, each a run; the page of both is this command's
    assert "compare_runs" in capsys.readouterr().err
    assert not (kept / "work").exists()


def test_pairs_of_processes_take_turns(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slower(monkeypatch, good=1.03)
    _, _, kept = remeasured(capsys, "--two-process", "--pairs", "3", "--only", "good", "--only", "other")
    facts = json.loads((kept / "comparison.json").read_text())
    pairs = {pair["number"]: (pair["first"], pair["rows"]) for pair in facts["pairs"]}
    both, one = 2, 1
    assert {n: p for n, p in pairs.items() if n < CONFIRMATION_BASE} == {
        0: ("before", both), 1: ("after", both), 2: ("before", both)
    }  # fmt: skip
    confirmed = [pairs[CONFIRMATION_BASE + i] for i in range(3)]
    assert confirmed == [("before", one), ("after", one), ("before", one)]
    for side in ("before", "after"):
        samples = frames.rows_of(RunDir.open(kept / side).frame("samples"))
        counts = Counter((row["variant"], row["process"]) for row in samples)
        assert set(counts) == {
            *(("good", n) for n in pairs), *(("other", n) for n in pairs if n < CONFIRMATION_BASE)
        }  # fmt: skip
        assert set(counts.values()) == {50}


def test_one_process_is_the_default_where_both_sides_can_be_loaded(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document, kept = remeasured(capsys)
    assert (code, document["design"]) == (0, "in_process")
    assert {row["verdict"] for row in document["rows"]} == {"unchanged"}
    for side in ("before", "after"):
        run = RunDir.open(kept / side)
        assert run.edited_frames() == []
        rows = frames.rows_of(run.frame("variants"))
        assert {row["origin"] for row in rows} == {"measured"}
        assert {row["verified"] for row in rows} == {"yes"}
        assert {row["when"] for row in frames.rows_of(run.frame("checks"))} == {"before", "after"}
        assert (run.path / "sources" / "good" / "good.cu").is_file()


def test_identical_code_takes_no_more_than_the_first_pairs(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``other`` is one library on both sides: a control, whatever its times are."""

    def analysed(run: Run) -> None:
        rows = frames.rows_of(run.dir.frame("variants"))
        run.dir.write_frame("variants", [{**row, "binary_hash": run.builds[row["name"]]["key"]} for row in rows])

    monkeypatch.setattr(remeasure, "static_stage", analysed)
    slower(monkeypatch, other=1.01)
    code, document, _ = remeasured(capsys)
    assert (by_name(document)["other"]["verdict"], by_name(document)["other"]["pairs"]) == ("unchanged", 3)
    assert code == 0


def test_so_many_pairs_as_are_asked_for(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    slower(monkeypatch, good=1.04)
    _, document, _ = remeasured(capsys, "--pairs", "2")
    assert by_name(document)["good"]["pairs"] == 4


def test_only_what_is_wanted_is_measured(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, document, kept = remeasured(capsys, "--only", "good")
    assert set(by_name(document)) == {"good"}
    samples = frames.rows_of(RunDir.open(kept / "after").frame("samples"))
    assert {row["variant"] for row in samples if row["process"] in (1, 2)} == {"good"}


@pytest.mark.parametrize(
    ("behaviour", "verdict"),
    [("wrong", "broken"), ("crash", "broken"), ("crash_in_time", "broken"), ("wrong_in_time", "broken")],
)
def test_a_side_that_fails_is_broken_and_the_other_rows_go_on(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    behaviour: str,
    verdict: str,
) -> None:
    monkeypatch.setenv("FAKE_WORKER", json.dumps({"after:good": behaviour}))
    code, document, _ = remeasured(capsys)
    assert code == 5
    assert by_name(document)["good"]["verdict"] in (verdict, "not_measured")
    assert by_name(document)["other"]["verdict"] == "unchanged"


def test_without_a_gpu_it_is_3(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([], "the driver does not answer"))
    code, _, err = call(capsys, "1-before", "2-after", "--remeasure")
    assert code == 3
    assert "--remeasure needs a GPU: the driver does not answer" in err
    assert not Path("runs/compare").exists()


def test_a_worker_that_cannot_start_is_3_and_leaves_its_log(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_WORKER", json.dumps({"*": "no_start"}))
    code, _, err = call(capsys, "1-before", "2-after", "--remeasure")
    assert code == 3
    assert "the GPU cannot be used" in err
    assert [path.name for path in Path("runs/compare").glob("*/*")] == ["raw"]


def test_sources_that_are_gone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree("runs/made/1-before/sources/good")
    code, document, _ = remeasured(capsys)
    assert code == 5
    assert by_name(document)["good"]["verdict"] == "not_measured"
    assert "keeps no copy of good.cu" in by_name(document)["good"]["words"]


def test_a_run_without_its_experiment_cannot_be_measured_again(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDir.open(Path("runs/made/1-before"))
    del run.manifest["experiment"]["text"]
    run.save()
    code, _, err = call(capsys, "1-before", "2-after", "--remeasure")
    assert code == 2
    assert "keeps no experiment file" in err


def test_other_inputs_are_not_measured_against_each_other(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = EXPERIMENT.replace("  sizes:", "  init: {seed: 3}\n  sizes:")
    run_it(project, "3-seed", KERNEL, other)
    code, _, err = call(capsys, "1-before", "3-seed", "--remeasure")
    assert code == 3
    assert "how the inputs are made differ" in err
    assert call(capsys, "1-before", "3-seed", "--remeasure", "--allow-mismatch", "init")[0] == 0


def test_nothing_in_common_is_5(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_it(project, "3-size", KERNEL, EXPERIMENT.replace("[[64, 64, 64]]", "[[128, 64, 64]]"))
    code, _, err = call(capsys, "1-before", "3-size", "--remeasure")
    assert code == 5
    assert "no variant and size in common" in err


def test_what_one_side_alone_has_is_carried_over(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_it(project, "2-more", KERNEL, EXPERIMENT + "  - {name: third, cuda: other.cu, params: {TILE: 3}}\n")
    code, document, err = call(capsys, "1-before", "2-more", "--remeasure")
    assert (code, by_name(document)["third"]["verdict"]) == (0, "new"), err
    code, document, _ = call(capsys, "2-more", "1-before", "--remeasure")
    assert (code, by_name(document)["third"]["verdict"]) == (5, "removed")


def test_a_kept_comparison_is_no_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, kept = remeasured(capsys)
    code, document, _ = call(capsys, "1-before", "latest")
    assert (code, document["after"]) == (0, "made/2-after")
    assert call(capsys, str(kept), "latest")[0] == 2
    assert call(capsys, str(kept), "--remeasure")[0] == 2


def test_a_damaged_comparison_is_2(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, kept = remeasured(capsys, "--only", "other")
    for content in ("", "{}", '{"schema": 99, "design": "in_process"}', '{"schema": 1, "design": 3}'):
        (kept / "comparison.json").write_text(content)
        code, _, err = call(capsys, str(kept))
        assert code == 2
        assert "comparison.json" in err
        assert "Traceback" not in err
