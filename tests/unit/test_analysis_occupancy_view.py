"""Occupancy as the report shows it: counters first, the model beside them and in their place, the curve around it."""

from __future__ import annotations

from typing import Any

import pytest
from variant_data import kernel_of

from profiler.analysis.occupancy_view import Curve, occupancy_view

COUNTERS: dict[str, Any] = {
    "compute_capability": 9.0, "registers": 128, "block": 256, "shared_static": 16384, "shared_dynamic": 0,
    "theoretical_occupancy": 25.0, "achieved_occupancy": 24.23, "occupancy_limit_registers": 2,
    "occupancy_limit_shared_memory": 5, "occupancy_limit_warps": 8, "occupancy_limit_blocks": 32,
    "occupancy_limit_barriers": 32,
}  # fmt: skip
BINARY: dict[str, Any] = {
    "ptxas.registers": 128, "ptxas.shared_bytes": 16384, "ptxas.barriers": 1, "sass.max_threads": 256,
    "model.occupancy.blocks": 2,
}  # fmt: skip


def curve(view: Any, axis: str) -> Curve:
    return next(one for one in view.curves if one.axis == axis)


def test_counters_name_the_limiter_and_the_model_agrees() -> None:
    view = occupancy_view(kernel_of(COUNTERS, BINARY))
    assert view.limiters == ("registers",)
    assert view.resident.value == 2
    assert (view.warps, view.max_warps) == (16, 64)
    assert view.sentence == (
        "25 % allowed: 2 blocks of 256 threads per SM, limited by registers; 24.2 % were resident on average."
    )
    limits = {one.name: (one.counted.value, one.model) for one in view.resources}
    assert limits["registers"] == (2, 2)
    assert limits["shared memory"] == (5, 13)  # the driver divides the L1 by what the launch can use


def test_the_curve_goes_through_the_kernel_and_names_the_next_step() -> None:
    view = occupancy_view(kernel_of(COUNTERS, BINARY))
    registers = curve(view, "registers")
    assert (registers.here, registers.share) == (128, 0.25)
    assert registers.gain == (80, 0.375)
    assert "The next step up: 80 registers a thread (37.5 %)." in view.notes
    assert curve(view, "block_size").points[-1] == (1024, 0)  # 128 registers x 1024 threads do not fit
    shares = [share for _, share in registers.points]
    assert shares == sorted(shares, reverse=True)


def test_points_of_a_step_are_its_two_ends() -> None:
    points = curve(occupancy_view(kernel_of(COUNTERS, BINARY)), "shared_bytes").points
    assert len(points) < 20
    assert points[0][0] == 0


def test_every_resource_at_the_lowest_count_limits() -> None:
    view = occupancy_view(kernel_of({**COUNTERS, "occupancy_limit_warps": 2}, BINARY))
    assert view.limiters == ("registers", "warps")


def test_shared_memory_that_the_driver_held_short_is_explained() -> None:
    given = {**COUNTERS, "shared_dynamic": 50176, "occupancy_limit_shared_memory": 2}
    view = occupancy_view(kernel_of(given, BINARY))
    assert view.limiters == ("registers", "shared memory")
    assert any("Shared memory would allow 3 blocks" in note for note in view.notes)


def test_without_counters_the_model_speaks_for_the_binary() -> None:
    view = occupancy_view(kernel_of(None, BINARY))
    assert view.theoretical.value == 25
    assert view.theoretical.origin == "model"
    assert view.limiters == ("registers",)
    assert view.sentence.endswith("limited by registers, by the model.")
    assert view.achieved.value is None
    assert view.curves


@pytest.mark.parametrize(
    ("binary", "why"),
    [
        ({**BINARY, "model.occupancy.blocks": "not_applicable"}, "shared memory is given at the launch"),
        ({**BINARY, "sass.max_threads": "not_applicable"}, "no launch bounds"),
        ({"ptxas.shared_bytes": 0}, "not collected in this run"),
    ],
)
def test_why_there_is_no_curve(binary: dict[str, Any], why: str) -> None:
    view = occupancy_view(kernel_of(None, binary))
    assert view.curves == ()
    assert why in view.why
    assert view.theoretical.value is None
    assert view.sentence == ""


def test_an_unknown_gpu_keeps_its_counters_and_has_no_curve() -> None:
    view = occupancy_view(kernel_of({**COUNTERS, "compute_capability": 14.2}, BINARY))
    assert view.curves == ()
    assert view.why == "the limits of this GPU are not in the table of the model"
    assert view.limiters == ("registers",)
    assert view.resident.value == 2


@pytest.mark.parametrize(
    ("achieved", "words"),
    [(12.0, "Far fewer warps were resident"), (100.66, "noise between the passes")],
)
def test_an_achieved_occupancy_that_does_not_fit_is_remarked(achieved: float, words: str) -> None:
    view = occupancy_view(kernel_of({**COUNTERS, "achieved_occupancy": achieved}, BINARY))
    assert any(words in note for note in view.notes)
