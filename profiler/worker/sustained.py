"""The sustained regime: blocks of one variant back to back over rotated buffers, in ABBA order among the variants.

A card that multiplies for half a second reaches its power cap and lowers its clock; single launches with a pause
between them never see that. The two regimes rank tensor kernels differently, so these times stand beside the ranked
ones and are never mixed with them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from profiler.problem import Problem
from profiler.sizes import size_key
from profiler.worker import clockwork
from profiler.worker.abba import BLOCK_S, LEAD_S, MARGIN, block_order, launches_for
from profiler.worker.cases import Cases
from profiler.worker.clockwork import Contender, Emit, Plan
from profiler.worker.device import Device
from profiler.worker.launchable import CudaVariant, PythonVariant
from profiler.worker.nvml import CardState, CardWatch

#: Below this, launches come from a captured graph: dispatch from Python must not become the rate.
GRAPH_BELOW_S = 0.5e-3
_POLL_S = 0.02


def sustain_size(
    plan: Plan,
    variants: Sequence[tuple[Mapping[str, Any], CudaVariant | PythonVariant]],
    problem: type[Problem],
    cases: Cases,
    options: Mapping[str, str],
    device: Device,
    watch: CardWatch,
    emit: Emit,
) -> list[Contender]:
    """Time two blocks of every variant; emit a ``sample`` each, and one ``check`` of what the last block left.

    Buffers live for one block only, so that memory holds one variant's sets at a time. Raises
    :class:`clockwork.Failed` like ``time_size``; nothing is left to close, and the list returned is empty.
    """
    seed, key = plan.seed + clockwork.TIMING_SEED_OFFSET, size_key(plan.dims)
    named = {str(spec["name"]): (spec, variant) for spec, variant in variants}
    without_room: set[str] = set()
    with torch.cuda.stream(device.stream):
        for round_index, name in block_order(list(named)):
            if name in without_room:
                continue
            emit("begin", variant=name, size=key, what="sustained block")
            held: list[Contender] = []
            with clockwork.blame(name):
                try:
                    held.append(clockwork.prepare(*named[name], plan, problem, cases, options, seed))
                    clockwork.add_sets(held[0], plan, device, problem, cases, options, seed, least=2)
                    row = _block(held[0], device, watch, emit, key)
                    if round_index:
                        clockwork.check_timed(held[0], problem, cases, plan, seed, emit, key)
                except torch.OutOfMemoryError:  # it was measured with one set; that stands
                    without_room.add(name)
                    emit("unsustained", variant=name, size=key, reason="two sets of its buffers do not fit in memory")
                    continue
                finally:
                    clockwork.close(held)
                    held.clear()
            emit(
                "sample", variant=name, size=key, process=plan.process, order=round_index, method="sustained",
                cache="rotated", **row,
            )  # fmt: skip
    return []


def _block(contender: Contender, device: Device, watch: CardWatch, emit: Emit, key: str) -> dict[str, Any]:
    """Run a lead-in and a block; return the block's columns of ``samples``."""
    once = _timed(contender, device, 1)
    if once < GRAPH_BELOW_S and clockwork.capture(contender, device):
        once = _timed(contender, device, clockwork.GRAPH_NODES)
    unit = clockwork.GRAPH_NODES if contender.graph is not None else 1
    energy, began = watch.energy_j(), time.monotonic()
    emit("begin", variant=contender.name, size=key, what="sustained lead-in")
    settled = _timed(contender, device, launches_for(LEAD_S, once, unit))
    emit("begin", variant=contender.name, size=key, what="sustained block")
    buffers = contender.sets[0][0]
    for name, guarded in buffers.outputs.items():
        if name not in buffers.originals:
            guarded.poison()  # the block has to write its own results
    launches = launches_for(BLOCK_S * MARGIN, settled, unit)
    states: list[CardState] = []
    seconds = _timed(contender, device, launches, watch, states)
    spent, after = time.monotonic() - began, watch.energy_j()
    power = states[-1].power_w if energy is None or after is None else (after - energy) / spent
    throttles = [state.throttle for state in states if state.throttle is not None]
    return {
        "launches": launches,
        "time_ns": seconds * 1e9,
        "sm_clock_mhz": device.sm_clock_mhz(),
        "temperature_c": states[-1].temperature_c,
        "power_w": power,
        "throttle": ",".join(sorted({word for text in throttles for word in text.split(",") if word}))
        if throttles
        else None,
        "foreign": any(state.foreign for state in states) if states[-1].foreign is not None else None,
    }


def _timed(
    contender: Contender,
    device: Device,
    launches: int,
    watch: CardWatch | None = None,
    states: list[CardState] | None = None,
) -> float:
    """Return the seconds of one launch over ``launches`` of them back to back, between two stamps."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    device.stamp(0)
    start.record()
    if contender.graph is not None:
        for _ in range(math.ceil(launches / clockwork.GRAPH_NODES)):
            contender.graph.replay()
    else:
        for index in range(launches):
            contender.sets[index % len(contender.sets)][1].launch()
    end.record()
    device.stamp(1)
    while watch is not None and states is not None:
        states.append(watch.state)
        if end.query():
            break
        time.sleep(_POLL_S)
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e-3 / launches
