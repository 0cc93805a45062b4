"""Why a time changed: the counters that differ between two sides, ranked, and what they amount to.

Exact counters (what the compiler and the addresses decide) stand apart from near ones (what a cache happened to hold).
Cycles, stall shares and clocks are never evidence by themselves: they only weigh what another difference predicts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from profiler.analysis.decomposition import Decomposition
from profiler.analysis.kernels import no_counters
from profiler.analysis.rundata import RunData, Value
from profiler.comparison.budget import Budget
from profiler.comparison.cause_code import code_causes
from profiler.comparison.cause_memory import memory_causes
from profiler.comparison.counters import counter_pairs
from profiler.comparison.evidence import Side
from profiler.comparison.model import Cause, Explanation, RowComparison

#: Exact counters that are worse at an unchanged time are worth a warning when they are one of these.
LATENT = frozenset({"bank_conflicts", "spills", "vector_width", "occupancy", "wgmma_serialised", "local_array"})
#: What the causes must predict of a change, together, to explain it.
_ENOUGH = 0.30
#: What a named fault without a prediction is taken to be worth when causes are ranked.
_FAULT_WEIGHT = 0.85
#: A share below this explains nothing by itself.
_MINOR = 0.05


@dataclass(frozen=True)
class Explained:
    """The causes of a change, most telling first, what they amount to, and the exact factors behind their shares."""

    causes: tuple[Cause, ...]
    label: Explanation
    decomposition: Decomposition


def find_causes(before: Side, after: Side, ratio: float | None = None, demoted: Collection[str] = ()) -> Explained:
    """Return what differs between two sides and may have changed the time.

    ``ratio`` is the time after over before; without it the runs' own times serve. ``demoted`` names counters that
    moved where the code did not: they are not exact here.
    """
    budget = Budget(before, after, ratio)
    found = [*code_causes(before, after, budget), *memory_causes(before, after, budget)]
    moved = budget.moved
    causes = [_demote(_against(cause, moved), demoted) for cause in found]
    causes.sort(key=lambda cause: _rank(cause, moved))
    return Explained(tuple(causes), _label(causes, moved), budget.decomposition)


def explain_row(
    row: RowComparison, before: RunData, after: RunData, *, before_name: str = "", demoted: Collection[str] = ()
) -> RowComparison:
    """Return a row with its counters, causes and label filled in; ``before_name`` where the variant was renamed."""
    old = Side(before, before_name or row.variant, row.size)
    new = Side(after, row.variant, row.size)
    if before.variant(old.variant) is None or after.variant(new.variant) is None:
        return row
    found = find_causes(old, new, row.ratio.value if row.ratio is not None else None, demoted)
    label, note = row_label(row, found.causes, found.label), ""
    if label == "unexplained" and row.identity.code != "same":
        if not (old.launches and new.launches):  # what was not looked at cannot point at the environment
            label, note = "", f"not explained: {_no_counters(before, after, old, new)}"
        elif row.identity.code == "changed":
            note = "the code changed, but no counter that was collected says that this changed the time"
    return replace(
        row, causes=found.causes, counters=counter_pairs(old, new, demoted), explanation=label,
        notes=(*row.notes, note) if note else row.notes,
    )  # fmt: skip


def _no_counters(before: RunData, after: RunData, old: Side, new: Side) -> str:
    sides = ((before, old, "before"), (after, new, "after"))
    lacking = [(data, one, name) for data, one, name in sides if not one.launches]
    why = Value(None, why=no_counters(lacking[0][0], lacking[0][1].variant)).why_text
    return f"no counters {' and '.join(name for _, _, name in lacking)} ({why})"


def row_label(row: RowComparison, causes: Sequence[Cause], label: Explanation) -> Explanation:
    """Return what the causes amount to under a row's verdict.

    A flagged or suspected change is explained or not. So is one that its verdict leaves open (two modes, the clock)
    although its interval excludes no change, but only explained: that it is not would point at the environment.
    """
    if row.identity.code == "same":
        return "identical"
    if row.verdict in ("regressed", "suspected", "improved"):
        return label if label in ("explained", "unexplained") else _label(causes, _moved(row))
    if row.verdict == "inconclusive" and row.reason in ("bimodal", "clock", "noise"):
        moved = _shown(row)
        return "explained" if moved and _label(causes, moved) == "explained" else ""
    if row.verdict in ("unchanged", "counters_only") and any(is_latent(cause) for cause in causes):
        return "latent"
    return ""


def is_latent(cause: Cause) -> bool:
    """Whether a cause is a fault that costs nothing yet: an exact counter that is worse."""
    return cause.cls == "exact" and cause.worse and not cause.neutral and cause.fault in LATENT


def demoted_counters(before: RunData, after: RunData, identical: Collection[tuple[str, str]]) -> frozenset[str]:
    """Return the exact counters that moved between two profiles of unchanged code: no evidence in this comparison."""
    found: set[str] = set()
    for variant, size in identical:
        explained = find_causes(Side(before, variant, size), Side(after, variant, size))
        found |= {cause.metric for cause in explained.causes if cause.cls == "exact"}
    return frozenset(found)


def _moved(row: RowComparison) -> float:
    return {"slower": 1.0, "faster": -1.0}.get(row.direction or _direction_of(row.verdict), 0.0)


def _shown(row: RowComparison) -> float:
    """Return which way a row's time moved where its interval excludes that it did not; else 0."""
    if row.ratio is None or row.ratio.low is None or row.ratio.high is None:
        return 0.0
    return 1.0 if row.ratio.low > 1 else -1.0 if row.ratio.high < 1 else 0.0


def _direction_of(verdict: str) -> str:
    return {"regressed": "slower", "improved": "faster"}.get(verdict, "")


def _label(causes: Sequence[Cause], moved: float) -> Explanation:
    if not moved:
        return "latent" if any(is_latent(cause) for cause in causes) else ""
    fitting = [cause for cause in causes if _fits(cause, moved)]
    shares = [cause.share for cause in fitting if cause.share is not None and cause.share >= _MINOR]
    if sum(shares) >= _ENOUGH or any(cause.fault and cause.share is None for cause in fitting):
        return "explained"
    return "unexplained"


def _fits(cause: Cause, moved: float) -> bool:
    """Whether a cause points the way that the time went."""
    return not cause.neutral and cause.worse == (moved > 0)


def _rank(cause: Cause, moved: float) -> tuple[bool, bool, float]:
    """Order: what points the way that the time went, by weight; then the other way; neutral changes last."""
    weight = cause.share or 0.0
    if cause.fault and cause.cls == "exact":  # a named fault says more than the traffic that it makes
        if cause.share is None:
            weight = _FAULT_WEIGHT
        elif cause.share >= _MINOR:
            weight += 1.0 if cause.share >= _ENOUGH else 0.5
    fits = _fits(cause, moved) if moved else not cause.neutral and cause.worse
    return (cause.neutral, not fits, -weight)


def _against(cause: Cause, moved: float) -> Cause:
    """A cause that points the other way predicts no part of the change."""
    cause = replace(cause, before=_number(cause.before), after=_number(cause.after))
    return cause if not moved or _fits(cause, moved) else replace(cause, share=None, basis="")


def _number(value: float | str | None) -> float | str | None:
    return value if value is None or isinstance(value, str) else float(value)


def _demote(cause: Cause, demoted: Collection[str]) -> Cause:
    return replace(cause, cls="near") if cause.metric in demoted and cause.cls == "exact" else cause
