"""The problem of the lessons: exact, and refusing what is nearly a copy."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

from profiler.judge import judge  # noqa: E402
from profiler.problems.copy import Copy  # noqa: E402

DIMS = {"N": 1000}


def made(seed: int = 3, distribution: str = "normal") -> dict[str, torch.Tensor]:
    return Copy.inputs(DIMS, "fp32", {}, {"distribution": distribution}, seed, "cpu")


def test_inputs_follow_their_seed_and_distribution() -> None:
    assert torch.equal(made()["x"], made()["x"])
    assert not torch.equal(made()["x"], made(4)["x"])
    assert float(made(3, "uniform")["x"].abs().max()) <= 1.0
    with pytest.raises(ValueError, match="no distribution"):
        made(3, "cauchy")


def test_a_copy_passes_and_the_next_float_does_not() -> None:
    inputs = made()
    reference, magnitude = Copy.reference(inputs, DIMS, {})["y"], Copy.magnitude(inputs, DIMS, {})["y"]
    tolerance = Copy.tolerance(DIMS, "fp32")
    assert judge(inputs["x"].clone(), reference, magnitude, tolerance, "float32").ok
    off = inputs["x"].clone()
    off[17] = torch.nextafter(off[17], torch.tensor(9.0))
    found = judge(off, reference, magnitude, tolerance, "float32")
    assert (found.ok, found.worst_index) == (False, (17,))


def test_every_mutation_is_refused() -> None:
    inputs = made()
    reference, magnitude = Copy.reference(inputs, DIMS, {}), Copy.magnitude(inputs, DIMS, {})
    mutations = Copy.mutations(inputs, reference, DIMS, {})
    assert {one.name for one in mutations} == {"zeros", "missing end", "rounded to BF16", "shifted"}
    for one in mutations:
        assert not judge(one.outputs["y"].float(), reference["y"], magnitude["y"], 0.0, "float32").ok, one.name


def test_the_least_traffic_is_one_read_and_one_write() -> None:
    assert Copy.min_bytes(DIMS, "fp32", {}) == 2 * 4 * 1000
    assert Copy.flops(DIMS) is None
