"""The samples of one side of a row, process by process: what counts, its location, the timer's tick, modes.

A process is the unit that replicates: samples within one share the card's state, the placement of buffers and the
clock, so that a hundred of them say little more than fifty do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.comparison.model import Settings, Times
from profiler.frames import CLOCK_WINDOW_NS

Array = npt.NDArray[np.float64]

#: Clock events that make a sample useless. A power cap is the normal state of a tensor kernel.
THROTTLED = frozenset({"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake"})
#: From this share of the time on, a tick is too coarse for the median, which sticks to the grid.
COARSE_TICK = 0.002
#: Cut off at each end, of the sorted samples, where the tick is coarse.
TRIM = 0.10
#: What is assumed of a timer whose samples are all alike: CUDA's documentation gives events about half a microsecond.
UNKNOWN_TICK_NS = 500.0
#: Samples in a row resemble each other; with a correlation of 0.6 a mean is twice as uncertain as its samples say.
CORRELATION = 2.0
#: Two modes lie this many of their own standard deviations apart (Ashman's D; a normal distribution cut in half has 2.6
#: and an even one 3.5), and each holds at least this share.
MODE_DISTANCE = 5.0
MODE_SHARE = 0.2
_TICKS_SEEN = 0.9
_FEWEST_IN_MODE = 5


@dataclass(frozen=True)
class Process:
    """The samples of one process that count: log of their location, its standard error, and the clock beside them."""

    number: int
    log_ns: float
    se: float  #: standard error of ``log_ns`` from the samples within, correlation allowed for
    samples: int
    mode_gap: float  #: log distance of two modes within the process; 0 where there is one


@dataclass(frozen=True)
class Side:
    """One side of a row."""

    processes: tuple[Process, ...]
    samples: int  #: that counted, over all processes
    excluded: int  #: throttled or foreign
    invalid: int  #: without a positive, finite time
    thin: int  #: processes left out because they had too few samples
    tick_ns: float  #: per launch; 0 where none shows
    window_ns: float  #: median length of a timed window
    sm_clock_mhz: float | None
    trimmed: bool

    @cached_property
    def logs(self) -> Array:
        """The log location of each process, in the order of their numbers."""
        return np.asarray([process.log_ns for process in self.processes], dtype=np.float64)

    @property
    def log_ns(self) -> float:
        """The mean of the processes' log locations."""
        return float(self.logs.mean())

    @property
    def time_ns(self) -> float:
        """The geometric mean of the processes' locations."""
        return math.exp(self.log_ns)

    @property
    def excluded_share(self) -> float:
        """Which part of the valid samples was left out."""
        total = self.samples + self.excluded
        return self.excluded / total if total else 0.0

    @property
    def ticks(self) -> float:
        """How many ticks a timed window lasts; infinite where no tick shows."""
        return self.time_ns / self.tick_ns if self.tick_ns else math.inf

    @property
    def mode_gap(self) -> float:
        """The log distance of two modes, within most processes or between them; 0 where there is one."""
        gaps = [process.mode_gap for process in self.processes]
        two = [gap for gap in gaps if gap]
        inside = float(np.median(two)) if len(two) * 2 > len(gaps) else 0.0
        return max(inside, mode_gap(self.logs))

    @property
    def within(self) -> float:
        """The standard error of a process's location, pooled over the processes."""
        return math.sqrt(sum(p.se**2 for p in self.processes) / len(self.processes)) if self.processes else 0.0

    def times(self, sd: float | None, quantile: float = 0.0) -> Times:
        """Return the side for a reader; its interval is ``quantile`` x ``sd`` / sqrt(processes), in log."""
        half = quantile * sd / math.sqrt(len(self.processes)) if sd is not None else None
        return Times(
            value_ns=self.time_ns,
            low_ns=math.exp(self.log_ns - half) if half is not None else None,
            high_ns=math.exp(self.log_ns + half) if half is not None else None,
            samples=self.samples,
            processes=len(self.processes),
            excluded=self.excluded,
            tick_ns=self.tick_ns,
            sm_clock_mhz=self.sm_clock_mhz,
            statistic="trimmed_mean" if self.trimmed else "median",
        )


def side_of(rows: Iterable[Mapping[str, Any]], settings: Settings, *, trimmed: bool | None = None) -> Side:
    """Return one side from its rows of the frame ``samples``; ``trimmed`` forces the statistic, so that both sides of a
    row can have the same.

    Samples that are throttled or were taken beside another process are left out and counted. Where too few others
    remain, they are kept for the estimate, and :attr:`Side.excluded_share` still says so. A process with fewer than
    ``settings.fewest_samples`` is left out; with none left ``processes`` is empty.
    """
    clean: dict[int, list[tuple[float, int, float]]] = {}
    marked: dict[int, list[tuple[float, int, float]]] = {}
    invalid = 0
    for row in rows:
        time = row.get("time_ns")
        if time is None or not math.isfinite(time) or time <= 0:
            invalid += 1
            continue
        process = int(row.get("process") or 0)
        value = (float(time), int(row.get("launches") or 1), float(row.get("sm_clock_mhz") or math.nan))
        (marked if _marked(row) else clean).setdefault(process, []).append(value)
    kept = {p: np.asarray(v) for p, v in clean.items() if len(v) >= settings.fewest_samples}
    counted = sum(len(v) for v in kept.values())
    excluded = sum(map(len, marked.values()))
    if not kept and marked:
        everything = {p: [*clean.get(p, ()), *marked.get(p, ())] for p in {**clean, **marked}}
        kept = {p: np.asarray(v) for p, v in everything.items() if len(v) >= settings.fewest_samples}
        counted = sum(map(len, clean.values()))
    thin = len({**clean, **marked}) - len(kept)
    if not kept:
        return Side((), 0, excluded, invalid, thin, 0.0, 0.0, None, False)
    data = np.concatenate(list(kept.values()))
    windows = data[:, 0] * data[:, 1]
    launches = float(np.median(data[:, 1]))
    tick = tick_of(windows) / launches
    middle = float(np.median(data[:, 0]))
    coarse = tick >= COARSE_TICK * middle if trimmed is None else trimmed
    processes = tuple(_process(number, kept[number][:, 0], coarse, tick) for number in sorted(kept))
    return Side(
        processes, counted, excluded, invalid, thin, tick, float(np.median(windows)), _clock(data, windows), coarse
    )


def tick_of(windows: Array) -> float:
    """Return the step of the timer that shows in timed windows, in ns: the smallest difference, where nearly all small
    differences are multiples of it; 0 where there is no such step.
    """
    found = np.unique(windows)
    if len(found) < 2:
        return UNKNOWN_TICK_NS if len(windows) > 1 else 0.0
    steps = np.diff(found)
    steps = steps[steps > max(1.0, 1e-6 * float(found[-1]))]  # event times are float32 milliseconds
    if not len(steps):
        return 0.0
    smallest = float(steps.min())
    small = steps[steps <= 20 * smallest] / smallest
    regular = np.abs(small - np.round(small)) < 0.12
    return smallest if len(steps) >= 3 and float(regular.mean()) >= _TICKS_SEEN else 0.0


def location(times: Array, trimmed: bool) -> float:
    """Return the log of the median, or of the 10 %-trimmed mean."""
    if not trimmed:
        return math.log(float(np.median(times)))
    cut = int(TRIM * len(times))
    return math.log(float(np.sort(times)[cut : len(times) - cut].mean()))


def mode_gap(logs: Array, fewest: int = 3) -> float:
    """Return the log distance of two modes; 0 where there is one, or fewer than ``fewest`` values in one of two.

    The widest gap between sorted values that leaves at least a fifth on either side; two modes where Ashman's D of the
    two parts (their distance over their spread, here half of what holds the middle 68 %) exceeds :data:`MODE_DISTANCE`.
    """
    count = len(logs)
    fewest = max(fewest, math.ceil(MODE_SHARE * count))
    if count < 2 * fewest:
        return 0.0
    ordered = np.sort(logs)
    gaps = np.diff(ordered)[fewest - 1 : count - fewest]
    cut = fewest + int(np.argmax(gaps))
    parts = ordered[:cut], ordered[cut:]
    spread = math.sqrt(sum(float(np.subtract(*np.percentile(part, [84, 16]))) ** 2 for part in parts) / 8)
    distance = float(parts[1].mean() - parts[0].mean())
    return distance if distance > MODE_DISTANCE * spread and distance > 0 else 0.0


def _process(number: int, times: Array, trimmed: bool, tick_ns: float) -> Process:
    logs = np.log(times)
    low, high = np.percentile(logs, [25, 75])
    robust = float(high - low) / 1.349
    middle = location(times, trimmed)
    count = len(times)
    # The median of a normal sample has 1.2533 times the standard error of its mean; a timer that only shows steps adds
    # that of a uniform error, tick / sqrt(12), and so does the other end of the window.
    step = tick_ns / math.exp(middle) / math.sqrt(6 * count)
    error = CORRELATION * 1.2533 * robust / math.sqrt(count)
    return Process(number, middle, math.hypot(error, step), count, mode_gap(logs, _FEWEST_IN_MODE))


def _clock(data: Array, windows: Array) -> float | None:
    clocks = data[windows >= CLOCK_WINDOW_NS, 2]
    clocks = clocks[np.isfinite(clocks) & (clocks > 0)]
    return float(np.median(clocks)) if len(clocks) >= max(3, len(data) // 2) else None


def _marked(row: Mapping[str, Any]) -> bool:
    throttle = row.get("throttle")
    return bool(row.get("foreign")) or (bool(throttle) and not THROTTLED.isdisjoint(str(throttle).split(",")))
