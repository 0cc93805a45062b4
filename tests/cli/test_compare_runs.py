"""compare_runs as it is called: exit codes, what stands on which stream, and what it says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from make_run import FAULTS, GPU, make_run
from rich.console import Console

from profiler.cli import compare_runs
from profiler.cli.compare_runs import main
from profiler.compare import Row


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two runs of synthetic numbers, and stand in it."""
    folder = tmp_path / "runs" / "gemm_ladder"
    make_run(folder / "1-before", seed=1)
    make_run(folder / "2-after", seed=2)
    monkeypatch.chdir(tmp_path)
    return folder


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(list(argv))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_two_runs_by_id_and_latest(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "1-before", "latest")
    assert code == 0
    assert err == ""
    assert "gemm_ladder/1-before" in out
    assert "gemm_ladder/2-after" in out
    assert "double_buffer" in out
    assert "no verdict on speed" in out
    assert "8 compared" in out
    assert "the same run" not in out


def test_json_is_one_document_on_standard_output(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--json", str(runs / "1-before"), str(runs / "2-after"))
    document = json.loads(out)
    assert code == document["exit_code"] == 0
    assert document["verdict"] is None
    assert {row["status"] for row in document["rows"]} == {"compared"}
    assert all(0.9 < row["ratio"]["value"] < 1.1 for row in document["rows"])


def test_quiet_is_one_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "-q", "1-before", "2-after")
    assert code == 0
    assert len(out.splitlines()) == 1


def test_verbose_lists_counters_that_did_not_move(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, short, _ = call(capsys, "1-before", "1-before")
    _, long, _ = call(capsys, "-v", "1-before", "1-before")
    assert "registers" not in short
    assert "registers" in long


def test_another_gpu_is_refused_with_the_way_out(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = runs / "2-after" / "manifest.json"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace(GPU, "Another GPU"), encoding="utf-8")
    code, out, err = call(capsys, "1-before", "2-after")
    assert code == 3
    assert f"gpu: {GPU} before, Another GPU after" in out
    assert "--allow-mismatch gpu" in err
    code, out, err = call(capsys, "1-before", "2-after", "--allow-mismatch", "gpu")
    assert code == 0
    assert "a mismatch of gpu was allowed" in out
    assert err == ""


def test_a_broken_variant_is_5_and_keeps_its_reason(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(runs / "3-broken", faults=FAULTS)
    code, out, _ = call(capsys, "1-before", "3-broken")
    assert code == 5
    assert "error 0.31 is above the tolerance" in out
    assert "C[64, 0]" in out  # brackets are text, not markup


def test_a_backslash_before_a_bracket_is_text_too(capsys: pytest.CaptureFixture[str]) -> None:
    reason = r"C\[bold]x"
    Console(width=200).print(compare_runs._times([Row("a", "fp32", "N=1", "broken", reason)]))
    assert reason in capsys.readouterr().out


def test_a_run_without_a_gpu_measured_nothing(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(runs / "3-static", timed=False)
    assert call(capsys, "3-static", "3-static")[0] == 5


def test_a_replay_is_not_a_measurement(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(runs / "3-replay", recorded=True)
    code, out, _ = call(capsys, "1-before", "3-replay")
    assert code == 5
    assert "recorded, not measured in this run" in out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "Missing argument"),
        (["1-before"], "Missing argument"),
        (["1-before", "2-after", "3"], "unexpected extra argument"),
        (["1-before", "nonsense"], "no run 'nonsense'"),
        (["1-before", "2-after", "--nonsense"], "No such option"),
        (["1-before", "2-after", "--allow-mismatch", "gpus"], "the keys are gpu, arch"),
        (["1-before", "2-after", "--runs-dir", "elsewhere"], "no id in elsewhere"),
    ],
)
def test_a_wrong_command_line_is_2(
    runs: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = call(capsys, *argv)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("file", ["manifest.json", "samples.parquet", "variants.parquet"])
def test_a_damaged_run_is_2(runs: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "2-after" / file).write_bytes(b"damaged")
    code, out, err = call(capsys, str(runs / "1-before"), str(runs / "2-after"))
    assert code == 2
    assert out == ""
    assert file in err
    assert "unreadable" in err


def test_a_run_that_lacks_its_samples_is_5(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs / "2-after", runs / "3-cut")
    (runs / "3-cut" / "samples.parquet").unlink()
    assert call(capsys, "1-before", "3-cut")[0] == 5


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--help")
    assert code == 0
    assert "BEFORE" in out
