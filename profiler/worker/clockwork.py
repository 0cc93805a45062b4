"""Timing on the device: cold or warm, interleaved, every raw sample kept.

A single launch is timed between two device events, behind a kernel that holds the stream until the host has enqueued
everything, after a flush that ends by reading a clean buffer. Kernels too short for that (below ``GRAPH_BELOW_NS``) are
timed as a captured graph whose nodes rotate buffer sets larger together than L2. The method is chosen once per variant
and size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from profiler.problem import Problem
from profiler.sizes import size_key
from profiler.worker.abba import round_order
from profiler.worker.cases import Cases, WeakCheck
from profiler.worker.checks import Buffers, Verdict, judge_outputs, make_buffers
from profiler.worker.control import ControlKernel
from profiler.worker.device import Device, is_context_lost
from profiler.worker.launchable import Bound, CudaVariant, LaunchError, PythonVariant
from profiler.worker.nvml import CardWatch

#: Below this, launch and event overheads are a visible share of a single timing.
GRAPH_BELOW_NS = 10_000.0
#: A slow variant gets fewer samples: as many as fit into this time, but never fewer than the minimum.
SAMPLE_BUDGET_NS = 2.0e9
MINIMUM_SAMPLES = 8
GRAPH_NODES = 64
_ROTATE_L2_MULTIPLE = 3
TIMING_SEED_OFFSET = 1000

Emit = Callable[..., None]


@dataclass
class Contender:
    """One variant at one size, ready to be timed."""

    name: str
    contract: str
    variant: CudaVariant | PythonVariant | None  #: None: a control
    sets: list[tuple[Buffers, Bound]]
    method: str = "single"
    launches: int = 1
    estimate_ns: float = 0.0
    samples: int = 0
    graph: torch.cuda.CUDAGraph | None = None
    checked_rounds: dict[int, int] = field(default_factory=dict)  #: round -> buffer set whose outputs are judged
    control: ControlKernel | None = None  #: what it is instead of a variant


@dataclass(frozen=True)
class Plan:
    """How to time one size."""

    dims: Mapping[str, int]
    samples: int
    warmup_ms: int
    cache: str
    process: int
    seed: int
    methods: Mapping[str, str] = field(default_factory=dict)  #: by variant, as an earlier process has chosen
    controls: Sequence[Mapping[str, Any]] = ()  #: name, kind, bytes and library of each control (profiler.controls)
    #: By variant, the one whose buffers, method and number of samples it takes: the other side of a comparison.
    shared: Mapping[str, str] = field(default_factory=dict)


class Failed(Exception):
    """A contender failed while it was timed: name, status, reason, and whether the context is lost."""

    def __init__(self, name: str, status: str, reason: str, *, fatal: bool) -> None:
        super().__init__(reason)
        self.name, self.status, self.reason, self.fatal = name, status, reason, fatal


def time_size(
    plan: Plan,
    variants: Sequence[tuple[Mapping[str, Any], CudaVariant | PythonVariant]],
    problem: type[Problem],
    cases: Cases,
    options: Mapping[str, str],
    device: Device,
    watch: CardWatch,
    emit: Emit,
) -> list[Contender]:
    """Time all variants at one size, interleaved in shuffled order; emit ``method``, ``sample`` and ``check`` events.

    Raises :class:`Failed` for the first contender that fails; what was emitted until then is to be dropped by the
    caller, who starts again without it, so that samples stay interleaved.
    """
    seed = plan.seed + TIMING_SEED_OFFSET
    key = size_key(plan.dims)
    contenders: list[Contender] = []
    with torch.cuda.stream(device.stream), closing_on_failure(contenders):
        for spec, variant in variants:
            emit("begin", variant=spec["name"], size=key, what="prepare")
            leader = _leader(contenders, plan, spec["name"])
            with blame(spec["name"]):
                contenders.append(prepare(spec, variant, plan, problem, cases, options, seed, leader))
        for wanted in plan.controls:
            emit("begin", variant=wanted["name"], size=key, what="prepare")
            with blame(wanted["name"]):
                contenders.append(prepare_control(wanted, device))
        for contender in contenders:
            emit("begin", variant=contender.name, size=key, what="estimate")
            with blame(contender.name):
                leader = _leader(contenders, plan, contender.name)
                _choose_method(contender, plan, device, problem, cases, options, seed, leader)
            emit(
                "method", variant=contender.name, size=key, method=contender.method, cache=plan.cache,
                launches=contender.launches, sets=len(contender.sets), samples=contender.samples,
                estimate_ns=contender.estimate_ns,
                **({"moved": contender.control.moved} if contender.control is not None else {}),
            )  # fmt: skip
        _warm_up(contenders, plan, device, emit, key)
        named = {contender.name: contender for contender in contenders}
        for round_index in range(plan.samples):
            for name in round_order(list(named), plan.shared, seed, plan.process, round_index):
                contender = named[name]
                if not _due(contender, round_index, plan.samples):
                    continue
                emit("begin", variant=contender.name, size=key, what="time")
                with blame(contender.name):
                    judged = contender.checked_rounds.get(round_index)
                    row = _sample(contender, plan, device, judged or 0)
                    if judged is not None:
                        check_timed(contender, problem, cases, plan, seed, emit, key, judged)
                state = watch.state
                emit(
                    "sample", variant=contender.name, size=key, process=plan.process, order=round_index,
                    method=contender.method, cache=plan.cache, launches=contender.launches,
                    temperature_c=state.temperature_c, power_w=state.power_w, throttle=state.throttle,
                    foreign=state.foreign, **row,
                )  # fmt: skip
    return contenders


def close(contenders: Sequence[Contender]) -> None:
    """Release plans and graphs."""
    for contender in contenders:
        contender.graph = None
        for _, bound in contender.sets:
            bound.close()


@contextmanager
def closing_on_failure(contenders: Sequence[Contender]) -> Iterator[None]:
    """Release what the contenders hold when one fails; not on a lost context: it could hang, and the worker ends."""
    try:
        yield
    except Failed as failed:
        if not failed.fatal:
            torch.cuda.synchronize()
            close(contenders)
        raise


def prepare(
    spec: Mapping[str, Any],
    variant: CudaVariant | PythonVariant,
    plan: Plan,
    problem: type[Problem],
    cases: Cases,
    options: Mapping[str, str],
    seed: int,
    leader: Contender | None = None,
) -> Contender:
    """Return a variant bound to one set of buffers, its own or its leader's, and launched twice."""
    contract = spec["dtype"]
    case = cases.get(contract, plan.dims, seed)
    if leader is not None and leader.contract == contract:
        buffers = leader.sets[0][0]
    else:
        buffers = make_buffers(problem, case, contract, plan.dims, options)
    bound = variant.bind(buffers.inputs, buffers.tensors(), plan.dims)
    try:
        for _ in range(2):  # modules load, libraries choose their algorithm, allocators grow: never under a held stream
            buffers.restore()
            bound.launch()
            torch.cuda.synchronize()
    except Exception:
        if not is_context_lost():
            bound.close()
        raise
    return Contender(spec["name"], contract, variant, [(buffers, bound)])


def prepare_control(wanted: Mapping[str, Any], device: Device) -> Contender:
    """Return a control with one set of buffers, launched twice."""
    control = ControlKernel(wanted, device)
    made = control.new_set()
    for _ in range(2):
        made[1].launch()
    torch.cuda.synchronize()
    return Contender(wanted["name"], wanted["contract"], None, [made], control=control)


def _choose_method(
    contender: Contender,
    plan: Plan,
    device: Device,
    problem: type[Problem],
    cases: Cases,
    options: Mapping[str, str],
    seed: int,
    leader: Contender | None = None,
) -> None:
    chosen = plan.methods.get(contender.name) if leader is None else leader.method
    tries = 3 if chosen is None else 1  # an outlier must not choose the method; known, only the pace is wanted
    times = [_sample(contender, plan, device)["time_ns"] or 0.0 for _ in range(tries)]
    contender.estimate_ns = sorted(times)[tries // 2]
    contender.samples = max(MINIMUM_SAMPLES, min(plan.samples, int(SAMPLE_BUDGET_NS / max(contender.estimate_ns, 1.0))))
    contender.samples = min(contender.samples, plan.samples) if leader is None else leader.samples
    single = contender.estimate_ns >= GRAPH_BELOW_NS if chosen is None else chosen == "single"
    if not single and not contender.sets[0][0].originals:
        if leader is not None and contender.variant is not None and leader.sets[0][0] is contender.sets[0][0]:
            for buffers, _ in leader.sets[1:]:
                contender.sets.append((buffers, contender.variant.bind(buffers.inputs, buffers.tensors(), plan.dims)))
                contender.sets[-1][1].launch()
            torch.cuda.synchronize()
        else:
            add_sets(contender, plan, device, problem, cases, options, seed, least=2 if plan.cache == "cold" else 1)
        if capture(contender, device):
            contender.method, contender.launches = "graph", GRAPH_NODES
    taken = [r for r in range(plan.samples) if _due(contender, r, plan.samples)]
    if taken and contender.control is None:  # the first buffer set and the last that the samples write
        last = len(contender.sets) - 1 if contender.graph is not None else 0
        contender.checked_rounds = {taken[len(taken) // 2]: 0, taken[-1]: last}


def add_sets(
    contender: Contender,
    plan: Plan,
    device: Device,
    problem: type[Problem],
    cases: Cases,
    options: Mapping[str, str],
    seed: int,
    *,
    least: int,
) -> None:
    """Give a contender buffer sets to rotate, larger together than L2; only its own one when ``least`` is one."""
    first = contender.sets[0][0]
    set_bytes = sum(t.numel() * t.element_size() for t in (*first.tensors().values(), *first.inputs.values()))
    set_bytes = contender.control.set_bytes if contender.control is not None else max(1, set_bytes)
    wanted = min(GRAPH_NODES, math.ceil(_ROTATE_L2_MULTIPLE * device.l2_bytes / set_bytes)) if least > 1 else 1
    case = None if contender.variant is None else cases.get(contender.contract, plan.dims, seed)
    while len(contender.sets) < max(least, wanted):
        if contender.control is not None:
            contender.sets.append(contender.control.new_set())
            contender.sets[-1][1].launch()
            continue
        assert case is not None
        assert contender.variant is not None
        buffers = make_buffers(problem, case, contender.contract, plan.dims, options)
        buffers.inputs = {name: tensor.clone() for name, tensor in case.inputs.items()}
        bound = contender.variant.bind(buffers.inputs, buffers.tensors(), plan.dims)
        bound.launch()
        contender.sets.append((buffers, bound))
    torch.cuda.synchronize()


def capture(contender: Contender, device: Device) -> bool:
    """Capture launches over all buffer sets in a graph; False when the variant cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph, stream=device.stream):
            for node in range(GRAPH_NODES):
                contender.sets[node % len(contender.sets)][1].launch()
    except (RuntimeError, LaunchError):
        torch.cuda.synchronize()
        return False  # single launches it is, and the method says so
    contender.graph = graph
    return True


def _warm_up(contenders: Sequence[Contender], plan: Plan, device: Device, emit: Emit, key: str) -> None:
    deadline = time.monotonic() + plan.warmup_ms / 1000.0
    while True:
        for contender in contenders:
            emit("begin", variant=contender.name, size=key, what="warm up")
            with blame(contender.name):
                _sample(contender, plan, device)
            if time.monotonic() >= deadline:
                return
        if not contenders:
            return


def _sample(contender: Contender, plan: Plan, device: Device, judged: int = 0) -> dict[str, float | None]:
    """Return one sample; the outputs of buffer set ``judged`` are poisoned before it.

    A launch that makes the host wait runs into the end of the kernel that holds the stream; so does a host that was
    stopped for as long by something else. Only what happens twice in a row is the launch's own doing.
    """
    for _ in range(2):
        total_ns = _timed_launch(contender, plan, device, judged)
        if not device.block_gave_up():
            return {"time_ns": total_ns / contender.launches, "sm_clock_mhz": device.sm_clock_mhz()}
    raise LaunchError("launch synchronises (or waits for the device); it must only enqueue")


def _timed_launch(contender: Contender, plan: Plan, device: Device, judged: int) -> float:
    buffers, bound = contender.sets[0]
    for name, guarded in contender.sets[judged][0].outputs.items():
        if name not in buffers.originals:
            guarded.poison()  # so that a checked timed launch has to write its own result
    buffers.restore()
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    if plan.cache == "cold":
        device.flush()
    elif contender.graph is None:
        bound.launch()  # leaves in L2 what the launch itself leaves there
        buffers.restore()
    device.block()
    try:
        device.stamp(0)
        start.record()
        if contender.graph is not None:
            contender.graph.replay()
        else:
            bound.launch()
        end.record()
        device.stamp(1)
    finally:
        device.release()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e6


def check_timed(
    contender: Contender,
    problem: type[Problem],
    cases: Cases,
    plan: Plan,
    seed: int,
    emit: Emit,
    key: str,
    judged: int = 0,
) -> None:
    """Judge the outputs that the timed launch just left in one of the buffer sets."""
    case = cases.get(contender.contract, plan.dims, seed)
    buffers, bound = contender.sets[judged]
    verdict = judge_outputs(problem, case, bound, buffers)
    emit(
        "check", variant=contender.name, size=key, when="during", seed=seed, status=_timed_status(verdict),
        reason=verdict.reason, error=verdict.error, tolerance=verdict.tolerance,
        baseline_error=verdict.baseline_error,
    )  # fmt: skip


def _timed_status(verdict: Verdict) -> str:
    return "wrong_after_timing" if verdict.status == "wrong_result" else verdict.status


def _leader(contenders: Sequence[Contender], plan: Plan, name: str) -> Contender | None:
    """Return the contender whose buffers a variant takes; None when it has none, or that one has failed."""
    wanted = plan.shared.get(name)
    return None if wanted is None else next((one for one in contenders if one.name == wanted), None)


def _due(contender: Contender, round_index: int, rounds: int) -> bool:
    """Whether a contender with fewer samples than rounds is timed in this round; its samples spread evenly."""
    return (round_index + 1) * contender.samples // rounds > round_index * contender.samples // rounds


class blame:
    """Turns errors inside into :class:`Failed` of the named contender."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, LaunchError):
            raise Failed(self._name, "launch_failed", str(error), fatal=False) from error
        if isinstance(error, WeakCheck):
            raise Failed(self._name, "wrong_result", f"not verified: {error}", fatal=False) from error
        if isinstance(error, Exception):  # a Python variant may raise anything
            lines = str(error).strip().splitlines()
            reason = lines[0] if lines else type(error).__name__
            if not isinstance(error, RuntimeError):
                reason = f"{type(error).__name__}: {reason}"
            fatal = is_context_lost()
            raise Failed(self._name, "crashed" if fatal else "launch_failed", reason, fatal=fatal) from error
