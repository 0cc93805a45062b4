"""A ratio of two sums, split among their summands: log-mean weights (the LMDI method of energy economics), exact.

Nothing is left over, exchanging both sides changes the signs alone, and a summand that appears or vanishes has the part
that the limit gives it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping


def split(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return each summand's part of ``ln(sum(before) / sum(after))``, with log-mean weights; the parts add up to it.

    A summand's weight is L(b, a) / L(B, A) with the logarithmic mean L(x, y) = (x - y) / ln(x / y), and its part is
    the weight times ln(b / a): in all (b - a) / L(B, A), which also holds in the limit where b or a is 0.
    """
    keys = list(dict.fromkeys([*before, *after]))
    mean = log_mean(sum(before.values()), sum(after.values()))
    return {key: (before.get(key, 0.0) - after.get(key, 0.0)) / mean for key in keys}


def log_mean(one: float, two: float) -> float:
    """Return the logarithmic mean of two positive numbers: their difference over that of their logarithms."""
    low, high = min(one, two), max(one, two)
    change = (high - low) / low
    return low if change == 0 else low * change / math.log1p(change)
