"""The worker's side of sustained blocks and ceilings, on a device that is a clock and a counter."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from profiler.problems.gemm import Gemm  # noqa: E402
from profiler.worker import ceilings, clockwork, sustained  # noqa: E402
from profiler.worker.cases import Cases  # noqa: E402
from profiler.worker.ceilings import CEILINGS, launch_of, work_of  # noqa: E402
from profiler.worker.launchable import Bound, LaunchError  # noqa: E402
from profiler.worker.nvml import CardState  # noqa: E402

SIZE = {"M": 8, "N": 8, "K": 8}
BY_NAME = {ceiling.name: ceiling for ceiling in CEILINGS}


class Clock:
    """Time on the fake device, in seconds; launches move it."""

    def __init__(self) -> None:
        self.now = 0.0

    def event(self, enable_timing: bool = True) -> Any:
        clock = self

        class Event:
            def record(self) -> None:
                self.at = clock.now

            def query(self) -> bool:
                return True

            def elapsed_time(self, other: Any) -> float:
                return (other.at - self.at) * 1e3

        return Event()


class FakeDevice:
    l2_bytes = 1 << 10
    multiprocessors = 4
    stream = SimpleNamespace(cuda_stream=0)
    properties = SimpleNamespace(major=9, minor=0)

    def stamp(self, which: int) -> None:
        assert which in (0, 1)

    def sm_clock_mhz(self) -> float:
        return 1500.0


class FakeVariant:
    """Multiplies on the CPU; a launch takes ``launch_s`` of the fake clock."""

    def __init__(self, clock: Clock, launch_s: float, *, wrong_after: float = float("inf")) -> None:
        self.clock, self.launch_s, self.wrong_after = clock, launch_s, wrong_after
        self.bound = self.closed = 0
        self.used: list[int] = []

    def bind(self, inputs: Any, outputs: Any, dims: Any) -> Bound:
        self.bound += 1
        mine = self.bound

        def launch() -> None:
            self.clock.now += self.launch_s
            self.used.append(mine)
            torch.matmul(inputs["A"], inputs["B"], out=outputs["C"])
            if len(self.used) > self.wrong_after:
                outputs["C"].mul_(2)

        def close() -> None:
            self.closed += 1

        return Bound(launch, lambda: dict(outputs), close)


class FakeWatch:
    def __init__(self) -> None:
        self.state = CardState(61.0, 690.0, "sw_power_cap", False)
        self.reads = itertools.count()

    def energy_j(self) -> float | None:
        return None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the time of a device that torch takes for CUDA."""
    clock = Clock()

    class Entered:
        def __init__(self, *args: Any) -> None:
            pass

        def __enter__(self) -> None:
            return None

        def __exit__(self, *args: Any) -> None:
            return None

    monkeypatch.setattr(torch.cuda, "Event", clock.event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "stream", Entered)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 20, 1 << 20))
    monkeypatch.setattr(clockwork, "capture", lambda contender, device: False)
    monkeypatch.setattr("profiler.worker.checks.Guarded.empty", _on_cpu())
    real_zeros, real_empty = torch.zeros, torch.empty
    monkeypatch.setattr(torch, "zeros", lambda *a, device=None, **k: real_zeros(*a, **k))
    monkeypatch.setattr(torch, "empty", lambda *a, device=None, **k: real_empty(*a, **k))
    return clock


def _on_cpu() -> Callable[..., Any]:
    from profiler.worker.buffers import Guarded

    real = Guarded.empty
    return lambda shape, dtype, device: real(shape, dtype, "cpu")


def sustain(*variants: tuple[str, FakeVariant]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    plan = clockwork.Plan(SIZE, samples=0, warmup_ms=0, cache="cold", process=0, seed=0)
    cases = Cases(Gemm, {"layout": "nn"}, {"distribution": "normal", "seed": 0}, device="cpu")
    specs: Any = [({"name": name, "dtype": "fp32"}, variant) for name, variant in variants]
    device: Any = FakeDevice()
    watch: Any = FakeWatch()
    sustained.sustain_size(
        plan, specs, Gemm, cases, {"layout": "nn"}, device, watch,
        lambda event, **fields: events.append({"event": event, **fields}),
    )  # fmt: skip
    return events


def test_blocks_rotate_sets_last_half_a_second_and_are_checked_once(clock: Clock) -> None:
    fast, slow = FakeVariant(clock, 2e-3), FakeVariant(clock, 0.276)
    events = sustain(("fast", fast), ("slow", slow))
    samples = [event for event in events if event["event"] == "sample"]
    assert [(row["order"], row["variant"]) for row in samples] == [(0, "fast"), (0, "slow"), (1, "slow"), (1, "fast")]
    for row in samples:
        assert row["launches"] * row["time_ns"] >= 0.5e9
        assert (row["method"], row["cache"], row["power_w"]) == ("sustained", "rotated", 690.0)
        assert (row["throttle"], row["foreign"], row["sm_clock_mhz"]) == ("sw_power_cap", False, 1500.0)
    assert samples[0]["time_ns"] == pytest.approx(2e6)
    assert samples[0]["launches"] == 263
    assert samples[1]["launches"] == 2
    checks = [event for event in events if event["event"] == "check"]
    assert [(row["variant"], row["when"], row["status"]) for row in checks] == [
        ("slow", "during", "ok"), ("fast", "during", "ok"),
    ]  # fmt: skip
    assert fast.bound == fast.closed >= 4  # at least two sets a block, all released
    assert abs(fast.used.count(1) - fast.used.count(2)) < 8


def test_results_that_go_wrong_in_the_long_run_are_found(clock: Clock) -> None:
    events = sustain(("late", FakeVariant(clock, 2e-3, wrong_after=100)))
    checks = [event["status"] for event in events if event["event"] == "check"]
    assert checks == ["wrong_after_timing"]


def test_no_room_for_two_sets_is_no_failure(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **named: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(clockwork, "add_sets", full)
    variant = FakeVariant(clock, 2e-3)
    events = sustain(("big", variant))
    assert [event["event"] for event in events] == ["begin", "unsustained"]
    assert variant.bound == variant.closed == 1


def test_a_ceiling_is_its_work_over_its_best_block(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paces = itertools.cycle([1.0, 0.5, 1.0])
    calls: dict[str, int] = {}

    def kernel(symbol: str) -> Any:
        def call(stream: int, work: int) -> int:
            calls[symbol] = calls.get(symbol, 0) + 1
            clock.now += 1e-3 * next(paces)
            return 801 if symbol == "kl_wgmma" else 0

        return call

    class Library:
        def __init__(self, *args: Any, **named: Any) -> None:
            pass

        def __getattr__(self, symbol: str) -> Any:
            found = kernel(symbol)
            setattr(self, symbol, found)
            return found

    monkeypatch.setattr(ceilings.ctypes, "CDLL", Library)
    monkeypatch.setattr(ceilings, "BUDGET_S", 0.0)
    monkeypatch.setattr(ceilings, "BLOCK_S", 1e-6)  # one launch a block
    monkeypatch.setattr(ceilings, "BUFFER_BYTES", 1 << 16)
    events: list[dict[str, Any]] = []
    device: Any = FakeDevice()
    ceilings.measure("x.so", device, (9, 0), lambda event, **fields: events.append({"event": event, **fields}))
    rows = {event["name"]: event for event in events if event["event"] == "ceiling"}
    assert rows.keys() == {ceiling.name for ceiling in CEILINGS}
    for ceiling in (one for one in CEILINGS if one.symbol != "kl_wgmma"):
        launch = launch_of(ceiling, 4, 1 << 10, 1 << 16)
        assert rows[ceiling.name]["value"] == pytest.approx(work_of(ceiling, launch) / 0.5e-3), ceiling.name
        assert rows[ceiling.name]["clock_mhz"] == 1500.0
    assert rows["wgmma BF16"]["value"] is None
    assert rows["wgmma BF16"]["why"] == "this chip has no such instruction"
    assert calls["kl_copy"] == 2 + ceilings.MINIMUM_BLOCKS


@pytest.mark.parametrize(("gave_up", "ends"), [([False], 1), ([True, False], 2), ([True, True], 2)])
def test_a_stall_of_the_host_costs_a_sample_and_a_launch_that_waits_its_place(
    clock: Clock, gave_up: list[bool], ends: int
) -> None:
    class HeldDevice(FakeDevice):
        answers = iter(gave_up)
        blocks = 0

        def flush(self) -> None:
            clock.now += 1.0

        def block(self) -> None:
            HeldDevice.blocks += 1

        def release(self) -> None:
            pass

        def block_gave_up(self) -> bool:
            return next(self.answers)

    variant = FakeVariant(clock, 1e-3)
    plan = clockwork.Plan(SIZE, samples=1, warmup_ms=0, cache="cold", process=0, seed=0)
    cases = Cases(Gemm, {"layout": "nn"}, {"distribution": "normal", "seed": 0}, device="cpu")
    contender = clockwork.prepare({"name": "a", "dtype": "fp32"}, variant, plan, Gemm, cases, {"layout": "nn"}, 0)  # type: ignore[arg-type]
    device: Any = HeldDevice()
    if all(gave_up):
        with pytest.raises(LaunchError, match="synchronises"):
            clockwork._sample(contender, plan, device)
    else:
        assert clockwork._sample(contender, plan, device)["time_ns"] == pytest.approx(1e6)
    assert HeldDevice.blocks == ends


def test_a_control_is_timed_in_the_rounds_of_the_variants(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(stream: int, work: int) -> int:
        clock.now += 1e-3
        return 0

    class Function:  # ctypes sets attributes on what it calls
        def __init__(self, call: Callable[..., int]) -> None:
            self.call = call

        def __call__(self, *args: Any) -> int:
            return self.call(*args)

    monkeypatch.setattr("profiler.worker.control.ctypes.CDLL", lambda *a, **k: SimpleNamespace(kl_copy=Function(copy)))
    for name in ("flush", "block", "release"):
        monkeypatch.setattr(FakeDevice, name, lambda self: None, raising=False)
    monkeypatch.setattr(FakeDevice, "block_gave_up", lambda self: False, raising=False)
    wanted = {"name": "copy@fp32", "kind": "copy", "contract": "fp32", "bytes": 100_000, "library": "x.so"}
    events: list[dict[str, Any]] = []
    cases = Cases(Gemm, {"layout": "nn"}, {"distribution": "normal", "seed": 0}, device="cpu")
    plan = clockwork.Plan(SIZE, samples=4, warmup_ms=0, cache="cold", process=0, seed=0, controls=(wanted,))
    device: Any = FakeDevice()
    watch: Any = FakeWatch()
    specs: Any = [({"name": "a", "dtype": "fp32"}, FakeVariant(clock, 2e-3))]
    clockwork.time_size(
        plan, specs, Gemm, cases, {"layout": "nn"}, device, watch,
        lambda event, **fields: events.append({"event": event, **fields}),
    )  # fmt: skip
    samples = [(row["order"], row["variant"], round(row["time_ns"])) for row in events if row["event"] == "sample"]
    assert sorted(samples) == [
        (i, name, ns) for i in range(4) for name, ns in (("a", 2_000_000), ("copy@fp32", 1_000_000))
    ]
    (method,) = [row for row in events if row["event"] == "method" and row["variant"] == "copy@fp32"]
    step = BY_NAME["copy"].piece * BY_NAME["copy"].threads
    assert method["moved"] == 2 * -(-50_000 // step) * step  # half of the bytes each way, in whole blocks
    assert {row["variant"] for row in events if row["event"] == "check"} == {"a"}  # a copy is not judged
