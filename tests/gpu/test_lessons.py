"""The lessons on a real GPU: right, and counted as the rules of the hardware predict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler.analysis.predictions import predictions
from profiler.analysis.rundata import RunData
from profiler.rundir import RunDir
from tests.gpu.command import document_of, run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


def measured(folder: Path, name: str) -> dict[str, Any]:
    done = run_experiment([name, "--runs-dir", str(folder), "--json"])
    document = document_of(done)
    assert done.returncode == 0, {row["name"]: row["reason"] for row in document["variants"] if row["status"] != "ok"}
    assert document["wall"]["seconds"] <= 60
    return document


@pytest.mark.parametrize("name", ["memory_access", "bank_conflicts"])
def test_counts_are_what_the_rules_predict(tmp_path: Path, name: str) -> None:
    document = measured(tmp_path, name)
    found = predictions(RunData.load(RunDir.open(Path(document["run"])), details=True))
    assert len(found) >= 12
    wrong = {(one.variant, one.metric): (one.predicted, one.counted.value) for one in found if not one.holds}
    assert not wrong


def test_divergent_lanes_cost_their_ways(tmp_path: Path) -> None:
    times = {row["variant"]: row["time_ns"] for row in measured(tmp_path, "divergence")["ladder"]}
    assert 1.8 < times["lanes_2"] / times["together"] < 2.3
    assert 28 < times["lanes_32"] / times["together"] < 40
    assert times["warps_8"] / times["together"] < 1.3
