"""How other tools decide that a difference is real, to hold our rule against on the same samples. Own code.

Each takes the samples of two sides, processes x samples, and says whether it would flag them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]


def mann_whitney(before: Array, after: Array, alpha: float = 0.05) -> bool:
    """Pooled two-sided Mann-Whitney at 5 %: benchstat (golang.org/x/perf), Google Benchmark's compare.py."""
    return bool(stats.mannwhitneyu(before.ravel(), after.ravel(), method="asymptotic").pvalue < alpha)


def asv(before: Array, after: Array, factor: float = 1.01) -> bool:
    """Pooled Mann-Whitney below 0.2 % and medians that differ by a factor (asv 0.6; its default factor is 1.1)."""
    ratio = np.median(after) / np.median(before)
    return mann_whitney(before, after, 0.002) and not 1 / factor < ratio < factor


def nvbench_legacy(before: Array, after: Array) -> bool:
    """The means differ by more than the smaller relative standard deviation (nvbench_compare.py, 2026-08)."""
    means = before.mean(), after.mean()
    noise = min(before.std() / means[0], after.std() / means[1])
    return bool(abs(means[1] - means[0]) / means[0] > noise)


def pooled_t(before: Array, after: Array, alpha: float = 0.05) -> bool:
    """A t test of the pooled samples at 5 % (pyperf 2.11)."""
    return bool(stats.ttest_ind(before.ravel(), after.ravel()).pvalue < alpha)
