"""Controls: the copy (or read) of the same bytes that a memory-bound problem is held against.

The roof of a kernel that only moves memory is not the datasheet's bandwidth but what a kernel reaches that does nothing
but move as many bytes. It is timed beside the variants: in the same rounds, cold or warm as they are, by the same
method; its rate is a row of the frame ``ceilings``, named ``copy@<size>@<contract>`` (or ``read@...``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from profiler.model import Dims, Variant
from profiler.problem import Problem

#: A problem with fewer operations for each byte is bound by memory on every chip that this tool knows: the ridge of the
#: FP32 pipes lies between 13 FLOP/B (H200, 67 TFLOP/s over 4.8 TB/s; A100 likewise) and 80 (consumer cards).
MEMORY_BOUND_BELOW = 8.0
#: Where less than this share of the bytes is written, the control reads only.
_READ_ONLY_BELOW = 1 / 16
_MARK = "@"  #: no variant's name has it


@dataclass(frozen=True)
class Control:
    """What one control moves: ``copy`` or ``read``, for a contract, so many bytes (read and written together)."""

    kind: str
    contract: str
    bytes: int

    @property
    def name(self) -> str:
        """The name under which the worker times it."""
        return f"{self.kind}{_MARK}{self.contract}"


def memory_bound(flops: int | None, min_bytes: int | None) -> bool:
    """Whether a problem of so many operations and bytes is bound by memory; one that counts no operations is."""
    return bool(min_bytes) and (flops is None or flops < MEMORY_BOUND_BELOW * (min_bytes or 0))


def is_control(name: str) -> bool:
    """Whether a name that the worker speaks of is a control's."""
    return _MARK in name


def controls_for(
    problem: type[Problem], variants: Iterable[Variant], dims: Dims, options: Mapping[str, str]
) -> tuple[Control, ...]:
    """Return the controls of a size: one for each contract in which the problem is bound by memory."""
    found: list[Control] = []
    for contract in dict.fromkeys(v.dtype for v in variants if v.dtype in problem.dtypes):
        least = problem.min_bytes(dims, contract, options)
        if not memory_bound(problem.flops(dims), least):
            continue
        read, written = problem.traffic(dims, contract, options)
        kind = "read" if written < _READ_ONLY_BELOW * (read + written) else "copy"
        found.append(Control(kind, contract, least))
    return tuple(found)


def row_name(control_name: str, size: str) -> str:
    """Return the name of a control's row in ``ceilings``: ``copy@M=1,N=2@fp32``."""
    kind, _, contract = control_name.partition(_MARK)
    return _MARK.join((kind, size, contract))


def parse_row_name(name: str) -> tuple[str, str, str] | None:
    """Return (kind, size, contract) of a control's row in ``ceilings``; None for any other row."""
    parts = name.split(_MARK)
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def ceiling_row(name: str, size: str, moved: int, samples: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return a control's row of ``ceilings`` from its samples: bytes over the median time; None without samples."""
    rows = [row for row in samples if row["time_ns"]]
    if not rows:
        return None
    clocks = [row["sm_clock_mhz"] for row in rows if row["sm_clock_mhz"] is not None]
    return {
        "name": row_name(name, size),
        "level_or_pipe": "dram",
        "value": moved / (median(row["time_ns"] for row in rows) * 1e-9),
        "unit": "B/s",
        "clock_mhz": median(clocks) if clocks else None,
        "origin": "measured",
    }
