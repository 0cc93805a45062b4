from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analysis.statistics import (
    FEWEST,
    Interval,
    Sample,
    by_process,
    median_interval,
    paired,
    quartile_spread,
    ratio_interval,
)


def samples(times: list[float], process: int = 0) -> list[Sample]:
    return [Sample(time, process, order) for order, time in enumerate(times)]


def test_median_lies_inside_its_interval() -> None:
    found = median_interval(samples([10.0, 11.0, 12.0, 13.0, 50.0]))
    assert found.value == 12.0
    assert found.low is not None
    assert found.high is not None
    assert 10.0 <= found.low <= 12.0 <= found.high <= 50.0
    assert found.samples == 5


def test_too_few_samples_have_no_interval() -> None:
    assert median_interval(samples([10.0, 12.0])) == Interval(11.0, None, None, 2)
    # Between the extremes of three samples the median lies in 75 % of all cases, of four in 87 %: no 95 % interval.
    four = samples([10.0, 11.0, 12.0, 13.0])
    assert median_interval(four) == Interval(11.5, None, None, 4)
    assert ratio_interval(four, samples([1.0] * 50)) == Interval(11.5, None, None, 4)


@pytest.mark.parametrize("count", [5, 6, 8, 12])
def test_an_interval_of_few_samples_still_covers_the_truth(count: int) -> None:
    rng = np.random.default_rng(11)
    trials = [samples(list(np.exp(rng.normal(0, 0.01, count)))) for _ in range(300)]
    found = [median_interval(trial, resamples=300) for trial in trials]
    assert sum(one.low <= 1 <= one.high for one in found if one.low and one.high) / 300 >= 0.88


def test_no_samples_is_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


def test_same_seed_same_interval_and_another_seed_another() -> None:
    rng = np.random.default_rng(1)
    data = samples(list(rng.lognormal(10, 0.1, 40)))
    assert median_interval(data, seed=3) == median_interval(data, seed=3)
    assert median_interval(data, seed=3) != median_interval(data, seed=4)


def test_interval_of_the_median_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for trial in range(200):
        found = median_interval(samples(list(np.exp(rng.normal(3, 0.2, 30)))), seed=trial, resamples=400)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= np.exp(3) <= found.high
    assert 0.90 <= hits / 200 <= 1.0


def test_paired_rounds_cancel_what_both_saw() -> None:
    rng = np.random.default_rng(2)
    shared = np.exp(rng.normal(0, 0.2, 60))
    slow = samples(list(200 * shared * np.exp(rng.normal(0, 0.002, 60))))
    fast = samples(list(100 * shared * np.exp(rng.normal(0, 0.002, 60))))
    together, apart = ratio_interval(slow, fast), ratio_interval(slow, fast[:-1])
    assert together.low is not None
    assert together.high is not None
    assert apart.low is not None
    assert apart.high is not None
    assert together.low <= 2.0 <= together.high + 0.02
    assert together.high - together.low < (apart.high - apart.low) / 3


def test_processes_are_resampled_so_their_spread_widens_the_interval() -> None:
    rng = np.random.default_rng(3)
    one = samples(list(100 + rng.normal(0, 0.1, 80)))
    several = [
        Sample(100 + offset + rng.normal(0, 0.1), process, order)
        for process, offset in enumerate((-3.0, -1.0, 1.0, 3.0))
        for order in range(20)
    ]
    narrow, wide = median_interval(one), median_interval(several)
    assert narrow.half_width is not None
    assert wide.half_width is not None
    assert wide.half_width > 5 * narrow.half_width


def test_rounds_need_the_same_processes_and_counts() -> None:
    assert paired(samples([1, 2, 3]), samples([4, 5, 6]))
    assert not paired(samples([1, 2, 3]), samples([4, 5]))
    assert not paired(samples([1, 2, 3]), samples([4, 5, 6], process=1))
    every_other = [Sample(time, 0, order) for time, order in ((1, 0), (2, 2), (3, 4))]
    shifted = [Sample(time, 0, order) for time, order in ((1, 1), (2, 3), (3, 5))]
    assert paired(every_other, every_other)
    assert not paired(every_other, shifted)  # as many, but not from the same rounds


def test_samples_are_put_in_order_within_their_process() -> None:
    groups = by_process([Sample(3, 1, 5), Sample(1, 0, 9), Sample(2, 1, 4)])
    assert [[s.time_ns for s in group] for group in groups.values()] == [[1], [2, 3]]


def test_quartile_spread() -> None:
    assert quartile_spread([9.0, 10.0, 11.0]) == pytest.approx(0.1)


@given(st.lists(st.floats(1.0, 1e9), min_size=FEWEST, max_size=40), st.floats(0.01, 100.0))
def test_ratio_of_a_variant_with_a_scaled_copy_is_the_scale(times: list[float], scale: float) -> None:
    found = ratio_interval(samples([time * scale for time in times]), samples(times), resamples=50)
    assert found.value == pytest.approx(scale)
    assert found.low == pytest.approx(scale)
    assert found.high == pytest.approx(scale)


@given(st.lists(st.floats(1.0, 1e9), min_size=FEWEST, max_size=40))
def test_value_is_never_outside_its_interval(times: list[float]) -> None:
    found = median_interval(samples(times), resamples=50)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
