"""Pieces of the side-by-side measurement: orders, merging of two sides, sources from copies, a run against itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gpu_less_run import SIZE, make_experiment

from profiler.analysis.rundata import RunData
from profiler.build_sources import GENERATED, PROBLEM_FOLDER
from profiler.comparison.merging import design_of, merge, plain, sided
from profiler.comparison.model import CONFIRMATION_BASE, Settings
from profiler.comparison.noise import default_table
from profiler.comparison.rebuild import Side, stored_side, stored_source
from profiler.comparison.selfcheck import PROCESSES_TO_SPLIT, Rate, self_check
from profiler.errors import UsageError
from profiler.rundir import RunDir
from profiler.worker.abba import round_order

# -- the order of a round


def test_rounds_differ_between_rounds_and_processes_and_come_again_with_the_seed() -> None:
    names = [f"v{i}" for i in range(8)]
    orders = [tuple(round_order(names, {}, 0, process, index)) for process in range(3) for index in range(10)]
    assert len(set(orders)) == len(orders)
    assert all(sorted(order) == names for order in orders)
    assert orders[0] == tuple(round_order(names, {}, 0, 0, 0))
    assert orders[0] != tuple(round_order(names, {}, 1, 0, 0))


def test_two_sides_follow_one_another_and_each_goes_first_once_in_two_rounds() -> None:
    names = [sided(label, f"v{i}") for i in range(5) for label in ("before", "after")]
    shared = {sided("after", f"v{i}"): sided("before", f"v{i}") for i in range(5)}
    went_first: Counter[tuple[str, str]] = Counter()
    for index in range(40):
        order = round_order(names, shared, 0, 0, index)
        assert sorted(order) == sorted(names)
        for first, second in zip(order[::2], order[1::2], strict=True):
            assert plain(first) == plain(second)
            assert first != second
            went_first[first.partition(":")[0], plain(first)] += 1
    assert set(went_first.values()) == {20}


def test_both_orders_come_first_over_many_pairs_of_rounds() -> None:
    names, shared = ["a", "b"], {"b": "a"}
    starts = Counter(round_order(names, shared, 0, 0, 2 * index)[0] for index in range(200))
    assert 60 < starts["a"] < 140


def test_a_variant_whose_partner_has_failed_is_timed_alone() -> None:
    assert sorted(round_order(["after:a", "before:b"], {"after:a": "before:a"}, 0, 0, 0)) == ["after:a", "before:b"]


# -- two sides as one experiment


def sides(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[Side, Side]:
    return Side(make_experiment(*before)), Side(make_experiment(*after))


def test_what_both_have_stands_next_to_one_another_before_first() -> None:
    before, after = sides(("a", "b", "gone"), ("b", "a", "new"))
    merged = merge(before, after, "x", samples=7, present=(("a", "b", "gone"), ("b", "a", "new")))
    assert [v.name for v in merged.experiment.variants] == ["before:b", "after:b", "before:a", "after:a"]
    assert merged.only == (("gone",), ("new",))
    assert merged.shared == {"after:b": "before:b", "after:a": "before:a"}
    assert merged.experiment.baseline == {"fp32": "before:b"}
    assert merged.experiment.measure.samples == 7


def test_a_run_of_some_variants_lends_no_others() -> None:
    before, after = sides(("a", "b"), ("a", "b"))
    assert merge(before, after, "x", samples=1, present=(("a",), ("a", "b"))).names == ("a",)
    assert merge(before, after, "x", samples=1, present=(("a", "b"), ("a", "b")), only=("b",)).names == ("b",)


def test_another_contract_is_another_variant() -> None:
    before, after = sides(("a",), ("a",))
    other = replace(after.experiment.variants[0], dtype="bf16")
    after = replace(after, experiment=replace(after.experiment, variants=(other,)))
    assert merge(before, after, "x", samples=1, present=(("a",), ("a",))).names == ()


def test_only_common_sizes_are_measured() -> None:
    before, after = sides(("a",), ("a",))
    more = replace(after.experiment.problem, sizes=({"M": 8, "N": 8, "K": 8}, SIZE))
    after = replace(after, experiment=replace(after.experiment, problem=more))
    merged = merge(before, after, "x", samples=1, present=(("a",), ("a",)))
    assert merged.experiment.problem.sizes == (SIZE,)


def test_one_process_is_for_what_can_be_loaded_there(tmp_path: Path) -> None:
    before, after = sides(("a",), ("a",))
    merged = merge(before, after, "x", samples=1, present=(("a",), ("a",)))
    assert design_of(merged, None) == "in_process"
    assert design_of(merged, "two_process") == "two_process"
    (tmp_path / "kernel.py").write_text("import helper\n")
    python = replace(merged.experiment.variants[0], kind="triton", source=tmp_path / "kernel.py")
    with_python = replace(merged, experiment=replace(merged.experiment, variants=(python,)))
    assert design_of(with_python, None) == "in_process"
    (tmp_path / "helper.py").write_text("")
    assert design_of(with_python, None) == "two_process"


# -- a run's own copies


TEXT = """schema: 1
name: made
problem: {kind: gemm, sizes: [[64, 64, 64]]}
defaults: {dtype: fp32, build: {flags: [-lineinfo], include: [headers]}}
variants:
  - {name: plain, cuda: ../csrc/kernel.cu, params: {TILE: 4}}
  - {name: called, cuda: old.cu, call: "sgemm(A, B, C, stream)"}
  - {name: torch, python: "gemm/torch_gemm.py:matmul"}
  - {name: lost, cuda: lost.cu}
"""


def stored(folder: Path, text: str = TEXT, kind: str = "gemm") -> RunDir:
    commands = {"plain": ["nvcc", "-I.", "-Iinclude_0", "-Inowhere", "-I/usr/include", "-o", "variant.so", "kernel.cu"]}
    run = RunDir.create(
        folder / "run",
        {
            "experiment": {"name": "made", "file": "made.yaml", "text": text},
            "problem": {"kind": kind},
            "builds": {name: {"command": command} for name, command in commands.items()},
        },
    )
    files = {
        "plain": {"kernel.cu": "k", "gemm.h": "h", "include_0/kernel.cu": "another"},
        "called": {"old.cu": "o", GENERATED: "g", "gemm.h": "h"},
        "torch": {"gemm/torch_gemm.py": "p"},
    }
    for name, contents in files.items():
        for file, content in contents.items():
            path = run.path / "sources" / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    return run


def test_sources_are_the_runs_copies(tmp_path: Path) -> None:
    run = stored(tmp_path)
    side = stored_side(run)
    found = side.layouts["plain"]
    assert (found.main, found.include) == ("kernel.cu", (".", "include_0"))
    assert found.contents["include_0/kernel.cu"] == b"another"
    assert side.layouts["called"].main == GENERATED
    assert set(side.layouts) == {"plain", "called"}
    assert side.unreadable == {"lost": "the run keeps no copy of lost.cu"}
    named = {v.name: v for v in side.experiment.variants}
    assert named["torch"].source == run.path.resolve() / "sources/torch/gemm/torch_gemm.py"
    assert named["plain"].build.include == ()
    assert named["plain"].build.flags == ("-lineinfo",)
    assert named["plain"].params == {"TILE": 4}


def test_of_several_copies_the_one_that_ends_alike(tmp_path: Path) -> None:
    for name in ("a/b/k.cu", "b/k.cu", "k.cu", "c/k.cu"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert stored_source(tmp_path, Path("../x/b/k.cu")) == tmp_path / "b/k.cu"
    assert stored_source(tmp_path, Path("k.cu")) == tmp_path / "k.cu"
    assert stored_source(tmp_path, Path("other.cu")) is None


def test_a_problem_of_ones_own_is_taken_from_the_run(tmp_path: Path) -> None:
    text = TEXT.replace("{kind: gemm,", "{kind: 'my/problem.py:Gemm',")
    run = stored(tmp_path, text, "my/problem.py:Gemm")
    with pytest.raises(UsageError, match=r"keeps no copy of its problem's file problem\.py"):
        stored_side(run)
    copy = run.path / "sources" / PROBLEM_FOLDER / "problem.py"
    copy.parent.mkdir()
    source = Path(__file__).parents[2] / "profiler" / "problems" / "gemm.py"
    copy.write_text(source.read_text())
    assert stored_side(run).experiment.problem.file == copy.resolve()


def test_a_text_of_another_version_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown key"):
        stored_side(stored(tmp_path, TEXT + "surprise: 3\n"))


# -- a run against itself


def split_run(processes: int, samples: int, between: float, within: float = 0.002, seed: int = 0) -> RunData:
    rng = np.random.default_rng(seed)
    names = [f"v{i}" for i in range(6)]
    rows = [
        {"variant": name, "size": "N=1", "process": process, "order": i, "method": "single", "cache": "cold",
         "launches": 1, "time_ns": float(2e5 * level * np.exp(rng.normal(0, within))), "foreign": False}
        for name in names
        for process in range(processes)
        for level in [np.exp(rng.normal(0, between))]
        for i in range(samples)
    ]  # fmt: skip
    variants = [
        {"name": name, "dtype": "fp32", "status": "ok", "origin": "measured", "verified": "yes", "order": i}
        for i, name in enumerate(names)
    ]
    return RunData({"problem": {"sizes": ["N=1"]}}, {"variants": variants, "samples": rows})


def test_sound_noise_is_not_flagged() -> None:
    found = self_check(split_run(1, 60, 0.0), Settings(), default_table("NVIDIA H200"), trials=50)
    assert (found.design, found.rows, found.trials) == ("in_process", 6, 50)
    assert found.flagged == Rate(0, 300)
    assert found.sound


def test_many_processes_are_split_as_wholes() -> None:
    table = default_table("NVIDIA H200")
    quiet = self_check(split_run(PROCESSES_TO_SPLIT, 20, 0.002), Settings(), table, trials=40)
    assert (quiet.design, quiet.flagged.count) == ("two_process", 0)


def test_a_floor_that_is_far_too_low_is_raised_by_what_the_samples_show() -> None:
    table = default_table("NVIDIA H200")
    tight = replace(table, classes=tuple(replace(c, process_sd=1e-5, in_process_sd=1e-5) for c in table.classes))
    loud = self_check(split_run(1, 60, 0.0, within=0.05), Settings(min_effect=0.0), tight, trials=60)
    assert loud.flagged.of == 360
    assert loud.flagged.value < 0.01


def test_a_rule_that_flags_too_much_is_not_sound() -> None:
    check = self_check(split_run(1, 60, 0.0), Settings(), default_table(""), trials=1)
    assert check.sound
    assert not replace(check, flagged=Rate(10, 1000)).sound
    assert replace(check, flagged=Rate(1, 1000)).sound


def test_rows_that_cannot_be_split_are_named() -> None:
    found = self_check(split_run(1, 19, 0.0), Settings(), default_table(""), trials=5)
    assert (found.rows, found.trials) == (0, 0)
    assert set(found.left_out) == {(f"v{i}", "N=1") for i in range(6)}
    assert Rate(0, 0).bounds == (0.0, 1.0)


def test_a_rate_has_the_exact_interval() -> None:
    low, high = Rate(0, 100).bounds
    assert low == 0
    assert high == pytest.approx(1 - 0.025 ** (1 / 100))
    assert CONFIRMATION_BASE > PROCESSES_TO_SPLIT
