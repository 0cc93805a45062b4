"""The metric table: complete, consistent, and what it asks ncu for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler import metrics
from profiler.metrics import HEADLINE, METRICS, STALL_REASONS, NoValue, base_name, evaluate, names_in, requests, table

UNITS = {
    "s", "Hz", "B", "B/s", "FLOP", "FLOP/s", "op", "%", "1", "inst", "cycle", "warp", "thread", "block", "register",
    "sector", "sector/cycle", "text",
}  # fmt: skip


def test_every_metric_has_a_unit_a_sentence_and_a_source() -> None:
    for one in METRICS.values():
        assert one.unit in UNITS, one.name
        assert one.meaning.endswith("."), one.name
        assert one.source, one.name
        assert one.origin == "ncu"


def test_names_are_unique_over_all_origins() -> None:
    assert len(table()) == len(METRICS) + len(metrics.STATIC_METRICS)
    assert len({one.name for one in metrics.NCU_METRICS}) == len(metrics.NCU_METRICS)


def test_formulas_name_ncu_or_earlier_metrics() -> None:
    known: set[str] = set()
    for one in METRICS.values():
        for formula in one.source:
            ours = {name for name in names_in(formula) if name in METRICS}
            late = ours - known - {"duration", "shared_bytes"}
            assert not late, f"{one.name}: {late} come later"
            for name in set(names_in(formula)) - ours:
                assert "__" in name or name.startswith("memory_"), f"{one.name}: {name} is neither ours nor ncu's"
        known.add(one.name)


def test_headline_is_in_the_table() -> None:
    assert set(HEADLINE) <= METRICS.keys()


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("a", 6.0), ("2 * a", 12.0), ("a + b", 8.0), ("a - b - b", 2.0), ("a / b / 3", 1.0), ("2 * a + b / 2", 13.0),
        ("a - 2 * b", 2.0), ("0.5 * a", 3.0),
    ],
)  # fmt: skip
def test_evaluate(formula: str, expected: float) -> None:
    assert evaluate(formula, {"a": 6.0, "b": 2.0}.__getitem__) == expected


def test_a_ratio_to_nothing_is_not_applicable() -> None:
    with pytest.raises(NoValue) as missing:
        evaluate("a / b", {"a": 0.0, "b": 0.0}.__getitem__)
    assert missing.value.why == "not_applicable"


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(allow_nan=True, allow_infinity=True))
def test_evaluate_gives_a_finite_number_or_a_reason(a: float, b: float) -> None:
    for formula in ("a * b", "a / b", "a + b - 1", "2 * a"):
        outcome: float | str
        try:
            outcome = evaluate(formula, {"a": a, "b": b}.__getitem__)
        except NoValue as missing:
            outcome = missing.why
        assert outcome in ("failed", "not_applicable") or math.isfinite(float(outcome))


def test_requests_hold_every_roof_pipe_and_stall() -> None:
    asked = requests()
    assert len(asked) == len(set(asked)) == 130
    for name in (
        "gpu__time_duration.sum", "dram__bytes.sum.peak_sustained", "lts__t_sectors_srcunit_tex.sum.peak_sustained",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.peak_sustained", "launch__waves_per_multiprocessor",
        "sm__ops_path_tensor_op_igmma_src_int8_sparsity_off.sum.peak_sustained", metrics.PC_SAMPLING,
        "smsp__average_warp_latency_per_inst_issued.ratio", "sm__maximum_warps_per_active_cycle_pct",
    ):  # fmt: skip
        assert name in asked
    assert sum("issue_stalled" in name for name in asked) == len(STALL_REASONS) == 19


def test_requests_never_ask_for_what_comes_by_itself() -> None:
    refused = ("device__", "profiler__", "derived__", "memory_", "sass__")
    assert not [name for name in requests() if name.startswith(refused)]


def test_requests_keep_to_what_the_chip_has() -> None:
    everything = {base_name(name) for name in requests()}
    gone = {"sm__pipe_fmaheavy_cycles_active", "smsp__average_warps_issue_stalled_gmma_per_issue_active"}
    asked = requests(everything - gone)
    assert {base_name(name) for name in requests()} - {base_name(name) for name in asked} == gone


def test_requests_take_the_older_name_where_the_newer_is_absent() -> None:
    older = {base_name(name) for name in requests()} - {"smsp__cycles_elapsed"}
    asked = requests(older | {"gpc__cycles_elapsed"})
    assert "sm__cycles_elapsed.avg.per_second" in asked
    assert "smsp__cycles_elapsed.avg.per_second" not in asked


def test_extra_metrics_of_the_experiment() -> None:
    everything = {base_name(name) for name in requests()} | {"idc__requests"}
    asked = requests(everything, ["idc__requests.sum", "no__such_thing.sum"])
    assert "idc__requests.sum" in asked
    assert "no__such_thing.sum" not in asked


@given(st.sets(st.sampled_from(sorted({base_name(name) for name in requests()}))))
def test_requests_are_always_listed_or_of_the_launch(available: set[str]) -> None:
    for name in requests(available):
        assert base_name(name) in available or name.startswith(("launch__", "group:", "sm__maximum_"))
