"""The occupancy model against the counters of measured kernels, its own rules, and its curves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler import occupancy

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"
REPORTS = sorted(SAMPLES.glob("**/*.ncu-rep")) if SAMPLES.is_dir() else []
#: Before 2022, ncu divided the largest shared memory of the SM instead of the configuration it had measured under.
USES_LARGEST = ("2020.3", "2021.2")


def _launches(path: Path) -> Iterator[Any]:
    reader = pytest.importorskip("ncu_report")
    for launch_range in reader.load_report(str(path)):
        yield from launch_range


def _value(action: Any, name: str) -> float | None:
    metric = action.metric_by_name(name)
    return None if metric is None else metric.value()


def _limits(action: Any) -> occupancy.SmLimits:
    names = ("major", "minor")
    major, minor = (_value(action, f"device__attribute_compute_capability_{name}") for name in names)
    assert major is not None
    assert minor is not None
    sm = occupancy.limits((int(major), int(minor)))
    assert sm is not None
    return sm


def _kernel(action: Any, path: Path) -> dict[str, int]:
    def whole(name: str) -> int:
        value = _value(action, f"launch__{name}")
        assert value is not None, name
        return int(value)

    kernel = {
        "block_size": whole("block_size"),
        "registers": whole("registers_per_thread"),
        "shared_bytes": whole("shared_mem_per_block_static") + whole("shared_mem_per_block_dynamic"),
        "shared_config_bytes": whole("shared_mem_config_size"),
    }
    if any(version in path.name for version in USES_LARGEST):
        del kernel["shared_config_bytes"]
    barriers = _value(action, "launch__barrier_count")
    if barriers is not None:
        kernel["barriers"] = int(barriers)
    return kernel


def test_samples_are_there() -> None:
    if not REPORTS:
        pytest.skip(f"no sample reports in {SAMPLES}")
    assert len(REPORTS) >= 9


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_agrees_with_the_counters(path: Path) -> None:
    seen = 0
    for action in _launches(path):
        seen += 1
        sm = _limits(action)
        model = occupancy.occupancy(sm, **_kernel(action, path))
        counters = {
            name: _value(action, f"launch__occupancy_limit_{name}")
            for name in ("blocks", "warps", "registers", "shared_mem", "barriers")
        }
        assert model.limit_blocks == counters["blocks"]
        assert model.limit_warps == counters["warps"]
        assert model.limit_registers == counters["registers"]
        assert model.limit_shared == counters["shared_mem"]
        if counters["barriers"] is not None:
            assert model.limit_barriers == counters["barriers"]
        assert 100 * model.fraction == pytest.approx(_value(action, "sm__maximum_warps_per_active_cycle_pct"))
    assert seen > 0


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_curves_agree_with_the_counters(path: Path) -> None:
    for action in _launches(path):
        sm = _limits(action)
        kernel = _kernel(action, path)
        for axis, metric_name in (("registers", "register_count"), ("block_size", "block_size")):
            metric = action.metric_by_name(f"launch__occupancy_per_{metric_name}")
            ids = metric.correlation_ids()
            measured = [(int(ids.value(i)), int(metric.value(i))) for i in range(metric.num_instances())]
            at_most = sm.max_registers_per_thread if axis == "registers" else sm.max_threads_per_block
            usable = [(at, warps) for at, warps in measured if warps > 0 and 0 < at <= at_most]
            assert usable
            drawn = occupancy.curve(sm, axis, [at for at, _ in usable], **kernel)  # type: ignore[arg-type]
            assert drawn == usable


def test_shared_memory_curve_of_a_recorded_kernel() -> None:
    sm = occupancy.limits((8, 6))
    assert sm is not None
    # launch__occupancy_per_shared_mem_size of an RTX 3070, whose instances count the driver's 1 KiB
    measured = {1024: 48, 1536: 40, 2048: 32, 2560: 24, 3072: 16, 4096: 16, 4608: 8, 8192: 8}
    kernel = {"block_size": 256, "registers": 16, "shared_bytes": 0, "shared_config_bytes": 8192}
    drawn = occupancy.curve(sm, "shared_bytes", [at - 1024 for at in measured], **kernel)
    assert [warps for _, warps in drawn] == list(measured.values())


def test_names_every_limiter() -> None:
    sm = occupancy.limits((9, 0))
    assert sm is not None
    tile = occupancy.occupancy(sm, block_size=256, registers=128, shared_bytes=100 * 1024)
    assert (tile.blocks, tile.limiters) == (2, ("registers", "shared memory"))
    assert tile.fraction == 0.25
    barriers = occupancy.occupancy(sm, block_size=32, registers=16, shared_bytes=0, barriers=16)
    assert (barriers.blocks, barriers.limiters) == (4, ("barriers",))


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ({"block_size": 1025, "registers": 32, "shared_bytes": 0}, "1025 threads in a block, 1024 allowed"),
        (
            {"block_size": 256, "registers": 32, "shared_bytes": 300 * 1024},
            "307200 bytes of shared memory in a block, 232448 allowed",
        ),
        (
            {"block_size": 1024, "registers": 80, "shared_bytes": 0},
            "80 registers x 1024 threads exceed the 65536 of an SM",
        ),
        ({"block_size": 0, "registers": 32, "shared_bytes": 0}, "the block has no threads"),
    ],
)
def test_a_block_that_cannot_run_says_why(kernel: dict[str, int], reason: str) -> None:
    sm = occupancy.limits((9, 0))
    assert sm is not None
    none = occupancy.occupancy(sm, **kernel)
    assert (none.blocks, none.warps, none.limiters, none.reason) == (0, 0, ("launch",), reason)


@pytest.mark.parametrize(
    ("arch", "capability"),
    [("sm_90a", (9, 0)), ("sm_80", (8, 0)), ("compute_120f", (12, 0)), ("auto", None), ("sm_9", None), ("", None)],
)
def test_compute_capability(arch: str, capability: tuple[int, int] | None) -> None:
    assert occupancy.compute_capability(arch) == capability


@given(
    capability=st.sampled_from(occupancy.known()),
    block=st.integers(1, 1024),
    registers=st.integers(1, 255),
    shared=st.integers(0, 60 * 1024),
)
def test_more_of_anything_never_raises_the_block_count(
    capability: tuple[int, int], block: int, registers: int, shared: int
) -> None:
    sm = occupancy.limits(capability)
    assert sm is not None
    here = occupancy.occupancy(sm, block_size=block, registers=registers, shared_bytes=shared)
    assert 0 <= here.warps <= sm.max_warps
    assert here.blocks <= sm.max_blocks
    more = (
        occupancy.occupancy(sm, block_size=min(block + 32, 1024), registers=registers, shared_bytes=shared),
        occupancy.occupancy(sm, block_size=block, registers=min(registers + 8, 255), shared_bytes=shared),
        occupancy.occupancy(sm, block_size=block, registers=registers, shared_bytes=shared + 1024),
    )
    assert all(other.blocks <= here.blocks for other in more)
