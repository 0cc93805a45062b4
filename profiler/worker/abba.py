"""The plan of sustained blocks: their order, and how many launches fill one. Pure; no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: A block lasts at least this long; the card settles into the regime during the lead-in before it.
BLOCK_S = 0.5
LEAD_S = 0.1
#: A block is planned longer than it must be: the lead-in tells its pace only so well.
MARGIN = 1.05
BLOCKS = 2


def block_order(names: Sequence[str]) -> list[tuple[int, str]]:
    """Return (pass, variant) of every block: A B C, then C B A, so that a drift of the card falls on all alike."""
    return [(0, name) for name in names] + [(1, name) for name in reversed(names)]


def launches_for(seconds: float, launch_s: float, unit: int = 1) -> int:
    """Return how many whole launches fill a time, as a multiple of ``unit``; one unit at least."""
    if not launch_s > 0:
        return unit
    return unit * max(1, math.ceil(seconds / launch_s / unit))
