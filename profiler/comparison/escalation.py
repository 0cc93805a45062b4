"""How many pairs of processes to measure next: three, five, nine, and fresh ones where a change shows. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.comparison.model import Noise, Settings
from profiler.comparison.statistics import difference, seen


@dataclass(frozen=True)
class Step:
    """What to measure: so many more pairs of a stage (1: the search, 2: its confirmation); none when it is decided."""

    stage: int
    pairs: int

    @property
    def done(self) -> bool:
        """Whether nothing more is to be measured."""
        return self.pairs == 0


DONE = Step(1, 0)


def next_step(first: Sequence[float], second: Sequence[float], floor: Noise, delta: float, settings: Settings) -> Step:
    """Return what one row needs next, given the log ratios of the pairs so far.

    A change is confirmed by fresh pairs of both sides. Without one, more pairs are taken until the row is shown to be
    unchanged or the last of ``settings.pairs`` is reached.
    """
    levels = settings.pairs
    if len(first) < levels[0]:
        return Step(1, levels[0] - len(first))
    found = difference(first, floor)
    if seen(found, settings.alpha_stage, delta):
        return Step(2, max(0, settings.confirmation_pairs - len(second)))
    if found.within(settings.equivalence):
        return DONE
    return Step(1, next((level for level in levels if level > len(first)), len(first)) - len(first))
