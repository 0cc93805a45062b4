"""Units as Nsight Compute spells them, old and new -> SI. Pure; the table is closed, and no unit is guessed."""

from __future__ import annotations

_TIMES = {
    "ns": 1e-9, "nsecond": 1e-9, "nseconds": 1e-9, "us": 1e-6, "usecond": 1e-6, "useconds": 1e-6, "ms": 1e-3,
    "msecond": 1e-3, "mseconds": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0,
}  # fmt: skip
_CLOCKS = {
    "hz": 1.0, "Hz": 1.0, "Khz": 1e3, "KHz": 1e3, "Mhz": 1e6, "MHz": 1e6, "Ghz": 1e9, "GHz": 1e9,
    "cycle/nsecond": 1e9, "cycle/ns": 1e9, "cycle/usecond": 1e6, "cycle/us": 1e6, "cycle/second": 1.0, "cycle/s": 1.0,
}  # fmt: skip
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}  # ncu's prefixes are decimal
_BYTES = {f"{prefix}byte": factor for prefix, factor in _SCALES.items()}
_UNITS: dict[str, tuple[float, str]] = {
    **{name: (factor, "s") for name, factor in _TIMES.items()},
    **{name: (factor, "Hz") for name, factor in _CLOCKS.items()},
    **{name: (factor, "B") for name, factor in _BYTES.items()},
    **{f"{name}/{per}": (factor, "B/s") for name, factor in _BYTES.items() for per in ("s", "second")},
    **{f"{name}/block": (factor, "B") for name, factor in _BYTES.items()},
    **{f"{name}/thread": (factor, "B") for name, factor in _BYTES.items()},
}
#: Words of units that count things: they stand as they are, alone, over one another, over a cycle or a second.
_COUNTED = frozenset(
    (
        "%", "1", "inst", "instruction", "cycle", "sector", "request", "register", "thread", "warp", "block", "barrier",
        "wavefront", "op", "access", "atom", "branch", "branches", "bank", "byte", "bit", "flop", "pass", "sample",
        "tag", "sm", "SM", "gpc", "tpc", "fbp", "line", "load", "store", "word", "group", "page",
    )
)  # fmt: skip


def to_si(value: float, unit: str) -> tuple[float, str]:
    """Return a value and its unit in SI; a unit that is not known stays as it is."""
    factor, si = _UNITS.get(unit, (1.0, unit))
    return value * factor, si


def scaled(unit: str) -> tuple[float, str] | None:
    """Return what to multiply with and ncu's base unit; None when the unit is not in the table.

    A prefix on what is counted is taken off as well: ``Kinst`` is a thousand ``inst``.
    """
    if unit in _UNITS:
        factor, si = _UNITS[unit]
        per = unit.partition("/")[2]
        base = {"s": "second", "Hz": "hz", "B": f"byte/{per}" if per else "byte", "B/s": "byte/second"}[si]
        return factor, base
    if not unit:
        return 1.0, ""
    parts = unit.split("/")
    if all(part in _COUNTED or part in _TIMES for part in parts):
        return 1.0, unit
    prefix = _SCALES.get(parts[0][:1])
    if prefix and all(part in _COUNTED for part in (parts[0][1:], *parts[1:])):
        return prefix, unit[1:]
    return None
