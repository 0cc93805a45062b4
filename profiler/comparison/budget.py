"""How much of a change of time one difference predicts: by the product identity, or by the roof that it runs into.

The identity (``profiler.analysis.decomposition``) splits the logarithm of the time exactly into instructions, warps,
latency by stall reason, and clock; a cause is credited with the factor, or the stall reasons, that it acts on. A roof
says how long added traffic takes at its peak rate, which is the least that it can cost where nothing hides it. Both are
predictions, not measurements: shares of several causes overlap and need not add up to one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from profiler.analysis.decomposition import Decomposition, decompose, side
from profiler.comparison.evidence import Side

#: Below this change of time, the least that is ever flagged, a share of it says nothing.
LEAST_CHANGE = math.log(1.005)
#: Where traffic goes that stalls a warp, by ncu's reasons.
SHARED_REASONS = ("mio_throttle", "short_scoreboard")
GLOBAL_REASONS = ("lg_throttle", "long_scoreboard", "drain")
LANE_BYTES = 128  #: of a wavefront
SECTOR_BYTES = 32


@dataclass(frozen=True)
class Share:
    """A predicted share of the log change of time, 0 to 1, and what it rests on; None: nothing predicts it."""

    value: float | None = None
    basis: str = ""


NO_SHARE = Share()


@dataclass(frozen=True)
class Budget:
    """The change of time between two sides, and what predicts parts of it."""

    before: Side
    after: Side
    measured: float | None = None  #: time after over before, as the verdict has it; else what the runs say

    @cached_property
    def decomposition(self) -> Decomposition:
        """The exact factors between the two sides."""
        one, two = self.before, self.after
        return decompose(side(one.data, one.variant, one.size), side(two.data, two.variant, two.size))

    @cached_property
    def log_ratio(self) -> float | None:
        """The natural logarithm of the time after over the time before; None when it is not known."""
        if self.measured is not None and self.measured > 0:
            return math.log(self.measured)
        speedup = self.decomposition.speedup
        return -math.log(speedup) if speedup else None

    @property
    def moved(self) -> float:
        """1 for slower, -1 for faster, 0 for no change that a share could be of."""
        if self.log_ratio is None or abs(self.log_ratio) < LEAST_CHANGE:
            return 0.0
        return math.copysign(1.0, self.log_ratio)

    def best(self, *shares: Share) -> Share:
        """Return the largest of several predictions of one cause."""
        return max(shares, key=lambda one: -1.0 if one.value is None else one.value, default=NO_SHARE)

    def factor(self, key: str, part: float = 1.0, basis: str = "") -> Share:
        """Return the share of a factor of the identity, or of a part (0 to 1) of it."""
        effect = self.decomposition.effect(key)
        if effect is None:
            return NO_SHARE
        return self._of(-effect.log_gain * part, basis or f"identity: {effect.kind.label}")

    def instructions(self, added: float) -> Share:
        """Return the share of so many more executed instructions (one a warp)."""
        before, after = self.before.total("instructions"), self.after.total("instructions")
        if not before or not after or after == before:
            return NO_SHARE
        part = added / (after - before)
        return self.factor("instructions", min(1.0, part)) if part > 0 else NO_SHARE

    def reasons(self, names: Iterable[str], added: float, before: float | None, after: float | None) -> Share:
        """Return the share of the latency that stall reasons account for, as far as added traffic can have made them.

        ``added`` is the cause's part in the change of a level's traffic from ``before`` to ``after``; the reasons are
        credited with no more than that traffic grew by.
        """
        effect = self.decomposition.effect("latency")
        parts = [part for part in effect.parts if part.reason.name in set(names)] if effect is not None else []
        change = (after or 0.0) - (before or 0.0)
        if not parts or before is None or not after or not change or added / change <= 0:
            return NO_SHARE
        log_change, part = -sum(one.log_gain for one in parts), min(1.0, added / change)
        if before > 0:
            growth = math.log(after / before)
            log_change = min(log_change, growth) if growth > 0 else max(log_change, growth)
        return self._of(log_change * part, f"identity: stalls on {', '.join(one.reason.label for one in parts)}")

    def issue(self) -> Share:
        """Return the share of the cycles between two issues: latency over warps, which move together."""
        cycles = self.decomposition.issue_cycles
        if cycles is None or min(cycles) <= 0:
            return NO_SHARE
        return self._of(math.log(cycles[1] / cycles[0]), "identity: cycles between two issues")

    def roof(self, key: str, added_bytes: float | None) -> Share:
        """Return the share of added traffic at the peak rate of a level, by the later pass's own clock."""
        before = self.decomposition.before
        start = (before.event_s if self.decomposition.measured else before.profiled_s).value
        roof = self.after.average(f"roof.{key}").value
        if added_bytes is None or not start or not roof:
            return NO_SHARE
        seconds = added_bytes / roof
        if seconds <= -start:
            return NO_SHARE
        return self._of(math.log1p(seconds / start), f"roofline: {_LEVELS.get(key, key)} at its peak rate")

    def _of(self, log_change: float, basis: str) -> Share:
        if self.log_ratio is None or not self.moved:
            return NO_SHARE
        share = log_change / self.log_ratio
        return Share(min(1.0, share), basis) if share > 0 else NO_SHARE


_LEVELS = {"dram": "device memory", "l2": "L2", "l1": "the L1 data pipe", "shared": "shared memory"}
