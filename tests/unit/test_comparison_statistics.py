"""The statistics by themselves: properties that hold for any numbers, and cases worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from profiler.analysis.statistics import t_quantile
from profiler.comparison.escalation import DONE, Step, next_step
from profiler.comparison.model import Noise, Settings
from profiler.comparison.samples import UNKNOWN_TICK_NS, location, mode_gap, side_of, tick_of
from profiler.comparison.statistics import (
    Difference,
    difference,
    holm,
    judge,
    least_effect,
    only_the_clock,
    seen,
)

FLOOR = Noise(0.005, 40.0, "test")
SETTINGS = Settings()
DELTA = least_effect(SETTINGS)
logs = st.lists(st.floats(-0.2, 0.2, allow_nan=False), min_size=1, max_size=12)
OPPOSITE = {"slower": "faster", "faster": "slower", "": ""}


def rows(times: Any, process: int = 0, **values: Any) -> list[dict[str, Any]]:
    base = {"launches": 1, "sm_clock_mhz": None, "throttle": "", "foreign": False, "process": process}
    return [{**base, "time_ns": time, "order": i, **values} for i, time in enumerate(times)]


# --- the difference -------------------------------------------------------------------------------------------------


@given(logs, logs)
def test_swapping_the_sides_mirrors_the_judgement(first: list[float], second: list[float]) -> None:
    one = judge(first, second, FLOOR, DELTA, SETTINGS)
    other = judge([-x for x in first], [-x for x in second], FLOOR, DELTA, SETTINGS)
    assert one.outcome == other.outcome
    assert one.stage == other.stage
    assert one.pooled.value == pytest.approx(-other.pooled.value, abs=1e-15)
    assert one.p == pytest.approx(other.p)
    if abs(one.pooled.value) > 1e-12:
        assert OPPOSITE[one.pooled.direction] == other.pooled.direction


@given(st.lists(st.floats(1e3, 1e8), min_size=5, max_size=40), st.floats(0.01, 100.0))
def test_scaling_times_moves_the_location_and_nothing_else(times: list[float], factor: float) -> None:
    for trimmed in (False, True):
        scaled = location(np.asarray(times) * factor, trimmed)
        assert scaled == pytest.approx(location(np.asarray(times), trimmed) + math.log(factor))
    assert mode_gap(np.log(times)) == pytest.approx(mode_gap(np.log(np.asarray(times) * factor)), abs=1e-6)


def test_the_floor_rule_by_hand() -> None:
    quiet = difference([0.01, 0.01, 0.01], FLOOR)  # pairs alike: the floor counts
    assert quiet.se == pytest.approx(0.005 / math.sqrt(3))
    assert quiet.df == 40
    assert quiet.p == pytest.approx(2 * stats.t.sf(0.01 / quiet.se, 40))
    noisy = difference([0.0, 0.01, 0.02], FLOOR)  # noisier than the floor by chance
    assert noisy.se == pytest.approx(0.01 / math.sqrt(3))
    assert noisy.df == 40
    wild = difference([-0.1, 0.0, 0.1], FLOOR)  # noisier than the floor beyond doubt: its own degrees of freedom
    assert wild.noisier
    assert wild.df == 2


def test_one_process_in_another_mode_does_not_move_nine_pairs() -> None:
    assert difference([0.0] * 8 + [0.1], FLOOR).value == 0.0
    assert difference([0.0] * 4 + [0.1], FLOOR).value == pytest.approx(0.02)


@pytest.mark.parametrize("values", [[], [math.nan], [0.0, math.inf]])
def test_what_is_no_number_is_no_difference(values: list[float]) -> None:
    with pytest.raises(ValueError, match="pairs"):
        difference(values, FLOOR)


def test_a_difference_that_is_no_number_is_not_significant() -> None:
    assert Difference(math.nan, 0.01, 40, 1).p == 1.0
    assert Difference(0.1, 0.0, 40, 1).p == 1.0


@given(st.floats(-0.1, 0.1), st.floats(1e-4, 0.05), st.floats(3, 60))
def test_the_interval_and_the_p_value_agree(value: float, se: float, df: float) -> None:
    found = Difference(value, se, df, 5)
    low, high = found.bounds(0.99)
    assert (found.p < 0.01) == (not low <= 0 <= high)
    assert low <= value <= high


def test_the_smallest_detectable_effect_is_detected_with_95_percent() -> None:
    rng = np.random.default_rng(1)
    effect = math.log1p(Difference(0.0, 0.004, 1e6, 5).detectable(0.01, DELTA))
    draws = [Difference(value, 0.004, 1e6, 5) for value in rng.normal(effect, 0.004, 4000)]
    assert np.mean([seen(draw, 0.01, DELTA) for draw in draws]) == pytest.approx(0.95, abs=0.012)


# --- two stages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "outcome", "stage"),
    [
        ([0.03] * 3, [], "candidate", "first"),
        ([0.03] * 3, [0.03] * 5, "flagged", "confirmed"),
        ([-0.03] * 3, [-0.03] * 5, "flagged", "confirmed"),
        ([0.03] * 3, [-0.03] * 5, "unchanged", "not_confirmed"),
        ([0.03] * 3, [0.0] * 5, "noise", "not_confirmed"),
        ([0.0] * 3, [], "unchanged", "first"),
        ([0.0] * 3, [0.03] * 5, "noise", "first"),
        ([0.004] * 9, [0.004] * 5, "unchanged", "first"),  # significant, and too small to flag
        ([-0.06, 0.0, 0.06], [], "noise", "first"),
    ],
)
def test_a_flag_takes_both_stages(first: list[float], second: list[float], outcome: str, stage: str) -> None:
    found = judge(first, second, FLOOR, DELTA, SETTINGS)
    if outcome == "unchanged" and stage == "not_confirmed":
        assert found.outcome in ("unchanged", "noise")
    else:
        assert found.outcome == outcome
    assert found.stage == stage


@given(logs, logs)
def test_nothing_is_flagged_below_the_least_effect(first: list[float], second: list[float]) -> None:
    found = judge(first, second, FLOOR, DELTA, SETTINGS)
    if found.outcome == "flagged":
        assert abs(found.pooled.value) >= DELTA
        assert found.p < 0.01
        assert second
    if found.outcome == "unchanged":
        assert abs(found.pooled.value) < math.log1p(SETTINGS.equivalence)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([math.nan, 0.01]) == pytest.approx([1.0, 0.02])


@given(st.lists(st.floats(0, 1), max_size=30))
def test_holm_only_raises_and_keeps_the_order(ps: list[float]) -> None:
    adjusted = holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, adjusted, strict=True))
    assert [adjusted[i] for i in np.argsort(ps, kind="stable")] == sorted(adjusted)


def test_the_least_effect_is_the_setting_or_two_ticks() -> None:
    assert math.expm1(least_effect(Settings(), 1000.0, math.inf)) == pytest.approx(0.005)
    assert math.expm1(least_effect(Settings(), 1000.0, 100.0)) == pytest.approx(0.02)
    assert math.expm1(least_effect(Settings(min_effect=0.05), 100.0)) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("log_ratio", "before", "after", "expected"),
    [
        (0.05, 1980.0, 1980.0, False),  # slower at the same clock: more cycles
        (0.05, 1980.0, 1980.0 * math.exp(-0.05), True),  # the same cycles at a lower clock
        (-0.05, 1800.0, 1800.0 * math.exp(0.05), True),
        (0.05, 1800.0, 1980.0, False),  # slower at a higher clock
        (0.05, 1980.0, 1700.0, True),  # fewer cycles, and slower: the clock again
        (0.05, None, 1980.0, False),
        (0.0, 1980.0, 1980.0, False),
    ],
)
def test_the_clock_check(log_ratio: float, before: float | None, after: float | None, expected: bool) -> None:
    assert only_the_clock(log_ratio, before, after) is expected


# --- how many pairs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([], [], Step(1, 3)),
        ([0.0], [], Step(1, 2)),
        ([0.0] * 3, [], DONE),  # shown to be unchanged
        ([0.03] * 3, [], Step(2, 5)),
        ([0.03] * 3, [0.03] * 2, Step(2, 3)),
        ([-0.03, 0.0, 0.03], [], Step(1, 2)),
        ([-0.03, 0.0, 0.03, -0.03, 0.03], [], Step(1, 4)),
    ],
)
def test_the_next_step(first: list[float], second: list[float], expected: Step) -> None:
    assert next_step(first, second, FLOOR, DELTA, SETTINGS) == expected


@given(logs, logs)
@settings(max_examples=60)
def test_escalation_ends(first: list[float], second: list[float]) -> None:
    one, two = list(first[:2]), list(second[:1])
    for _ in range(20):
        step = next_step(one, two, FLOOR, DELTA, SETTINGS)
        if step.done:
            break
        (one if step.stage == 1 else two).extend((first + second)[i % len(first)] for i in range(step.pairs))
    assert step.done
    assert len(one) <= max(SETTINGS.pairs)
    assert len(two) <= SETTINGS.confirmation_pairs


# --- samples --------------------------------------------------------------------------------------------------------


def test_ticks_of_the_timer() -> None:
    rng = np.random.default_rng(2)
    assert tick_of(np.round(rng.normal(5000, 400, 100) / 32) * 32) == pytest.approx(32)
    as_float32 = (np.round(rng.normal(2.7e6, 3e3, 50) / 32) * 32 / 1e6).astype(np.float32).astype(np.float64) * 1e6
    assert tick_of(as_float32) == pytest.approx(32, rel=0.03)
    assert tick_of(rng.normal(5000, 400, 100)) == 0.0
    assert tick_of(np.full(10, 5000.0)) == UNKNOWN_TICK_NS
    assert tick_of(np.asarray([5000.0])) == 0.0


def test_coarse_ticks_take_the_trimmed_mean() -> None:
    rng = np.random.default_rng(3)
    coarse = side_of(rows(np.round(rng.normal(8000, 300, 200) / 500) * 500), SETTINGS)
    assert coarse.trimmed
    assert coarse.tick_ns == pytest.approx(500)
    assert coarse.time_ns == pytest.approx(8000, rel=0.01)  # the median would be a multiple of 500
    assert coarse.ticks == pytest.approx(16, rel=0.01)
    fine = side_of(rows(np.round(rng.normal(80_000, 300, 200) / 32) * 32), SETTINGS)
    assert not fine.trimmed
    assert fine.within > 0


def test_a_tick_of_a_graph_is_shared_by_its_launches() -> None:
    times = np.round(np.random.default_rng(4).normal(50_000, 500, 100) / 32) * 32 / 10
    assert side_of(rows(times, launches=10), SETTINGS).tick_ns == pytest.approx(3.2)


def test_marked_samples_are_left_out_and_counted() -> None:
    given_rows = [
        *rows([100.0] * 8 + [101.0] * 8),
        *rows([500.0] * 2, foreign=True),
        *rows([500.0] * 2, throttle="sw_power_cap,hw_thermal_slowdown"),
        *rows([100.0] * 3, throttle="sw_power_cap"),  # the normal state of a tensor kernel
        *rows([math.nan, 0.0, -1.0, None, math.inf]),
    ]
    side = side_of(given_rows, SETTINGS)
    assert (side.samples, side.excluded, side.invalid) == (19, 4, 5)
    assert side.excluded_share == pytest.approx(4 / 23)
    assert side.time_ns == pytest.approx(100.0, rel=0.01)


def test_only_marked_samples_still_give_a_time() -> None:
    side = side_of(rows([100.0, 101.0, 102.0, 103.0, 104.0], foreign=True), SETTINGS)
    assert side.excluded_share == 1.0
    assert side.time_ns == pytest.approx(102.0)


@pytest.mark.parametrize("times", [[], [100.0], [math.nan] * 9, [0.0] * 9])
def test_too_few_samples_leave_no_process(times: list[float]) -> None:
    assert side_of(rows(times), SETTINGS).processes == ()


def test_processes_are_told_apart() -> None:
    side = side_of([*rows([100.0] * 6, 1), *rows([400.0] * 6, 0), *rows([1.0] * 2, 2)], SETTINGS)
    assert [process.number for process in side.processes] == [0, 1]
    assert side.thin == 1
    assert side.time_ns == pytest.approx(200.0)


def test_two_modes() -> None:
    rng = np.random.default_rng(5)
    one = rng.normal(0, 0.005, 100)
    two = np.where(rng.random(100) < 0.4, 0.12, 0.0) + one
    assert mode_gap(one) == 0.0
    assert mode_gap(two) == pytest.approx(0.12, rel=0.1)
    assert mode_gap(-two) == pytest.approx(mode_gap(two))
    assert mode_gap(np.where(np.arange(100) < 5, 0.3, 0.0) + one) == 0.0  # a tail is no mode
    assert mode_gap(np.asarray([0.0, 0.0, 0.1, 0.1])) == 0.0  # too few to say


def test_noise_is_seldom_taken_for_two_modes() -> None:
    rng = np.random.default_rng(6)
    found = [mode_gap(rng.normal(0, 0.01, 50), 5) for _ in range(400)]
    found += [mode_gap(rng.uniform(0, 0.01, 50), 5) for _ in range(400)]
    assert sum(gap > 0 for gap in found) <= 2


def test_the_clock_of_short_windows_is_not_told() -> None:
    assert side_of(rows([5000.0] * 9, sm_clock_mhz=1900.0), SETTINGS).sm_clock_mhz is None
    assert side_of(rows([90_000.0] * 9, sm_clock_mhz=1900.0), SETTINGS).sm_clock_mhz == 1900.0


def test_quantiles() -> None:
    assert t_quantile(0.99, 40) == pytest.approx(2.7045, abs=1e-3)
