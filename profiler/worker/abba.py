"""The order of sustained blocks and of timed rounds, and how many launches fill a block. Pure; no torch."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

#: A block lasts at least this long; the card settles into the regime during the lead-in before it.
BLOCK_S = 0.5
LEAD_S = 0.1
#: A block is planned longer than it must be: the lead-in tells its pace only so well.
MARGIN = 1.05


def block_order(names: Sequence[str]) -> list[tuple[int, str]]:
    """Return (pass, variant) of every block: A B C, then C B A, so that a drift of the card falls on all alike."""
    return [(0, name) for name in names] + [(1, name) for name in reversed(names)]


def launches_for(seconds: float, launch_s: float, unit: int = 1) -> int:
    """Return how many whole launches fill a time, as a multiple of ``unit``; one unit at least."""
    if not launch_s > 0:
        return unit
    return unit * max(1, math.ceil(seconds / launch_s / unit))


def round_order(
    names: Sequence[str], shared: Mapping[str, str], seed: int, process: int, round_index: int
) -> list[str]:
    """Return the order in which one round times its variants: shuffled, and otherwise in every round and process.

    Variants that share buffers (``shared``: whose) are two sides of one thing: they follow one another directly, and in
    every two rounds each goes first once, so that neither what runs before them nor their own order favours a side.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(shared.get(name, name), []).append(name)
    listed = list(groups.items())
    random.Random(f"{seed}/{process}/{round_index}").shuffle(listed)
    order: list[str] = []
    for leader, members in listed:
        first = random.Random(f"{seed}/{process}/{round_index // 2}/{leader}").random() < 0.5
        order += reversed(members) if first != bool(round_index % 2) else members
    return order
