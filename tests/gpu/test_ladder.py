"""The shipped ladder on a real GPU: from a cold cache in time, right, at its figures, with counters and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler.rundir import RunDir
from tests.gpu.command import document_of, run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

SIZE = "M=4096,N=4096,K=4096"
#: Of cuBLAS in the same contract and process. Absolute times differ from card to card; these ratios hold on an H200.
AT_LEAST = {
    "coalesced": 0.12, "shared": 0.18, "tile_1d": 0.33, "tile_2d": 0.52, "vectorised": 0.65, "warp_tile": 0.78,
    "double_buffer": 0.88, "register_banks": 1.00, "in_step": 1.00, "wmma_shared": 0.30, "mma_sync": 0.30,
    "mma_multistage": 0.60,
}  # fmt: skip


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the document of one run of the ladder from a cold cache."""
    folder = tmp_path_factory.mktemp("ladder")
    done = run_experiment(
        ["gemm_ladder", "--runs-dir", str(folder / "runs"), "--json"], env={"XDG_CACHE_HOME": str(folder / "cache")}
    )
    assert done.returncode == 0, done.output
    return document_of(done)


def test_every_rung_is_right_and_measured(ladder: dict[str, Any]) -> None:
    assert {(row["status"], row["verified"], row["origin"]) for row in ladder["variants"]} == {
        ("ok", "yes", "measured")
    }


def test_a_cold_ladder_takes_four_minutes_at_most_and_little_of_it_is_ours(ladder: dict[str, Any]) -> None:
    assert ladder["wall"]["seconds"] <= 240
    assert ladder["wall"]["own_seconds"] <= 10
    assert Path(ladder["report"]).is_file()


def test_profiling_costs_little_beyond_ncu_itself(ladder: dict[str, Any]) -> None:
    manifest = RunDir.open(Path(ladder["run"])).manifest
    assert manifest["stages"]["profile"]["seconds"] <= 1.15 * manifest["profile"]["ncu_seconds"]


def test_the_rungs_reach_their_figures(ladder: dict[str, Any]) -> None:
    reached = {row["variant"]: row["ratio"] for row in ladder["ladder"] if row["size"] == SIZE}
    short = {name: reached[name] for name, least in AT_LEAST.items() if reached[name] < least}
    assert not short


def test_counters_explain_the_launch(ladder: dict[str, Any]) -> None:
    run = RunDir.open(Path(ladder["run"]))
    metrics = run.frame("metrics")
    ffma = metrics[(metrics["metric"] == "ffma_instructions") & (metrics["variant"] == "double_buffer")]
    assert float(ffma["value"].iloc[0]) == 4096.0**3
    stalls = run.frame("stalls")
    per_rung = stalls.groupby("variant")["cycles_per_issue"].sum()
    latency = metrics[metrics["metric"] == "warp_latency"].set_index("variant")["value"]
    for name in ("naive", "shared", "tile_2d", "double_buffer", "mma_sync"):
        assert float(per_rung[name]) == pytest.approx(float(latency[name]), rel=0.01)
