"""Inputs of other kinds at the check sizes, and profiled sizes that are chosen: from the file to the worker's jobs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from gpu_less_run import CHECK_SIZE, SIZE, fake_session, make_run

from profiler import data_files, frames
from profiler.experiment import check_text, load_experiment, parse_experiment
from profiler.profile import living_pairs, pairs_of
from profiler.run import Run
from profiler.verify import SEED_AFTER, SEED_BEFORE, check_jobs, run_checks

TEXT = """schema: 1
name: made
problem:
  kind: reduce_max
  sizes: [[1, 4096], [8, 512]]
  check_sizes: [[3, 5]]
  check_distributions: [with_nan, negative]
defaults: {dtype: fp32}
profile: {sizes: [[8, 512]]}
variants:
  - {name: mine, python: "reduce/torch_reduce.py:row_max"}
"""


def messages(old: str, new: str) -> list[str]:
    assert old in TEXT
    return [issue.text("f") for issue in check_text(TEXT.replace(old, new), Path("made.yaml"))]


def test_a_file_says_them() -> None:
    experiment = parse_experiment(TEXT, Path("made.yaml"))
    assert experiment.problem.check_distributions == ("with_nan", "negative")
    assert dict(experiment.problem.options) == {"op": "max"}
    assert experiment.profile.sizes == ({"M": 8, "N": 512},)
    assert "check_distributions" not in experiment.problem.init  # what a recording is matched by stays as it was


def test_a_distribution_that_the_problem_lacks_is_an_error_at_its_place() -> None:
    (found,) = messages("[with_nan, negative]", "[with_nan, negativ]")
    assert found.startswith("f:7:")
    assert 'did you mean "negative"?' in found


def test_a_profiled_size_must_be_timed() -> None:
    (found,) = messages("profile: {sizes: [[8, 512]]}", "profile: {sizes: [[3, 5]]}")
    assert "M=3,N=5 is not among problem.sizes: a profile is taken at those only" in found


def with_distributions(tmp_path: Path, *names: str) -> Run:
    run = make_run(tmp_path, "a", "b")
    problem = dataclasses.replace(run.experiment.problem, check_distributions=names)
    run.experiment = dataclasses.replace(run.experiment, problem=problem)
    return run


def test_check_sizes_are_verified_with_each_and_timed_ones_with_none(tmp_path: Path) -> None:
    run = with_distributions(tmp_path, "with_nan", "uniform")
    jobs = check_jobs(run, run.experiment.variants, "before")
    assert [(j["dims"], j["distribution"], j["seed"], j["stray"]) for j in jobs if j["variant"] == "a"] == [
        (CHECK_SIZE, "", SEED_BEFORE, False),
        (SIZE, "", SEED_BEFORE, True),
        (CHECK_SIZE, "with_nan", SEED_BEFORE + 10, False),
        (CHECK_SIZE, "uniform", SEED_BEFORE + 20, False),
    ]
    after = check_jobs(run, run.experiment.variants, "after")
    assert {(j["distribution"], j["seed"]) for j in after} == {("", SEED_AFTER)}


def test_without_check_sizes_they_take_the_timed_ones(tmp_path: Path) -> None:
    run = with_distributions(tmp_path, "with_nan")
    problem = dataclasses.replace(run.experiment.problem, check_sizes=())
    run.experiment = dataclasses.replace(run.experiment, problem=problem)
    jobs = check_jobs(run, run.experiment.variants, "before")
    assert [j["dims"] for j in jobs if j["distribution"]] == [SIZE, SIZE]


def test_a_lost_worker_leaves_no_check_of_the_others_out(tmp_path: Path) -> None:
    run = with_distributions(tmp_path, "with_nan")
    with fake_session(tmp_path, {"b": "crash"}) as session:
        run_checks(run, session, list(run.experiment.variants), "before", None)
    rows = frames.rows_of(run.dir.frame("checks"))
    assert sorted(row["seed"] for row in rows if row["variant"] == "a") == [SEED_BEFORE, SEED_BEFORE, SEED_BEFORE + 10]
    assert run.status() == {"a": "ok", "b": "crashed"}


def test_only_the_chosen_sizes_are_profiled(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", "b")
    other = {**SIZE, "K": 128}
    problem = dataclasses.replace(run.experiment.problem, sizes=(SIZE, other))
    run.experiment = dataclasses.replace(run.experiment, problem=problem)
    assert len(pairs_of(run)) == 4
    profile = dataclasses.replace(run.experiment.profile, sizes=(other,))
    run.experiment = dataclasses.replace(run.experiment, profile=profile)
    assert pairs_of(run) == [("a", "M=64,N=64,K=128"), ("b", "M=64,N=64,K=128")]
    assert len(living_pairs(run)) == 4  # which are traced


def test_a_variant_that_is_left_out_is_not_profiled(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a", "b")
    profile = dataclasses.replace(run.experiment.profile, skip=("a",))
    run.experiment = dataclasses.replace(run.experiment, profile=profile)
    assert [name for name, _ in pairs_of(run)] == ["b"]
    assert [name for name, _ in living_pairs(run)] == ["a", "b"]


def test_a_variant_that_is_left_out_must_be_there() -> None:
    (found,) = messages("profile: {sizes: [[8, 512]]}", "profile: {skip: [torc]}")
    assert "no variant 'torc'" in found


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_max", "transpose"])
def test_the_experiments_hold(name: str) -> None:
    experiment = load_experiment(data_files.experiments() / f"{name}.yaml")
    special = {"reduce_sum": "with_infinity", "reduce_max": "negative", "transpose": "with_nan"}[name]
    assert special in experiment.problem.check_distributions
    largest = max(experiment.problem.sizes, key=lambda size: size["M"] * size["N"])
    assert largest in (experiment.profile.sizes or experiment.problem.sizes)  # the verdict's size has counters
    assert json.dumps([dict(size) for size in experiment.problem.check_sizes]).count('"M": 1,') >= 1
