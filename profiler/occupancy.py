"""Resident blocks per SM and what limits them, from registers, shared memory, barriers and block size.

Sources of the constants: *blocks, warps, shared memory, registers* are the table "Technical Specifications per Compute
Capability" of the CUDA C++ Programming Guide (13.0); *allocation units and barriers*
are those that the toolkit's own ``cuda_occupancy.h`` (13.0) and the counters ``launch__occupancy_limit_*`` of measured
kernels agree on (tests/unit/test_occupancy.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Limiter = Literal["registers", "shared memory", "warps", "blocks", "barriers", "launch"]

WARP = 32
_KIB = 1024


@dataclass(frozen=True)
class SmLimits:
    """What one SM of a compute capability holds."""

    compute_capability: tuple[int, int]
    max_blocks: int
    max_warps: int
    shared_bytes: int  #: most shared memory of an SM
    shared_block_bytes: int  #: most shared memory of one block, after opting in
    shared_unit_bytes: int  #: allocations are rounded up to this
    shared_reserved_bytes: int  #: that the driver keeps, per block
    barriers: int | None  #: named barriers of an SM; None where they never limit
    registers: int = 65536  #: of an SM, and of one block
    register_unit: int = 256  #: a warp's registers are rounded up to this
    max_registers_per_thread: int = 255
    sub_partitions: int = 4  #: registers and warps are divided among them
    max_threads_per_block: int = 1024


def _sm(cc: tuple[int, int], blocks: int, warps: int, shared_kib: int, per_block_kib: int) -> SmLimits:
    hopper_or_later, ampere_or_later = cc >= (9, 0), cc >= (8, 0)
    return SmLimits(
        compute_capability=cc,
        max_blocks=blocks,
        max_warps=warps,
        shared_bytes=shared_kib * _KIB,
        shared_block_bytes=per_block_kib * _KIB,
        shared_unit_bytes=128 if ampere_or_later else 256,
        shared_reserved_bytes=_KIB if ampere_or_later else 0,
        barriers=(2 * blocks if warps == 64 else blocks) if hopper_or_later else None,
    )


_LIMITS: dict[tuple[int, int], SmLimits] = {
    limits.compute_capability: limits
    for limits in (
        _sm((7, 0), 32, 64, 96, 96),
        _sm((7, 2), 32, 64, 96, 96),
        _sm((7, 5), 16, 32, 64, 64),
        _sm((8, 0), 32, 64, 164, 163),
        _sm((8, 6), 16, 48, 100, 99),
        _sm((8, 7), 16, 48, 164, 163),
        _sm((8, 9), 24, 48, 100, 99),
        _sm((9, 0), 32, 64, 228, 227),
        _sm((10, 0), 32, 64, 228, 227),
        _sm((10, 3), 32, 64, 228, 227),
        _sm((11, 0), 24, 48, 228, 227),
        _sm((12, 0), 24, 48, 100, 99),
        _sm((12, 1), 24, 48, 100, 99),
    )
}


@dataclass(frozen=True)
class Occupancy:
    """Blocks that fit on one SM, by resource; None: the resource does not limit or is not known to."""

    blocks: int
    warps: int  #: resident warps
    max_warps: int
    limiters: tuple[Limiter, ...]  #: every resource that allows no more; ``launch`` when no block fits at all
    limit_blocks: int
    limit_warps: int
    limit_registers: int
    limit_shared: int
    limit_barriers: int | None
    reason: str = ""  #: why no block fits

    @property
    def fraction(self) -> float:
        """Resident warps over the most that an SM holds, 0 to 1."""
        return self.warps / self.max_warps


def limits(compute_capability: tuple[int, int]) -> SmLimits | None:
    """Return the limits of a compute capability; None when it is not in the table."""
    return _LIMITS.get(compute_capability)


def known() -> tuple[tuple[int, int], ...]:
    """Return the compute capabilities in the table."""
    return tuple(sorted(_LIMITS))


def compute_capability(arch: str) -> tuple[int, int] | None:
    """Return (9, 0) for ``sm_90a``; None when the text is no architecture."""
    digits = arch.removeprefix("sm_").removeprefix("compute_").rstrip("af")
    if len(digits) < 2 or not digits.isdigit():
        return None
    return int(digits[:-1]), int(digits[-1])


def occupancy(
    sm: SmLimits,
    *,
    block_size: int,
    registers: int,
    shared_bytes: int,
    barriers: int = 1,
    shared_config_bytes: int | None = None,
) -> Occupancy:
    """Return the resident blocks of a kernel on one SM.

    ``registers`` a thread, ``shared_bytes`` static and dynamic together without the driver's part;
    ``shared_config_bytes``: the configuration that the driver chose (the largest when None).
    """
    warps = _up(block_size, WARP) // WARP
    reason = _refusal(sm, block_size, registers, shared_bytes)
    if reason or warps == 0:
        return Occupancy(0, 0, sm.max_warps, ("launch",), 0, 0, 0, 0, None, reason or "the block has no threads")
    by_warps = sm.max_warps // warps
    by_registers = _resident_warps(sm, registers) // warps
    by_shared = _shared_blocks(sm, shared_bytes, shared_config_bytes)
    by_barriers = sm.max_blocks if barriers == 0 else None
    if sm.barriers is not None and barriers > 0:
        by_barriers = min(sm.barriers // barriers, sm.max_blocks)
    elif sm.barriers is None:
        by_barriers = None
    options: list[tuple[Limiter, int]] = [
        ("registers", by_registers),
        ("shared memory", by_shared),
        ("warps", by_warps),
        ("blocks", sm.max_blocks),
    ]
    if by_barriers is not None and barriers > 0:
        options.append(("barriers", by_barriers))
    blocks = min(count for _, count in options)
    return Occupancy(
        blocks=blocks,
        warps=blocks * warps,
        max_warps=sm.max_warps,
        limiters=tuple(name for name, count in options if count == blocks),
        limit_blocks=sm.max_blocks,
        limit_warps=by_warps,
        limit_registers=by_registers,
        limit_shared=by_shared,
        limit_barriers=by_barriers,
    )


def curve(
    sm: SmLimits,
    axis: Literal["registers", "block_size", "shared_bytes"],
    values: Iterable[int],
    *,
    block_size: int,
    registers: int,
    shared_bytes: int,
    barriers: int = 1,
    shared_config_bytes: int | None = None,
) -> list[tuple[int, int]]:
    """Return (value, resident warps) along one axis, the other resources as given; 0 where no block fits."""
    points = []
    for value in values:
        at = {"block_size": block_size, "registers": registers, "shared_bytes": shared_bytes, axis: value}
        here = occupancy(sm, **at, barriers=barriers, shared_config_bytes=shared_config_bytes)
        points.append((value, here.warps))
    return points


def _refusal(sm: SmLimits, block_size: int, registers: int, shared_bytes: int) -> str:
    if block_size > sm.max_threads_per_block:
        return f"{block_size} threads in a block, {sm.max_threads_per_block} allowed"
    if registers > sm.max_registers_per_thread:
        return f"{registers} registers a thread, {sm.max_registers_per_thread} allowed"
    if shared_bytes > sm.shared_block_bytes:
        return f"{shared_bytes} bytes of shared memory in a block, {sm.shared_block_bytes} allowed"
    if _resident_warps(sm, registers) * WARP < block_size:
        return f"{registers} registers x {block_size} threads exceed the {sm.registers} of an SM"
    return ""


def _resident_warps(sm: SmLimits, registers: int) -> int:
    per_warp = _up(max(registers, 1) * WARP, sm.register_unit)
    return sm.registers // sm.sub_partitions // per_warp * sm.sub_partitions


def _allocated(sm: SmLimits, shared_bytes: int) -> int:
    return _up(shared_bytes + sm.shared_reserved_bytes, sm.shared_unit_bytes)


def _shared_blocks(sm: SmLimits, shared_bytes: int, config: int | None) -> int:
    allocated = _allocated(sm, shared_bytes)
    if allocated == 0:
        return sm.max_blocks
    available = sm.shared_bytes if config is None else config
    return max(available // allocated, 1)  # one block always fits: the driver enlarges the configuration for it


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
