"""Bytes by level beside the least bytes, and what a hit rate means."""

from __future__ import annotations

from typing import Any

import pytest
from variant_data import FP32_BYTES, NAME, SIZE, run_data

from profiler.analysis.traffic import NO_LEAST, LevelTraffic, Traffic, traffic

COUNTERS: dict[str, Any] = {
    "duration": 0.005, "dram_bytes": 2.0 * FP32_BYTES, "dram_bytes_read": 1.5 * FP32_BYTES,
    "dram_bytes_write": 0.5 * FP32_BYTES, "l2_bytes": 18.0 * FP32_BYTES, "l1_bytes": 300.0 * FP32_BYTES,
    "shared_bytes": 280.0 * FP32_BYTES, "l1_hit_rate": 0.006, "l2_hit_rate": 83.0, "shared_static": 16384,
    "shared_dynamic": 0,
}  # fmt: skip


def levels(counters: dict[str, Any] | None = None, dtype: str = "fp32", **more: Any) -> dict[str, LevelTraffic]:
    return {level.key: level for level in found(counters, dtype, **more).levels}


def found(counters: dict[str, Any] | None = None, dtype: str = "fp32", **more: Any) -> Traffic:
    return traffic(run_data({**COUNTERS, **(counters or {})}, **more), NAME, dtype, SIZE)


def test_each_level_counts_in_units_of_the_least_bytes() -> None:
    times = {key: level.times for key, level in levels().items()}
    assert times == pytest.approx({"dram": 2, "l2": 18, "l1": 300, "shared": 280})
    assert found().least == FP32_BYTES
    assert found().sentence == "DRAM moved 2.00× the least bytes, L2 18.0×, L1 300×."
    assert levels(dtype="bf16")["dram"].times == pytest.approx(4)


def test_a_low_l1_hit_rate_is_right_where_shared_memory_caches() -> None:
    assert "A low hit rate is right here" in levels()["l1"].note
    assert levels({"shared_bytes": 0.0})["l1"].note == ""


def test_a_high_l1_hit_rate_is_no_praise_when_the_pipe_does_the_work() -> None:
    note = levels({"l1_hit_rate": 99.2, "l1_bytes": 45000.0 * FP32_BYTES, "shared_bytes": 0.0})["l1"].note
    assert "not for the L1 pipe" in note


def test_less_than_the_minimum_is_explained() -> None:
    assert "stayed in L2" in levels({"dram_bytes": 0.7 * FP32_BYTES})["dram"].note


def test_a_kernel_without_shared_memory_says_so() -> None:
    assert levels({"shared_static": 0, "shared_bytes": 5.0})["shared"].note.endswith("is not its own.")
    assert levels({"shared_static": 0, "shared_bytes": 0.0})["shared"].note == "It has no shared memory."


def test_missing_counters_and_a_missing_minimum_say_why() -> None:
    missing = levels({"l2_bytes": "not_supported"})["l2"]
    assert missing.times is None
    assert missing.times_why == "this chip has no such counter"
    unknown = levels(dtype="fp8")["dram"]
    assert (unknown.times, unknown.times_why) == (None, NO_LEAST)
    assert unknown.amount.value is not None


def test_what_was_not_profiled_has_no_bytes() -> None:
    nothing = traffic(run_data(None, status="crashed"), NAME, "fp32", SIZE)
    assert [level.amount.value for level in nothing.levels] == [None] * 4
    assert nothing.levels[0].amount.why == "not profiled: crashed"
    assert nothing.sentence == ""
