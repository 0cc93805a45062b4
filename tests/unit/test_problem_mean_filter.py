"""The mean filter: its reference against PyTorch's pooling, what its check refuses, and which sums it is fair to."""

from __future__ import annotations

import math
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from profiler.controls import controls_for  # noqa: E402
from profiler.judge import judge  # noqa: E402
from profiler.model import Variant  # noqa: E402
from profiler.problems.mean_filter import RUNNING_ROWS, MeanFilter  # noqa: E402
from profiler.worker.cases import Case, Cases  # noqa: E402

SIZES = [(1, 1, 1), (1, 40, 3), (40, 1, 7), (9, 11, 15), (67, 131, 3), (120, 70, 15)]


def dims_of(size: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(MeanFilter.dims, size, strict=True))


def case_of(size: tuple[int, int, int], distribution: str = "normal") -> Case:
    """A case that has passed its own test: every mutation is refused with it."""
    return Cases(MeanFilter, {}, {"distribution": distribution}, device="cpu").get("fp32", dims_of(size), 1)


def right(case: Case, output: Any) -> bool:
    return judge(
        output, case.reference["y"], case.magnitude["y"], case.tolerances["y"], "float32", nan_matches=case.nan_matches
    ).ok


def pooled(x: Any, radius: int) -> Any:
    return F.avg_pool2d(x[None], 2 * radius + 1, stride=1, padding=radius, count_include_pad=False)[0]


@pytest.mark.parametrize("distribution", MeanFilter.distributions)
@pytest.mark.parametrize("size", SIZES)
def test_pytorchs_pooling_is_right_and_mutations_are_not(size: tuple[int, int, int], distribution: str) -> None:
    case = case_of(size, distribution)
    assert right(case, pooled(case.inputs["x"], size[2]))


def test_special_inputs_have_what_they_are_named_for() -> None:
    case = case_of((67, 131, 3), "special")
    x, y = case.inputs["x"], case.reference["y"]
    assert {float(v) for v in x[torch.isinf(x)]} == {math.inf, -math.inf}
    assert bool(torch.isnan(x).any())
    finite = int(torch.isfinite(y).sum())
    assert 0 < finite < y.numel()  # a NaN is not in all windows


def column_sums(x: Any, radius: int, step: str) -> Any:
    """Sums down the columns in float32 as the kernels make them: with subtraction, or of two parts that only grow."""
    rows, window = x.shape[0], 2 * radius + 1
    padded = torch.cat([torch.zeros(radius, x.shape[1]), x, torch.zeros(2 * window, x.shape[1])])
    found = torch.empty_like(x)
    total = padded[:window].sum(0)
    for row in range(rows):
        if step == "running":
            if row > 0:
                total = (total + padded[row + window - 1]) - padded[row - 1]
            found[row] = total
        else:
            first = row // window * window  # of the group that the window begins in
            ends = torch.zeros(x.shape[1])
            for i in range(first + window - 1, row - 1, -1):
                ends = ends + padded[i]
            begins = torch.zeros(x.shape[1])
            for i in range(first + window, row + window):
                begins = begins + padded[i]
            found[row] = ends + begins
    return found


def filtered(x: Any, radius: int, step: str) -> Any:
    sums = column_sums(x, radius, step)
    wide = F.pad(sums, (radius, radius))
    rows = pooled(torch.ones_like(x), 0)  # ones, of x's shape
    total = sum(wide[:, d : d + x.shape[1]] for d in range(2 * radius + 1))
    count = F.avg_pool2d(rows[None], 2 * radius + 1, stride=1, padding=radius, divisor_override=1)[0]
    return total / count


@pytest.mark.parametrize("distribution", ["normal", "uniform", "offset"])
@pytest.mark.parametrize("step", ["running", "two_scans"])
def test_running_sums_of_a_strip_are_within_the_tolerance(step: str, distribution: str) -> None:
    case = case_of((RUNNING_ROWS, 40, 3), distribution)
    assert right(case, filtered(case.inputs["x"], 3, step))


@pytest.mark.parametrize("distribution", ["spikes", "special"])
def test_what_has_left_the_window_stays_in_a_running_sum_only(distribution: str) -> None:
    case = case_of((200, 40, 3), distribution)
    assert right(case, filtered(case.inputs["x"], 3, "two_scans"))
    assert not right(case, filtered(case.inputs["x"], 3, "running"))


def test_counts_tolerance_and_control() -> None:
    dims = dims_of((8192, 8192, 15))
    assert MeanFilter.flops(dims) is None
    assert MeanFilter.min_bytes(dims, "fp32", {}) == 2 * 4 * 8192**2
    assert [c.kind for c in controls_for(MeanFilter, [Variant("v", "cuda", "fp32")], dims, {})] == ["copy"]
    assert MeanFilter.tolerance(dims, "fp32") == 8 * math.sqrt(31**2 + 512) * 2.0**-24
    with pytest.raises(ValueError, match="no distribution"):
        MeanFilter.inputs(dims_of((2, 2, 1)), "fp32", {}, {"distribution": "cauchy"}, 0, "cpu")
