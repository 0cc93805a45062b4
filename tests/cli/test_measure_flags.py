"""Ceilings, sustained blocks and locked clocks through the command, on a card and a driver that are fakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from profiler import clocks, frames, gpu, pipeline, toolchain
from profiler.cli import run_experiment
from profiler.rundir import RunDir
from tests.fakes import nvml, with_gpu

FAKES = Path(__file__).resolve().parent.parent / "fakes"
EXPERIMENT = """schema: 1
name: made
title: Made
problem: {kind: gemm, sizes: [[64, 64, 64]]}
defaults: {dtype: fp32}
baseline: {fp32: good}
measure: {samples: 3, warmup_ms: 1, sustained: true}
variants:
  - {name: good, cuda: good.cu}
  - {name: other, cuda: other.cu}
"""
LOCK, RESET = "lock GPU-fake 1755 1755", "reset GPU-fake"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with an experiment, on a machine that seems to have a GPU and a driver."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "made.yaml").write_text(EXPERIMENT)
    for name in ("good", "other"):
        (folder / f"{name}.cu").write_text(
            f'#include "gemm.h"\nextern "C" cudaError_t launch(const Args *, void *, cudaStream_t);  // {name}\n'
            f"int {name};\n"
        )
    monkeypatch.chdir(folder)
    monkeypatch.setenv(toolchain.PINNED, str(FAKES))
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml.log"))
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([with_gpu.FAKE_GPU], None))
    monkeypatch.setattr(pipeline, "worker_argv", lambda: [sys.executable, str(FAKES / "worker.py")])
    monkeypatch.setattr(clocks, "load_nvml", lambda: nvml)
    return folder


def run_it(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, dict[str, Any], str]:
    code = run_experiment.main(["made.yaml", "--skip", "profile", "--json", *args])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out.strip() else {}, captured.err


def test_ceilings_and_sustained_blocks_reach_the_report(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, error = run_it(capsys)
    assert code == 0, error
    run = RunDir.open(Path(document["run"]))
    found = {(row["name"], row["origin"]) for row in frames.rows_of(run.frame("ceilings"))}
    assert ("copy", "measured") in found
    assert ("FP32", "nominal") in found
    assert list(run.frame("samples")["method"]).count("sustained") == 4
    page = (run.path / "report.html").read_text()
    assert "4.20 TB/s at 1.950 GHz" in page
    assert "wgmma BF16: no such instruction" in page
    assert "sustained 1.1" in page
    assert nvml.said() == []


def test_without_a_report_no_ceiling_is_measured(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_experiment.main(["made.yaml", "--quick", "--json"])
    assert code == 0
    run = RunDir.open(Path(json.loads(capsys.readouterr().out)["run"]))
    assert len(run.frame("ceilings")) == 0
    assert run.manifest["notes"] == []


def test_locked_clocks_are_in_the_manifest_and_released(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, error = run_it(capsys, "--lock-clocks")
    assert code == 0, error
    assert nvml.said() == [LOCK, RESET]
    run = RunDir.open(Path(document["run"]))
    assert run.manifest["gpu"]["clocks"]["sm_locked_mhz"] == 1755
    assert "sm locked 1755 MHz" in (run.path / "report.html").read_text()


def test_a_worker_that_is_lost_does_not_leave_the_clock_locked(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_WORKER", json.dumps({"*": "no_start"}))
    code, _, _ = run_it(capsys, "--lock-clocks", "--skip", "report")
    assert code == 3
    assert nvml.said() == [LOCK, RESET]


def test_a_refusal_ends_the_run_in_one_line(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_REFUSES", "permission")
    code, _, error = run_it(capsys, "--lock-clocks", "--skip", "report")
    assert code == 2
    assert "error: --lock-clocks: the SM clock cannot be locked; the driver permits it to root only" in error
    assert "leave --lock-clocks out" in error
    assert "Traceback" not in error


def test_a_clock_without_a_lock_is_a_usage_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run_it(capsys, "--clock-mhz", "1410")
    assert code == 2
    assert "add --lock-clocks" in error
    assert not (project / "runs").exists()


def test_where_there_is_no_gpu_there_is_nothing_to_lock(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([], None))
    _, _, error = run_it(capsys, "--lock-clocks", "--replay", "never", "--skip", "report")
    assert "there is nothing to lock" in error
    assert nvml.said() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_ended_releases_the_clock(
    project: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setenv("FAKE_WORKER", json.dumps({"good": "hang_in_time"}))
    argv = [sys.executable, str(FAKES / "with_gpu.py"), "made.yaml", "--skip", "profile,report", "--lock-clocks"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as child:
        deadline = time.monotonic() + 60
        while nvml.said() != [LOCK] and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.0)  # into the hanging launch
        child.send_signal(number)
        _, error = child.communicate(timeout=60)
    assert child.returncode == 130, error
    assert nvml.said() == [LOCK, RESET]
