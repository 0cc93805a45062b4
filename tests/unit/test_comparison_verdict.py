"""Two runs -> verdicts and the exit code: what is compared, what is refused, and which rule says what."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.analysis.rundata import RunData
from profiler.comparison import fingerprint
from profiler.comparison.gate import exit_code, row_code
from profiler.comparison.model import (
    CONFIRMATION_BASE,
    VERDICTS,
    Comparison,
    Design,
    Estimate,
    RowComparison,
    Settings,
    Verdict,
)
from profiler.comparison.noise import default_table
from profiler.comparison.verdict import judge_runs
from profiler.errors import Exit

SIZE = "M=64,N=64,K=64"
CEILINGS = {"copy": 3.8e12, "read": 4.6e12, "FFMA": 6.5e13, "L2 read": 9.7e12}
Rows = dict[str, list[dict[str, Any]]]
Change = Callable[[dict[str, Any], Rows], None]
MIRROR = {"improved": "regressed", "regressed": "improved"}
TIMES = {"naive": 4e6, "tiled": 1e6, "cublas_fp32": 5e5}


def run(
    change: Change | None = None,
    *,
    times: dict[str, float] | None = None,
    changed: tuple[str, ...] = (),
    factor: float = 1.0,
    scatter: float = 0.002,
    processes: tuple[int, ...] = (0,),
    process_sd: float = 0.0,
    seed: int = 0,
) -> RunData:
    """Return a small run; ``changed`` variants are other code, ``factor`` times slower."""
    rng = np.random.default_rng(seed)
    times = TIMES if times is None else times
    manifest: dict[str, Any] = {
        "schema": 1,
        "gpu": {
            "name": "NVIDIA H200", "uuid": "GPU-1", "driver": "580.1", "compute_capability": "9.0", "sm_count": 132,
            "l2_bytes": 62914560, "memory_bytes": 150109880320, "mig": False, "ecc": True, "power_limit_w": 700.0,
            "clocks": {"sm_max_mhz": 1980},
        },
        "arch": "sm_90a",
        "problem": {"kind": "gemm", "options": {"layout": "nn"}, "init": {"seed": 0}, "sizes": [SIZE]},
        "timing": {"cache": "cold", "flush_bytes": 251658240},
        "versions": {"torch": "2.11.0", "torch_cuda": "13.0"},
        "builds": {name: {"arch": "sm_90a", "compiler": "nvcc 13.0.88"} for name in times},
    }  # fmt: skip
    rows: Rows = {name: [] for name in ("variants", "samples", "metrics", "checks", "stalls", "ceilings")}
    rows["ceilings"] = [{"name": n, "value": v, "unit": "B/s", "origin": "measured"} for n, v in CEILINGS.items()]
    for order, (name, time) in enumerate(times.items()):
        mark = "new" if name in changed else ""
        rows["variants"].append(
            {"name": name, "dtype": "fp32", "kind": "cuda", "status": "ok", "reason": None, "verified": "yes",
             "origin": "measured", "order": order, "source_hash": f"s-{name}{mark}", "binary_hash": f"b-{name}{mark}",
             "params": "{}"}
        )  # fmt: skip
        for process in processes:
            level = time * (factor if name in changed else 1.0) * math.exp(rng.normal(0, process_sd))
            rows["samples"] += [
                {"variant": name, "size": SIZE, "process": process, "order": i, "method": "single", "cache": "cold",
                 "launches": 1, "time_ns": round(level * math.exp(rng.normal(0, scatter)) / 32) * 32.0,
                 "sm_clock_mhz": 1980.0, "throttle": "", "foreign": False}
                for i in range(30)
            ]  # fmt: skip
    if change is not None:
        change(manifest, rows)
    return RunData(manifest, rows)


def one(rows: Rows, name: str) -> dict[str, Any]:
    return next(row for row in rows["variants"] if row["name"] == name)


def set_variant(name: str, **values: Any) -> Change:
    return lambda manifest, rows: one(rows, name).update(values)


def set_samples(name: str, every: int = 1, **values: Any) -> Change:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        for row in [row for row in rows["samples"] if row["variant"] == name][::every]:
            row.update(values)

    return change


def scale_samples(factors: dict[str, float], **values: Any) -> Change:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        for row in rows["samples"]:
            row["time_ns"] *= factors.get(row["variant"], factors.get("*", 1.0))
            if row["variant"] in factors or "*" in factors:
                row.update(values)

    return change


def scale_ceilings(**factors: float) -> Change:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        for row in rows["ceilings"]:
            row["value"] /= factors.get(row["name"].split()[0], factors.get("all", 1.0))

    return change


def both(*changes: Change) -> Change:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        for each in changes:
            each(manifest, rows)

    return change


def set_manifest(path: str, value: Any) -> Change:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        *parents, last = path.split(".")
        at = manifest
        for parent in parents:
            at = at[parent]
        at[last] = value

    return change


def drop_variant(name: str) -> Change:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        for frame in ("variants", "samples"):
            rows[frame] = [row for row in rows[frame] if row.get("name", row.get("variant")) != name]

    return change


def drop_samples(name: str) -> Change:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        rows["samples"] = [row for row in rows["samples"] if row["variant"] != name]

    return change


def held(before: RunData, after: RunData, design: Design = "stored", **values: Any) -> Comparison:
    return judge_runs(before, after, names=("a", "b"), settings=Settings(**values), design=design).comparison


def row_of(result: Comparison, name: str = "tiled") -> RowComparison:
    return next(row for row in result.rows if row.variant == name)


def of(result: Comparison, name: str = "tiled") -> tuple[str, str]:
    row = row_of(result, name)
    return row.verdict, row.reason


# --- stored runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "verdict", "code"),
    [
        (1.0, "unchanged", Exit.OK),
        (1.15, "regressed", Exit.FAILED),
        (3.0, "regressed", Exit.FAILED),
        (0.85, "improved", Exit.OK),
        (1.07, "suspected", Exit.SUSPECTED),
        (0.93, "suspected", Exit.OK),  # a speed-up that is not certain is no slow-down
    ],
)
def test_the_stored_rule(factor: float, verdict: str, code: Exit) -> None:
    result = held(run(), run(changed=("tiled",), factor=factor, seed=1))
    row = row_of(result)
    assert row.verdict == verdict
    assert row.ratio is not None
    assert row.ratio.value == pytest.approx(factor, rel=0.01)
    assert row.ratio.low is not None
    assert row.ratio.high is not None
    assert row.ratio.low < row.ratio.value < row.ratio.high
    assert row.detectable is not None
    assert 0.005 < row.detectable < 0.10
    assert row.noise is not None
    assert "one process a side" in row.noise.source
    assert exit_code(result) == code
    assert of(result, "naive") == ("unchanged", "")
    assert row_of(result, "naive").words.startswith("the same code")


def test_more_processes_narrow_the_interval_but_not_the_sessions() -> None:
    one_process = row_of(held(run(), run(changed=("tiled",), seed=1))).ratio
    five = row_of(
        held(run(processes=tuple(range(5))), run(changed=("tiled",), processes=tuple(range(5)), seed=1))
    ).ratio
    assert one_process is not None
    assert one_process.low is not None
    assert five is not None
    assert five.low is not None
    assert one_process.low < five.low < 0.99


def test_a_common_shift_is_taken_out() -> None:
    """The card is 1.5 % slower today, and says so: so are the ceilings and the code that did not change."""
    shift = both(scale_samples({"*": 1.015}), scale_ceilings(all=1.015))
    result = held(run(), run(shift, changed=("tiled",), seed=1))
    assert result.drift == pytest.approx(1.015, rel=0.002)
    row = row_of(result)
    assert row.verdict == "unchanged"
    assert row.ratio is not None
    assert row.ratio.value == pytest.approx(1.0, abs=0.003)
    assert row.corrected_by == pytest.approx(1.015, rel=0.002)
    assert row.before is not None
    assert row.after is not None
    assert row.after.value_ns / row.before.value_ns == pytest.approx(1.015, rel=0.003)


def test_controls_that_disagree_say_nothing() -> None:
    result = held(run(), run(scale_ceilings(copy=1.03, read=1.03), changed=("tiled",), factor=1.5, seed=1))
    assert of(result) == ("inconclusive", "controls")
    assert exit_code(result) == Exit.SUSPECTED
    assert result.drift is None
    assert {c.name for c in result.controls if not c.steady} == {"copy", "read"}
    assert any("controls moved apart" in note for note in result.notes)


def test_one_of_many_controls_may_disagree() -> None:
    result = held(run(), run(scale_ceilings(copy=1.03), changed=("tiled",), factor=1.5, seed=1))
    assert of(result) == ("regressed", "")


def test_without_controls_nothing_is_regressed() -> None:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        rows["ceilings"] = []

    everything = tuple(TIMES)
    result = held(run(), run(change, changed=everything, factor=2.0, seed=1))
    assert {row.verdict for row in result.rows} == {"suspected"}
    assert exit_code(result) == Exit.SUSPECTED
    assert any("0 steady controls" in note for note in result.notes)


def test_identical_code_that_moved_too_far_means_the_environment_changed() -> None:
    result = held(run(), run(scale_samples({"naive": 1.08}), changed=("tiled",), factor=2.0, seed=1))
    assert {(row.verdict, row.reason) for row in result.rows} == {("inconclusive", "environment")}
    assert exit_code(result) == Exit.SUSPECTED
    assert "naive is the same code" in row_of(result).words


def test_identical_code_at_another_clock_says_nothing_of_the_others() -> None:
    """A tensor kernel at the power cap: its clock, and with it its time, is what the card's temperature leaves."""
    capped = scale_samples({"naive": 1.08}, sm_clock_mhz=1980.0 / 1.08)
    result = held(run(), run(capped, changed=("tiled",), factor=1.5, seed=1))
    assert of(result) == ("regressed", "")
    assert of(result, "naive") == ("unchanged", "")
    assert "its cycles are not" in row_of(result, "naive").words
    assert "naive" not in {c.name.split()[0] for c in result.controls}


def test_the_ceiling_of_a_tensor_pipe_counts_in_cycles() -> None:
    def tensor(clock: float) -> Change:
        return lambda manifest, rows: rows["ceilings"].extend(
            {"name": name, "level_or_pipe": pipe, "value": 9e14 * clock / 1800, "unit": "FLOP/s", "clock_mhz": clock,
             "origin": "measured"}
            for name, pipe in (("wgmma BF16", "hgmma_bf16"), ("mma.sync BF16", "hmma_bf16"))
        )  # fmt: skip

    result = held(run(tensor(1800.0)), run(tensor(1650.0), changed=("tiled",), factor=1.5, seed=1))
    assert of(result) == ("regressed", "")
    assert {c.name: c.shift for c in result.controls}["wgmma BF16"] == pytest.approx(1.0)


def test_identical_code_is_never_regressed() -> None:
    for factor in (1.02, 1.05, 1.2, 0.8):
        result = held(run(), run(scale_samples({"tiled": factor}), seed=1))
        assert row_of(result).verdict in ("unchanged", "inconclusive")


def test_a_threshold_grows_with_the_spread_of_short_kernels() -> None:
    times = {"short": 5e3, "long": 1e6}
    result = held(run(times=times), run(times=times, changed=("short",), factor=1.2, seed=1))
    assert row_of(result, "short").verdict in ("suspected", "inconclusive")
    result = held(run(times=times), run(times=times, changed=("short",), factor=1.8, seed=1))
    assert row_of(result, "short").verdict == "regressed"


# --- what speaks against a verdict ----------------------------------------------------------------------------------


def test_only_the_clock() -> None:
    slow = scale_samples({"tiled": 1.3}, sm_clock_mhz=1980.0 / 1.3)
    result = held(run(), run(slow, changed=("tiled",), seed=1))
    assert of(result) == ("inconclusive", "clock")
    assert "1980 MHz before, 1523 after" in row_of(result).words
    assert exit_code(result) == Exit.SUSPECTED


def test_two_modes() -> None:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        for row in rows["samples"]:
            if row["variant"] == "tiled" and row["order"] % 5 < 3:
                row["time_ns"] *= 1.13

    result = held(run(), run(change, changed=("tiled",), seed=1))
    assert of(result) == ("inconclusive", "bimodal")
    far = held(run(), run(change, changed=("tiled",), factor=2.0, seed=1))
    assert of(far) == ("regressed", "")  # far beyond both modes


@pytest.mark.parametrize("values", [{"foreign": True}, {"throttle": "hw_thermal_slowdown"}])
def test_marked_samples(values: dict[str, Any]) -> None:
    some = held(run(), run(set_samples("tiled", 10, **values), changed=("tiled",), seed=1))
    assert of(some) == ("unchanged", "")
    assert row_of(some).after is not None
    assert cast(Any, row_of(some).after).excluded == 3
    assert any("3 samples" in note for note in row_of(some).notes)
    many = held(run(), run(set_samples("tiled", 3, **values), changed=("tiled",), factor=2.0, seed=1))
    assert of(many) == ("inconclusive", "throttled")
    every = held(run(), run(set_samples("tiled", 1, **values), changed=("tiled",), seed=1))
    assert of(every) == ("inconclusive", "throttled")
    assert exit_code(every) == Exit.SUSPECTED


def test_a_power_cap_is_no_throttling() -> None:
    assert (
        of(held(run(), run(set_samples("tiled", throttle="sw_power_cap"), changed=("tiled",), seed=1)))[0]
        == "unchanged"
    )


def test_few_samples() -> None:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        rows["samples"] = [row for row in rows["samples"] if row["variant"] != "tiled" or row["order"] == 0]

    result = held(run(), run(change, changed=("tiled",), factor=3.0, seed=1))
    assert of(result) == ("inconclusive", "few_samples")
    assert exit_code(result) == Exit.SUSPECTED
    assert row_of(result).ratio is None


def test_samples_of_few_ticks() -> None:
    times = {"tiny": 300.0, "long": 1e6, "longer": 2e6}
    result = held(run(times=times, scatter=0.2), run(times=times, scatter=0.2, changed=("tiny",), factor=2, seed=1))
    assert of(result, "tiny") == ("inconclusive", "too_short")


def test_noise_passes_as_far_as_no_slow_down_is_shown() -> None:
    noisy = held(run(), run(changed=("tiled",), factor=1.012, seed=1))
    row = row_of(noisy)
    assert (row.verdict, row.reason) == ("inconclusive", "noise")
    assert row.ratio is not None
    assert row.ratio.high is not None
    assert 1.01 < row.ratio.high < 1.05
    assert exit_code(noisy) == Exit.OK
    assert exit_code(replace(noisy, settings=Settings(max_regression=0.01))) == Exit.SUSPECTED
    assert exit_code(replace(noisy, settings=Settings(max_regression=0.10))) == Exit.OK


# --- side by side ---------------------------------------------------------------------------------------------------

PAIRS = (*range(5), *range(CONFIRMATION_BASE, CONFIRMATION_BASE + 5))


def paired(factor: float, processes: tuple[int, ...] = PAIRS, **values: Any) -> Comparison:
    before = run(processes=processes, process_sd=0.002)
    after = run(processes=processes, process_sd=0.002, changed=("tiled",), factor=factor, seed=1)
    return held(before, after, "two_process", **values)


@pytest.mark.parametrize(
    ("factor", "verdict", "code"),
    [(1.0, "unchanged", Exit.OK), (1.03, "regressed", Exit.FAILED), (0.97, "improved", Exit.OK)],
)
def test_side_by_side(factor: float, verdict: str, code: Exit) -> None:
    result = paired(factor)
    row = row_of(result)
    assert row.verdict == verdict
    assert exit_code(result) == code
    assert row.pairs == 10
    assert result.kind == "side_by_side"
    assert row.stage == ("first" if factor == 1.0 else "confirmed")
    assert row.p_holm is not None
    assert row.p is not None
    assert row.p_holm >= row.p


def test_what_no_fresh_pairs_confirmed_is_suspected() -> None:
    result = paired(1.03, tuple(range(5)))
    assert of(result) == ("suspected", "")
    assert row_of(result).direction == "slower"
    assert exit_code(result) == Exit.SUSPECTED


def test_two_pairs_are_too_few() -> None:
    assert of(paired(2.0, (0, 1))) == ("inconclusive", "few_samples")


def test_one_process_with_both_sides_is_enough() -> None:
    before, after = run(processes=(0, CONFIRMATION_BASE)), run(processes=(0, CONFIRMATION_BASE), changed=("tiled",),
                                                              factor=1.03, seed=1)  # fmt: skip
    assert of(held(before, after, "in_process")) == ("regressed", "")


def test_pairs_need_both_sides() -> None:
    before = run(processes=PAIRS)
    after = run(processes=tuple(p + 100 for p in range(5)), changed=("tiled",), factor=2, seed=1)
    assert of(held(before, after, "two_process")) == ("inconclusive", "few_samples")


def test_what_identical_code_teaches() -> None:
    before, after = run(processes=PAIRS, process_sd=0.002), run(processes=PAIRS, process_sd=0.002, seed=1)
    judged = judge_runs(before, after, names=("a", "b"), design="two_process")
    assert len(judged.learned) == 3
    assert all(e.source == "two_process" and e.df == 10 for e in judged.learned)
    assert all(1e-4 < math.sqrt(e.mean_square) < 0.01 for e in judged.learned)
    stored = judge_runs(run(), run(seed=1), names=("a", "b"))
    assert {e.source for e in stored.learned} == {"session", "private"}
    assert judge_runs(before, before, names=("a", "a"), design="two_process").learned == ()
    assert judge_runs(run(), run(seed=1), names=("a", "b"), edited=("before: samples",)).learned == ()


# --- what may be compared -------------------------------------------------------------------------------------------

REFUSED_CASES: list[tuple[str, Change]] = [
    ("schema", set_manifest("schema", 2)),
    ("compute_capability", set_manifest("gpu.compute_capability", "8.0")),
    ("sm_count", set_manifest("gpu.sm_count", 114)),
    ("l2_bytes", set_manifest("gpu.l2_bytes", 52428800)),
    ("memory_bytes", set_manifest("gpu.memory_bytes", 85899345920)),
    ("mig", set_manifest("gpu.mig", True)),
    ("ecc", set_manifest("gpu.ecc", False)),
    ("problem", set_manifest("problem.options.layout", "nt")),
    ("problem", set_manifest("problem.kind", "softmax")),
    ("init", set_manifest("problem.init", {"distribution": "zeros"})),
    ("arch", set_manifest("builds.tiled.arch", "sm_80")),
    ("dtype", set_variant("tiled", dtype="tf32")),
    ("cache", set_samples("tiled", cache="warm")),
    ("method", set_samples("tiled", method="graph")),
]
WARNED_CASES: list[tuple[str, Change]] = [
    ("gpu", set_manifest("gpu.name", "NVIDIA H200 NVL")),
    ("uuid", set_manifest("gpu.uuid", "GPU-2")),
    ("driver", set_manifest("gpu.driver", "590.0")),
    ("compiler", set_manifest("builds.tiled.compiler", "nvcc 13.2")),
    ("power_limit", set_manifest("gpu.power_limit_w", 600.0)),
    ("clocks", set_manifest("gpu.clocks.sm_locked_mhz", 1500)),
    ("flush", set_manifest("timing.flush_bytes", 1)),
    ("versions", both(set_variant("tiled", kind="python"), set_manifest("versions.torch", "2.12.0"))),
]


@pytest.mark.parametrize(("key", "change"), REFUSED_CASES)
def test_what_differs_in_kind_is_refused_until_it_is_allowed(key: str, change: Change) -> None:
    refused = held(run(), run(change, seed=1))
    assert of(refused)[0] == "incomparable"
    assert exit_code(refused) == Exit.NOTHING
    assert refused.refused == (key,)
    row = row_of(refused)
    assert row.ratio is None
    assert row.words.startswith(f"{key}: ")
    allowed = held(run(), run(change, seed=1), allow=(key,))
    assert of(allowed)[0] != "incomparable"
    assert exit_code(allowed) in (Exit.OK, Exit.SUSPECTED)
    assert allowed.allowed == (key,)


@pytest.mark.parametrize(("key", "change"), WARNED_CASES)
def test_what_does_not_forbid_a_comparison_is_said(key: str, change: Change) -> None:
    start = set_variant("tiled", kind="python") if key == "versions" else None
    result = held(run(start), run(change, seed=1))
    assert exit_code(result) == Exit.OK
    assert [(m.key, m.action) for m in result.mismatches] == [(key, "warn")]


def test_every_key_has_a_test() -> None:
    assert {key for key, _ in REFUSED_CASES} == set(fingerprint.REFUSED)
    assert {key for key, _ in WARNED_CASES} == set(fingerprint.WARNED)


def test_a_mismatch_of_one_row_leaves_the_others() -> None:
    result = held(run(), run(set_samples("tiled", method="graph"), seed=1))
    assert of(result, "naive") == ("unchanged", "")
    assert result.mismatches[0].rows == (("tiled", SIZE),)


def test_a_fact_of_one_side_alone_is_unknown_on_the_other() -> None:
    result = held(run(), run(set_manifest("gpu.sm_count", None), seed=1))
    assert result.refused == ("sm_count",)
    assert str(result.mismatches[0]) == "sm_count: 132 before, unknown after"


@pytest.mark.parametrize("fact", ["mig", "ecc"])
def test_what_an_older_run_does_not_state_is_told_and_refuses_nothing(fact: str) -> None:
    result = held(run(set_manifest(f"gpu.{fact}", None)), run(set_manifest(f"gpu.{fact}", "off"), seed=1))
    assert result.refused == ()
    assert [str(one) for one in result.mismatches] == [f"{fact}: unknown before, off after"]
    other = held(run(set_manifest(f"gpu.{fact}", "on")), run(set_manifest(f"gpu.{fact}", "off"), seed=1))
    assert other.refused == (fact,)


def test_a_fact_of_neither_side_is_said() -> None:
    change = set_manifest("gpu.mig", None)
    result = held(run(change), run(change, seed=1))
    assert exit_code(result) == Exit.OK
    assert any("neither run states" in note and "MIG" in note for note in result.notes)


def test_an_unknown_gpu_on_both_sides_is_refused() -> None:
    change = set_manifest("gpu", {})
    assert exit_code(held(run(change), run(change, seed=1))) == Exit.NOTHING


# --- what one side lacks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "expected", "code"),
    [
        (None, set_variant("tiled", status="wrong_result", reason="error 0.3", verified="no"), "broken", Exit.BROKEN),
        (None, set_variant("tiled", status="build_failed"), "broken", Exit.BROKEN),
        (None, set_variant("tiled", status="crashed"), "broken", Exit.BROKEN),
        (None, set_variant("tiled", status="a_word_of_the_future"), "broken", Exit.BROKEN),
        (None, set_variant("tiled", verified="no"), "broken", Exit.BROKEN),
        (None, set_variant("tiled", status="profile_failed"), "unchanged", Exit.OK),
        (None, drop_variant("tiled"), "removed", Exit.BROKEN),
        (None, set_variant("tiled", status="skipped", reason="K % 8"), "removed", Exit.BROKEN),
        (drop_variant("tiled"), None, "new", Exit.OK),
        (set_variant("tiled", status="wrong_result", verified="no"), None, "new", Exit.OK),
        (set_variant("tiled", status="skipped"), set_variant("tiled", status="skipped"), "skipped", Exit.OK),
        (set_variant("tiled", status="crashed"), set_variant("tiled", status="crashed"), "not_measured", Exit.BROKEN),
        (None, set_variant("tiled", status="not_run"), "not_measured", Exit.BROKEN),
        (None, set_variant("tiled", origin="recorded"), "not_measured", Exit.BROKEN),
        (set_variant("tiled", origin="recorded"), None, "not_measured", Exit.BROKEN),
        (set_variant("tiled", origin=None), None, "not_measured", Exit.BROKEN),
        (None, drop_samples("tiled"), "not_measured", Exit.BROKEN),
        (None, set_samples("tiled", time_ns=None), "not_measured", Exit.BROKEN),
        (None, set_samples("tiled", time_ns=math.nan), "not_measured", Exit.BROKEN),
        (None, set_samples("tiled", time_ns=0.0), "not_measured", Exit.BROKEN),
        (None, set_samples("tiled", method="sustained"), "not_measured", Exit.BROKEN),
    ],
)  # fmt: skip
def test_what_one_side_lacks(before: Change | None, after: Change | None, expected: str, code: Exit) -> None:
    result = held(run(before), run(after, seed=1))
    row = row_of(result)
    assert row.verdict == expected
    assert exit_code(result) == code
    assert row.words
    assert (row.ratio is not None) == (expected == "unchanged")
    assert of(result, "naive") == ("unchanged", "")  # the others are not touched


def test_two_empty_runs_pass_nothing() -> None:
    assert exit_code(held(run(times={}), run(times={}))) == Exit.BROKEN
    assert exit_code(held(run(), run(times={}))) == Exit.BROKEN
    assert exit_code(held(run(times={}), run())) == Exit.BROKEN  # only new rows: nothing was compared
    assert exit_code(held(RunData({}, {}), RunData({}, {}))) in (Exit.NOTHING, Exit.BROKEN)


def test_a_size_that_is_gone_is_removed() -> None:
    other = "M=8,N=8,K=8"

    def change(manifest: dict[str, Any], rows: Rows) -> None:
        manifest["problem"]["sizes"] = [SIZE, other]
        rows["samples"] += [{**row, "size": other} for row in copy.deepcopy(rows["samples"])]

    result = held(run(change), run(seed=1))
    assert {row.verdict for row in result.rows if row.size == other} == {"removed"}
    assert {row.verdict for row in result.rows if row.size == SIZE} == {"unchanged"}


def test_a_renamed_variant_is_removed_and_new_and_the_source_tells() -> None:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        for row in rows["variants"] + rows["samples"]:
            for key in ("name", "variant"):
                if row.get(key) == "tiled":
                    row[key] = "blocked"

    result = held(run(), run(change, seed=1))
    assert of(result, "tiled")[0] == "removed"
    assert of(result, "blocked")[0] == "new"
    assert exit_code(result) == Exit.BROKEN
    assert "blocked has the source that tiled had before: was it renamed?" in result.notes


def test_the_same_run_passes_if_it_was_measured() -> None:
    same = held(run(), run())
    assert same.same_run
    assert {row.words for row in same.rows} == {"the same run on both sides"}
    assert exit_code(same) == Exit.OK
    nothing = run(both(*(drop_samples(name) for name in TIMES)))
    assert exit_code(held(nothing, nothing)) == Exit.BROKEN
    few = run(lambda manifest, rows: rows.update(samples=rows["samples"][:1]))
    assert exit_code(held(few, few)) != Exit.OK


def test_incomparable_comes_before_broken() -> None:
    change = both(set_manifest("gpu.sm_count", 114), set_variant("tiled", status="crashed"))
    result = held(run(), run(change, seed=1))
    assert {of(result)[0], of(result, "naive")[0]} == {"broken", "incomparable"}
    assert exit_code(result) == Exit.NOTHING


# --- the gate -------------------------------------------------------------------------------------------------------


def gate(*rows: tuple[str, str], **values: Any) -> Exit:
    made = [
        RowComparison(f"v{i}", SIZE, "fp32", cast(Verdict, verdict), cast(Any, reason), ratio=Estimate(1.0, 0.99, 1.01))
        for i, (verdict, reason) in enumerate(rows)
    ]
    return exit_code(Comparison("a", "b", "stored", tuple(made), settings=Settings(**values)))


def test_the_precedence_of_exit_codes() -> None:
    order = [("incomparable", ""), ("broken", ""), ("regressed", ""), ("inconclusive", "clock"), ("unchanged", "")]
    codes = [Exit.NOTHING, Exit.BROKEN, Exit.FAILED, Exit.SUSPECTED, Exit.OK]
    assert [gate(*order[i:]) for i in range(5)] == codes
    assert [gate(*reversed(order[i:])) for i in range(5)] == codes


@pytest.mark.parametrize("verdict", ["", "passed", "ok", "a_word_of_the_future", "Unchanged"])
def test_an_unknown_verdict_never_passes(verdict: str) -> None:
    assert gate((verdict, ""), ("unchanged", "")) == Exit.BROKEN


def test_every_verdict_has_a_code() -> None:
    passing = {v for v in VERDICTS if gate((v, ""), ("unchanged", "")) == Exit.OK}
    assert passing == {"improved", "unchanged", "new", "skipped", "counters_only"}


def test_nothing_measured_never_passes() -> None:
    for verdict in ("new", "skipped"):
        assert gate((verdict, "")) == Exit.BROKEN
    assert gate() == Exit.BROKEN


def test_only_noise_leaves_an_interval_that_may_pass() -> None:
    passing = [r for r in ("noise", "bimodal", "throttled", "clock", "too_short", "controls", "environment",
                           "few_samples", "", "else") if gate(("inconclusive", r)) == Exit.OK]  # fmt: skip
    assert passing == ["noise"]


def test_a_latent_regression_fails_on_request() -> None:
    row = RowComparison("v", SIZE, "fp32", "unchanged", explanation="latent")
    assert row_code(row, Settings()) == Exit.OK
    assert row_code(row, Settings(fail_on_latent=True)) == Exit.FAILED


# --- properties -----------------------------------------------------------------------------------------------------


@given(st.floats(0.5, 2.0), st.integers(0, 3), st.sampled_from(["stored", "two_process"]))
@settings(max_examples=40, deadline=None)
def test_swapping_before_and_after_mirrors_the_verdict(factor: float, seed: int, design: Design) -> None:
    processes = PAIRS if design == "two_process" else (0,)
    one_way = run(processes=processes, process_sd=0.002)
    other = run(processes=processes, process_sd=0.002, changed=("tiled",), factor=factor, seed=seed + 1)
    there, back = row_of(held(one_way, other, design)), row_of(held(other, one_way, design))
    assert MIRROR.get(there.verdict, there.verdict) == back.verdict
    assert there.reason == back.reason
    assert {there.direction, back.direction} in ({"slower", "faster"}, {""})
    if there.ratio is not None and back.ratio is not None:
        assert there.ratio.value * back.ratio.value == pytest.approx(1.0)
        assert there.p == pytest.approx(back.p, abs=1e-12)


@given(st.floats(0.6, 0.9), st.floats(0.8, 1.25))
@settings(max_examples=25, deadline=None)
def test_scaling_all_times_changes_nothing(scale: float, factor: float) -> None:
    """Within a class of duration: the noise that is assumed depends on it."""
    exact = scale_samples({"*": scale})
    base = {"tiled": 9e5, "naive": 8e5, "cublas_fp32": 5e5}
    plain = held(run(times=base), run(times=base, changed=("tiled",), factor=factor, seed=1))
    scaled = held(run(exact, times=base), run(exact, times=base, changed=("tiled",), factor=factor, seed=1))
    assert [(r.verdict, r.reason) for r in plain.rows] == [(r.verdict, r.reason) for r in scaled.rows]
    for one_row, two in zip(plain.rows, scaled.rows, strict=True):
        assert one_row.ratio is not None
        assert two.ratio is not None
        assert one_row.ratio.value == pytest.approx(two.ratio.value)


BAD = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -5.0, None])


@given(st.lists(BAD, max_size=8), st.lists(st.floats(1e3, 1e9), max_size=4))
@settings(max_examples=60, deadline=None)
def test_bad_and_few_times_never_pass(bad: list[float | None], good: list[float]) -> None:
    def change(manifest: dict[str, Any], rows: Rows) -> None:
        base = next(row for row in rows["samples"] if row["variant"] == "tiled")
        rows["samples"] = [row for row in rows["samples"] if row["variant"] != "tiled"]
        rows["samples"] += [{**base, "order": i, "time_ns": time} for i, time in enumerate([*bad, *good])]

    result = held(run(), run(change, changed=("tiled",), seed=1))
    assert exit_code(result) in (Exit.SUSPECTED, Exit.BROKEN)
    assert row_of(result).verdict in ("not_measured", "inconclusive")


def test_a_thousand_variants() -> None:
    times = {f"v{i}": 1e5 + i * 1e3 for i in range(1000)}
    result = held(run(times=times), run(times=times, changed=("v7",), factor=1.5, seed=1))
    assert result.counts == {"regressed": 1, "unchanged": 999}
    assert exit_code(result) == Exit.FAILED


def test_the_noise_of_the_card_is_used() -> None:
    other = set_manifest("gpu.name", "Some GPU")
    noise = row_of(held(run(other), run(other, changed=("tiled",), seed=1))).noise
    assert noise is not None
    assert "unknown card" in noise.source
    assert noise.sd > default_table("NVIDIA H200").session_floor(1e6, (1, 1), corrected=True).sd
