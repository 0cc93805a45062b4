"""Transposition: the reference, the wrong answers that its check must refuse, and matrices too large for one piece."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from profiler import judge as judge_module  # noqa: E402
from profiler.judge import judge  # noqa: E402
from profiler.problems.transpose import Transpose  # noqa: E402
from profiler.worker.cases import Cases  # noqa: E402

SHAPES = [(1, 1), (1, 1000), (1000, 1), (33, 65), (64, 64), (67, 409)]


def case_of(shape: tuple[int, int], distribution: str = "normal") -> Any:
    cases = Cases(Transpose, {}, {"distribution": distribution, "seed": 0}, device="cpu")
    return cases.get("fp32", {"M": shape[0], "N": shape[1]}, 5)


def verdict(case: Any, b: Any) -> Any:
    return judge(b, case.reference["B"], case.magnitude["B"], case.tolerances["B"], "float32",
                 nan_matches=case.nan_matches)  # fmt: skip


@pytest.mark.parametrize("distribution", Transpose.distributions)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_transpose_passes_and_every_mutation_is_refused(shape: tuple[int, int], distribution: str) -> None:
    case = case_of(shape, distribution)
    a = case.inputs["A"]
    b = a.T.contiguous()
    assert verdict(case, b).ok
    b.view(-1)[-1] += 1.0
    if not bool(torch.isnan(b.view(-1)[-1])):
        assert not verdict(case, b).ok


def test_the_reference_takes_no_second_copy_and_the_magnitude_none_at_all() -> None:
    case = case_of((33, 65))
    assert case.reference["B"].shape == (65, 33)
    assert case.reference["B"].stride() == (1, 65)
    assert case.magnitude["B"].stride() == (0, 0)


@pytest.mark.parametrize("shape", [(1, 1000), (1000, 1), (33, 65), (65, 33)])
@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_the_worst_element_is_found_in_whichever_piece_it_lies(
    shape: tuple[int, int], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(shape)
    monkeypatch.setattr(judge_module, "_CHUNK", chunk)
    b = case.inputs["A"].T.contiguous()
    assert verdict(case, b).ok
    n, m = shape[1] - 1, shape[0] // 2
    b[n, m] += 3.0
    b[0, 0] += 1.0
    found = verdict(case, b)
    assert (found.ok, found.worst_index, found.error) == (False, (n, m), pytest.approx(3.0, abs=1e-5))


def test_a_nan_outside_its_place_is_found_in_any_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of((40, 40))
    monkeypatch.setattr(judge_module, "_CHUNK", 100)
    b = case.inputs["A"].T.contiguous()
    b[17, 5] = float("nan")
    found = verdict(case, b)
    assert (found.ok, found.worst_index) == (False, (17, 5))
