"""Sums and maxima of rows: references, tolerances, and the wrong answers that their checks must refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from profiler.judge import judge  # noqa: E402
from profiler.model import ProblemRef  # noqa: E402
from profiler.problem_file import literals_of  # noqa: E402
from profiler.problems import reduce  # noqa: E402
from profiler.problems.reduce import ReduceMax, ReduceSum  # noqa: E402
from profiler.worker.buffers import FLOAT_POISON, INTEGER_POISON  # noqa: E402
from profiler.worker.cases import Cases, WeakCheck  # noqa: E402

SHAPES = [(1, 1), (1, 7), (1, 100003), (37, 1003), (5000, 1), (3, 4096)]
EVERY = [(ReduceSum, d) for d in ReduceSum.distributions] + [(ReduceMax, d) for d in ReduceMax.distributions]


def case_of(problem: Any, shape: tuple[int, int], distribution: str, seed: int = 3) -> Any:
    options = {"op": problem.options["op"][0]}
    cases = Cases(problem, options, {"distribution": distribution, "seed": 0}, device="cpu")
    return cases.get("fp32", {"M": shape[0], "N": shape[1]}, seed)


def passes(case: Any, y: Any) -> bool:
    return judge(
        y, case.reference["y"], case.magnitude["y"], case.tolerances["y"], "float32", nan_matches=case.nan_matches
    ).ok


def torch_answer(problem: Any, x: Any) -> Any:
    return x.sum(dim=1) if problem is ReduceSum else x.amax(dim=1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("problem", "distribution"), EVERY)
def test_torch_is_right_and_every_mutation_is_refused(problem: Any, distribution: str, shape: tuple[int, int]) -> None:
    case = case_of(problem, shape, distribution)  # making it refuses a check that a mutation would pass
    assert passes(case, torch_answer(problem, case.inputs["x"]))
    names = [
        one.name
        for one in problem.mutations(case.inputs, case.reference, {"M": shape[0], "N": shape[1]}, {"op": "sum"})
    ]
    assert "zeros" in names
    assert len(names) >= 2


@pytest.mark.parametrize("problem", [ReduceSum, ReduceMax])
def test_nan_is_wanted_where_it_belongs_and_nowhere_else(problem: Any) -> None:
    case = case_of(problem, (8, 100), "with_nan")
    assert case.poisons == INTEGER_POISON  # a NaN in the output must have been written
    right = torch_answer(problem, case.inputs["x"])
    assert torch.isnan(right).tolist() == [True, False] * 4
    assert passes(case, right)
    quiet = torch.where(torch.isnan(right), torch.tensor(1.0), right)
    assert not passes(case, quiet)
    everywhere = torch.full_like(right, math.nan)
    assert not passes(case, everywhere)
    assert case_of(problem, (8, 100), "normal").poisons == FLOAT_POISON


def test_infinities_add_up_as_floats_do() -> None:
    case = case_of(ReduceSum, (8, 100), "with_infinity")
    expected = [math.inf, 0, math.nan, 0, math.inf, 0, math.nan, 0]
    for value, wanted in zip(case.reference["y"].tolist(), expected, strict=True):
        assert (math.isnan(value) if math.isnan(wanted) else value == wanted) or (wanted == 0 and math.isfinite(value))
    assert passes(case, case.inputs["x"].sum(dim=1))
    assert not passes(case, -case.inputs["x"].sum(dim=1))


def test_a_tree_keeps_the_tolerance_and_one_long_chain_does_not() -> None:
    case = case_of(ReduceSum, (4, 1 << 20), "normal")
    x = case.inputs["x"]
    lanes = torch.zeros(4, 1024)
    for column in range(0, x.shape[1], 1024):  # 1024 accumulators with a chain of 1024 each
        lanes = lanes + x[:, column : column + 1024]
    while lanes.shape[1] > 1:
        lanes = lanes[:, : lanes.shape[1] // 2] + lanes[:, lanes.shape[1] // 2 :]
    assert passes(case, lanes[:, 0])
    serial = torch.from_numpy(numpy.cumsum(x.numpy(), axis=1, dtype=numpy.float32)[:, -1].copy())
    assert not passes(case, serial)


def test_sums_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(13, 1001)
    whole = ReduceSum._sums(x)
    monkeypatch.setattr(reduce, "_CHUNK", 96)
    torch.testing.assert_close(ReduceSum._sums(x), whole, rtol=1e-14, atol=1e-12)
    torch.testing.assert_close(ReduceSum._sums(x, absolute=True), x.double().abs().sum(dim=1), rtol=1e-14, atol=1e-12)


def test_finding_the_second_largest_leaves_the_inputs_as_they_were() -> None:
    x = torch.randn(5, 77)
    kept = x.clone()
    list(ReduceMax.mutations({"x": x}, {"y": x.amax(dim=1).double()}, {"M": 5, "N": 77}, {"op": "max"}))
    assert torch.equal(x, kept)


def test_a_maximum_is_exact() -> None:
    case = case_of(ReduceMax, (16, 300), "normal")
    y = case.inputs["x"].amax(dim=1)
    assert passes(case, y)
    above = torch.nextafter(y, torch.full_like(y, math.inf))
    assert not passes(case, torch.where(torch.arange(16) == 3, above, y))


def test_all_equal_inputs_have_no_second_answer_for_a_missed_element() -> None:
    class Equal(ReduceMax):
        @classmethod
        def inputs(cls, *args: Any) -> dict[str, Any]:
            return {"x": torch.ones(2, 5)}

    names = {
        one.name
        for one in ReduceMax.mutations({"x": torch.ones(2, 5)}, {"y": torch.ones(2).double()}, {"M": 2, "N": 5}, {})
    }
    assert names == {"zeros", "5 % scale"}
    Cases(Equal, {"op": "max"}, {"distribution": "normal"}, device="cpu").get("fp32", {"M": 2, "N": 5}, 0)


def test_an_unknown_distribution_is_the_problems_fault() -> None:
    with pytest.raises(WeakCheck, match="has no distribution 'odd'"):
        case_of(ReduceSum, (2, 5), "odd")


@pytest.mark.parametrize(("kind", "op"), [("reduce_sum", "sum"), ("reduce_max", "max")])
def test_both_share_a_header_and_differ_in_a_macro(kind: str, op: str) -> None:
    literals = literals_of(ProblemRef(kind, None, {}, (), (), {}))
    assert (literals.name, literals.chosen({})) == ("reduce", {"op": op})
    assert "with_nan" in literals.distributions


def test_bytes_are_those_of_the_matrix_and_the_row_results() -> None:
    assert ReduceSum.min_bytes({"M": 1, "N": 1 << 30}, "fp32", {}) == (1 << 32) + 4
    assert ReduceSum.traffic({"M": 8, "N": 16}, "fp32", {}) == (512, 32)
    assert ReduceSum.flops({"M": 8, "N": 16}) is None
