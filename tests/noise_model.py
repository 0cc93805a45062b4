"""Times of a kernel with the noise that GPUs show, for tests of the rules that judge differences. Vectorised, seeded.

In log: samples within a process resemble each other (AR(1), 0.6) and have a right tail; a fifth of the processes step
by 0.4 % half-way; processes differ by a state that the two of a pair share (70 % of the variance), by one of their own,
and one in twenty-five runs in another mode, 1.5 % slower; the card drifts from pair to pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Model:
    """How noisy, in log (0.003 is 0.3 %)."""

    between: float = 0.003
    within: float = 0.006
    correlation: float = 0.6
    shared: float = 0.7  #: of the variance between processes: the state that both of a pair see
    mode_share: float = 0.04
    mode: float = 0.015
    step_share: float = 0.2
    step: float = 0.004
    tail_share: float = 0.04
    tail: float = 0.03
    drift: float = 0.001  #: of the card, from one pair to the next
    time_ns: float = 100_000.0
    tick_ns: float = 32.0

    def draw(self, rng: np.random.Generator, trials: int, pairs: int, samples: int, effect: float = 0.0) -> Array:
        """Return times in ns: trials x 2 sides x pairs x samples, the second side slower by ``effect`` (a share)."""
        shape = (trials, 2, pairs)
        slot = rng.normal(0, self.between * math.sqrt(self.shared), (trials, 1, pairs))
        walk = np.cumsum(rng.normal(0, self.drift, (trials, 1, pairs)), axis=2)
        own = rng.normal(0, self.between * math.sqrt(1 - self.shared), shape)
        own += self.mode * (rng.random(shape) < self.mode_share)
        noise = np.empty((*shape, samples))
        fresh = rng.normal(0, self.within * math.sqrt(1 - self.correlation**2), noise.shape)
        noise[..., 0] = rng.normal(0, self.within, shape)
        for i in range(1, samples):
            noise[..., i] = self.correlation * noise[..., i - 1] + fresh[..., i]
        noise += (rng.random(noise.shape) < self.tail_share) * rng.exponential(self.tail, noise.shape)
        noise += (rng.random(noise.shape) < 0.004) * rng.uniform(0.1, 0.5, noise.shape)
        noise[..., samples // 2 :] += self.step * (rng.random(shape) < self.step_share)[..., None]
        noise += (slot + walk + own)[..., None]
        noise[:, 1] += math.log1p(effect)
        times = self.time_ns * np.exp(noise)
        return np.asarray(np.round(times / self.tick_ns) * self.tick_ns) if self.tick_ns else np.asarray(times)


def log_ratios(times: Array) -> Array:
    """Return the pairs' log ratios of medians: trials x pairs."""
    middle = np.log(np.median(times, axis=-1))
    return np.asarray(middle[:, 1] - middle[:, 0])


def pair_sd(model: Model, rng: np.random.Generator, samples: int, pairs: int = 400) -> float:
    """Return the standard deviation of a pair's log ratio of identical code, as a ledger learns it."""
    return float(np.sqrt((log_ratios(model.draw(rng, pairs, 1, samples)) ** 2).mean()))
