"""Whether a difference of log times is real: the floor rule, two stages, Holm, equivalence, what could have been seen.

The floor rule: the difference is the mean over pairs of processes, its standard error the larger of what the pairs
and what pairs of identical code show. Where the pairs are plainly noisier than that floor (an F test at 0.1 %), only
their own degrees of freedom count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy import special

from profiler.analysis.statistics import t_quantile
from profiler.comparison.model import Direction, Estimate, Noise, Settings

#: From this many pairs on the Hodges-Lehmann estimate replaces the mean: one process in another mode does not move it.
HODGES_LEHMANN_FROM = 7
#: What the smallest detectable effect is detected with.
POWER = 0.95
_NOISIER = 0.999
#: Confidence of the interval that an equivalence claim needs (two one-sided tests at 5 %).
_EQUIVALENCE = 0.90


@dataclass(frozen=True)
class Difference:
    """A log difference (above zero: after is slower) with its error."""

    value: float
    se: float
    df: float
    count: int  #: pairs
    noisier: bool = False  #: than the floor: the pairs' own degrees of freedom were used

    @property
    def p(self) -> float:
        """The two-sided p value of no difference."""
        if not math.isfinite(self.value) or not self.se > 0:
            return 1.0
        return float(2 * special.stdtr(self.df, -abs(self.value) / self.se))

    def bounds(self, confidence: float) -> tuple[float, float]:
        """Return the two-sided interval, in log."""
        half = t_quantile(confidence, self.df) * self.se
        return self.value - half, self.value + half

    def estimate(self, confidence: float) -> Estimate:
        """Return it as a ratio with its interval."""
        low, high = self.bounds(confidence)
        return Estimate(math.exp(self.value), _exp(low), _exp(high), confidence)

    def within(self, margin: float) -> bool:
        """Whether its 90 % interval lies within the margin, both ways."""
        low, high = self.bounds(_EQUIVALENCE)
        limit = math.log1p(margin)
        return -limit <= low and high <= limit

    def detectable(self, alpha: float, delta: float) -> float:
        """Return the smallest relative effect that is flagged at ``alpha`` and ``delta`` (log) with 95 % power."""
        power = t_quantile(2 * POWER - 1, self.df) * self.se
        return math.expm1(min(max(delta, t_quantile(1 - alpha, self.df) * self.se) + power, 700.0))

    @property
    def direction(self) -> Direction:
        """Which way it went."""
        return "slower" if self.value > 0 else "faster" if self.value < 0 else ""


Outcome = Literal["flagged", "candidate", "unchanged", "noise"]


@dataclass(frozen=True)
class Judgement:
    """What two stages of pairs say of one row, before the correction for the number of rows.

    ``candidate``: the first stage sees a change that no second one has confirmed yet.
    """

    outcome: Outcome
    pooled: Difference
    stage: Literal["first", "confirmed", "not_confirmed"]

    @property
    def p(self) -> float:
        """The p value that enters the correction."""
        return self.pooled.p


def difference(values: Sequence[float], floor: Noise) -> Difference:
    """Return the difference that log ratios of pairs say, by the floor rule; ``ValueError`` without a finite pair."""
    logs = np.asarray(values, dtype=np.float64)
    if not len(logs) or not np.isfinite(logs).all():
        raise ValueError("no pairs, or not all of them finite")
    count = len(logs)
    sd = float(logs.std(ddof=1)) if count > 1 else 0.0
    noisier = count > 1 and floor.sd > 0 and (sd / floor.sd) ** 2 > _f_quantile(_NOISIER, count - 1, floor.df)
    df = float(count - 1) if noisier or (floor.sd <= 0 < sd) else floor.df
    value = _hodges_lehmann(logs) if count >= HODGES_LEHMANN_FROM else float(logs.mean())
    return Difference(value, max(sd, floor.sd) / math.sqrt(count), df, count, noisier)


def judge(first: Sequence[float], second: Sequence[float], floor: Noise, delta: float, settings: Settings) -> Judgement:
    """Return what log ratios of pairs of the first stage, and of its confirmation (empty: not taken), say together.

    Flagged where both stages see the same sign at ``alpha_stage`` and at least ``delta`` (log), and all pairs together
    do at ``alpha_flag``.
    """
    early = difference(first, floor)
    pooled = difference([*first, *second], floor)
    stage: Literal["first", "confirmed", "not_confirmed"] = "first"
    if seen(early, settings.alpha_stage, delta):
        if not second:
            return Judgement("candidate", pooled, "first")
        late = difference(second, floor)
        agrees = late.direction == early.direction and seen(late, settings.alpha_stage, delta)
        if agrees and seen(pooled, settings.alpha_flag, delta):
            return Judgement("flagged", pooled, "confirmed")
        stage = "not_confirmed"
    return Judgement("unchanged" if pooled.within(settings.equivalence) else "noise", pooled, stage)


def seen(found: Difference, alpha: float, delta: float) -> bool:
    """Whether a difference is at least ``delta`` (log) and significant."""
    return abs(found.value) >= delta and found.p < alpha


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values adjusted for their number (Holm 1979), in their order; one that is no number counts as 1."""
    values = np.asarray([p if 0 <= p <= 1 else 1.0 for p in ps], dtype=np.float64)
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(p) for p in adjusted]


def least_effect(settings: Settings, *ticks: float) -> float:
    """Return the smallest change that may be flagged, in log: the setting, or two ticks of the timer."""
    share = max((2 / count for count in ticks if count > 0), default=0.0)
    return math.log1p(max(settings.min_effect, share))


def only_the_clock(log_ratio: float, clock_before: float | None, clock_after: float | None) -> bool:
    """Whether a time moved and its cycles (time x SM clock) did not: by less than half as far, or the other way."""
    if not clock_before or not clock_after or log_ratio == 0:
        return False
    cycles = log_ratio + math.log(clock_after / clock_before)
    return cycles / log_ratio < 0.5


@lru_cache(maxsize=512)
def _f_quantile(share: float, above: float, below: float) -> float:
    return float(special.fdtri(above, below, share))


def _hodges_lehmann(logs: np.typing.NDArray[np.float64]) -> float:
    rows, columns = np.triu_indices(len(logs))
    return float(np.median((logs[rows] + logs[columns]) / 2))


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))
