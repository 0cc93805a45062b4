"""Both sides of a comparison in one worker: the same buffers, method, number of samples; turn by turn, on the CPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from profiler.problems.gemm import Gemm  # noqa: E402
from profiler.worker import checks, clockwork  # noqa: E402
from profiler.worker.cases import Cases  # noqa: E402
from profiler.worker.launchable import Bound  # noqa: E402

DIMS = {"M": 8, "N": 8, "K": 8}
OPTIONS = {"layout": "nn"}
BEFORE, AFTER = "before:a", "after:a"


class Variant:
    """Multiplies, and remembers whose memory it wrote."""

    def __init__(self) -> None:
        self.bound: list[int] = []
        self.closed = 0

    def bind(self, inputs: Any, outputs: Any, dims: Any) -> Bound:
        self.bound.append(outputs["C"].data_ptr())

        def close() -> None:
            self.closed += 1

        return Bound(
            lambda: torch.matmul(inputs["A"], inputs["B"], out=outputs["C"]), lambda: dict(outputs), close
        )  # fmt: skip


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that times two variants and returns them with the events; a sample is the time it is told."""
    times: dict[str, float] = {}

    class Stream:
        def __init__(self, *args: Any) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *args: object) -> None: ...

    def sample(contender: Any, plan: Any, device: Any, judged: int = 0) -> dict[str, Any]:
        contender.sets[0][1].launch()
        return {"time_ns": times[contender.name], "sm_clock_mhz": 1980.0}

    def make(problem: Any, case: Any, contract: str, dims: Any, options: Any) -> checks.Buffers:
        out = SimpleNamespace(tensor=torch.empty(8, 8), damage=lambda: "", poison=lambda: None)
        return checks.Buffers(dict(case.inputs), {"C": out}, {})  # type: ignore[dict-item]

    def capture(contender: Any, device: Any) -> bool:
        contender.graph = object()
        return True

    monkeypatch.setattr(torch.cuda, "stream", Stream)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(clockwork, "_sample", sample)
    monkeypatch.setattr(clockwork, "make_buffers", make)
    monkeypatch.setattr(clockwork, "capture", capture)

    def run(shared: dict[str, str], **given: float) -> tuple[dict[str, Variant], list[dict[str, Any]]]:
        times.update({BEFORE: given["before"], AFTER: given["after"]})
        variants = {BEFORE: Variant(), AFTER: Variant()}
        events: list[dict[str, Any]] = []
        plan = clockwork.Plan(DIMS, samples=40, warmup_ms=0, cache="cold", process=0, seed=0, shared=shared)
        specs: Any = [({"name": name, "dtype": "fp32"}, variant) for name, variant in variants.items()]
        device: Any = SimpleNamespace(stream="stream", l2_bytes=512)
        watch: Any = SimpleNamespace(
            state=SimpleNamespace(temperature_c=40.0, power_w=200.0, throttle="", foreign=False)
        )
        cases = Cases(Gemm, OPTIONS, {"seed": 0}, device="cpu")
        contenders = clockwork.time_size(
            plan, specs, Gemm, cases, OPTIONS, device, watch, lambda event, **f: events.append({"event": event, **f})
        )
        clockwork.close(contenders)
        return variants, events

    return run


def methods(events: list[dict[str, Any]]) -> dict[str, tuple[str, int, int]]:
    return {e["variant"]: (e["method"], e["samples"], e["sets"]) for e in events if e["event"] == "method"}


def test_two_sides_work_on_the_same_buffers(timed: Any) -> None:
    variants, events = timed({AFTER: BEFORE}, before=2e4, after=2e4)
    assert variants[AFTER].bound == variants[BEFORE].bound
    samples = [event["variant"] for event in events if event["event"] == "sample"]
    assert len(samples) == 80
    assert [set(samples[i : i + 2]) for i in range(0, 80, 2)] == [{BEFORE, AFTER}] * 40
    firsts = samples[::2]
    assert firsts.count(BEFORE) == 20
    assert [e["status"] for e in events if e["event"] == "check"] == ["ok"] * 4
    assert (variants[AFTER].closed, variants[BEFORE].closed) == (1, 1)


def test_without_sharing_each_has_its_own(timed: Any) -> None:
    variants, _ = timed({}, before=2e4, after=2e4)
    assert variants[AFTER].bound != variants[BEFORE].bound


def test_the_method_is_the_leaders_on_either_side_of_the_limit(timed: Any) -> None:
    _, events = timed({AFTER: BEFORE}, before=9.9e3, after=10.1e3)
    found = methods(events)
    assert found[BEFORE][0] == found[AFTER][0] == "graph"
    assert found[BEFORE][1:] == found[AFTER][1:]
    assert methods(timed({AFTER: BEFORE}, before=10.1e3, after=9.9e3)[1])[AFTER][0] == "single"


def test_rotated_buffers_are_the_same_too(timed: Any) -> None:
    variants, events = timed({AFTER: BEFORE}, before=5e3, after=5e3)
    assert methods(events)[AFTER][2] > 1
    assert variants[AFTER].bound == variants[BEFORE].bound


def test_a_slow_pair_gets_as_many_samples_as_its_leader(timed: Any) -> None:
    _, events = timed({AFTER: BEFORE}, before=1e8, after=2e8)
    found = methods(events)
    assert found[BEFORE][1] == found[AFTER][1] == 20
