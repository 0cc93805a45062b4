"""Numbers as a reader sees them: SI prefixes, significant digits, sizes; for the report and the terminal alike."""

from __future__ import annotations

import math
from collections.abc import Iterable

from profiler.sizes import parse_size_key

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SUPERSCRIPT = {2: "²", 3: "³"}

STATUS_TEXT = {
    "ok": "ok",
    "skipped": "skipped",
    "not_run": "not run",
    "profile_failed": "profile failed",
    "wrong_after_timing": "wrong after timing",
    "wrong_result": "wrong result",
    "build_failed": "build failed",
    "launch_failed": "launch failed",
    "timeout": "timed out",
    "crashed": "crashed",
}


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, without an exponent where it stays short."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))  # after rounding: 999.9 is 1000
    if magnitude < -4 or magnitude >= 9:
        return f"{value:.{digits - 1}e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:.{max(0, digits - 1 - magnitude)}f}"


def si(value: float, unit: str, digits: int = 3) -> str:
    """Return a value with its SI prefix: ``51.1 TFLOP/s``."""
    for scale, prefix in _PREFIXES:
        if abs(value) >= scale * 0.9995:
            return f"{number(value / scale, digits)} {prefix}{unit}"
    return f"{number(value, digits)} {unit}"


def time_ns(value: float, digits: int = 4) -> str:
    """Return a duration in the unit that suits it: ``2.686 ms``."""
    scale, unit = time_unit(value)
    return f"{number(value / scale, digits)} {unit}"


def time_unit(value: float) -> tuple[float, str]:
    """Return the divisor and the name of the unit that suits a duration."""
    for scale, unit in _TIMES:
        if value >= scale * 0.99995:
            return scale, unit
    return _TIMES[-1]


def percent(share: float, digits: int = 0) -> str:
    """Return a share as a percentage; a small one keeps a digit so that it never reads as zero."""
    value = share * 100
    if value and abs(value) < 1 and digits == 0:
        return f"{number(value, 1)} %"
    return f"{value:.{digits}f} %"


def ratio(value: float, low: float | None = None, high: float | None = None) -> str:
    """Return a ratio with two decimals, or with two significant digits when it is small: ``0.86×``; with the bounds of
    its interval, with as many decimals as those are given.
    """
    if low is not None and high is not None:
        return f"{value:.{_decimals(low, high)}f}×"
    if value and value < 0.1:
        return f"{number(value, 2)}×"
    return f"{value:.2f}×" if value < 100 else f"{value:.0f}×"


def interval(low: float | None, high: float | None) -> str:
    """Return the bounds of a ratio: ``[0.85, 0.87]``; empty when there are none."""
    if low is None or high is None:
        return ""
    digits = _decimals(low, high)
    return f"[{low:.{digits}f}, {high:.{digits}f}]"


def bounded_ratio(value: float, low: float | None, high: float | None) -> str:
    """Return a ratio and, where there is one, its interval: ``0.861× [0.859, 0.863]``."""
    return f"{ratio(value, low, high)} {interval(low, high)}".strip()


def _decimals(low: float, high: float) -> int:
    digits = 2
    while digits < 4 and high - low < 1.5 * 10**-digits:
        digits += 1
    return digits


def size(key: str) -> str:
    """Return a size for people: ``4096³`` when all dims are equal, else ``M 4096 · N 4096 · K 512``."""
    if not key:  # a profiler's file states none
        return "the profiled size"
    try:
        dims = parse_size_key(key)
    except ValueError:
        return key
    values = list(dims.values())
    if len(values) > 1 and len(set(values)) == 1:
        return f"{values[0]}{_SUPERSCRIPT.get(len(values), f'^{len(values)}')}"
    return " · ".join(f"{name} {value}" for name, value in dims.items())


def short(name: str, limit: int = 28) -> str:
    """Return a name that fits a label; the middle gives way, the ends are what tells names apart."""
    if len(name) <= limit:
        return name
    head = (limit - 1) * 2 // 3
    return f"{name[:head]}…{name[-(limit - 1 - head) :]}"


def status(name: str) -> str:
    """Return a status in words."""
    return STATUS_TEXT.get(name, name.replace("_", " "))


def listed(words: Iterable[str]) -> str:
    """Return words joined as a sentence joins them: ``a, b and c``."""
    items = list(words)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
