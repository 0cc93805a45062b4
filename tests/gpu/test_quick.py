"""`--quick` on a real GPU: from an edit to the table in 15 s at most, with the checks of any other run."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from profiler.rundir import RunDir
from tests.gpu.command import ROOT, document_of, run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300)]


def test_an_edited_kernel_and_its_baseline_take_15_seconds_at_most(tmp_path: Path) -> None:
    kernel = tmp_path / "tile_2d.cu"
    shutil.copy(ROOT / "kernels/gemm/fp32/05_tile_2d.cu", kernel)
    arguments = [str(kernel), "--problem", "gemm", "--runs-dir", str(tmp_path / "runs"), "--quick", "--json"]
    first = run_experiment(arguments)  # builds the timing helpers, once for each machine
    assert first.returncode == 0, first.output
    with kernel.open("a", encoding="utf-8") as file:
        file.write("static int edited;\n")
    started = time.monotonic()
    done = run_experiment(arguments)
    seconds = time.monotonic() - started
    assert done.returncode == 0, done.output
    document = document_of(done)
    run = RunDir.open(Path(document["run"]))
    spent = {name: stage.get("seconds") for name, stage in run.manifest["stages"].items()}
    assert seconds <= 15.0, f"{seconds:.1f} s: {spent}, worker {run.manifest['worker']}, wall {run.manifest['wall']}"
    assert {row["name"]: row["status"] for row in document["variants"]} == {"tile_2d": "ok", "cublas_fp32": "ok"}
    assert not run.manifest["builds"]["tile_2d"]["cached"]
    checks = run.frame("checks")
    assert {"before", "during", "after"} == set(checks.loc[checks["variant"] == "tile_2d", "when"])
    assert len(run.frame("samples")) == 100
