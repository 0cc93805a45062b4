from __future__ import annotations

from pathlib import Path

import pytest
from make_run import SIZE, make_run

from profiler import frames
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.rundata import RunData
from profiler.analysis.stalls import FAMILIES, REASONS, StallTable, present_reasons, reason_of, stall_tables
from profiler.metrics import STALL_REASONS


def tables(data: RunData) -> dict[str, StallTable]:
    limits = {(row.variant, row.size): row.limit.key for row in ladder_rows(data)}
    return {table.variant: table for table in stall_tables(data, limits)}


def test_reasons_add_up_to_the_latency(tmp_path: Path) -> None:
    found = tables(RunData.load(make_run(tmp_path / "run")))
    assert len(found) == 8
    assert all(table.adds_up for table in found.values())
    assert sum(row.share for row in found["naive"].rows) == pytest.approx(1.0)


def test_a_sum_that_misses_the_latency_is_seen(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    rows = frames.rows_of(run.frame("stalls"))
    run.write_frame("stalls", [r for r in rows if not (r["variant"] == "naive" and r["reason"] == "lg_throttle")])
    found = tables(RunData.load(run))
    assert found["naive"].adds_up is False
    assert found["shared"].adds_up is True


def test_a_missing_latency_leaves_it_open(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    rows = frames.rows_of(run.frame("metrics"))
    run.write_frame("metrics", [row for row in rows if row["metric"] != "warp_latency"])
    assert tables(RunData.load(run))["naive"].adds_up is None


def test_a_cure_stands_only_where_the_limit_makes_it_relevant(tmp_path: Path) -> None:
    found = tables(RunData.load(make_run(tmp_path / "run")))
    cures = {name: {row.reason.name for row in table.rows if row.cure} for name, table in found.items()}
    assert cures["shared"] == {
        "mio_throttle"
    }  # bound by shared memory: the loads from global memory are not the matter
    assert cures["naive"] == {"lg_throttle", "long_scoreboard", "dispatch_stall"}
    assert cures["cublas_fp32"] == set()


@pytest.mark.parametrize("name", ["selected", "not_selected", "wait"])
def test_some_reasons_raise_no_alarm(name: str) -> None:
    assert REASONS[name].cure == ""


def test_every_reason_of_the_metric_table_is_known_here() -> None:
    assert set(REASONS) == {reason.name for reason in STALL_REASONS}
    assert all(reason.family in FAMILIES and reason.meaning for reason in REASONS.values())
    assert [r.name for r in REASONS.values() if r.family == "other"] == ["misc"]


def test_an_unknown_reason_is_kept_and_sampling_names_are_understood() -> None:
    assert reason_of("flux_wait").label == "flux wait"
    assert reason_of("no_instructions").name == "no_instruction"
    assert reason_of("warpgroup_arrive").name == "gmma"


def test_stalls_are_those_of_the_longest_kernel(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    base = {"variant": "naive", "size": SIZE, "launch": 1, "kernel": "epilogue", "origin": "ncu"}
    rows = frames.rows_of(run.frame("metrics"))
    rows.append({**base, "metric": "duration", "value": 1e-6, "unit": "s"})
    run.write_frame("metrics", rows)
    stalls = frames.rows_of(run.frame("stalls"))
    stalls.append({"variant": "naive", "size": SIZE, "launch": 1, "kernel": "epilogue", "reason": "wait",
                   "cycles_per_issue": 99.0})  # fmt: skip
    run.write_frame("stalls", stalls)
    table = tables(RunData.load(run))["naive"]
    assert (table.kernel, table.kernels) == ("naive_kernel", 2)
    assert table.total < 50


def test_reasons_come_by_family(tmp_path: Path) -> None:
    reasons = present_reasons(list(tables(RunData.load(make_run(tmp_path / "run"))).values()))
    places = [FAMILIES.index(reason.family) for reason in reasons]
    assert places == sorted(places)
    assert "sleeping" in {reason.name for reason in reasons}
