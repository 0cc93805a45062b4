"""The documented example of a problem of one's own on a real GPU: two outputs, a tensor read and written, a scalar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler.rundir import RunDir
from tests.gpu.command import document_of, run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

SIZES = {"T=8192,H=4096", "T=256,H=8192"}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the document of one run of the example."""
    folder = tmp_path_factory.mktemp("own")
    done = run_experiment(["rmsnorm_quant", "--runs-dir", str(folder), "--json"])
    assert done.returncode == 0, done.output
    return document_of(done)


def test_every_variant_is_right_measured_and_ranked(example: dict[str, Any]) -> None:
    rows = {row["name"]: (row["status"], row["verified"], row["origin"]) for row in example["variants"]}
    assert rows == dict.fromkeys(("existing", "vectorised", "torch"), ("ok", "yes", "measured"))
    ratios = {(row["variant"], row["size"]): row["ratio"] for row in example["ladder"]}
    assert {size for _, size in ratios} == SIZES
    assert all(ratio is not None for ratio in ratios.values())
    assert ratios["vectorised", "T=8192,H=4096"] > ratios["existing", "T=8192,H=4096"] > 1.0


def test_all_sizes_are_checked_before_during_and_after(example: dict[str, Any]) -> None:
    checks = RunDir.open(Path(example["run"])).frame("checks")
    assert set(checks["status"]) == {"ok"}
    assert (checks["error"] <= checks["tolerance"]).all()
    own = checks[checks["variant"] == "vectorised"]
    assert set(own.loc[own["when"] == "before", "size"]) == SIZES | {"T=1,H=8", "T=37,H=1003", "T=130,H=4099"}
    assert set(own.loc[own["when"] == "after", "size"]) == set(own.loc[own["when"] == "during", "size"]) == SIZES


def test_it_moves_bytes_near_the_memorys_pace(example: dict[str, Any]) -> None:
    run = RunDir.open(Path(example["run"]))
    samples = run.frame("samples")
    mine = samples[(samples["variant"] == "vectorised") & (samples["size"] == "T=8192,H=4096")]
    least = run.manifest["problem"]["min_bytes"]["bf16->e4m3"]["T=8192,H=4096"]
    assert least / (float(mine["time_ns"].median()) * 1e-9) > 1e12
