"""The rule and its rivals on simulated noise, and the rule on recorded samples: what each claims of identical code."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rival_rules
from noise_model import Array, Model, log_ratios, pair_sd

from profiler.analysis.rundata import RunData
from profiler.comparison.gate import exit_code
from profiler.comparison.model import CONFIRMATION_BASE, Noise, Settings
from profiler.comparison.statistics import holm, judge, least_effect
from profiler.comparison.verdict import judge_runs
from profiler.errors import Exit
from profiler.rundir import RunDir

SETTINGS = Settings()
FAMILY = 50  #: kernels of one comparison
SAMPLES = 50
RECORDED = sorted((Path(__file__).resolve().parents[2] / "experiments" / "recorded").glob("*/*/manifest.json"))


@cache
def floor(between: float = 0.003) -> Noise:
    """Return the noise floor as a ledger learns it from pairs of identical code."""
    return Noise(pair_sd(Model(between=between), np.random.default_rng(9), SAMPLES, 1000), 40.0, "simulated")


def flagged(ratios: Array, noise: Noise, first: int) -> int:
    """Return how many trials are flagged, in comparisons of fifty; ``first`` pairs search, the others confirm."""
    delta = least_effect(SETTINGS)
    judged = [judge(row[:first].tolist(), row[first:].tolist(), noise, delta, SETTINGS) for row in ratios]
    count = 0
    for start in range(0, len(judged), FAMILY):
        group = judged[start : start + FAMILY]
        adjusted = holm([one.p for one in group])
        count += sum(
            one.outcome == "flagged" and p < SETTINGS.alpha_family for one, p in zip(group, adjusted, strict=True)
        )
    return count


def ratios_of(model: Model, trials: int, pairs: int, effect: float = 0.0, seed: int = 1) -> Array:
    return log_ratios(model.draw(np.random.default_rng(seed), trials, pairs, SAMPLES, effect))


def test_identical_code_is_flagged_at_most_twice_in_a_thousand() -> None:
    trials = 4000
    assert flagged(ratios_of(Model(), trials, 10), floor(), 5) <= 0.002 * trials


def test_and_so_it_is_where_a_kernel_is_noisier_than_its_class() -> None:
    trials = 2000
    assert flagged(ratios_of(Model(between=0.005), trials, 10), floor(), 5) <= 0.002 * trials


@pytest.mark.parametrize(
    ("effect", "least"), [(0.02, 0.99), (-0.02, 0.99), (0.01, 0.75), (0.05, 0.997)]
)  # fmt: skip
def test_slow_downs_are_found(effect: float, least: float) -> None:
    trials = 1000
    assert flagged(ratios_of(Model(), trials, 10, effect, seed=3), floor(), 5) >= least * trials


def test_one_stage_alone_flags_nothing() -> None:
    assert flagged(ratios_of(Model(), 50, 5, 0.05), floor(), 5) == 0


@pytest.mark.parametrize(
    ("rule", "processes", "least", "most"),
    [
        (rival_rules.mann_whitney, 1, 0.40, 0.65),
        (rival_rules.mann_whitney, 5, 0.40, 0.65),  # no better with five processes: samples are not replicates
        (rival_rules.pooled_t, 5, 0.12, 0.30),
        (rival_rules.nvbench_legacy, 1, 0.18, 0.40),  # as it is used: one launch a side
        (rival_rules.nvbench_legacy, 5, 0.0, 0.04),
        (rival_rules.asv, 1, 0.02, 0.15),
    ],
)
def test_rivals_on_the_same_identical_code(
    rule: Callable[[Array, Array], bool], processes: int, least: float, most: float
) -> None:
    times = Model().draw(np.random.default_rng(5), 250, processes, SAMPLES)
    assert least <= float(np.mean([rule(one[0], one[1]) for one in times])) <= most


def test_the_rival_that_is_quiet_with_five_launches_misses_a_slow_down_that_we_find() -> None:
    times = Model().draw(np.random.default_rng(6), 200, 5, SAMPLES, 0.02)
    assert float(np.mean([rival_rules.nvbench_legacy(one[0], one[1]) for one in times])) < 0.85


# --- recorded samples -----------------------------------------------------------------------------------------------


def halves(run: RunData) -> tuple[RunData, RunData]:
    """Return a recorded run as two: the earlier and the later half of each variant's samples."""
    sides: list[list[dict[str, Any]]] = [[], []]
    for variant in run.variants:
        for size in run.sizes:
            rows = sorted(run.sample_rows(variant["name"], size), key=lambda row: row["order"])
            for side, part in zip(sides, (rows[: len(rows) // 2], rows[len(rows) // 2 :]), strict=True):
                side += [dict(row) for row in part]
    unlike = [{**row, "binary_hash": None, "source_hash": None} for row in run.variants]
    return (
        RunData(run.manifest, {**run.rows, "variants": unlike, "samples": sides[0]}),
        RunData(run.manifest, {**run.rows, "variants": unlike, "samples": sides[1]}),
    )


@pytest.mark.parametrize("manifest", RECORDED, ids=lambda path: path.parent.name)
def test_no_half_of_a_recorded_run_differs_from_the_other(manifest: Path) -> None:
    run = RunData.load(RunDir.open(manifest.parent))
    before, after = halves(run)
    found = judge_runs(before, after, names=("earlier", "later")).comparison
    judged = [row for row in found.rows if row.ratio is not None]
    assert len(judged) >= 5
    assert {row.verdict for row in judged} <= {"unchanged", "inconclusive"}
    # Of shorter kernels two processes cannot show that nothing changed: they differ too much. Of longer ones that
    # move bytes and no more, halves of 15 samples often cannot: they scatter by 0.5 %, and some have two modes. Nor
    # can halves of a run whose clock did not hold still, as it says itself: tensor kernels at the power limit, 1.3 to
    # 1.6 GHz, which all moved by 2 % together.
    held = not any("SM clock varied" in note for note in run.manifest["notes"])
    long = [row for row in judged if row.before is not None and row.before.value_ns >= 100e3]
    assert {row.reason for row in long if row.verdict == "inconclusive"} <= {"noise", "bimodal"}
    assert sum(row.verdict == "unchanged" for row in long) >= len(long) / (2 if held else 3)
    moved = [abs(row.ratio.value - 1) for row in long if row.ratio is not None]
    assert max(moved, default=0.0) < (0.015 if held else 0.03)


def test_rivals_flag_halves_of_recorded_runs() -> None:
    flags, rows = 0, 0
    for manifest in RECORDED:
        before, after = halves(RunData.load(RunDir.open(manifest.parent)))
        for variant in before.variants:
            for size in before.sizes:
                sides = [
                    np.asarray([row["time_ns"] for row in run.sample_rows(variant["name"], size)])
                    for run in (before, after)
                ]
                if min(map(len, sides)) >= 4:
                    rows += 1
                    flags += rival_rules.mann_whitney(*sides)
    assert rows >= 20
    assert flags >= 1


# --- sessions -------------------------------------------------------------------------------------------------------


def stored_pair(rng: np.random.Generator, effect: float = 0.0) -> tuple[RunData, RunData]:
    """Return two stored runs of fifty kernels, one process each: sessions differ by 0.6 % as wholes, which the ceilings
    see too, and by 0.2 % kernel by kernel.
    """
    times = Model().draw(rng, FAMILY, 1, SAMPLES, effect)
    times[:, 0] = Model().draw(rng, FAMILY, 1, SAMPLES)[:, 0]  # no state of the card is shared
    common = math.exp(rng.normal(0, 0.006))
    times[:, 1] *= common * np.exp(rng.normal(0, 0.002, FAMILY))[:, None, None]
    runs = side_by_side_run(times[:, :, [0]], 0), side_by_side_run(times[:, :, [0]], 1)
    ceilings = [{"name": f"c{i}", "value": 1e12, "origin": "measured"} for i in range(5)]
    slower = [{**row, "value": 1e12 / common * math.exp(rng.normal(0, 0.001))} for row in ceilings]
    return (
        RunData(runs[0].manifest, {**runs[0].rows, "ceilings": ceilings}),
        RunData(runs[1].manifest, {**runs[1].rows, "ceilings": slower}),
    )


def test_stored_runs_of_the_same_code_are_hardly_ever_suspected_and_never_regressed() -> None:
    rng = np.random.default_rng(11)
    counts: dict[str, int] = {}
    for _ in range(8):
        for verdict, count in judge_runs(*stored_pair(rng), names=("a", "b")).comparison.counts.items():
            counts[verdict] = counts.get(verdict, 0) + count
    assert counts.keys() <= {"unchanged", "inconclusive", "suspected"}
    assert counts.get("suspected", 0) <= 1
    assert counts["unchanged"] > 50


@pytest.mark.parametrize(("effect", "verdict"), [(0.05, "suspected"), (0.15, "regressed")])
def test_stored_runs_suspect_five_percent_and_are_sure_of_fifteen(effect: float, verdict: str) -> None:
    found = judge_runs(*stored_pair(np.random.default_rng(12), effect), names=("a", "b")).comparison
    assert found.counts.get(verdict, 0) >= 0.85 * FAMILY
    assert set(found.counts) <= {verdict, "inconclusive"}
    assert exit_code(found) == (Exit.FAILED if verdict == "regressed" else Exit.SUSPECTED)


# --- how long it takes ----------------------------------------------------------------------------------------------


def side_by_side_run(times: Array, side: int) -> RunData:
    """Return simulated times (kernels x sides x pairs x samples) as one side's run; later pairs confirm."""
    size = "N=1"
    pairs = times.shape[2]
    rows = [
        {"variant": f"kernel_{k}", "size": size, "process": p if p < max(1, pairs // 2) else CONFIRMATION_BASE + p,
         "order": i, "method": "single", "cache": "cold", "launches": 1, "time_ns": float(times[k, side, p, i]),
         "sm_clock_mhz": 1980.0, "throttle": "", "foreign": False}
        for k in range(times.shape[0]) for p in range(pairs) for i in range(times.shape[3])
    ]  # fmt: skip
    variants = [
        {"name": f"kernel_{k}", "dtype": "fp32", "kind": "cuda", "status": "ok", "reason": None, "verified": "yes",
         "origin": "measured", "order": k, "source_hash": f"{side} {k}", "binary_hash": f"{side} {k}", "params": "{}"}
        for k in range(times.shape[0])
    ]  # fmt: skip
    manifest = {
        "schema": 1, "gpu": {"name": "NVIDIA H200", "compute_capability": "9.0", "sm_count": 132},
        "problem": {"kind": "gemm", "sizes": [size]}, "timing": {"cache": "cold"},
    }  # fmt: skip
    return RunData(manifest, {"variants": variants, "samples": rows})


def test_fifty_kernels_of_ten_processes_take_less_than_two_seconds() -> None:
    times = Model().draw(np.random.default_rng(8), 50, 10, 100)
    times[0] *= np.asarray([1.0, 1.05])[:, None, None]
    before, after = side_by_side_run(times, 0), side_by_side_run(times, 1)
    started = time.process_time()
    found = judge_runs(before, after, names=("a", "b"), design="two_process").comparison
    assert time.process_time() - started < 2.0
    verdicts = {row.variant: row for row in found.rows}
    assert verdicts["kernel_0"].verdict == "regressed"
    assert verdicts["kernel_0"].pairs == 10
    assert verdicts["kernel_0"].ratio is not None
    assert math.isclose(verdicts["kernel_0"].ratio.value, 1.05, rel_tol=0.01)
    assert {row.verdict for row in found.rows if row.variant != "kernel_0"} == {"unchanged"}
