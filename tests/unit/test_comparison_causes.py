"""Planted faults are named as the cause, in words with numbers; noise is not; real good and bad versions agree."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import pytest
from compare_data import (
    BASE,
    CONFLICTS,
    LOW_OCCUPANCY,
    NAME,
    NARROW,
    SCATTERED,
    SIZE,
    SPILLS,
    Line,
    Planted,
    merged,
    row,
)

from profiler.analysis.decomposition import decompose, side
from profiler.analysis.rundata import RunData
from profiler.comparison.causes import Explained, demoted_counters, explain_row, find_causes, is_latent
from profiler.comparison.evidence import Side
from profiler.comparison.model import Cause, CodeIdentity
from profiler.comparison.waterfall import waterfall
from profiler.foreign import load_ncu_report
from profiler.frames import FRAME_NAMES, rows_of
from profiler.rundir import RunDir
from tests.unit.ncu_samples import sample

RECORDED = Path(__file__).resolve().parents[2] / "experiments" / "recorded" / "h200"
PLANTED = {
    "conflicts": (CONFLICTS, "bank_conflicts",
                  "each shared store now takes 32.0 wavefronts instead of 1.0: 32-way bank conflicts, "
                  "worst at kernel.cu:57"),
    "spills": (SPILLS, "spills",
               "the compiler spills registers: 300 B stored and 220 B loaded back a thread, none before, with 32 "
               "registers instead of 64; 60.0 M loads and stores of local memory were executed"),
    "narrow": (NARROW, "vector_width",
               "global loads are 32 bits wide instead of 128: 4.00 M LDG.32 instead of 1.00 M LDG.128"),
    "occupancy": (LOW_OCCUPANCY, "occupancy",
                  "2 blocks of 256 threads fit on an SM instead of 4: 25.0 % of its warps instead of 50.0 %, limited "
                  "by registers (128 registers a thread instead of 64)"),
    "scattered": (SCATTERED, "uncoalesced",
                  "each global load touches 32.0 sectors of 32 B instead of 16.0; its bytes would fit in 16.0 (worst "
                  "at kernel.cu:41)"),
}  # fmt: skip


def explained(before: Planted, after: Planted, ratio: float | None = None) -> Explained:
    return find_causes(before.side(), after.side(), ratio)


def leading(found: Explained) -> Cause:
    return found.causes[0]


@pytest.mark.parametrize(("planted", "fault", "text"), PLANTED.values(), ids=PLANTED)
def test_a_planted_fault_is_named_as_the_cause(planted: Planted, fault: str, text: str) -> None:
    found = explained(BASE, planted)
    cause = leading(found)
    assert (found.label, cause.fault, cause.cls, cause.worse) == ("explained", fault, "exact", True)
    assert cause.words == text
    assert cause.share is not None
    assert cause.share > 0.3
    assert cause.basis.startswith(("identity: ", "roofline: "))


@pytest.mark.parametrize(("planted", "fault", "text"), PLANTED.values(), ids=PLANTED)
def test_its_removal_is_named_as_the_gain(planted: Planted, fault: str, text: str) -> None:
    found = explained(planted, BASE)
    cause = leading(found)
    assert (found.label, cause.fault, cause.worse) == ("explained", fault, False)
    assert cause.words != text


@pytest.mark.parametrize(("planted", "fault", "text"), PLANTED.values(), ids=PLANTED)
def test_it_is_found_without_counters_per_instruction(planted: Planted, fault: str, text: str) -> None:
    found = explained(replace(BASE, sources=False), replace(planted, sources=False))
    if fault == "uncoalesced":  # the sectors alone then say it
        assert leading(found).metric == "global_load_sectors"
    else:
        assert fault in {cause.fault for cause in found.causes}
    assert found.label == "explained"


@pytest.mark.parametrize("name", ["spills", "narrow"])
def test_what_the_compiler_says_is_found_without_a_profile(name: str) -> None:
    planted, fault, _ = PLANTED[name]
    found = explained(replace(BASE, profiled=False, timed=False), replace(planted, profiled=False, timed=False))
    assert fault in {cause.fault for cause in found.causes}
    assert all(cause.share is None for cause in found.causes)
    assert found.label == "latent"


def test_the_occupancy_of_the_model_stands_in_where_nothing_was_profiled() -> None:
    model = {"model.occupancy.percent": 50.0, "model.occupancy.blocks": 4, "model.occupancy.limiter": "warps"}
    old = replace(BASE, profiled=False, timed=False, static=model)
    less = {"model.occupancy.percent": 25.0, "model.occupancy.blocks": 2, "model.occupancy.limiter": "registers"}
    found = explained(old, replace(old, registers=128, static=less))
    assert leading(found).words == (
        "2 blocks fit on an SM instead of 4: 25.0 % of its warps instead of 50.0 %, limited by registers (128 "
        "registers a thread instead of 64)"
    )


def test_the_hardwares_counter_alone_is_no_exact_cause() -> None:
    without = ("shared_wavefronts_",)
    found = explained(replace(BASE, sources=False, without=without), replace(CONFLICTS, sources=False, without=without))
    cause = next(cause for cause in found.causes if cause.fault == "bank_conflicts")
    assert (cause.cls, cause.metric) == ("near", "shared_bank_conflicts")
    assert not is_latent(cause)


def test_an_asynchronous_copy_is_no_conflict_unless_the_hardware_agrees() -> None:
    copies = replace(
        BASE, lines=(Line("LDGSTS.E.128 [R1], [R2]", 1_000_000, wavefronts=4_000_000, sectors=16_000_000),)
    )
    excess = replace(
        copies, lines=(Line("LDGSTS.E.128 [R1], [R2]", 1_000_000, 10_000_000, 6_000_000, sectors=16_000_000),)
    )
    quiet = replace(excess, metrics={"shared_bank_conflicts": 1000.0})
    assert "bank_conflicts" not in {cause.fault for cause in explained(copies, quiet).causes}
    assert "bank_conflicts" in {cause.fault for cause in explained(copies, excess).causes}


def test_equal_sides_have_no_cause() -> None:
    found = explained(BASE, BASE)
    assert found.causes == ()
    assert found.label == ""


def test_noise_of_near_counters_is_no_cause() -> None:
    wobbly = replace(
        BASE, l2_bytes=BASE.l2_bytes * 1.02, dram_bytes=BASE.dram_bytes * 0.96, instructions=BASE.instructions * 1.002,
        metrics={"l2_hit_rate": 71.5, "shared_bank_conflicts": 90_000.0, "sm_clock": 1.9e9},
    )  # fmt: skip
    assert explained(BASE, wobbly).causes == ()


def test_a_time_that_moved_without_a_counter_is_unexplained() -> None:
    found = explained(BASE, BASE, ratio=1.2)
    assert found.label == "unexplained"


def test_a_small_difference_does_not_explain_a_large_change() -> None:
    found = explained(BASE, replace(BASE, instructions=101e6), ratio=1.5)
    assert [cause.metric for cause in found.causes] == ["instructions"]
    assert found.label == "unexplained"


def test_stalls_and_cycles_alone_are_never_evidence() -> None:
    slow = replace(BASE, stalls={**BASE.stalls, "long_scoreboard": 9.0})
    found = explained(BASE, slow)
    assert found.causes == ()
    assert found.label == "unexplained"
    assert found.decomposition.effect("latency") is not None


def test_a_cause_that_points_the_other_way_predicts_nothing() -> None:
    both = replace(CONFLICTS, occupancy=75.0, warps=12.0, limits={**BASE.limits, "registers": 6})
    found = explained(BASE, both)
    occupancy = next(cause for cause in found.causes if cause.fault == "occupancy")
    assert not occupancy.worse
    assert occupancy.share is None
    assert found.causes.index(occupancy) > 0


def test_a_stack_without_spills_is_an_array() -> None:
    cause = leading(explained(BASE, replace(BASE, stack=64)))
    assert cause.fault == "local_array"
    assert "indexed at run time" in cause.words


def test_other_matrix_instructions_are_named() -> None:
    old = replace(BASE, sources=False, opcodes={**BASE.opcodes, "HGMMA": 16})
    new = replace(BASE, sources=False, opcodes={**BASE.opcodes, "HMMA": 64})
    causes = {cause.fault: cause for cause in explained(old, new, ratio=1.8).causes}
    assert causes["tensor_cores"].words == "HMMA now do the products that HGMMA did"
    assert causes["tensor_cores"].worse
    assert explained(old, new, ratio=1.8).label == "explained"


def test_divergence_a_second_kernel_and_the_grid_are_told() -> None:
    found = explained(BASE, replace(BASE, grid=2048, metrics={"threads_per_instruction": 20.0}))
    texts = [cause.words for cause in found.causes]
    assert (
        "20.0 threads of a warp take part in an instruction on average instead of 32.0: its branches diverge" in texts
    )
    assert [cause.neutral for cause in found.causes if cause.metric == "grid"] == [True]


# --- labels under a verdict -----------------------------------------------------------------------------------------


def labelled(verdict: str, after: Planted, ratio: float, code: str = "changed") -> str:
    base = row(NAME, verdict, ratio, identity=CodeIdentity(code))  # type: ignore[arg-type]
    found = explain_row(base, BASE.run(), after.run())
    assert found.counters
    return found.explanation


def test_labels_follow_the_verdict() -> None:
    assert labelled("regressed", CONFLICTS, 3.0) == "explained"
    assert labelled("regressed", BASE, 1.2) == "unexplained"
    assert labelled("suspected", BASE, 1.01) == "unexplained"
    assert labelled("unchanged", BASE, 1.0) == ""
    assert labelled("unchanged", CONFLICTS, 1.0, "same") == "identical"
    assert labelled("improved", CONFLICTS, 0.8) == "unexplained"
    assert labelled("inconclusive", CONFLICTS, 1.0) == ""


def test_a_change_that_its_verdict_leaves_open_is_explained_where_the_interval_shows_it() -> None:
    def label(after: Planted, reason: str, ratio: float) -> str:
        one = row(NAME, "inconclusive", ratio, reason=reason, identity=CodeIdentity("changed"))
        return explain_row(one, BASE.run(), after.run()).explanation

    for reason in ("bimodal", "clock", "noise"):
        assert label(CONFLICTS, reason, 3.0) == "explained"
        assert label(CONFLICTS, reason, 1.004) == ""  # the interval holds no change
        assert label(CONFLICTS, reason, 0.8) == ""  # the fault points the other way
        assert label(BASE, reason, 1.2) == ""  # and the environment is not accused
    assert label(CONFLICTS, "environment", 3.0) == label(CONFLICTS, "controls", 3.0) == ""


def test_without_counters_the_environment_is_not_accused() -> None:
    bare = replace(BASE, profiled=False)
    changed = row(NAME, "regressed", 1.3, identity=CodeIdentity("changed"))
    found = explain_row(changed, bare.run(), bare.run())
    assert found.explanation == ""
    assert found.notes == ("not explained: no counters before and after (not collected in this run)",)
    half = explain_row(changed, BASE.run(), bare.run())
    assert half.notes == ("not explained: no counters after (not collected in this run)",)


def test_changed_code_whose_counters_agree_says_so() -> None:
    found = explain_row(row(NAME, "regressed", 1.3, identity=CodeIdentity("changed")), BASE.run(), BASE.run())
    assert found.explanation == "unexplained"
    assert found.notes == ("the code changed, but no counter that was collected says that this changed the time",)


@pytest.mark.parametrize("name", ["conflicts", "spills", "narrow", "occupancy"])
def test_worse_counters_at_an_unchanged_time_are_a_latent_regression(name: str) -> None:
    assert labelled("unchanged", PLANTED[name][0], 1.002) == "latent"
    assert labelled("counters_only", PLANTED[name][0], 1.002) == "latent"


def test_better_counters_at_an_unchanged_time_are_none() -> None:
    found = explain_row(row(NAME), CONFLICTS.run(), BASE.run())
    assert found.explanation == ""


def test_a_counter_that_moves_where_the_code_did_not_is_demoted() -> None:
    polling = replace(BASE, instructions=103e6)
    demoted = demoted_counters(BASE.run(), polling.run(), [(NAME, SIZE)])
    assert demoted == {"instructions"}
    found = find_causes(BASE.side(), polling.side(), demoted=demoted)
    assert [cause.cls for cause in found.causes] == ["near"]


def test_a_row_of_one_run_only_stays_as_it_is() -> None:
    lone = row("other", "new", None)
    assert explain_row(lone, BASE.run(), BASE.run()) is lone


# --- the waterfall of cycles ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("planted", [CONFLICTS, SPILLS, NARROW, LOW_OCCUPANCY])
def test_the_waterfall_adds_up_to_the_cycles_after(planted: Planted) -> None:
    one = decompose(side(BASE.run(), NAME, SIZE), side(planted.run(), NAME, SIZE))
    steps = waterfall(one)
    assert steps[0].cycles == pytest.approx(BASE.seconds * 1.9e9)
    assert steps[-1].cycles == pytest.approx(planted.seconds * 1.9e9)
    assert steps[0].cycles + sum(step.cycles for step in steps[1:-1]) == pytest.approx(steps[-1].cycles)
    at = steps[0].cycles
    for step in steps[1:-1]:
        assert step.start == pytest.approx(at)
        at += step.cycles


def test_no_waterfall_without_its_factors() -> None:
    bare = replace(BASE, without=("active_share",))
    assert waterfall(decompose(side(bare.run(), NAME, SIZE), side(BASE.run(), NAME, SIZE))) == ()


# --- real kernels ---------------------------------------------------------------------------------------------------


def recorded(run: str, before: str, after: str) -> Explained:
    data = RunData.load(RunDir.open(RECORDED / run), details=True)
    size = data.sizes[-1]
    return find_causes(Side(data, before, size), Side(data, after, size))


REAL = [
    ("gemm_ladder", "conflict_free", "vectorised", "bank_conflicts", "5.0 wavefronts instead of 3.0: 1.7-way"),
    ("gemm_lessons", "unroll_full", "few_registers", "spills", "2152 B stored and 2152 B loaded back a thread"),
    ("gemm_ladder", "vectorised", "tile_2d", "vector_width", "shared loads are 32 bits wide instead of 128"),
    ("gemm_lessons", "unroll_full", "tile_16x16", "occupancy", "12.5 % of its warps instead of 25.0 %"),
    (
        "gemm_ladder",
        "coalesced",
        "naive",
        "uncoalesced",
        "each global load touches 16.5 sectors of 32 B instead of 2.5",
    ),
]


@pytest.mark.parametrize(("run", "before", "after", "fault", "text"), REAL, ids=[one[3] for one in REAL])
def test_a_real_fault_is_named(run: str, before: str, after: str, fault: str, text: str) -> None:
    found = recorded(run, before, after)
    assert found.decomposition.speedup is not None
    assert found.decomposition.speedup < 0.95
    assert (found.label, leading(found).fault) == ("explained", fault)
    assert text in leading(found).words
    shares = [cause.share for cause in found.causes if cause.share is not None]
    assert all(0 <= share <= 1 for share in shares)


def test_sums_kept_in_shared_memory_are_explained_by_its_traffic() -> None:
    cause = leading(recorded("gemm_lessons", "sums_in_registers", "sums_in_shared"))
    assert cause.metric == "shared_wavefronts_sass"
    assert cause.words == "shared memory serves 592 M instead of 54.5 M wavefronts of 128 B (10.87×)"
    assert cause.share == pytest.approx(0.96, abs=0.02)


def test_wavefronts_that_the_hardware_did_not_count_are_no_cause() -> None:
    found = recorded("gemm_ladder", "mma_swizzle", "mma_sync")  # by address 1.53 times the wavefronts, by hardware none
    assert leading(found).metric == "global_sectors_excess.LDGSTS"
    assert found.label == "explained"
    metrics = {cause.metric for cause in found.causes}
    assert not any(metric.startswith("shared_wavefronts") for metric in metrics)


def test_what_loads_shared_memory_is_named() -> None:
    found = recorded("gemm_ladder", "conflict_free", "vectorised")
    traffic = next(cause for cause in found.causes if cause.metric == "shared_wavefronts_sass")
    assert traffic.words.endswith("(1.73×), mostly by shared loads")


def test_a_thousand_rows_are_explained_in_bearable_time() -> None:
    names = [f"v{i}" for i in range(1000)]
    before = merged(dict.fromkeys(names, BASE))
    after = merged({name: (CONFLICTS, LOW_OCCUPANCY, BASE)[i % 3] for i, name in enumerate(names)})
    start = time.perf_counter()
    labels = [explain_row(row(name, "regressed", 2.0), before, after).explanation for name in names]
    assert time.perf_counter() - start < 20
    assert labels[:3] == ["explained", "explained", "unexplained"]


def test_a_recorded_run_against_itself_has_no_cause() -> None:
    data = RunData.load(RunDir.open(RECORDED / "gemm_ladder"), details=True)
    size = data.sizes[-1]
    for variant in data.variants:
        one = Side(data, str(variant["name"]), size)
        assert find_causes(one, one).causes == ()


def test_two_profiles_of_one_kernel_differ_in_no_counter() -> None:
    sides = []
    for name in ("before", "after"):
        frames = load_ncu_report(sample(f"ncu/rtx3070_2022.3_{name}.ncu-rep"))
        data = RunData(frames.manifest, {frame: rows_of(frames.frame(frame)) for frame in FRAME_NAMES})
        sides.append(Side(data, str(data.variants[0]["name"]), data.sizes[0]))
    assert find_causes(sides[0], sides[1]).causes == ()


def test_factors_and_causes_agree_on_the_change() -> None:
    found = explained(BASE, CONFLICTS)
    assert found.decomposition.speedup is not None
    assert math.isclose(1 / found.decomposition.speedup, CONFLICTS.latency / BASE.latency, rel_tol=1e-9)
