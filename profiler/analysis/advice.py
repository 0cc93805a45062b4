"""What Nsight Compute's own rules say of a variant, by the reach of their estimates, which must not be ranked together.

A *global* estimate is a share of the whole launch's time; a *local* one is a share of what it looks at (the stalls of a
scheduler, the accesses of a level), and says nothing of the launch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from profiler.analysis.kernels import no_counters
from profiler.analysis.rundata import Row, RunData, Value

_BLANKS = re.compile(r"(?:\\n|\s)+")
_UNCERTAIN = {
    "UncoalescedSharedAccess": (
        "It counts excess wavefronts alone, async copies included: Bank conflicts has the second witness."
    ),
}


@dataclass(frozen=True)
class Advice:
    """One rule's message; ``speedup`` in percent, of what its kind says."""

    rule: str
    title: str
    message: str
    kind: str
    speedup: float | None
    launch: int
    caution: str


@dataclass(frozen=True)
class AdviceView:
    """The messages of a variant by kind, largest estimate first; ``why`` says why there is none."""

    whole: tuple[Advice, ...]  #: estimates of the launch's time
    local: tuple[Advice, ...]
    remarks: tuple[Advice, ...]  #: without an estimate
    why: str

    @property
    def count(self) -> int:
        """How many messages there are."""
        return len(self.whole) + len(self.local) + len(self.remarks)


def advice(data: RunData, variant: str, size: str) -> AdviceView:
    """Return what the profiler advises for a variant at a size."""
    found = [_advice(row) for row in data.advice(variant, size)]
    why = ""
    if not found:
        why = _no_advice(data, variant, size)
    return AdviceView(
        _ordered(one for one in found if one.kind == "global"),
        _ordered(one for one in found if one.kind == "local"),
        _ordered(one for one in found if one.kind not in ("global", "local")),
        why,
    )


def _advice(row: Row) -> Advice:
    rule, speedup = str(row["rule"] or ""), row["speedup"]
    return Advice(
        rule, _plain(row["title"]) or rule, _plain(row["message"]), str(row["kind"] or ""),
        speedup if speedup is not None and math.isfinite(speedup) else None,
        int(row["launch"] or 0), _UNCERTAIN.get(rule, ""),
    )  # fmt: skip


def _plain(text: object) -> str:
    return _BLANKS.sub(" ", str(text or "")).strip()


def _ordered(found: Iterable[Advice]) -> tuple[Advice, ...]:
    return tuple(sorted(found, key=lambda one: -(one.speedup or 0.0)))


def _no_advice(data: RunData, variant: str, size: str) -> str:
    if not data.launches(variant, size):
        return Value(None, why=no_counters(data, variant)).why_text
    return "none of the rules that ran had anything to say"
