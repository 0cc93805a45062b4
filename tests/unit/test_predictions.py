"""Predicted and counted: what is compared, and what the report says of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from make_run import make_run

from profiler.analysis.predictions import Prediction, per_instruction, predictions
from profiler.analysis.rundata import RunData, Value
from profiler.static_metrics import PREDICTION, described
from reports.sections.predictions import build


def test_what_an_instruction_takes_is_a_mean_over_its_executions() -> None:
    rows: list[dict[str, Any]] = [
        {"sass": "STS [R1], R2", "executed": 10, "shared_wavefronts": 320},
        {"sass": "@P0 STS.128 [R1], R4", "executed": 10, "shared_wavefronts": 80},
        {"sass": "LDS R2, [R1]", "executed": 7, "shared_wavefronts": 7},
        {"sass": "STS [R1], R2", "executed": 0, "shared_wavefronts": 0},
    ]
    assert per_instruction(rows, frozenset({"STS"}), "shared_wavefronts").value == 20.0
    assert per_instruction(rows, frozenset({"LDS"}), "shared_wavefronts").value == 1.0
    missing = per_instruction(rows, frozenset({"LDSM"}), "shared_wavefronts")
    assert (missing.value, missing.why) == (None, "not_applicable")


@pytest.mark.parametrize(("counted", "holds"), [(4.0, True), (4.002, True), (4.1, False), (None, None)])
def test_a_count_is_the_predicted_one_or_another(counted: float | None, holds: bool | None) -> None:
    value = Value(counted, "1", "ncu") if counted is not None else Value(None, why="not_collected")
    assert Prediction("a", "m", "m", 4.0, value).holds is holds


def test_a_run_without_predictions_has_no_such_section(tmp_path: Path) -> None:
    data = RunData.load(make_run(tmp_path / "run"))
    assert predictions(data) == []
    assert build([]) is None


def test_a_prediction_is_held_against_the_counter_of_its_name(tmp_path: Path) -> None:
    data = RunData.load(make_run(tmp_path / "run"))
    metrics = [dict(row) for row in data.rows["metrics"]]
    counted = next(
        row for row in metrics if row["metric"] == "shared_wavefronts" and row["value"] and row["origin"] == "ncu"
    )
    template = {**counted, "size": "", "kernel": "", "launch": None, "origin": "model"}
    said = {**template, "metric": f"{PREDICTION}shared_wavefronts", "value": 1.01 * float(counted["value"])}
    data = dataclasses.replace(data, rows={**data.rows, "metrics": [*metrics, said]})
    (one,) = predictions(data)
    assert (one.variant, one.counted.value, one.holds) == (counted["variant"], counted["value"], False)
    section = build([one])
    assert section is not None
    assert section["sentence"] == f"1 of 1 counts are not what was predicted: {counted['variant']}."
    assert section["rows"][0]["label"] == "shared_wavefronts"


def test_the_metric_table_describes_predictions() -> None:
    found = described(f"{PREDICTION}wavefronts_per_shared_load")
    assert found is not None
    assert found.origin == "model"
