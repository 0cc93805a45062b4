from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from make_run import RUNGS, SIZE, duration_s, least_bytes, make_run

from profiler import frames
from profiler.analysis.roofline import Limit, RoofUse, limit_of, roof_uses, roofline
from profiler.analysis.rundata import RunData, Value
from profiler.rundir import RunDir

NAIVE = RUNGS[0]


def load(path: Path, **options: Any) -> RunData:
    return RunData.load(make_run(path / "run", **options))


def use(key: str, family: Any, share: float | None) -> RoofUse:
    return RoofUse(key, key, family, Value(1.0), 1.0, Value(1.0), share, "B/s")


def edit(run: RunDir, metric: str, variant: str, **change: Any) -> RunData:
    rows = frames.rows_of(run.frame("metrics"))
    for row in rows:
        if row["metric"] == metric and row["variant"] == variant:
            row.update(change)
    run.write_frame("metrics", rows)
    return RunData.load(run)


def test_a_point_is_operations_over_bytes_and_over_the_profiled_duration(tmp_path: Path) -> None:
    line = roofline(load(tmp_path), SIZE)
    point = next(p for p in line.points if p.variant == "naive" and p.level == "dram")
    work = 2 * 4096**3
    assert point.intensity == pytest.approx(work / (least_bytes("fp32", SIZE) * NAIVE.dram))
    assert point.performance == pytest.approx(work / (duration_s(NAIVE, SIZE) * 1.015))
    assert point.origin == "ncu"
    assert not line.model


def test_tensor_kernels_stand_at_their_tensor_operations(tmp_path: Path) -> None:
    line = roofline(load(tmp_path), SIZE)
    pipes = {point.variant: point.pipe for point in line.points}
    assert (pipes["mma_sync"], pipes["triton"], pipes["naive"]) == ("hmma_bf16", "hgmma_bf16", "ffma")


def test_a_level_without_traffic_is_missing_with_its_reason_not_zero(tmp_path: Path) -> None:
    point = next(p for p in roofline(load(tmp_path), SIZE).points if p.variant == "naive" and p.level == "shared")
    assert (point.intensity, point.performance) == (None, None)
    assert point.why == "it moves nothing through shared memory"


def test_a_missing_counter_is_a_missing_point_with_its_reason(tmp_path: Path) -> None:
    data = edit(make_run(tmp_path / "run"), "l2_bytes", "naive", value=None, why="not_supported")
    points = {p.level: p for p in roofline(data, SIZE).points if p.variant == "naive"}
    assert points["l2"].intensity is None
    assert points["l2"].why == "this chip has no such counter"
    assert points["dram"].intensity is not None


def test_the_aggregate_tensor_count_is_not_added_to_its_parts(tmp_path: Path) -> None:
    keys = [use.key for use in roof_uses(load(tmp_path), "mma_sync", SIZE) if use.family == "compute"]
    assert keys == ["hmma_bf16"]


def test_without_the_split_the_aggregate_counts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    edit(run, "tensor_ops_bf16_hmma", "mma_sync", value=None, why="not_supported")
    data = edit(run, "tensor_ops_bf16_hgmma", "mma_sync", value=None, why="not_supported")
    keys = [use.key for use in roof_uses(data, "mma_sync", SIZE) if use.family == "compute"]
    assert keys == ["tensor_bf16"]


def as_tf32x3(run: RunDir) -> RunData:
    """Make of the rung mma_sync one of tf32x3: three TF32 operations for each of its own."""
    variants = frames.rows_of(run.frame("variants"))
    next(row for row in variants if row["name"] == "mma_sync")["dtype"] = "tf32x3"
    run.write_frame("variants", variants)
    metrics = frames.rows_of(run.frame("metrics"))
    for row in [row for row in metrics if row["variant"] == "mma_sync"]:
        if row["metric"] == "tensor_ops_bf16_hmma":
            metrics.append(dict(row, metric="tensor_ops_tf32_hmma", value=3 * row["value"]))
        elif row["metric"] == "roof.hmma_bf16":
            metrics.append(dict(row, metric="roof.hmma_tf32", value=row["value"] / 2))
        if row["metric"].startswith("tensor_ops_bf16"):
            row["value"] = 0.0
    run.write_frame("metrics", metrics)
    ceilings = frames.rows_of(run.frame("ceilings"))
    ceilings.append(dict(ceilings[-1], name="mma.sync TF32", level_or_pipe="hmma_tf32", value=330e12, unit="FLOP/s"))
    run.write_frame("ceilings", ceilings)
    return RunData.load(run)


def test_of_three_operations_that_make_one_a_third_counts_and_so_does_the_roof(tmp_path: Path) -> None:
    data = as_tf32x3(make_run(tmp_path / "run", baseline={"fp32": "cublas_fp32", "bf16": "cublas_bf16"}))
    pipe = next(use for use in roof_uses(data, "mma_sync", SIZE) if use.family == "compute")
    assert (pipe.key, pipe.label) == ("hmma_tf32x3", "tensor pipe (TF32, mma.sync), 1 / 3")
    assert pipe.amount.value == pytest.approx(2 * 4096**3)
    assert pipe.share is not None
    assert pipe.achieved is not None
    assert pipe.roof.value is not None
    assert pipe.share == pytest.approx(pipe.achieved / pipe.roof.value)
    line = roofline(data, SIZE)
    point = next(p for p in line.points if p.variant == "mma_sync" and p.level == "dram")
    assert point.performance == pytest.approx(pipe.achieved)  # comparable with FP32, whose problem it solves
    roofs = {(roof.key, roof.origin): roof for roof in line.roofs}
    assert roofs["hmma_tf32x3", "counter"].dtypes == ("tf32x3",)
    measured = next(roof for (key, origin), roof in roofs.items() if key == "hmma_tf32x3" and origin != "counter")
    assert (measured.label, measured.value) == ("mma.sync TF32, 1 / 3", pytest.approx(110e12))
    assert not any(
        key.endswith("x3") for key, _ in {(r.key, r.origin) for r in roofline(load(tmp_path / "b"), SIZE).roofs}
    )


def test_above_its_roof_is_flagged_as_evidence_of_an_error(tmp_path: Path) -> None:
    data = edit(make_run(tmp_path / "run"), "roof.dram", "naive", value=1e9)
    point = next(p for p in roofline(data, SIZE).points if p.variant == "naive" and p.level == "dram")
    assert "evidence of wrong units or precision" in point.flag
    assert all(not p.flag for p in roofline(data, SIZE).points if p.variant != "naive")


def test_roofs_have_their_clock_and_origin(tmp_path: Path) -> None:
    roofs = {(roof.key, roof.origin): roof for roof in roofline(load(tmp_path), SIZE).roofs}
    counted = roofs["ffma", "counter"]
    assert counted.value == pytest.approx(16896 * 2 * 1.979e9)
    assert counted.clock_hz == pytest.approx(1.979e9)
    assert roofs["dram", "measured"].value == 4.22e12


def test_arrows_lead_from_rung_to_rung_within_a_contract(tmp_path: Path) -> None:
    arrows = [a for a in roofline(load(tmp_path), SIZE).arrows if a.level == "dram"]
    assert [(a.before.variant, a.after.variant) for a in arrows] == [
        ("naive", "shared"), ("shared", "tile_2d"), ("tile_2d", "double_buffer"), ("mma_sync", "triton"),
    ]  # fmt: skip


def test_without_counters_the_model_stands_in_and_says_so(tmp_path: Path) -> None:
    line = roofline(load(tmp_path, counters=False), SIZE)
    assert line.model
    assert {point.origin for point in line.points} == {"model"}
    naive = next(point for point in line.points if point.variant == "naive")
    assert naive.intensity == pytest.approx(2 * 4096**3 / least_bytes("fp32", SIZE))


def test_without_times_there_is_no_point(tmp_path: Path) -> None:
    assert roofline(load(tmp_path, timed=False), SIZE).points == ()


def test_several_kernels_add_their_bytes_and_durations(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    one = roof_uses(RunData.load(run), "naive", SIZE)[0]
    rows = frames.rows_of(run.frame("metrics"))
    second = [{**r, "launch": 1} for r in rows if r["variant"] == "naive" and r["origin"] == "ncu" and r["size"]]
    run.write_frame("metrics", rows + second)
    both = roof_uses(RunData.load(run), "naive", SIZE)[0]
    assert both.amount.value == pytest.approx(2 * (one.amount.value or 0))
    assert both.share == pytest.approx(one.share)


@pytest.mark.parametrize(
    ("uses", "key", "verdict"),
    [
        ([use("dram", "memory", 0.85), use("ffma", "compute", 0.1)], "dram", "near"),
        ([use("dram", "memory", 0.79), use("ffma", "compute", 0.1)], "dram", "between"),
        ([use("dram", "memory", 0.59), use("ffma", "compute", 0.49)], "latency", "latency"),
        ([use("ffma", "compute", 0.70), use("dram", "memory", 0.2)], "ffma", "near"),
        ([use("ffma", "compute", 0.60), use("issue", "issue", 0.90)], "issue", "near"),
        ([use("ffma", "compute", 0.75), use("issue", "issue", 0.95)], "ffma", "near"),
        ([use("l1", "memory", 0.91), use("shared", "memory", 0.88)], "shared", "near"),
        ([use("l1", "memory", 0.91), use("shared", "memory", 0.30)], "l1", "near"),
        ([use("l1", "memory", 0.82), use("shared", "memory", 0.78)], "l1", "near"),
        ([use("dram", "memory", 0.78), use("ffma", "compute", 0.74)], "ffma", "near"),
        ([use("dram", "memory", None)], "", "unknown"),
        ([], "", "unknown"),
    ],
)
def test_what_binds(uses: list[RoofUse], key: str, verdict: str) -> None:
    found: Limit = limit_of(uses, "the driver does not permit counters here")
    assert (found.key, found.verdict) == (key, verdict)
    if verdict == "unknown":
        assert found.text == "the driver does not permit counters here"
        assert found.share is None
