"""The interval of a sustained ratio: by hand, against the truth in simulations, and where nothing can be said."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analysis.rundata import RunData
from profiler.analysis.statistics import Array, Interval, Sample
from profiler.analysis.sustained import LEAST_DOF, block_ratio, sustained_ratio

SIZE = "M=64,N=64,K=64"
#: Log times by pass. The blocks of a and c lie 0.02 apart, each the other way, so that residuals are 0.01, four times.
BY_HAND = {"a": (0.0, 0.02), "b": (0.1, 0.1), "c": (0.2, 0.18), "d": (0.3, 0.3)}
#: s^2 = 4 * 0.01^2 / ((4 - 1)(2 - 1)), as is, with two blocks each, the difference's; t(97.5 %, 3) = 3.182446.
HALF = 3.182446 * math.sqrt(4 * 0.01**2 / 3)


def blocks(logs: Sequence[float], process: int = 0) -> list[Sample]:
    return [Sample(1e6 * math.exp(log), process, order) for order, log in enumerate(logs)]


def of(table: Mapping[str, Sequence[float]], slower: str, faster: str) -> Interval:
    variants = {name: blocks(logs) for name, logs in table.items()}
    return block_ratio(variants[slower], variants[faster], [list(variants.values())])


def bounds(found: Interval) -> tuple[float, float]:
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def test_a_case_by_hand() -> None:
    found = of(BY_HAND, "b", "a")
    assert found.value == pytest.approx(math.exp(0.09))
    assert bounds(found) == pytest.approx((math.exp(0.09 - HALF), math.exp(0.09 + HALF)), rel=1e-6)
    assert found.samples == 2


def test_the_other_way_round_it_is_the_inverse() -> None:
    low, high = bounds(of(BY_HAND, "a", "b"))
    assert (1 / high, 1 / low) == pytest.approx(bounds(of(BY_HAND, "b", "a")))


def test_what_all_blocks_of_a_pass_share_is_no_noise() -> None:
    shifted = {name: (first, second + 0.5) for name, (first, second) in BY_HAND.items()}
    assert dataclasses.astuple(of(shifted, "b", "a")) == pytest.approx(dataclasses.astuple(of(BY_HAND, "b", "a")))


def test_a_slope_over_both_passes_does_not_move_the_ratio_and_never_narrows_its_interval() -> None:
    names = list(BY_HAND)
    slope = {
        name: (first + 0.01 * place, second + 0.01 * (2 * len(names) - 1 - place))
        for place, (name, (first, second)) in enumerate(BY_HAND.items())
    }
    found, level = of(slope, "b", "a"), of(BY_HAND, "b", "a")
    assert found.value == pytest.approx(level.value)
    assert bounds(found)[0] < bounds(level)[0]


def test_no_spread_is_an_interval_of_no_width() -> None:
    found = of(dict.fromkeys("abcd", (0.25, 0.25)), "a", "b")
    assert dataclasses.astuple(found) == pytest.approx((1.0, 1.0, 1.0, 2), abs=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_below_three_degrees_of_freedom_there_is_a_ratio_without_bounds(count: int) -> None:
    table = dict(list(BY_HAND.items())[:count])
    found = of(table, list(table)[-1], "a")
    assert (found.low is not None) == (count - 1 >= LEAST_DOF)
    assert found.value == pytest.approx(math.exp(np.mean(table[list(table)[-1]]) - 0.01))


def test_a_variant_that_lacks_a_block_has_a_ratio_without_bounds_and_is_no_help_to_others() -> None:
    table = {**BY_HAND, "e": (0.4,)}
    found = of(table, "e", "a")
    assert dataclasses.astuple(found) == pytest.approx((math.exp(0.39), None, None, 1))
    assert of(table, "b", "a") == of(BY_HAND, "b", "a")
    missing: Mapping[str, Sequence[float]] = {**BY_HAND, "d": (0.3,)}
    assert of(missing, "b", "a").low is None  # three are left, with two degrees of freedom


def test_of_two_pools_the_wider_counts_and_each_must_be_large_enough() -> None:
    wild = {name: tuple(10 * log for log in logs) for name, logs in BY_HAND.items()}
    calm, loose = ([blocks(logs) for logs in table.values()] for table in (BY_HAND, wild))
    both = block_ratio(calm[1], loose[0], [calm, loose])
    assert both == block_ratio(calm[1], loose[0], [loose, calm]) == block_ratio(calm[1], loose[0], [loose])
    assert math.log(bounds(both)[1] / both.value) == pytest.approx(10 * HALF, rel=1e-6)
    assert block_ratio(calm[1], loose[0], [calm, loose[:3]]).low is None


def test_processes_are_the_replicates_where_there_are_several() -> None:
    """The blocks of a process agree to the last digit here: as replicates they would make all look certain."""
    by_process = [[0.0, 0.02], [0.1, 0.1], [0.2, 0.18], [0.3, 0.3]]
    variants = [[*blocks([log[0]] * 2, 0), *blocks([log[1]] * 2, 1)] for log in by_process]
    found = block_ratio(variants[1], variants[0], [variants])
    assert dataclasses.astuple(found) == pytest.approx((*dataclasses.astuple(of(BY_HAND, "b", "a"))[:3], 4))


def test_blocks_of_different_processes_were_not_taken_in_turns() -> None:
    here, there = ([blocks(logs, process) for logs in BY_HAND.values()] for process in (0, 1000))
    found = block_ratio(here[1], there[0], [[*here, *there]])
    assert dataclasses.astuple(found) == pytest.approx((math.exp(0.09), None, None, 2))
    assert block_ratio(here[1], here[0], [[*here, *there]]) == of(BY_HAND, "b", "a")


def test_only_processes_in_which_both_are_whole_count() -> None:
    first = [blocks(logs, 0) for logs in BY_HAND.values()]
    second = [blocks(np.add(logs, 1.0), 1) for logs in BY_HAND.values()]
    variants = [[*one, *two] for one, two in zip(first, second, strict=True)]
    variants[0].pop()
    found = block_ratio(variants[1], variants[0], [variants])
    assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(of(BY_HAND, "b", "a")))


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=4, max_size=12), st.floats(0.01, 100.0))
def test_a_ratio_lies_in_its_interval_which_knows_no_unit(logs: list[tuple[float, float]], unit: float) -> None:
    variants = [blocks(log) for log in logs]
    found = block_ratio(variants[0], variants[1], [variants])
    low, high = bounds(found)
    assert low <= found.value <= high
    scaled = [[dataclasses.replace(sample, time_ns=sample.time_ns * unit) for sample in one] for one in variants]
    assert dataclasses.astuple(block_ratio(scaled[0], scaled[1], [scaled])) == pytest.approx(
        dataclasses.astuple(found), rel=1e-6
    )


def hits(trials: int, draw: Any, processes: int) -> float:
    """Return the share of trials in which the interval holds the true ratio of the first two of ten variants."""
    truth = np.linspace(0.0, 0.3, 10)
    found = 0
    for _ in range(trials):
        logs: Array = truth[:, None, None] + draw()  # variant, process, pass
        variants = [[one for p in range(processes) for one in blocks(log[p], p)] for log in logs]
        low, high = bounds(block_ratio(variants[1], variants[0], [variants]))
        found += low <= math.exp(truth[1] - truth[0]) <= high
    return found / trials


def test_the_truth_lies_in_it_in_95_of_100_runs() -> None:
    rng = np.random.default_rng(5)
    place = np.arange(10)
    order = np.stack([place, 19 - place], axis=-1)[:, None, :]  # when a block is taken

    def draw(slope: float) -> Array:
        step = rng.normal(0, 0.02, (1, 1, 2))
        return np.asarray(step + slope * order + rng.normal(0, 0.01, (10, 1, 2)))

    assert hits(1500, lambda: draw(0.0), 1) == pytest.approx(0.95, abs=0.015)
    assert hits(500, lambda: draw(0.002), 1) >= 0.95  # a slope widens it: never less than it says


def test_the_truth_lies_in_it_where_processes_favour_variants() -> None:
    rng = np.random.default_rng(6)

    def draw() -> Array:
        return np.asarray(rng.normal(0, 0.02, (10, 3, 1)) + rng.normal(0, 0.005, (10, 3, 2)))

    assert hits(1000, draw, 3) == pytest.approx(0.95, abs=0.02)


def run(states: Mapping[str, str | None], table: Mapping[str, Sequence[float]], **status: str) -> RunData:
    """Return a run with sustained blocks; ``states``: what held the clock of each variant."""
    variants = [
        {"name": name, "status": status.get(name, "ok"), "verified": "yes", "order": i} for i, name in enumerate(table)
    ]
    samples = [
        {
            "variant": name, "size": SIZE, "method": "sustained", "process": sample.process, "order": sample.order,
            "time_ns": sample.time_ns, "throttle": states.get(name), "foreign": False, "cache": "rotated",
        }
        for name, logs in table.items()
        for sample in blocks(logs)
    ]  # fmt: skip
    return RunData({}, {"variants": variants, "samples": samples})


def test_all_variants_of_a_run_give_the_interval() -> None:
    data = run({}, BY_HAND)
    assert sustained_ratio(data, "b", "a", SIZE) == of(BY_HAND, "b", "a")
    assert sustained_ratio(data, "a", "a", SIZE) == Interval(1.0, None, None, 2)
    assert sustained_ratio(data, None, "a", SIZE) is None
    assert sustained_ratio(data, "b", "a", "M=1,N=1,K=1") is None


def test_what_failed_is_no_baseline_and_says_nothing_of_others() -> None:
    table = {**BY_HAND, "e": (0.0, 3.0)}
    data = run({}, table, e="wrong_after_timing")
    assert sustained_ratio(data, "e", "a", SIZE) is None
    assert sustained_ratio(data, "b", "a", SIZE) == of(BY_HAND, "b", "a")


def test_variants_at_the_power_limit_and_below_it_are_not_pooled() -> None:
    calm = {name.upper(): tuple(log / 10 for log in logs) for name, logs in BY_HAND.items()}
    limit = {**dict.fromkeys(BY_HAND, "sw_power_cap,other"), **dict.fromkeys(calm, "")}
    data = run(limit, {**calm, **BY_HAND})
    assert sustained_ratio(data, "b", "a", SIZE) == of(BY_HAND, "b", "a")
    assert sustained_ratio(data, "B", "A", SIZE) == of(calm, "B", "A")
    mixed = sustained_ratio(data, "B", "a", SIZE)  # of two states, the one that scatters more
    assert mixed is not None
    assert math.log(bounds(mixed)[1] / mixed.value) == pytest.approx(HALF, rel=1e-6)
