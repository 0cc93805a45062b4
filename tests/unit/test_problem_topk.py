"""TopK: values exact and in order, indices judged by what they point to, NaN largest, K at most N."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from profiler.controls import controls_for  # noqa: E402
from profiler.errors import UsageError  # noqa: E402
from profiler.experiment import load_experiment  # noqa: E402
from profiler.judge import judge  # noqa: E402
from profiler.model import Variant  # noqa: E402
from profiler.problems.topk import TopK  # noqa: E402
from profiler.worker.cases import Case, Cases, canonical  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SIZES = [(1, 1, 1), (3, 33, 33), (5, 100, 1), (37, 1003, 17)]


def dims_of(size: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(TopK.dims, size, strict=True))


def case_of(size: tuple[int, int, int], distribution: str = "normal") -> Case:
    """A case that has passed its own test: every mutation is refused with it."""
    return Cases(TopK, {}, {"distribution": distribution}, device="cpu").get("fp32", dims_of(size), 1)


def wrong(case: Case, values: Any, indices: Any) -> list[str]:
    outputs = canonical(TopK, case, {"values": values, "indices": indices})
    return [
        name
        for name, output in outputs.items()
        if not judge(
            output, case.reference[name], case.magnitude[name], case.tolerances[name], "", nan_matches=case.nan_matches
        ).ok
    ]


@pytest.mark.parametrize("distribution", TopK.distributions)
@pytest.mark.parametrize("size", SIZES)
def test_torch_is_right_and_mutations_are_not(size: tuple[int, int, int], distribution: str) -> None:
    case = case_of(size, distribution)
    values, indices = torch.topk(case.inputs["x"], size[2], dim=1)
    assert wrong(case, values, indices) == []


def test_which_of_equal_elements_is_named_is_left_open() -> None:
    case = case_of((2, 50, 20), "equal")
    values = torch.full((2, 20), 0.25)
    assert wrong(case, values, torch.arange(20).repeat(2, 1)) == []
    assert wrong(case, values, torch.arange(49, 29, -1).repeat(2, 1)) == []
    assert wrong(case, values, torch.zeros(2, 20, dtype=torch.int64)) == ["indices"]


@pytest.mark.parametrize("index", [-1, 1003, 2**40, 0x5A5A5A5A5A5A5A5A])
def test_an_index_outside_of_the_row_is_wrong(index: int) -> None:
    case = case_of((37, 1003, 17))
    values, indices = torch.topk(case.inputs["x"], 17, dim=1)
    indices[3, 4] = index
    assert wrong(case, values, indices) == ["indices"]


@pytest.mark.parametrize("distribution", ["nan", "normal", "special"])
def test_an_index_twice_is_wrong_whatever_it_points_to(distribution: str) -> None:
    case = case_of((37, 1003, 17), distribution)
    values, indices = torch.topk(case.inputs["x"], 17, dim=1)
    indices[0, 1] = indices[0, 0]
    assert wrong(case, values, indices) == ["indices"]


def test_nan_is_largest_and_zeros_are_one_value() -> None:
    case = case_of((1, 400, 400), "special")
    top = case.reference["values"][0]
    nans = int(torch.isnan(case.inputs["x"]).sum())
    assert nans > 0
    assert bool(torch.isnan(top[:nans]).all())
    assert float(top[nans]) == math.inf
    values, indices = torch.topk(case.inputs["x"], 400, dim=1)
    zeros = values[0] == 0
    values[0, zeros] = -values[0, zeros]
    assert int(zeros.sum()) > 1
    assert wrong(case, values, indices) == []


def test_counts_and_control() -> None:
    long, rows = dims_of((1, 2**26, 64)), dims_of((4096, 32768, 64))
    assert TopK.min_bytes(long, "fp32", {}) == 4 * 2**26 + 64 * 12
    for dims in (long, rows):
        assert [c.kind for c in controls_for(TopK, [Variant("v", "cuda", "fp32")], dims, {})] == ["read"]


def test_more_than_there_are_is_refused_with_its_place(tmp_path: Path) -> None:
    text = (ROOT / "experiments" / "topk.yaml").read_text(encoding="utf-8")
    file = tmp_path / "topk.yaml"
    file.write_text(text.replace("[5, 4100, 17]", "[5, 17, 4100]"), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_experiment(file)
    line = next(i for i, row in enumerate(text.splitlines(), start=1) if "[5, 4100, 17]" in row)
    assert f"topk.yaml:{line}:" in str(caught.value)
    assert "topk has no size B=5,N=17,K=4100: K <= N fails: K = 4100, N = 17" in str(caught.value)
