"""The counters that every row shows on both sides, whether they moved or not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from profiler.analysis.rundata import Value
from profiler.comparison.evidence import Side
from profiler.comparison.model import CounterPair

Combine = Literal["total", "average", "first"]


@dataclass(frozen=True)
class CounterSpec:
    """A counter by its metric: its label, class, how several launches combine, and what stands in for it.

    ``first``: of the binary, or of the longest launch.
    """

    metric: str
    label: str
    cls: Literal["exact", "near", "timing"]
    combine: Combine
    otherwise: tuple[str, ...] = ()


COUNTERS: tuple[CounterSpec, ...] = (
    CounterSpec("ptxas.registers", "registers", "exact", "first", ("registers",)),
    CounterSpec("ptxas.spill_store_bytes", "spilled by stores", "exact", "first"),
    CounterSpec("shared_static", "static shared memory", "exact", "first", ("ptxas.shared_bytes",)),
    CounterSpec("shared_dynamic", "dynamic shared memory", "exact", "first"),
    CounterSpec("theoretical_occupancy", "occupancy allowed", "exact", "first", ("model.occupancy.percent",)),
    CounterSpec("grid", "blocks", "exact", "first"),
    CounterSpec("block", "threads a block", "exact", "first"),
    CounterSpec("instructions", "instructions", "exact", "total"),
    CounterSpec("global_load_sectors", "sectors loaded", "exact", "total"),
    CounterSpec("global_store_sectors", "sectors stored", "exact", "total"),
    CounterSpec("shared_wavefronts_sass", "shared wavefronts", "exact", "total"),
    CounterSpec("shared_wavefronts_excess", "of them bank conflicts", "exact", "total"),
    CounterSpec("dram_bytes_read", "DRAM read", "near", "total"),
    CounterSpec("dram_bytes_write", "DRAM written", "near", "total"),
    CounterSpec("l2_bytes", "L2 traffic", "near", "total"),
    CounterSpec("l2_hit_rate", "L2 hit rate", "near", "average"),
    CounterSpec("shared_bank_conflicts", "bank conflicts by hardware", "near", "total"),
    CounterSpec("achieved_occupancy", "occupancy achieved", "timing", "average"),
    CounterSpec("issue_active", "issue slots busy", "timing", "average"),
    CounterSpec("sm_clock", "SM clock in the pass", "timing", "average"),
    CounterSpec("duration", "profiled duration", "timing", "total"),
)


def counter_pairs(before: Side, after: Side, demoted: Collection[str] = ()) -> tuple[CounterPair, ...]:
    """Return the counters that at least one side has; a missing value says why."""
    pairs = []
    for spec in COUNTERS:
        old, new = _value(before, spec), _value(after, spec)
        if old.value is None and new.value is None:
            continue
        cls = "near" if spec.metric in demoted and spec.cls == "exact" else spec.cls
        why = old.why_text if old.value is None else new.why_text if new.value is None else ""
        pairs.append(CounterPair(spec.metric, spec.label, old.unit or new.unit, old.value, new.value, cls, why))
    return tuple(pairs)


def _value(one: Side, spec: CounterSpec) -> Value:
    if spec.combine == "first":
        return one.data.first(one.variant, one.size, spec.metric, *spec.otherwise)
    if spec.combine == "total":
        return one.data.total(one.variant, one.size, spec.metric)
    return one.average(spec.metric)
