"""Bytes of one launch at each level of the memory, beside the least that must move: how often each byte moved."""

from __future__ import annotations

from dataclasses import dataclass

from profiler.analysis.formatting import number
from profiler.analysis.kernels import no_counters
from profiler.analysis.roofline import LEVELS
from profiler.analysis.rundata import RunData, Value

NO_LEAST = "the least bytes that must move are not known: this run names no problem that counts them"
_MEANING = {
    "dram": "device memory",
    "l2": "sectors that the L1 caches asked of L2",
    "l1": "wavefronts of the L1 data pipe x 128 B, shared memory included: an upper bound",
    "shared": "wavefronts of shared memory x 128 B, broadcasts included: an upper bound",
}
_PARTS = {"dram": ("dram_bytes_read", "dram_bytes_write")}
_HITS = {"l2": "l2_hit_rate", "l1": "l1_hit_rate"}
_LOW_HIT, _HIGH_HIT = 20.0, 80.0


@dataclass(frozen=True)
class LevelTraffic:
    """One level: its bytes, how often each byte of the minimum moved, its hit rate, and what to make of it."""

    key: str
    label: str
    meaning: str
    amount: Value  #: bytes, summed over the kernels of the variant
    read: Value | None
    write: Value | None
    times: float | None  #: bytes over the least bytes
    times_why: str
    hit: Value | None  #: %; None for a level without a cache
    note: str


@dataclass(frozen=True)
class Traffic:
    """A variant's bytes by level."""

    least: int | None
    levels: tuple[LevelTraffic, ...]
    sentence: str


def traffic(data: RunData, variant: str, dtype: str, size: str) -> Traffic:
    """Return the bytes of a variant at a size, all its kernels together."""
    least = data.min_bytes(dtype, size) if dtype else None
    levels = tuple(_level(data, variant, size, level.key, level.label, level.amount, least) for level in LEVELS)
    return Traffic(least, levels, _sentence(levels))


def _level(
    data: RunData, variant: str, size: str, key: str, label: str, metric: str, least: int | None
) -> LevelTraffic:
    amount = data.total(variant, size, metric)
    if amount.value is None and not data.launches(variant, size):
        amount = Value(None, why=no_counters(data, variant))
    read, write = (data.total(variant, size, part) for part in _PARTS[key]) if key in _PARTS else (None, None)
    hit = data.average(variant, size, _HITS[key]) if key in _HITS else None
    times = amount.value / least if amount.value is not None and least else None
    shared = data.total(variant, size, "shared_bytes").value
    declared = [data.total(variant, size, f"shared_{kind}").value for kind in ("static", "dynamic")]
    return LevelTraffic(
        key, label, _MEANING[key], amount, read, write, times,
        "" if times is not None else amount.why_text if amount.value is None else NO_LEAST,
        hit, _note(key, amount, times, hit, shared, declared == [0.0, 0.0]),
    )  # fmt: skip


def _note(
    key: str, amount: Value, times: float | None, hit: Value | None, shared: float | None, none_declared: bool
) -> str:
    if amount.value is None:
        return ""
    rate = hit.value if hit is not None else None
    if key == "dram" and times is not None and times < 0.98:
        return "Less than the minimum: lines that were written stayed in L2, or inputs were there already."
    if key == "shared" and none_declared:
        return "It has no shared memory" + (": what the counter sees is not its own." if amount.value else ".")
    if key == "l1" and rate is not None:
        staged = shared is not None and amount.value > 0 and shared > 0.5 * amount.value
        if rate < _LOW_HIT and staged:
            return "A low hit rate is right here: shared memory does the caching, each tile passes L1 once."
        if rate > _HIGH_HIT and times is not None and times > 100:
            return "The hits are cheap for L2 and DRAM, not for the L1 pipe: every one is a pass through it."
    if key == "l2" and rate is not None:
        return "The first touch of each line misses by necessity; writes count as hits."
    return ""


def _sentence(levels: tuple[LevelTraffic, ...]) -> str:
    known = {level.key: level.times for level in levels if level.times is not None}
    parts = []
    if "dram" in known:
        parts.append(f"DRAM moved {_times(known['dram'])} the least bytes")
    parts += [f"{label} {_times(known[key])}" for key, label in (("l2", "L2"), ("l1", "L1")) if key in known]
    return ", ".join(parts) + "." if parts else ""


def _times(value: float) -> str:
    return f"{number(value, 3)}×"
