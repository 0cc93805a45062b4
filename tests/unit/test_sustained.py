"""Sustained blocks: their order and length, their rows beside the ranked ones, and what a failure costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gpu_less_run import SIZE, fake_session, make_run
from hypothesis import given
from hypothesis import strategies as st

from profiler import frames
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.rundata import RunData
from profiler.problem import InOut
from profiler.problems.gemm import Gemm
from profiler.run import Run
from profiler.timing import sustained_sizes, time_stage
from profiler.verify import verify_stage
from profiler.worker.abba import block_order, launches_for

NAMES = ("good", "other", "third")
KEY = "M=64,N=64,K=64"


def timed(tmp_path: Path, *, sustained: bool | tuple[dict[str, int], ...] = True, **behaviour: str) -> Run:
    run = make_run(tmp_path, *NAMES, timeout_s=1.0)
    run.experiment = replace(run.experiment, measure=replace(run.experiment.measure, sustained=sustained))
    with fake_session(tmp_path, behaviour) as session:
        verify_stage(run, session, None)
        time_stage(run, session, None)
    return run


def test_blocks_come_forwards_then_backwards() -> None:
    assert block_order(["a", "b", "c"]) == [(0, "a"), (0, "b"), (0, "c"), (1, "c"), (1, "b"), (1, "a")]
    assert block_order([]) == []


@given(st.lists(st.integers(), min_size=1, max_size=20, unique=True))
def test_a_steady_drift_falls_on_all_variants_alike(numbers: list[int]) -> None:
    names = [str(number) for number in numbers]
    places = [name for _, name in block_order(names)]
    means = {sum(i for i, other in enumerate(places) if other == name) / 2 for name in names}
    assert means == {len(names) - 0.5}


@pytest.mark.parametrize(
    ("seconds", "launch_s", "unit", "expected"),
    [
        (0.525, 1e-3, 1, 525),
        (0.525, 5e-6, 64, 105_024),  # whole graphs
        (0.525, 0.276, 1, 2),  # a slow variant gets whole launches
        (0.525, 20.0, 1, 1),
        (0.1, 0.276, 1, 1),
        (0.5, 0.0, 64, 64),
    ],
)
def test_a_block_is_whole_launches(seconds: float, launch_s: float, unit: int, expected: int) -> None:
    assert launches_for(seconds, launch_s, unit) == expected


@given(st.floats(1e-6, 30), st.sampled_from([1, 64]))
def test_a_block_is_never_shorter_than_asked(launch_s: float, unit: int) -> None:
    count = launches_for(0.5, launch_s, unit)
    assert count % unit == 0
    assert count * launch_s >= 0.5 * (1 - 1e-9)


def test_two_rows_a_variant_beside_the_ranked_ones(tmp_path: Path) -> None:
    run = timed(tmp_path)
    rows = frames.rows_of(run.dir.frame("samples"))
    sustained = [row for row in rows if row["method"] == "sustained"]
    assert [(row["order"], row["variant"]) for row in sustained] == block_order(NAMES)
    assert len(rows) - len(sustained) == 3 * 3
    row = sustained[0]
    assert (row["cache"], row["sm_clock_mhz"], row["power_w"], row["throttle"]) == (
        "rotated", 1500.0, 690.0, "sw_power_cap",
    )  # fmt: skip
    assert row["launches"] * 1.1e-6 >= 0.5
    checks = run.dir.frame("checks")
    assert sorted(checks.loc[checks["when"] == "during", "variant"]) == sorted(NAMES)


def test_the_ladder_ranks_by_the_other_times_only(tmp_path: Path) -> None:
    rows = ladder_rows(RunData.load(timed(tmp_path).dir))
    assert [(row.variant, round(row.time.value) if row.time else None, row.rank) for row in rows] == [
        ("good", 1000, 1), ("other", 2000, 2), ("third", 3000, 3),
    ]  # fmt: skip
    assert {round(row.sustained.value) for row in rows if row.sustained} == {1100}
    assert rows[1].sustained_ratio is not None
    assert rows[1].sustained_ratio.value == 1.0
    assert rows[1].ratio is not None
    assert rows[1].ratio.value == pytest.approx(0.5)
    assert rows[0].method == "single"


def test_only_the_sizes_that_are_named(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    for wanted, expected in ((False, ()), (True, (SIZE,)), ((SIZE,), (SIZE,))):
        run.experiment = replace(run.experiment, measure=replace(run.experiment.measure, sustained=wanted))
        assert sustained_sizes(run) == expected


def test_without_the_key_there_is_no_such_row(tmp_path: Path) -> None:
    assert set(timed(tmp_path, sustained=False).dir.frame("samples")["method"]) == {"single"}


def test_in_out_tensors_have_no_sustained_time_and_the_run_says_why(tmp_path: Path) -> None:
    class Residual(Gemm):
        args = (*Gemm.args, InOut("R", "M N"))

    run = make_run(tmp_path, "a")
    run.problem = Residual
    run.experiment = replace(run.experiment, measure=replace(run.experiment.measure, sustained=True))
    assert sustained_sizes(run) == ()
    assert "in-out tensors would have to be restored" in run.dir.manifest["notes"][0]


def test_a_block_that_leaves_wrong_results_is_found(tmp_path: Path) -> None:
    run = timed(tmp_path, other="wrong_in_sustained")
    assert run.status() == {"good": "ok", "other": "wrong_after_timing", "third": "ok"}
    samples = run.dir.frame("samples")
    assert set(samples.loc[samples["method"] == "sustained", "variant"]) == {"good", "third"}


def test_a_crash_costs_one_variant_and_the_others_get_whole_passes(tmp_path: Path) -> None:
    run = timed(tmp_path, third="crash_in_sustained")
    assert run.status() == {"good": "ok", "other": "ok", "third": "crashed"}
    rows = [row for row in frames.rows_of(run.dir.frame("samples")) if row["method"] == "sustained"]
    assert [(row["order"], row["variant"]) for row in rows] == block_order(["good", "other"])


def test_what_does_not_fit_twice_into_memory_keeps_its_ranked_time(tmp_path: Path) -> None:
    run = timed(tmp_path, other="no_room_in_sustained")
    assert set(run.status().values()) == {"ok"}
    assert f"No sustained time of other at {KEY}: two sets do not fit in memory." in run.dir.manifest["notes"]
    samples = run.dir.frame("samples")
    assert set(samples.loc[samples["method"] == "sustained", "variant"]) == {"good", "third"}
