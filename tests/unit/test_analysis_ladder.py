from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from make_run import FAULTS, RUNGS, SIZE, SMALL_SIZES, Fault, make_run

from profiler.analysis.ladder import LadderRow, ladder_rows
from profiler.analysis.leads import leads
from profiler.analysis.rundata import RunData
from profiler.analysis.statistics import Interval
from profiler.analysis.verdicts import verdict_lines, verdicts
from profiler.rundir import RunDir

RECORDED = Path(__file__).resolve().parents[2] / "experiments" / "recorded" / "h200"


def load(path: Path, **options: object) -> RunData:
    return RunData.load(make_run(path / "run", **options))  # type: ignore[arg-type]


def rows_of(data: RunData) -> dict[str, LadderRow]:
    return {row.variant: row for row in ladder_rows(data) if row.size == data.main_size}


def test_every_variant_is_a_row_in_order(tmp_path: Path) -> None:
    rows = ladder_rows(load(tmp_path))
    assert [row.variant for row in rows] == [rung.name for rung in RUNGS]
    assert [row.rank for row in rows] == [5, 4, 3, 2, 1, 3, 2, 1]


def test_rate_is_operations_over_the_median(tmp_path: Path) -> None:
    row = rows_of(load(tmp_path))["naive"]
    assert row.time is not None
    assert row.rate == pytest.approx(2 * 4096**3 / (row.time.value * 1e-9))
    assert row.rate_unit == "FLOP/s"


def test_without_operations_the_rate_is_bytes(tmp_path: Path) -> None:
    data = load(tmp_path)
    problem = {**data.manifest["problem"], "flops": {SIZE: None}}
    row = rows_of(dataclasses.replace(data, manifest={**data.manifest, "problem": problem}))["naive"]
    assert row.time is not None
    assert row.rate == pytest.approx(3 * 4096**2 * 4 / (row.time.value * 1e-9))
    assert row.rate_unit == "B/s"


def test_ratio_compares_with_the_baseline_of_the_same_contract(tmp_path: Path) -> None:
    rows = rows_of(load(tmp_path))
    best, baseline = rows["double_buffer"], rows["cublas_fp32"]
    assert best.time is not None
    assert baseline.time is not None
    assert best.ratio is not None
    assert best.ratio.low is not None
    assert best.ratio.high is not None
    assert best.ratio.value == pytest.approx(baseline.time.value / best.time.value)
    assert best.ratio.low <= best.ratio.value <= best.ratio.high
    assert not best.cross_contract


def test_a_baseline_of_another_contract_is_labelled(tmp_path: Path) -> None:
    data = load(tmp_path, baseline={"fp32": "cublas_fp32", "bf16": "cublas_fp32"})
    assert rows_of(data)["triton"].cross_contract
    assert any("another contract, fp32" in line for line in verdict_lines(data, ladder_rows(data)))


def test_step_is_over_the_rung_before_in_the_same_contract(tmp_path: Path) -> None:
    rows = rows_of(load(tmp_path))
    assert rows["naive"].step is None
    assert rows["shared"].previous == "naive"
    assert rows["mma_sync"].step is None
    assert rows["triton"].previous == "mma_sync"
    assert rows["cublas_fp32"].step is None


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_a_failed_variant_keeps_its_row_and_reason_but_nothing_else(tmp_path: Path, name: str) -> None:
    row = rows_of(load(tmp_path, faults=FAULTS))[name]
    assert (row.status, row.reason) == (FAULTS[name].status, FAULTS[name].reason)
    assert (row.time, row.rate, row.ratio, row.step, row.rank, row.limit.share) == (None,) * 6
    assert row.why == FAULTS[name].reason


def test_wrong_results_are_never_ranked_even_with_samples(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    variants = run.frame("variants")
    variants.loc[variants["name"] == "double_buffer", ["status", "verified"]] = ["wrong_after_timing", "no"]
    run.write_frame("variants", variants)
    data = RunData.load(run)
    row = rows_of(data)["double_buffer"]
    assert (row.time, row.rank, row.ratio) == (None, None, None)
    assert verdicts(data, leads(data, ladder_rows(data)))[0].row.variant == "tile_2d"


def test_the_step_skips_a_failed_rung_and_says_over_which(tmp_path: Path) -> None:
    rows = rows_of(load(tmp_path, faults={"tile_2d": FAULTS["tile_2d"]}))
    assert rows["double_buffer"].previous == "shared"


def test_a_failed_baseline_leaves_ratios_missing_with_the_reason(tmp_path: Path) -> None:
    data = load(tmp_path, faults={"cublas_fp32": Fault("timeout", "no answer in 120 s")})
    row = rows_of(data)["naive"]
    assert row.ratio is None
    assert row.ratio_why == "the baseline cublas_fp32 has no time (timed out)"
    assert row.time is not None


def test_profile_failed_keeps_its_time(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    variants = run.frame("variants")
    variants.loc[variants["name"] == "naive", "status"] = "profile_failed"
    run.write_frame("variants", variants)
    assert rows_of(RunData.load(run))["naive"].time is not None


def test_a_skipped_size_has_no_time_and_says_which_constraint(tmp_path: Path) -> None:
    data = load(tmp_path, sizes=SMALL_SIZES)
    manifest = {**data.manifest, "skips": {"tile_2d": {SMALL_SIZES[0]: "M % 4096 == 0 does not hold"}}}
    rows = [r for r in ladder_rows(dataclasses.replace(data, manifest=manifest)) if r.variant == "tile_2d"]
    assert [row.status for row in rows] == ["skipped", "ok", "ok"]
    assert (rows[0].time, rows[0].why) == (None, "M % 4096 == 0 does not hold")


def test_foreign_samples_are_left_out_while_others_remain(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", samples=10)
    samples = run.frame("samples")
    first = samples["order"] < 2
    samples.loc[first, "foreign"] = True
    samples.loc[first, "time_ns"] = 1e12
    run.write_frame("samples", samples)
    row = rows_of(RunData.load(run))["naive"]
    assert row.time is not None
    assert row.time.value < 1e9
    assert (row.foreign, row.left_out, row.time.samples) == (2, 2, 8)


def test_what_binds(tmp_path: Path) -> None:
    rows = rows_of(load(tmp_path))
    assert (rows["shared"].limit.key, rows["shared"].limit.verdict) == ("shared", "near")
    assert (rows["cublas_fp32"].limit.key, rows["cublas_fp32"].limit.verdict) == ("ffma", "near")
    assert rows["naive"].limit.verdict == "latency"
    assert rows["cublas_bf16"].limit.key == "hgmma_bf16"


def test_verdict_names_the_best_rung_of_each_contract(tmp_path: Path) -> None:
    data = load(tmp_path)
    lines = verdict_lines(data, ladder_rows(data))
    assert len(lines) == 2
    assert lines[0].startswith("double_buffer reaches 0.641× [")
    assert " of cublas_fp32 at 4096³; bound by " in lines[0]


def test_a_rung_that_beats_its_baseline_is_said_to(tmp_path: Path) -> None:
    fast = [dataclasses.replace(r, share=0.95) if r.name == "double_buffer" else r for r in RUNGS]
    data = load(tmp_path, rungs=fast)
    assert "double_buffer beats its baseline: it reaches 1." in verdict_lines(data, ladder_rows(data))[0]


def test_a_difference_of_two_thousandths_is_a_match(tmp_path: Path) -> None:
    data = load(tmp_path)
    row = next(r for r in ladder_rows(data) if r.variant == "double_buffer")
    line = verdict_lines(data, [dataclasses.replace(row, ratio=Interval(1.002, 1.001, 1.003, 50))])[0]
    assert line.startswith("double_buffer matches its baseline: it reaches 1.002× [1.001, 1.003] of cublas_fp32")


def test_where_the_good_kernel_comes_first_every_other_is_held_against_it(tmp_path: Path) -> None:
    first = next(r.name for r in RUNGS if r.dtype == "fp32")
    rows = rows_of(load(tmp_path, baseline={"fp32": first, "bf16": "cublas_bf16"}))
    fp32 = [row for row in rows.values() if row.dtype == "fp32"]
    assert all(row.step is None and row.baseline == first and row.ratio is not None for row in fp32)
    assert any(row.step is not None for row in rows_of(load(tmp_path / "ladder")).values())


def test_nothing_measured_says_why(tmp_path: Path) -> None:
    data = load(tmp_path, timed=False)
    lines = verdict_lines(data, ladder_rows(data))
    assert lines[0] == "Nothing was timed: there is no GPU here. 5 of 8 variants were analysed from their binaries."
    assert lines[1] == "All 8 variants: not run: there is no GPU here and nothing recorded matches."
    row = rows_of(data)["naive"]
    assert row.registers.value == 32
    assert row.registers.origin == "ptxas"


def test_failures_are_listed_after_the_verdict(tmp_path: Path) -> None:
    data = load(tmp_path, faults=FAULTS)
    assert verdict_lines(data, ladder_rows(data))[-1] == (
        "3 of 8 variants have no result: shared (wrong result), tile_2d (build failed) and triton (crashed)."
    )


def test_the_check_shown_is_the_failed_one(tmp_path: Path) -> None:
    check = rows_of(load(tmp_path, faults=FAULTS))["shared"].check
    assert check is not None
    assert (check.status, check.size, check.error) == ("wrong_result", "M=67,N=131,K=35", 0.31)


def test_a_run_opens_on_a_size_that_was_profiled() -> None:
    data = RunData.load(RunDir.open(RECORDED / "topk"))
    assert max(data.sizes, key=data.work) == "B=4096,N=32768,K=64"
    assert data.main_size == "B=1,N=67108864,K=64"
    assert {verdict.size for verdict in verdicts(data, leads(data, ladder_rows(data)))} == {data.main_size}
