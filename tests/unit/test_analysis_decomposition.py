from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_run import FAULTS, SIZE, make_run

from profiler import frames
from profiler.analysis.decomposition import (
    FACTORS,
    TOLERANCE,
    Decomposition,
    explain,
    identity,
    profiled_sides,
    side,
)
from profiler.analysis.decomposition_words import gain, plain, sentences
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.log_mean import log_mean, split
from profiler.analysis.rundata import RunData
from profiler.analysis.statistics import Interval
from profiler.analysis.steps import steps
from profiler.parse.ncu import Place, places_by_name, rows_of_report
from profiler.rundir import RunDir
from tests.unit.ncu_samples import FULL, LADDER, OTHERS, report

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "experiments" / "recorded" / "h200" / "gemm_ladder"

CYCLES = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
REASONS = st.dictionaries(st.sampled_from("abcdefgh"), CYCLES, min_size=1).filter(lambda found: sum(found.values()) > 0)


@functools.cache
def of_sample(name: str) -> RunData:
    """A sample report as a run: one variant a launch, all at one size."""
    raw = report(name)
    places = {n: Place(f"{place.variant}#{n}", "N=1", 0) for n, place in places_by_name(raw).items()}
    rows = rows_of_report(raw, places)
    tables: dict[str, Any] = {
        "metrics": frames.rows_of(frames.frame("metrics", rows.metrics)),
        "stalls": frames.rows_of(frames.frame("stalls", rows.stalls)),
        "variants": frames.rows_of(
            frames.frame("variants", [{"name": p.variant, "status": "ok", "order": n} for n, p in places.items()])
        ),
    }
    return RunData({"problem": {"sizes": ["N=1"]}}, tables)


def synthetic(path: Path, **options: Any) -> RunData:
    return RunData.load(make_run(path / "run", **options))


def edited(path: Path, change: Mapping[str, Any]) -> RunData:
    """A synthetic run in which ``change[frame](row)`` returns a row to keep, or None."""
    run = make_run(path / "run")
    for name, function in change.items():
        rows = [new for row in frames.rows_of(run.frame(name)) if (new := function(row)) is not None]
        run.write_frame(name, rows)
    return RunData.load(run)


def total(one: Decomposition) -> float:
    return math.fsum(effect.log_gain for effect in one.effects)


# The identity on real counters.


@pytest.mark.parametrize("name", [LADDER, FULL])
def test_the_product_explains_every_h200_launch(name: str) -> None:
    data = of_sample(name)
    found = {one.variant: one.identity for one in profiled_sides(data)}
    assert len(found) == (5 if name == LADDER else 2)
    for variant, one in found.items():
        assert one is not None
        assert one.off is not None, variant
        assert abs(one.off) <= TOLERANCE, variant
        assert one.holds is True


def test_the_product_matches_the_profilers_time_of_the_naive_sample() -> None:
    data = of_sample(FULL)
    one = profiled_sides(data)[0].identity
    assert one is not None
    assert one.duration_s.value == pytest.approx(2.772512e-3)
    assert one.values["instructions"].value == pytest.approx(2_331_493, rel=1e-6)
    assert one.values["latency"].value == pytest.approx(36.13, abs=0.01)
    assert one.values["warps"].value == pytest.approx(15.74, abs=0.01)
    assert one.values["active"].value == pytest.approx(0.977, abs=0.001)


@pytest.mark.parametrize("name", OTHERS)
def test_reports_from_elsewhere_hold_or_name_the_counter_that_they_lack(name: str) -> None:
    found = profiled_sides(of_sample(name))
    assert found
    for one in found:
        assert one.identity is not None
        if "full" in name or "2024.1" in name:
            assert one.missing == ()
            assert one.identity.holds is True, one.identity.off
        else:
            lacking = {missing.metric: missing.why for missing in one.missing}
            assert lacking.keys() & {kind.metric for kind in FACTORS}
            assert set(lacking.values()) == {"not collected in this run"}
            assert (one.identity.product_s, one.identity.holds) == (None, None)


def test_the_product_explains_every_rung_of_the_recorded_ladder() -> None:
    data = RunData.load(RunDir.open(RECORDED))
    sides = profiled_sides(data)
    assert len(sides) >= 8
    for one in sides:
        assert one.missing == ()
        assert one.identity is not None
        assert one.identity.holds is True, f"{one.variant}: off by {one.identity.off}"


@pytest.mark.parametrize("experiment", ["gemm_ladder", "gemm_lessons"])
def test_another_counter_bears_the_active_share_out(experiment: str) -> None:
    """The product alone cannot: where its counters come from one pass, it gives the duration by construction.

    Two passes are two launches, which last unequally long: those of `coalesced` differ by 1.2 %, as do its L1 hits.
    """
    data = RunData.load(RunDir.open(RECORDED.parent / experiment))
    sides = profiled_sides(data)
    assert len(sides) >= 8
    for one in sides:
        active, clock = (data.total(one.variant, one.size, name).value for name in ("sm_cycles_active", "sm_clock"))
        assert one.identity is not None
        assert active
        assert clock
        assert one.profiled_s.value
        witness = active / clock / one.profiled_s.value
        assert one.identity.values["active"].value == pytest.approx(witness, rel=1.5 * TOLERANCE), one.variant


def test_the_factors_of_the_recorded_steps_multiply_to_the_measured_speed_up() -> None:
    data = RunData.load(RunDir.open(RECORDED))
    found = steps(data, ladder_rows(data))
    assert {step.against for step in found} == {"before", "baseline"}
    for step in found:
        one = step.decomposition
        assert one.measured
        assert one.speedup == pytest.approx(step.interval.value, rel=1e-12)
        assert total(one) == pytest.approx(math.log(one.speedup), abs=1e-9)
        latency = one.effect("latency")
        assert latency is not None
        assert math.fsum(part.log_gain for part in latency.parts) == pytest.approx(latency.log_gain, abs=1e-9)


# The log-mean split.


@given(REASONS, REASONS)
def test_parts_add_up_to_the_logarithm_of_the_ratio(before: dict[str, float], after: dict[str, float]) -> None:
    whole = math.log(sum(before.values()) / sum(after.values()))
    assert math.fsum(split(before, after).values()) == pytest.approx(whole, abs=1e-9)


@given(REASONS, REASONS)
def test_parts_change_sign_when_the_sides_are_exchanged(before: dict[str, float], after: dict[str, float]) -> None:
    there, back = split(before, after), split(after, before)
    assert there.keys() == back.keys()
    for key, part in there.items():
        assert part == pytest.approx(-back[key], abs=1e-12)


@given(REASONS)
def test_nothing_changes_nothing(reasons: dict[str, float]) -> None:
    assert set(split(reasons, reasons).values()) == {0.0}


@given(REASONS, REASONS, st.sampled_from("abcdefgh"))
def test_a_reason_that_vanishes_has_the_part_of_the_limit(
    before: dict[str, float], after: dict[str, float], name: str
) -> None:
    gone = {**after, name: 0.0, "x": 1.0}
    nearly = {**after, name: 1e-12, "x": 1.0}
    absent = {key: value for key, value in gone.items() if key != name}
    exact = split(before, gone)
    assert split(before, absent).get(name, 0.0) == exact[name]
    for key, part in split(before, nearly).items():
        assert part == pytest.approx(exact[key], abs=1e-9, rel=1e-6)


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9))
def test_the_log_mean_lies_between_the_geometric_and_the_arithmetic_mean(one: float, two: float) -> None:
    mean = log_mean(one, two)
    assert mean == log_mean(two, one)
    assert math.sqrt(one * two) * (1 - 1e-9) <= mean <= (one + two) / 2 * (1 + 1e-9)


def test_the_log_mean_is_exact_where_both_are_almost_the_same() -> None:
    assert log_mean(1.0, 1.0) == 1.0
    assert log_mean(1.0, 1.0 + 1e-12) == pytest.approx(1.0 + 5e-13, rel=1e-15)
    assert log_mean(1.0, math.e) == pytest.approx(math.e - 1)


# What a step says and does not say.


def test_a_product_that_is_off_by_more_than_1_percent_says_so(tmp_path: Path) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        if row["variant"] == "tile_2d" and row["metric"] == "warps_per_scheduler":
            row["value"] *= 1.017
        return row

    data = edited(tmp_path, {"metrics": change})
    one = explain(data, "shared", "tile_2d", SIZE)
    assert one.after.identity is not None
    assert one.after.identity.holds is False
    assert any("tile_2d is off by 1.6 %" in text or "tile_2d is off by 1.7 %" in text for text in one.remarks)
    assert one.speedup is not None
    assert total(one) == pytest.approx(math.log(one.speedup), abs=1e-9)


def test_a_missing_counter_is_named_and_the_rest_still_multiplies(tmp_path: Path) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        if row["variant"] == "tile_2d" and row["metric"] == "warps_per_scheduler":
            row["value"], row["why"] = None, "not_supported"
        return row

    one = explain(edited(tmp_path, {"metrics": change}), "shared", "tile_2d", SIZE)
    assert one.effect("warps") is None
    assert one.effect("unexplained") is None
    assert one.effect("rest") is not None
    assert one.issue_cycles is None
    assert one.speedup is not None
    assert total(one) == pytest.approx(math.log(one.speedup), abs=1e-9)
    assert "tile_2d has no warps_per_scheduler (this chip has no such counter)" in " ".join(one.remarks)
    assert "the factors without a counter together" in plain(sentences(one))


def test_no_counters_leave_the_speed_up_and_the_reason(tmp_path: Path) -> None:
    one = explain(synthetic(tmp_path, counters=False), "shared", "tile_2d", SIZE)
    assert one.effects == ()
    assert one.speedup is not None
    assert one.speedup > 1
    assert "the driver does not permit counters" in one.why
    assert "The factors are not known: " in plain(sentences(one))


def test_a_zero_or_negative_factor_is_no_factor(tmp_path: Path) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        if row["variant"] == "tile_2d" and row["metric"] == "warp_latency":
            row["value"] = 0.0
        return row

    one = explain(edited(tmp_path, {"metrics": change}), "shared", "tile_2d", SIZE)
    assert [(m.metric, m.why) for m in one.missing] == [("warp_latency", "the profiler reports 0")]


def test_a_variant_without_a_time_has_no_speed_up(tmp_path: Path) -> None:
    data = synthetic(tmp_path, faults=FAULTS)
    one = explain(data, "shared", "double_buffer", SIZE)
    assert (one.speedup, one.effects) == (None, ())
    assert "shared has no time: wrong result" in one.why
    assert plain(sentences(one)) == "No comparison: shared has no time: wrong result."
    assert [(s.against, s.variant, s.decomposition.before.variant) for s in steps(data, ladder_rows(data))] == [
        ("baseline", "naive", "cublas_fp32"),
        ("before", "double_buffer", "naive"),
        ("baseline", "double_buffer", "cublas_fp32"),
        ("baseline", "mma_sync", "cublas_bf16"),
    ]


def test_a_variant_that_is_not_in_the_run_is_said_so(tmp_path: Path) -> None:
    assert "nobody has no time: it is not in this run" in explain(synthetic(tmp_path), "nobody", "naive", SIZE).why


def test_several_kernels_sum_and_the_longest_gives_the_factors(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    rows = frames.rows_of(run.frame("metrics"))
    longest = next(r["value"] for r in rows if r["variant"] == "tile_2d" and r["metric"] == "duration")
    base = {"variant": "tile_2d", "size": SIZE, "launch": 1, "kernel": "epilogue", "origin": "ncu"}
    rows.append({**base, "metric": "duration", "value": longest / 4, "unit": "s"})
    run.write_frame("metrics", rows)
    one = explain(RunData.load(run), "shared", "tile_2d", SIZE)
    kernels = one.effect("kernels")
    assert kernels is not None
    assert (kernels.before, kernels.after) == pytest.approx((1.0, 1.25))
    assert one.after.identity is not None
    assert one.after.identity.launch == (0, "tile_2d_kernel")
    assert one.after.dominance == pytest.approx(0.8)
    assert one.speedup is not None
    assert total(one) == pytest.approx(math.log(one.speedup), abs=1e-9)
    assert "tile_2d launches 2 kernels" in one.remarks[0]
    assert "takes 80 % of them" in one.remarks[0]


def test_without_event_times_the_profilers_stand_in_and_are_named(tmp_path: Path) -> None:
    one = explain(edited(tmp_path, {"samples": lambda row: None}), "shared", "tile_2d", SIZE)
    assert not one.measured
    assert one.effect("event") is None
    assert one.speedup is not None
    assert total(one) == pytest.approx(math.log(one.speedup), abs=1e-9)
    assert "by the profiler's time" in plain(sentences(one))


def test_stall_reasons_that_miss_the_latency_leave_a_part_of_their_own(tmp_path: Path) -> None:
    keep = {"stalls": lambda row: None if (row["variant"], row["reason"]) == ("naive", "lg_throttle") else row}
    one = explain(edited(tmp_path, keep), "naive", "shared", SIZE)
    latency = one.effect("latency")
    assert latency is not None
    parts = {part.reason.name: part for part in latency.parts}
    assert parts[""].before == pytest.approx(13.9, abs=0.1)
    assert math.fsum(part.log_gain for part in latency.parts) == pytest.approx(latency.log_gain, abs=1e-9)
    assert any("stall reasons of naive add up to 6" in text for text in one.remarks)


def test_no_stall_reasons_leave_the_latency_whole(tmp_path: Path) -> None:
    one = explain(edited(tmp_path, {"stalls": lambda row: None}), "naive", "shared", SIZE)
    latency = one.effect("latency")
    assert latency is not None
    assert latency.parts == ()
    assert "naive has no stall reasons, so its latency is not split." in one.remarks


def test_two_runs_compare(tmp_path: Path) -> None:
    before, after = synthetic(tmp_path / "a"), synthetic(tmp_path / "b", seed=3)
    one = explain(before, "tile_2d", "tile_2d", SIZE, after)
    assert one.speedup == pytest.approx(1.0, abs=0.01)
    assert total(one) == pytest.approx(math.log(one.speedup), abs=1e-9)
    back = explain(after, "tile_2d", "tile_2d", SIZE, before)
    assert total(back) == pytest.approx(-total(one), abs=1e-9)


def test_a_variant_against_itself_changes_nothing(tmp_path: Path) -> None:
    data = synthetic(tmp_path)
    one = explain(data, "naive", "naive", SIZE)
    assert one.speedup == 1.0
    assert {effect.log_gain for effect in one.effects} == {0.0}
    assert plain(sentences(one)).startswith("naive takes as long as naive")


def test_the_identity_of_a_launch_by_name(tmp_path: Path) -> None:
    data = synthetic(tmp_path)
    (launch,) = data.launches("naive", SIZE)
    assert identity(data, "naive", SIZE, launch).holds is True
    assert side(data, "naive", SIZE).identity == identity(data, "naive", SIZE, launch)


# The words.


def test_the_recorded_steps_in_words() -> None:
    data = RunData.load(RunDir.open(RECORDED))
    words = plain(sentences(explain(data, "shared", "tile_2d", "M=4096,N=4096,K=4096")))
    assert words.startswith("tile_2d is ")
    assert "faster than shared" in words
    assert "the instructions per scheduler (saves " in words
    assert "MIO throttle fell from " in words
    assert "warps a scheduler instead of 15.9 (costs " in words


def test_a_slower_rung_names_what_it_costs_first_and_what_speaks_for_it(tmp_path: Path) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        if row["variant"] == "tile_2d" and row["metric"] == "instructions_per_scheduler":
            row["value"] *= 8
        if row["variant"] == "tile_2d" and row["metric"] == "active_share":
            row["value"] *= 2
        return row

    def slow(row: dict[str, Any]) -> dict[str, Any]:
        if row["variant"] == "tile_2d":
            row["time_ns"] *= 4
        return row

    one = explain(edited(tmp_path, {"metrics": change, "samples": slow}), "shared", "tile_2d", SIZE)
    assert one.speedup is not None
    assert one.speedup < 1
    words = plain(sentences(one))
    assert "slower than shared: " in words
    assert "In its favour, " in words
    assert words.index("costs") < words.index("In its favour")


def test_not_selected_is_no_cause() -> None:
    data = RunData.load(RunDir.open(RECORDED))
    for step in steps(data, ladder_rows(data)):
        assert "selected" not in plain(sentences(step.decomposition, step.interval))


@pytest.mark.parametrize(
    ("log_gain", "text"),
    [(math.log(2.314), "saves 2.31×"), (-math.log(1.04), "costs 1.04×"), (0.0, "no change"), (0.004, "no change")],
)
def test_a_gain_is_said_above_one(log_gain: float, text: str) -> None:
    assert gain(log_gain) == text


# Which clock, and what the tensor pipe says.


def test_a_pass_at_another_clock_is_no_part_of_a_step_whose_launches_have_one() -> None:
    """The profiler saw `in_step` at 1.938 GHz and `register_banks` at 1.978; both were timed at 1.979."""
    one = explain(RunData.load(RunDir.open(RECORDED)), "register_banks", "in_step", "M=4096,N=4096,K=4096")
    clock, event = one.effect("clock"), one.effect("event")
    assert clock is not None
    assert event is not None
    for side_of in (one.before, one.after):
        assert side_of.identity is not None
        assert side_of.event_hz is not None
        assert side_of.identity.values["clock"].value is not None
    assert (clock.before, clock.after) == (one.before.event_hz, one.after.event_hz)
    assert clock.gain == pytest.approx(1, abs=2e-3)
    assert event.gain == pytest.approx(1, abs=2e-3)
    assert "its pass ran at" not in plain(sentences(one))


def test_without_a_clock_of_the_launches_the_pass_lends_its_own(tmp_path: Path) -> None:
    def no_clock(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "sm_clock_mhz": None} if row["variant"] == "tile_2d" else row

    def slow_pass(row: dict[str, Any]) -> dict[str, Any]:
        if row["variant"] == "tile_2d" and row["metric"] == "sm_clock":
            row["value"] *= 0.9
        return row

    one = explain(edited(tmp_path, {"samples": no_clock, "metrics": slow_pass}), "shared", "tile_2d", SIZE)
    clock, event = one.effect("clock"), one.effect("event")
    assert clock is not None
    assert event is not None
    assert clock.kind.metric == "sm_clock"
    assert event.before == pytest.approx((one.before.event_s.value or 0) / (one.before.profiled_s.value or 1))
    assert one.speedup is not None
    assert total(one) == pytest.approx(math.log(one.speedup), abs=1e-9)
    assert "its pass ran at" in plain(sentences(one))


def test_a_short_launch_has_no_clock(tmp_path: Path) -> None:
    data = edited(tmp_path, {"samples": lambda row: {**row, "time_ns": 2000.0, "sm_clock_mhz": 1500.0}})
    assert side(data, "tile_2d", SIZE).event_hz is None
    data = edited(tmp_path / "long", {"samples": lambda row: {**row, "time_ns": 2e5, "sm_clock_mhz": 1500.0}})
    assert side(data, "tile_2d", SIZE).event_hz == 1.5e9


def test_the_same_work_of_the_tensor_pipe_is_what_all_else_comes_to() -> None:
    data = RunData.load(RunDir.open(RECORDED.parent / "hopper_ladder"))
    one = explain(data, "cluster_multicast", "tma_store", "M=4096,N=4096,K=4096")
    assert one.before.tensor is not None
    assert one.after.tensor is not None
    assert one.after.tensor.path == "bf16_hgmma"
    assert one.after.tensor.operations == 2 * 4096**3
    # Busy share, active share, clock, and what lies between the passes, are the speed-up: the pipe's work is the same.
    effects = {effect.kind.key: effect.gain for effect in one.effects}
    pipe = one.after.tensor.busy / one.before.tensor.busy
    assert one.speedup == pytest.approx(pipe * effects["active"] * effects["clock"] * effects["event"], rel=0.01)
    assert "is busy in 94.9 % of the active cycles instead of 83.3 % (saves 1.14×)" in plain(sentences(one))


def test_other_work_of_the_tensor_pipe_is_not_compared() -> None:
    data = RunData.load(RunDir.open(RECORDED))
    size = "M=4096,N=4096,K=4096"
    assert "tensor pipe" not in plain(
        sentences(explain(data, "mma_multistage", "triton_bf16", size))
    )  # mma.sync, wgmma
    assert "tensor pipe" not in plain(sentences(explain(data, "shared", "tile_2d", size)))


def test_a_tie_names_both_sides_of_it() -> None:
    data = RunData.load(RunDir.open(RECORDED.parent / "hopper_ladder"))
    one = explain(data, "piecewise_store", "own_warps", "M=4096,N=4096,K=4096")
    words = plain(sentences(one, Interval(0.999, 0.996, 1.001, 50)))
    assert words.startswith("own_warps takes as long as piecewise_store [0.996, 1.001]. ")
    assert "In its favour, it executes 0.91× the instructions" in words
    assert "Against that, a scheduler issues an instruction every" in words


def test_without_factors_nothing_is_remarked_of_them() -> None:
    data = RunData.load(RunDir.open(RECORDED.parent / "topk"))
    one = explain(data, "no_barrier", "cub_sort", "B=1,N=67108864,K=64")
    assert (one.effects, one.remarks) == ((), ())
