"""Ceilings and sustained blocks on a real GPU: plausible for an H200, quick, and the power-limited regime is one.

Nothing here locks a clock: that is tested on a fake card only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profiler import frames
from profiler.rundir import RunDir
from profiler.worker.abba import block_order
from tests.gpu.command import run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

#: On an H200, whatever its clock: lowest and highest plausible rate. Nothing may pass what the datasheet's arithmetic
#: gives at the measured clock.
PLAUSIBLE = {
    "copy": (3.9e12, 4.5e12),
    "read": (4.0e12, 4.9e12),
    "L2 read": (4.5e12, 11e12),
    "shared read": (26e12, 33.6e12),
    "FFMA": (60e12, 68e12),
    "mma.sync BF16": (600e12, 720e12),
    "wgmma BF16": (800e12, 1075e12),
    "mma.sync TF32": (280e12, 360e12),
    "wgmma TF32": (380e12, 540e12),
}
PER_CYCLE = {"shared": 132 * 128, "ffma": 132 * 128 * 2, "hmma_bf16": 360448, "hgmma_bf16": 540672}
PER_CYCLE |= {"hmma_tf32": 180224, "hgmma_tf32": 270336}
EXPERIMENT = """schema: 1
name: regimes
title: Two regimes
problem: {kind: gemm, sizes: [[4096, 4096, 4096]]}
baseline: {bf16: cublas_bf16, fp32: cublas_fp32}
measure: {samples: 20, warmup_ms: 500, sustained: true}
variants:
  - {name: mma_sync, dtype: bf16, cuda: gemm/bf16/12_mma_sync.cu}
  - {name: cublas_bf16, dtype: bf16, python: "gemm/torch_gemm.py:matmul"}
  - {name: cublas_fp32, dtype: fp32, python: "gemm/torch_gemm.py:matmul"}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """Return one run without the profiler."""
    folder = tmp_path_factory.mktemp("ceilings")
    (folder / "regimes.yaml").write_text(EXPERIMENT, encoding="utf-8")
    done = run_experiment(
        [str(folder / "regimes.yaml"), "--runs-dir", str(folder / "runs"), "--skip", "profile", "--json"],
        env={"XDG_CACHE_HOME": str(folder / "cache")},
    )
    assert done.returncode == 0, done.output
    return RunDir.open(Path(json.loads(done.stdout)["run"]))


@pytest.fixture(scope="module")
def measured(run: RunDir) -> dict[str, dict[str, Any]]:
    """Return the measured ceilings by name; skip where the card is another than the figures are of."""
    if "H200" not in str(run.manifest["gpu"]["name"]):
        pytest.skip("the figures are those of an H200")
    rows = frames.rows_of(run.frame("ceilings"))
    return {row["name"]: row for row in rows if row["origin"] == "measured"}


def test_every_ceiling_is_measured_and_plausible(measured: dict[str, dict[str, Any]]) -> None:
    assert measured.keys() == PLAUSIBLE.keys()
    wrong = {n: row["value"] for n, row in measured.items() if not PLAUSIBLE[n][0] <= row["value"] <= PLAUSIBLE[n][1]}
    assert not wrong


def test_none_passes_its_pipe_at_the_clock_it_ran_at(measured: dict[str, dict[str, Any]]) -> None:
    shares = {
        name: row["value"] / (PER_CYCLE[row["level_or_pipe"]] * row["clock_mhz"] * 1e6)
        for name, row in measured.items()
        if row["level_or_pipe"] in PER_CYCLE
    }
    assert len(shares) == 6
    assert all(0.90 <= share <= 1.01 for share in shares.values()), shares


def test_nominal_peaks_stand_beside_them(run: RunDir) -> None:
    rows = frames.rows_of(run.frame("ceilings"))
    nominal = {row["level_or_pipe"]: row["value"] for row in rows if row["origin"] == "nominal"}
    assert {"dram", "shared", "ffma"} <= nominal.keys()
    for row in rows:
        if row["origin"] == "measured" and row["level_or_pipe"] in nominal:
            assert row["value"] <= 1.02 * nominal[row["level_or_pipe"]], row


def test_sustained_blocks_are_long_and_run_at_the_power_cap(run: RunDir) -> None:
    rows = [row for row in frames.rows_of(run.frame("samples")) if row["method"] == "sustained"]
    assert [(row["order"], row["variant"]) for row in rows] == block_order(["mma_sync", "cublas_bf16", "cublas_fp32"])
    assert all(0.45e9 <= row["time_ns"] * row["launches"] <= 1.0e9 for row in rows)
    assert all(row["sm_clock_mhz"] and row["power_w"] for row in rows)
    blocks = [row["time_ns"] for row in rows if row["variant"] == "cublas_bf16"]
    assert max(blocks) / min(blocks) < 1.05
    ranked = run.frame("samples")
    ranked = ranked[(ranked["method"] != "sustained") & (ranked["variant"] == "cublas_bf16")]
    assert 0.8 < min(blocks) / float(ranked["time_ns"].median()) < 1.6


def test_the_last_block_of_each_variant_was_checked(run: RunDir) -> None:
    checks = run.frame("checks")
    during = checks[checks["when"] == "during"].groupby("variant").size()
    assert dict(during) == {
        "mma_sync": 3,
        "cublas_bf16": 3,
        "cublas_fp32": 3,
    }  # two of the ranked samples, one of these


def test_ceilings_cost_little(run: RunDir) -> None:
    assert run.manifest["ceilings"]["seconds"] < 2.0
