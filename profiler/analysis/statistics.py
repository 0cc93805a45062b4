"""Medians and what the samples say about them: bootstrap intervals, in log space, seeded.

Times are skewed and come in ticks, so the median is the figure and its interval comes from resampling. A ratio of
two variants is taken over the same rounds of an interleaved measurement, so that what both saw (clock, temperature)
cancels.
The interval speaks of the samples in hand; with one process it says nothing of differences between processes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

Array = npt.NDArray[np.float64]

CONFIDENCE = 0.95
RESAMPLES = 1000
#: Of fewer samples no 95 % can be said: between the extremes of three the median lies in 75 % of all cases.
FEWEST = 5


@dataclass(frozen=True)
class Interval:
    """A value with the bounds of its 95 % interval; no bounds when there are too few samples to say."""

    value: float
    low: float | None
    high: float | None
    samples: int

    @property
    def half_width(self) -> float | None:
        """Half the interval as a share of the value."""
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2 / self.value


@dataclass(frozen=True)
class Sample:
    """One timed sample: its time, the process that took it, and its place in the order of that process."""

    time_ns: float
    process: int = 0
    order: int = 0


def median(values: Sequence[float] | Array) -> float:
    """Return the median; ``ValueError`` when there is no value."""
    if len(values) == 0:
        raise ValueError("no samples")
    return float(np.median(np.asarray(values, dtype=np.float64)))


def quartile_spread(values: Sequence[float] | Array) -> float:
    """Return the interquartile range as a share of the median."""
    low, middle, high = np.percentile(np.asarray(values, dtype=np.float64), [25, 50, 75])
    return float((high - low) / middle)


def median_interval(samples: Sequence[Sample], *, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """Return the median time and its bootstrap interval; processes are resampled first when there are several."""
    groups = [np.log(_times(group)) for group in by_process(samples).values()]
    value = median(np.concatenate([np.exp(group) for group in groups]) if groups else [])
    if min(len(group) for group in groups) < FEWEST:
        return Interval(value, None, None, len(samples))
    draws = _bootstrap([group[:, None] for group in groups], seed, resamples)[:, 0]
    low, high = _bounds(draws)
    return Interval(value, min(low, value), max(high, value), len(samples))


def ratio_interval(
    slower: Sequence[Sample], faster: Sequence[Sample], *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Return median(slower) / median(faster), above one when ``faster`` is, with its interval.

    Samples of one process and order form a round. Rounds are resampled together when both were in all of them, else
    each variant by itself, which leaves what both saw in the interval.
    """
    above, below = by_process(slower), by_process(faster)
    value = median([s.time_ns for s in slower]) / median([s.time_ns for s in faster])
    count = min(len(slower), len(faster))
    if count < FEWEST:
        return Interval(value, None, None, count)
    if paired(slower, faster):
        groups = [np.log(np.stack([_times(above[p]), _times(below[p])], axis=1)) for p in above]
        draws = _bootstrap(groups, seed, resamples)
        logs = np.log(draws[:, 0]) - np.log(draws[:, 1])
    else:
        first = _bootstrap([np.log(_times(g))[:, None] for g in above.values()], seed, resamples)
        second = _bootstrap([np.log(_times(g))[:, None] for g in below.values()], seed + 1, resamples)
        logs = np.log(first[:, 0]) - np.log(second[:, 0])
    low, high = _bounds(np.exp(logs))
    return Interval(value, min(low, value), max(high, value), count)


def paired(first: Sequence[Sample], second: Sequence[Sample]) -> bool:
    """Whether two variants were sampled in the same rounds of the same processes."""
    return _rounds(first) == _rounds(second)


def _rounds(samples: Sequence[Sample]) -> list[tuple[int, int]]:
    return sorted((sample.process, sample.order) for sample in samples)


def by_process(samples: Sequence[Sample]) -> Mapping[Hashable, list[Sample]]:
    """Return the samples of each process in their order."""
    groups: dict[Hashable, list[Sample]] = {}
    for sample in sorted(samples, key=lambda s: (s.process, s.order)):
        groups.setdefault(sample.process, []).append(sample)
    return groups


@lru_cache(maxsize=512)
def t_quantile(confidence: float, df: float) -> float:
    """Return the two-sided quantile of Student's t."""
    return float(special.stdtrit(df, (1 + confidence) / 2))


def _times(samples: Sequence[Sample]) -> Array:
    return np.asarray([s.time_ns for s in samples], dtype=np.float64)


def _bootstrap(groups: Sequence[Array], seed: int, resamples: int) -> Array:
    """Medians of resampled log values, back in linear space: one row a resample, one column a variant."""
    flat = np.concatenate(list(groups))
    picks = _picks(tuple(len(group) for group in groups), seed, resamples)
    return np.asarray(np.exp(np.median(flat[picks], axis=1)))


@lru_cache(maxsize=16)
def _picks(lengths: tuple[int, ...], seed: int, resamples: int) -> npt.NDArray[np.int64]:
    """Which samples each resample takes: processes drawn first when there are several, then samples within each.

    All variants of a run have the same shape, so they share the draws (and each result depends on nothing else).
    """
    rng = np.random.default_rng(seed)
    sizes = np.asarray(lengths)
    starts = np.cumsum(sizes) - sizes
    chosen = rng.integers(0, len(lengths), size=(resamples, len(lengths)))
    picks = (rng.random((resamples, len(lengths), min(lengths))) * sizes[chosen][:, :, None]).astype(np.int64)
    picks += starts[chosen][:, :, None]
    shared: npt.NDArray[np.int64] = picks.reshape(resamples, -1)
    return shared


def _bounds(draws: Array) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(draws, [tail, 100 - tail])
    return float(low), float(high)
