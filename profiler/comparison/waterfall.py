"""A change of time in cycles: what each factor and each stall reason adds to, or takes from, a launch.

The factors multiply; their logarithms add up to that of the ratio. Weighted by the logarithmic mean of both sides'
cycles they become cycles that add up to the difference, with nothing left over (additive LMDI-I, Ang 2004, Energy
Policy 32). The clock is left out, for it changes no cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from profiler.analysis.decomposition import Decomposition, Effect, Side
from profiler.analysis.log_mean import log_mean

#: A stall reason has a bar of its own when it moves this share of the larger side's cycles; at most so many have.
_NOTABLE = 0.01
_MOST_REASONS = 8
#: What rounding leaves of the factors' product.
_NOTHING = 1e-6

_LABELS = {
    "instructions": (
        "instructions",
        "More or fewer instructions, at the cycles between two issues that both sides share.",
    ),
    "warps": ("warps to hide it", "More warps a scheduler fill the cycles that one of them waits."),
    "latency": ("latency", "Cycles that a warp needs for an instruction."),
    "active": ("start and tail", "Cycles of the launch in which a scheduler had no work."),
    "unexplained": ("not accounted for", "What the product of the factors leaves of the measured cycles."),
}


@dataclass(frozen=True)
class Step:
    """One bar: where it starts and how many cycles it adds (below zero: saves)."""

    label: str
    start: float
    cycles: float
    role: Literal["before", "factor", "reason", "after"]
    meaning: str = ""
    each: tuple[float, float] | None = None  #: cycles per instruction before and after, of a stall reason


def waterfall(one: Decomposition) -> tuple[Step, ...]:
    """Return the bars from the cycles before to the cycles after; none where a factor is missing.

    Cycles are those of one launch of the longest kernel: its profiled duration times the clock of its pass.
    """
    before, after = _cycles(one.before), _cycles(one.after)
    if before is None or after is None or one.effect("unexplained") is None:
        return ()
    weight = log_mean(before, after)
    steps = [Step("before", 0.0, before, "before", "Cycles of one launch of the longest kernel.")]
    at = before
    for key, (label, meaning) in _LABELS.items():
        effect = one.effect(key)
        if effect is None:
            continue
        bars = _reasons(effect, weight, max(before, after)) if effect.parts else []
        if key == "unexplained" and abs(effect.log_gain) < _NOTHING:
            continue
        for bar in bars or [Step(label, 0.0, -effect.log_gain * weight, "factor", meaning)]:
            steps.append(Step(bar.label, at, bar.cycles, bar.role, bar.meaning, bar.each))
            at += bar.cycles
    return (*steps, Step("after", 0.0, after, "after", "Cycles of one launch of the longest kernel."))


def _cycles(one: Side) -> float | None:
    if one.identity is None:
        return None
    duration, clock = one.identity.duration_s.value, one.identity.values["clock"].value
    return duration * clock if duration and clock else None


def _reasons(effect: Effect, weight: float, whole: float) -> list[Step]:
    """The latency by stall reason, what costs most first; the small ones together."""
    own = [part for part in effect.parts if abs(part.log_gain * weight) >= _NOTABLE * whole][:_MOST_REASONS]
    rest = [part for part in effect.parts if part not in own]
    steps = [
        Step(part.reason.label, 0.0, -part.log_gain * weight, "reason", part.reason.meaning, (part.before, part.after))
        for part in sorted(own, key=lambda part: part.log_gain)
    ]
    if rest:
        cycles = -sum(part.log_gain for part in rest) * weight
        label = f"{len(rest)} other reasons" if own else "latency"
        steps.append(Step(label, 0.0, cycles, "reason", "Stall reasons that move less than 1 % each."))
    return steps
