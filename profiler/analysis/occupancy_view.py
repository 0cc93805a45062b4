"""A kernel's occupancy: what its resources allow, which of them is short, what was resident, and the curve around it.

Counters come first; the model of ``profiler/occupancy.py`` gives the curve, and stands in where nothing was counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from profiler import occupancy
from profiler.analysis import formatting
from profiler.analysis.kernels import Kernel
from profiler.analysis.rundata import Value

Axis = Literal["registers", "block_size", "shared_bytes"]

#: Resource -> the counter of the blocks that it allows, in the order in which they are shown.
RESOURCES: tuple[tuple[occupancy.Limiter, str], ...] = (
    ("registers", "occupancy_limit_registers"),
    ("shared memory", "occupancy_limit_shared_memory"),
    ("warps", "occupancy_limit_warps"),
    ("blocks", "occupancy_limit_blocks"),
    ("barriers", "occupancy_limit_barriers"),
)
CAVEAT = (
    "Occupancy is a means: the best matrix products run at 25 to 50 %, and one block per SM is normal on Hopper. It is "
    "short only where the stalls say that nothing hides the latency."
)
#: Resident warps below this share of what the resources allow: blocks are missing or end at different times.
_SHORT_OF_ALLOWED = 0.8


@dataclass(frozen=True)
class Resource:
    """Blocks per SM that one resource allows: counted (by the driver's configuration) and by the model."""

    name: str
    uses: str  #: what the kernel asks of it
    counted: Value
    model: int | None
    limits: bool


@dataclass(frozen=True)
class Curve:
    """Occupancy along one resource, the others as they are; ``here`` is the kernel, ``gain`` the next better value."""

    axis: Axis
    points: tuple[tuple[int, float], ...]  #: value, occupancy 0 to 1
    here: int
    share: float  #: at ``here``
    gain: tuple[int, float] | None


@dataclass(frozen=True)
class OccupancyView:
    """What is known of a kernel's occupancy; shares 0 to 1."""

    theoretical: Value  #: %
    achieved: Value  #: %
    resident: Value  #: blocks per SM
    warps: int | None
    max_warps: int | None
    limiters: tuple[str, ...]
    resources: tuple[Resource, ...]
    curves: tuple[Curve, ...]
    why: str  #: why there is no curve
    sentence: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Shape:
    """What a kernel asks of an SM."""

    block: int
    registers: int
    shared: int
    barriers: int


def occupancy_view(kernel: Kernel) -> OccupancyView:
    """Return the occupancy of a kernel, by counters, and by the model where they are missing."""
    sm = _sm(kernel)
    shape, why = _shape(kernel)
    if sm is None:
        why = "the limits of this GPU are not in the table of the model"
    fits = None
    if sm is not None and shape is not None:
        fits = occupancy.occupancy(
            sm, block_size=shape.block, registers=shape.registers, shared_bytes=shape.shared, barriers=shape.barriers
        )
    resources = _resources(kernel, shape, fits)
    known = [one.counted.value for one in resources if one.counted.value is not None]
    theoretical, resident = kernel.counted("theoretical_occupancy"), Value(None, why=why)
    if known:
        resident = Value(min(known), "block", "ncu")
    elif fits is not None:
        resident = Value(float(fits.blocks), "block", "model")
    if theoretical.value is None and fits is not None:
        theoretical = Value(100 * fits.fraction, "%", "model")
    curves = _curves(sm, shape) if sm is not None and shape is not None and fits is not None and fits.blocks else ()
    limiters = tuple(one.name for one in resources if one.limits) or (fits.limiters if fits is not None else ())
    achieved = kernel.counted("achieved_occupancy")
    return OccupancyView(
        theoretical=theoretical,
        achieved=achieved,
        resident=resident,
        warps=int(resident.value) * -(-shape.block // occupancy.WARP) if resident.value and shape else None,
        max_warps=sm.max_warps if sm else None,
        limiters=limiters,
        resources=resources,
        curves=curves,
        why="" if curves else why or (fits.reason if fits is not None else ""),
        sentence=_sentence(theoretical, achieved, resident, limiters, shape, fits),
        notes=_notes(theoretical, achieved, resources, curves),
    )


def _sm(kernel: Kernel) -> occupancy.SmLimits | None:
    counted = kernel.counted("compute_capability").value
    if counted is not None:
        return occupancy.limits((int(counted), round(10 * (counted % 1))))
    manifest = kernel.data.manifest
    arch = str(manifest.get("arch") or (manifest.get("gpu") or {}).get("arch") or "")
    capability = occupancy.compute_capability(arch) if arch else None
    return occupancy.limits(capability) if capability else None


def _shape(kernel: Kernel) -> tuple[_Shape | None, str]:
    """What the launch asks for, else what the binary does when it alone decides; or why that is not known."""
    block, registers = kernel.counted("block").value, kernel.counted("registers").value
    shared = [kernel.counted(name).value for name in ("shared_static", "shared_dynamic")]
    barriers = kernel.compiled("ptxas.barriers").value
    count = int(barriers) if barriers is not None else 1
    if block and registers and None not in shared:
        return _Shape(int(block), int(registers), int(sum(one or 0 for one in shared)), count), ""
    block, registers = kernel.compiled("sass.max_threads").value, kernel.compiled("ptxas.registers").value
    static = kernel.compiled("ptxas.shared_bytes").value
    if registers is None:
        return None, kernel.compiled("ptxas.registers").why_text
    if block is None or static is None:
        return None, "the binary states no launch bounds, so the block size is not known without a launch"
    if kernel.compiled("model.occupancy.blocks").value is None:
        return None, "its shared memory is given at the launch, which the binary cannot know"
    return _Shape(int(block), int(registers), int(static), count), ""


def _resources(kernel: Kernel, shape: _Shape | None, fits: occupancy.Occupancy | None) -> tuple[Resource, ...]:
    uses = {
        "registers": f"{shape.registers} a thread" if shape else "",
        "shared memory": f"{formatting.number(shape.shared / 1024)} KiB a block" if shape else "",
        "warps": f"{-(-shape.block // occupancy.WARP)} a block" if shape else "",
        "blocks": "",
        "barriers": f"{shape.barriers} a block" if shape else "",
    }
    model = {
        "registers": fits.limit_registers, "shared memory": fits.limit_shared, "warps": fits.limit_warps,
        "blocks": fits.limit_blocks, "barriers": fits.limit_barriers,
    } if fits is not None and fits.blocks else {}  # fmt: skip
    counted = {name: kernel.counted(metric) for name, metric in RESOURCES}
    known = [value.value for value in counted.values() if value.value is not None]
    lowest = min(known) if known else None
    return tuple(
        Resource(
            name, uses[name], counted[name], model.get(name),
            counted[name].value == lowest if lowest is not None else fits is not None and name in fits.limiters,
        )
        for name, _ in RESOURCES
    )  # fmt: skip


def _curves(sm: occupancy.SmLimits, shape: _Shape) -> tuple[Curve, ...]:
    spans: tuple[tuple[Axis, int, Sequence[int]], ...] = (
        ("registers", shape.registers, range(16, sm.max_registers_per_thread + 1)),
        ("block_size", shape.block, range(occupancy.WARP, sm.max_threads_per_block + 1, occupancy.WARP)),
        ("shared_bytes", shape.shared, range(0, sm.shared_block_bytes + 1, 512)),
    )
    return tuple(_curve(sm, shape, axis, here, values) for axis, here, values in spans)


def _curve(sm: occupancy.SmLimits, shape: _Shape, axis: Axis, here: int, values: Sequence[int]) -> Curve:
    found = occupancy.curve(
        sm, axis, sorted({*values, here}), block_size=shape.block, registers=shape.registers,
        shared_bytes=shape.shared, barriers=shape.barriers,
    )  # fmt: skip
    points = [(value, warps / sm.max_warps) for value, warps in found]
    now = next(share for value, share in points if value == here)
    better = [(value, share) for value, share in points if share > now and (axis == "block_size" or value < here)]
    gain = min(better, key=lambda point: abs(point[0] - here)) if better else None
    return Curve(axis, tuple(points) if axis == "block_size" else _corners(points), here, now, gain)


def _corners(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Both ends of each step: a line through them is the curve."""
    kept = [
        point
        for index, point in enumerate(points)
        if index in (0, len(points) - 1) or points[index - 1][1] != point[1] or points[index + 1][1] != point[1]
    ]
    return tuple(kept)


def _sentence(
    theoretical: Value, achieved: Value, resident: Value, limiters: Sequence[str], shape: _Shape | None,
    fits: occupancy.Occupancy | None,
) -> str:  # fmt: skip
    if theoretical.value is None:
        return ""
    if fits is not None and not fits.blocks and resident.value is None:
        return f"No block fits: {fits.reason}."
    text = f"{_percent(theoretical.value)} allowed"
    if resident.value is not None:
        count = int(resident.value)
        of = f" of {shape.block} threads" if shape else ""
        text += f": {count} block{'s' if count != 1 else ''}{of} per SM"
    if limiters:
        text += f", limited by {formatting.listed(limiters)}"
    if achieved.value is not None:
        text += f"; {_percent(achieved.value)} were resident on average"
    return text + ("." if theoretical.origin != "model" else ", by the model.")


def _notes(
    theoretical: Value, achieved: Value, resources: Sequence[Resource], curves: Sequence[Curve]
) -> tuple[str, ...]:
    notes = []
    if achieved.value is not None and achieved.value > 100.5:
        notes.append("More than 100 % is noise between the passes of the profiler.")
    elif achieved.value is not None and achieved.value < _SHORT_OF_ALLOWED * (theoretical.value or 0):
        notes.append(
            "Far fewer warps were resident than the resources allow: too few blocks, a long tail, blocks that end at "
            "different times, or warps that end before their block does (a group of which one warp copies)."
        )
    shared = next((one for one in resources if one.name == "shared memory"), None)
    if shared is not None and shared.limits and shared.model and (shared.counted.value or 99) < shared.model:
        notes.append(
            f"Shared memory would allow {shared.model} blocks: the driver gave it only as much of the L1 as the other "
            "limits can use."
        )
    gains = [_gain(curve) for curve in curves if curve.gain is not None and curve.axis != "block_size"]
    if gains:
        notes.append(f"The next step up: {' or '.join(gains)}.")
    return tuple(notes)


def _gain(curve: Curve) -> str:
    assert curve.gain is not None
    value, share = curve.gain
    if curve.axis == "registers":
        return f"{value} registers a thread ({_percent(100 * share)})"
    return f"{formatting.number(value / 1024)} KiB of shared memory a block ({_percent(100 * share)})"


def _percent(value: float) -> str:
    return f"{formatting.number(value, 3).removesuffix('.0')} %"
