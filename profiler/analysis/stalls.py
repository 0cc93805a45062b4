"""Where a warp's cycles go: cycles per issued instruction by reason, and whether they add up to the latency."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.analysis.roofs import MADE_OF, PIPES, pipe_key
from profiler.analysis.rundata import RunData, Value
from profiler.metrics import STALL_REASONS

#: The sum of all reasons and the measured latency per issued instruction agree within this share.
SUM_TOLERANCE = 0.01
#: A reason below this share of the latency gets no cure.
NOTABLE_SHARE = 0.10


@dataclass(frozen=True)
class Reason:
    """A warp state: what it means, what cures it, and which binding roofs make that cure relevant."""

    name: str
    label: str
    family: str  #: issue, memory, shared, synchronisation, pipe, front end, other
    cure: str
    relevant_when: frozenset[str]  #: the limits under which the cure is worth a look
    meaning: str


_LATENCY = frozenset({"latency"})
_MEMORY = frozenset({"latency", "dram", "l2", "l1"})
_SHARED = frozenset({"latency", "shared", "l1"})


_PIPES = frozenset({"latency"}) | {pipe_key(pipe.key, dtype) for pipe in PIPES for dtype in ("", *MADE_OF)}
#: Reason -> family, cure, and the limits that make the cure relevant. ``selected`` is an issue, ``not_selected`` only
#: says that the scheduler had a choice, and ``wait`` is a fixed latency: none of them raises an alarm.
_KNOWN: Mapping[str, tuple[str, str, frozenset[str]]] = {
    "selected": ("issue", "", frozenset()),
    "not_selected": ("issue", "", frozenset()),
    "wait": ("pipe", "", frozenset()),
    "math_pipe_throttle": (
        "pipe",
        "A full pipe wants fewer instructions on it, or ones that do more (tensor cores, wgmma); not more warps.",
        _PIPES,
    ),
    "dispatch_stall": ("pipe", "Look for register-bank conflicts and operand reuse in the loop's SASS.", _LATENCY),
    "long_scoreboard": (
        "memory", "Load earlier (prefetch, cp.async, TMA), keep more loads in flight, reuse what was loaded.", _MEMORY,
    ),
    "lg_throttle": (
        "memory", "Fewer, wider memory instructions: 16-byte loads, reuse in shared memory and registers.", _MEMORY,
    ),
    "tex_throttle": ("memory", "Fewer, wider texture accesses.", _MEMORY),
    "drain": ("memory", "Make the epilogue's stores wider, or spread them.", _MEMORY),
    "imc_miss": ("memory", "Keep constants few, or pass them through registers or shared memory.", _LATENCY),
    "short_scoreboard": (
        "shared", "Load the next fragments into registers while these multiply; look for bank conflicts.", _SHARED,
    ),
    "mio_throttle": (
        "shared", "Fewer shared-memory instructions per multiply: larger register tiles, 16-byte loads, ldmatrix.",
        _SHARED,
    ),
    "barrier": ("synchronisation", "Fewer barriers (more stages), or equal work for all warps between them.", _LATENCY),
    "membar": ("synchronisation", "Weaker or fewer memory fences.", _LATENCY),
    "gmma": ("synchronisation", "Keep one more group of wgmma in flight before waiting for it.", _LATENCY),
    "sleeping": ("synchronisation", "", frozenset()),
    "no_instruction": ("front end", "A smaller loop body: less unrolling.", _LATENCY),
    "branch_resolving": ("front end", "Fewer branches in the inner loop: unroll, or predicate.", _LATENCY),
    "misc": ("other", "", frozenset()),
}  # fmt: skip


def _label(name: str) -> str:
    words = name.replace("_", " ")
    for word in ("lg", "mio", "imc", "tex", "gmma"):
        words = re.sub(rf"\b{word}\b", word.upper(), words)
    return words


REASONS: Mapping[str, Reason] = {
    known.name: Reason(
        known.name, _label(known.name), *_KNOWN.get(known.name, ("other", "", frozenset())), meaning=known.meaning
    )
    for known in STALL_REASONS
}
FAMILIES: tuple[str, ...] = (
    "issue", "pipe", "memory", "shared", "synchronisation", "front end", "other",
)  # fmt: skip
_ALIASES = {"no_instructions": "no_instruction", "warpgroup_arrive": "gmma"}


@dataclass(frozen=True)
class StallRow:
    """One reason of one kernel."""

    reason: Reason
    cycles: float
    share: float  #: of the sum
    cure: str  #: empty where the limit does not make one relevant


@dataclass(frozen=True)
class StallTable:
    """The reasons of one kernel of a variant, largest first, and whether they add up."""

    variant: str
    dtype: str
    size: str
    kernel: str
    kernels: int  #: launches of the variant that have a table; stalls are never summed over kernels
    rows: tuple[StallRow, ...]
    total: float
    latency: Value
    adds_up: bool | None  #: None when the latency is missing
    origin: str

    def cycles(self, reason: str) -> float | None:
        """Return the cycles of a reason; None when the kernel has no row for it."""
        for row in self.rows:
            if row.reason.name == reason:
                return row.cycles
        return None


def reason_of(name: str) -> Reason:
    """Return what is known of a warp state; an unknown one is kept under its own name."""
    key = _ALIASES.get(name, name)
    return REASONS.get(key) or Reason(key, _label(key), "other", "", frozenset(), "A warp state of a newer chip.")


def stall_tables(data: RunData, limits: Mapping[tuple[str, str], str]) -> tuple[StallTable, ...]:
    """Return a table per variant and size that has stalls, for its longest kernel; ``limits`` names what binds each."""
    tables = []
    for variant in data.variants:
        name = str(variant["name"])
        for size in data.sizes:
            launches = data.stalls(name, size)
            if not launches:
                continue
            launch = max(launches, key=lambda key: data.launch_weight(name, size, key))
            reasons = launches[launch]
            tables.append(_table(data, variant, size, launch, reasons, len(launches), limits.get((name, size), "")))
    return tuple(tables)


def _table(
    data: RunData,
    variant: Mapping[str, object],
    size: str,
    launch: tuple[int, str],
    reasons: Mapping[str, float],
    kernels: int,
    limit: str,
) -> StallTable:
    total = sum(reasons.values())
    rows = []
    for name, cycles in sorted(reasons.items(), key=lambda item: -item[1]):
        reason = reason_of(name)
        share = cycles / total if total > 0 else 0.0
        rows.append(StallRow(reason, cycles, share, _cure(reason, share, limit)))
    latency = data.launch_value(str(variant["name"]), size, launch, "warp_latency")
    adds_up = None
    if latency.value is not None:
        adds_up = abs(total - latency.value) <= SUM_TOLERANCE * latency.value
    return StallTable(
        str(variant["name"]), str(variant["dtype"] or ""), size, launch[1], kernels, tuple(rows), total, latency,
        adds_up, str(variant["origin"] or "measured"),
    )  # fmt: skip


def _cure(reason: Reason, share: float, limit: str) -> str:
    if share < NOTABLE_SHARE or not reason.cure:
        return ""
    return reason.cure if limit in reason.relevant_when else ""


def present_reasons(tables: Sequence[StallTable]) -> tuple[Reason, ...]:
    """Return every reason that occurs, by family and then by its largest share anywhere."""
    largest: dict[str, tuple[Reason, float]] = {}
    for table in tables:
        for row in table.rows:
            known = largest.get(row.reason.name)
            if known is None or row.share > known[1]:
                largest[row.reason.name] = (row.reason, row.share)
    ordered = sorted(largest.values(), key=lambda item: (FAMILIES.index(item[0].family), -item[1]))
    return tuple(reason for reason, _ in ordered)
