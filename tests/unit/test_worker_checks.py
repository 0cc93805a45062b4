"""The worker's side of checks and timing: whose failure is whose, and what one variant may cost another; on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from profiler.problems.gemm import Gemm  # noqa: E402
from profiler.problems.reduce import ReduceMax  # noqa: E402
from profiler.worker import checks, clockwork  # noqa: E402
from profiler.worker.buffers import Guarded  # noqa: E402
from profiler.worker.cases import Cases, WeakCheck  # noqa: E402
from profiler.worker.launchable import Bound, LaunchError  # noqa: E402

DIMS = {"M": 9, "N": 8, "K": 7}
OPTIONS = {"layout": "nn"}
JOB = {"variant": "mine", "size": "M=9,N=8,K=7", "dims": DIMS, "seed": 1, "when": "before"}
SPEC = {"name": "mine", "dtype": "fp32"}


class Entered:
    """A context manager that does nothing, in place of ``torch.cuda.stream``."""

    def __init__(self, stream: Any) -> None:
        Entered.last = stream

    last: Any = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, *args: object) -> None:
        return None


class FakeDevice:
    blocking = "spin kernel released by the host"

    def __init__(self) -> None:
        self.stream = "stream"
        self.side = SimpleNamespace(synchronize=lambda: None)
        self.held = False

    def block(self) -> None:
        self.held = True

    def release(self) -> None:
        self.held = False

    def block_gave_up(self) -> bool:
        return False

    def flush(self) -> None:
        pass

    def stamp(self, which: int) -> None:
        pass


class FakeVariant:
    """Calls a function with A, B and C; counts what is bound and closed."""

    def __init__(self, work: Callable[[Any, Any, Any], None]) -> None:
        self.work = work
        self.bound = self.closed = 0

    def bind(self, inputs: Any, outputs: Any, dims: Any) -> Bound:
        self.bound += 1

        def close() -> None:
            self.closed += 1

        return Bound(lambda: self.work(inputs["A"], inputs["B"], outputs["C"]), lambda: dict(outputs), close)


def multiply(a: Any, b: Any, c: Any) -> None:
    torch.matmul(a, b, out=c)


def raising(error: Exception) -> Callable[[Any, Any, Any], None]:
    def work(a: Any, b: Any, c: Any) -> None:
        raise error

    return work


@pytest.fixture(autouse=True)
def _cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_stream() -> None:
        raise AssertionError("torch hands out 32 streams in turn: a new one may be the held one")

    real = Guarded.empty
    monkeypatch.setattr("profiler.worker.checks.Guarded.empty", lambda shape, dtype, device: real(shape, dtype, "cpu"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "stream", Entered)
    monkeypatch.setattr(torch.cuda, "Stream", no_stream)
    event = SimpleNamespace(record=lambda: None, elapsed_time=lambda other: 1.0)
    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: event)
    monkeypatch.setattr(checks, "is_context_lost", lambda: False)
    monkeypatch.setattr(clockwork, "is_context_lost", lambda: False)


def make_cases(problem: type[Gemm] = Gemm) -> Cases:
    return Cases(problem, OPTIONS, {"distribution": "normal"}, device="cpu")


def check(variant: Any, cases: Cases, baseline: Any = None, **job: Any) -> dict[str, Any]:
    device: Any = FakeDevice()
    return checks.run_check(SPEC, variant, Gemm, cases, {**JOB, **job}, OPTIONS, device, baseline)


def test_a_wrong_variant_that_writes_into_its_input_leaves_the_others_theirs() -> None:
    cases = make_cases()
    row = check(FakeVariant(lambda a, b, c: a.zero_()), cases)
    assert row["status"] == "wrong_result"
    assert row["reason"] == "C has 72 NaN (never written, or computed so) of 72; changes its input A"
    assert check(FakeVariant(multiply), cases)["status"] == "ok"


def test_a_right_variant_that_writes_into_its_input_is_wrong() -> None:
    def work(a: Any, b: Any, c: Any) -> None:
        multiply(a, b, c)
        b.add_(1)

    row = check(FakeVariant(work), make_cases())
    assert (row["status"], row["reason"]) == ("wrong_result", "changes its input B")


@pytest.mark.parametrize("error", [LaunchError("launch returned CUDA error 9"), RuntimeError("shapes"), ValueError()])
def test_a_baseline_that_cannot_be_launched_fails_nobody_else(error: Exception) -> None:
    cases = make_cases()
    baseline = FakeVariant(raising(error))
    for _ in range(2):
        row = check(FakeVariant(multiply), cases, baseline)
        assert (row["status"], row["baseline_error"]) == ("ok", None)
    assert baseline.bound == baseline.closed == 1
    assert check(FakeVariant(multiply), make_cases(), FakeVariant(multiply))["baseline_error"] is not None


@pytest.mark.parametrize(("lost", "status"), [(False, "launch_failed"), (True, "crashed")])
def test_a_cuda_error_is_a_crash_only_where_the_context_is_lost(
    monkeypatch: pytest.MonkeyPatch, lost: bool, status: str
) -> None:
    monkeypatch.setattr(checks, "is_context_lost", lambda: lost)
    error = RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling cublasGemmEx")
    assert check(FakeVariant(raising(error)), make_cases())["status"] == status


def test_the_look_at_a_held_stream_takes_no_new_stream_and_always_lets_go() -> None:
    calls = []

    def work(a: Any, b: Any, c: Any) -> None:
        calls.append(a)
        multiply(a, b, c)

    row = check(FakeVariant(work), make_cases(), stray=True)
    assert row["reason"] == "launch works on another stream than the one it was given"  # nothing holds the CPU
    assert len(calls) == 2

    device: Any = FakeDevice()
    bound = Bound(lambda: multiply_fails(), dict)
    with pytest.raises(LaunchError):
        checks._stray(bound, checks.Buffers({}, {}), device, checks.Verdict("ok"))
    assert not device.held


def multiply_fails() -> None:
    raise LaunchError("launch returned CUDA error 1")


def test_cases_give_way_where_memory_is_short() -> None:
    class Large(Gemm):
        kept = 0

        @classmethod
        def inputs(cls, *args: Any) -> Any:
            if len(cases._made) > cls.kept:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().inputs(*args)

    cases = make_cases(Large)
    first = cases.get("fp32", DIMS, 1)
    assert cases.get("fp32", DIMS, 2) is not first
    assert len(cases._made) == 1
    Large.kept = -1
    with pytest.raises(torch.OutOfMemoryError):
        cases.get("fp32", DIMS, 3)


def test_memory_that_other_cases_hold_fails_no_variant() -> None:
    cases = make_cases()
    cases.get("fp32", DIMS, 7)

    def work(a: Any, b: Any, c: Any) -> None:
        if len(cases._made) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        multiply(a, b, c)

    assert check(FakeVariant(work), cases)["status"] == "ok"
    row = check(FakeVariant(raising(torch.OutOfMemoryError("CUDA out of memory. Tried"))), cases)
    assert (row["status"], row["reason"]) == ("launch_failed", "out of device memory: CUDA out of memory. Tried")


# -- timing


@pytest.mark.parametrize(
    ("error", "lost", "status", "reason"),
    [
        (LaunchError("launch returned CUDA error 9"), False, "launch_failed", "launch returned CUDA error 9"),
        (ValueError("no such tile"), False, "launch_failed", "ValueError: no such tile"),
        (RuntimeError("CUDA error: invalid argument\nmore"), False, "launch_failed", "CUDA error: invalid argument"),
        (RuntimeError("CUDA error: an illegal address"), True, "crashed", "CUDA error: an illegal address"),
        (WeakCheck("zeros would pass"), False, "wrong_result", "not verified: zeros would pass"),
    ],
)
def test_whatever_a_variant_raises_while_timed_is_its_own_failure(
    monkeypatch: pytest.MonkeyPatch, error: Exception, lost: bool, status: str, reason: str
) -> None:
    monkeypatch.setattr(clockwork, "is_context_lost", lambda: lost)
    good, bad = FakeVariant(multiply), FakeVariant(raising(error))
    plan = clockwork.Plan(DIMS, samples=1, warmup_ms=0, cache="cold", process=0, seed=0)
    device: Any = FakeDevice()
    specs: Any = [({"name": "good", "dtype": "fp32"}, good), ({"name": "bad", "dtype": "fp32"}, bad)]
    with pytest.raises(clockwork.Failed) as caught:
        clockwork.time_size(
            plan, specs, Gemm, make_cases(), OPTIONS, device, SimpleNamespace(), lambda event, **fields: None
        )
    failed = caught.value
    assert (failed.name, failed.status, failed.reason, failed.fatal) == ("bad", status, reason, lost)
    assert (good.closed, bad.closed) == ((0, 0) if lost else (1, 1))  # a lost context is left alone


@pytest.mark.parametrize(
    ("methods", "expected"), [({}, "graph"), ({"a": "single"}, "single"), ({"a": "graph"}, "graph")]
)
@pytest.mark.parametrize("estimate_ns", [5e3, 20e3])
def test_a_method_once_chosen_holds_in_every_process(
    monkeypatch: pytest.MonkeyPatch, methods: dict[str, str], expected: str, estimate_ns: float
) -> None:
    monkeypatch.setattr(clockwork, "_sample", lambda *args: {"time_ns": estimate_ns})
    monkeypatch.setattr(clockwork, "add_sets", lambda *args, **named: None)
    monkeypatch.setattr(clockwork, "capture", lambda *args: True)
    plan = clockwork.Plan(DIMS, samples=3, warmup_ms=0, cache="cold", process=1, seed=0, methods=methods)
    contender: Any = clockwork.Contender("a", "fp32", None, [(checks.Buffers({}, {}), None)])  # type: ignore[arg-type, list-item]
    clockwork._choose_method(contender, plan, None, Gemm, None, OPTIONS, 0)  # type: ignore[arg-type]
    assert contender.method == ("single" if not methods and estimate_ns > 10e3 else expected)


class RowMax(FakeVariant):
    """Calls a function with x and y."""

    def bind(self, inputs: Any, outputs: Any, dims: Any) -> Bound:
        return Bound(lambda: self.work(inputs["x"], outputs["y"], None), lambda: dict(outputs))


def only_numbers(x: Any, y: Any, _: Any) -> None:
    found = x.amax(dim=1)
    y[~torch.isnan(found)] = found[~torch.isnan(found)]  # where NaN belongs, whatever was there stays


@pytest.mark.parametrize(
    ("work", "status", "words"),
    [
        (lambda x, y, _: torch.amax(x, dim=1, out=y), "ok", "with_nan inputs"),
        (only_numbers, "wrong_result", "with_nan inputs: y[0] is "),
        (lambda x, y, _: y.copy_(x.nan_to_num(-9.0).amax(dim=1)), "wrong_result", "the reference nan"),
        (lambda x, y, _: y.fill_(float("nan")), "wrong_result", "y has 4 NaN (never written, or computed so) of 8"),
    ],
    ids=["right", "unwritten", "passed over", "everywhere"],
)
def test_a_nan_that_belongs_must_have_been_written(work: Any, status: str, words: str) -> None:
    options = {"op": "max"}
    cases = Cases(ReduceMax, options, {"distribution": "normal"}, device="cpu")
    job = {"variant": "a", "dims": {"M": 8, "N": 50}, "when": "before", "seed": 11, "distribution": "with_nan"}
    device: Any = FakeDevice()
    row = checks.run_check(SPEC, RowMax(work), ReduceMax, cases, job, options, device, None)
    assert row["status"] == status
    assert words in row["reason"]
