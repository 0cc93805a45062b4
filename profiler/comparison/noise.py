"""How far times of identical code differ, by duration, design and card; the defaults, what a ledger learned. Pure.

All numbers are standard deviations of log times (0.01 is 1 %). Short kernels differ most, so each class of duration has
its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from profiler.comparison.model import Design, Noise

#: What a ledger knows of: pairs of processes, both sides in one process, two sessions, two sessions after the
#: controls' common shift was taken out.
Source = Literal["two_process", "in_process", "session", "private"]
SOURCES: tuple[Source, ...] = ("two_process", "in_process", "session", "private")
#: Fewer degrees of freedom than this do not replace a default.
FEWEST_DF = 40.0
#: Sessions differ as wholes: many rows of one pair of sessions are one observation of what they share.
FEWEST_SESSIONS = 5
#: The class's noise is that of its noisier kernels.
QUANTILE = 0.75
#: No floor is lower, whatever a ledger says.
LOWEST_SD = 0.0003
MOST_DF = 200.0
#: Upper bounds of the classes in ns, and their names.
CLASSES: tuple[tuple[float, str], ...] = (
    (10e3, "< 10 us"),
    (30e3, "10-30 us"),
    (100e3, "30-100 us"),
    (1e6, "100 us-1 ms"),
    (math.inf, "> 1 ms"),
)


@dataclass(frozen=True)
class ClassNoise:
    """The noise of one class of duration."""

    name: str
    process_sd: float  #: of one process's location, between processes
    in_process_sd: float  #: of the difference of two sides in one process
    session_sd: float  #: of what two sessions differ by, beyond their processes
    private_sd: float  #: the same, once the shift that all rows share is taken out
    df: Mapping[Source, float] = field(default_factory=dict)
    source: Mapping[Source, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NoiseTable:
    """The noise of a card."""

    card: str
    classes: tuple[ClassNoise, ...]

    def of(self, time_ns: float) -> ClassNoise:
        """Return the class of a duration."""
        return self.classes[class_index(time_ns)]

    def pair_floor(self, time_ns: float, design: Design, within: float = 0.0) -> Noise:
        """Return the floor of a pair's log ratio. ``within`` is the standard error of a location from its samples: a
        kernel whose samples scatter widely has at least that noise.
        """
        found = self.of(time_ns)
        source: Source = "in_process" if design == "in_process" else "two_process"
        sd = found.in_process_sd if source == "in_process" else math.sqrt(2) * found.process_sd
        own = math.sqrt(2) * within
        words = found.source[source] + ("; raised to what its own samples show" if own > sd else "")
        return Noise(max(sd, own), found.df[source], words, found.name)

    def session_floor(
        self, time_ns: float, processes: tuple[int, int], *, corrected: bool, within: float = 0.0, between: float = 0.0
    ) -> Noise:
        """Return the spread of the log ratio of two stored runs of so many processes each.

        ``within``: as in :meth:`pair_floor`; ``between``: the spread that the runs' own processes show, when there are
        enough. One process says nothing of processes, so the class's spread always counts.
        """
        found = self.of(time_ns)
        source: Source = "private" if corrected else "session"
        sd = found.private_sd if corrected else found.session_sd
        process = max(found.process_sd, within, between)
        spread = math.sqrt(sd**2 + process**2 * (1 / processes[0] + 1 / processes[1]))
        single = " (one process a side: its spread between processes is the class's)" if min(processes) == 1 else ""
        return Noise(spread, found.df[source], found.source[source] + single, found.name)


def class_index(time_ns: float) -> int:
    """Return the place of a duration's class in :data:`CLASSES`."""
    return next((i for i, (limit, _) in enumerate(CLASSES) if time_ns < limit), len(CLASSES) - 1)


def default_table(card: str) -> NoiseTable:
    """Return the noise that is assumed of a card until its ledger knows better: measured on one H200 and inflated, and
    twice that for any other card.
    """
    known = "H200" in card.upper()
    factor = 1.0 if known else _OTHER_CARD
    classes = tuple(
        ClassNoise(
            name,
            sds[0] * factor,
            sds[1] * factor,
            sds[2] * factor,
            sds[3] * factor,
            df=dict.fromkeys(SOURCES, FEWEST_DF),
            source={source: (_SOURCE if known else _SOURCE_OTHER)[source] for source in SOURCES},
        )
        for (_, name), sds in zip(CLASSES, _H200, strict=True)
    )
    return NoiseTable(card or "unknown card", classes)


#: By class: between processes, in one process, between sessions, between sessions after correction.
#: Measured between 8 processes of 100 cold samples with free clocks on one H200: 2.8, 1.7, 0.33, 0.36 and 0.015 %, of
#: one kernel a class. Those are raised by half, and further where other kernels of the class may be noisier (a kernel
#: at the power cap is, however long). The rest was not measured: both sides in one process share its clock and its
#: placement and keep what their samples scatter; sessions of free clocks differ by about half a per cent.
_H200: tuple[tuple[float, float, float, float], ...] = (
    (0.042, 0.030, 0.015, 0.0075),
    (0.0255, 0.020, 0.010, 0.0050),
    (0.0080, 0.0060, 0.010, 0.0050),
    (0.0060, 0.0030, 0.010, 0.0050),
    (0.0030, 0.0025, 0.010, 0.0050),
)
_OTHER_CARD = 2.0
_SOURCE: Mapping[Source, str] = {
    "two_process": "default: 8 processes x 100 samples on one H200, inflated",
    "in_process": "default: assumed of an H200, not measured",
    "session": "default: 8 processes on one H200, inflated; between sessions assumed",
    "private": "default: 8 processes on one H200, inflated; between sessions assumed",
}
_SOURCE_OTHER: Mapping[Source, str] = dict.fromkeys(
    SOURCES, "default of an unknown card: twice that of an H200, not measured"
)


# --- what a ledger learned ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """What one row of identical code showed once."""

    source: Source
    duration_class: int
    key: str  #: which code, such as variant, size and binary
    mean_square: float  #: of the log ratios, about zero: the code is the same
    df: float
    session: str = ""  #: which pair of runs it was seen in
    process_var: float = 0.0  #: sessions: the part of the mean square that processes account for


@dataclass(frozen=True)
class Ledger:
    """What was seen of one card."""

    card: str
    entries: tuple[Entry, ...] = ()

    #: Of each class and source, the newest are kept.
    MOST_ENTRIES = 400

    def with_entries(self, entries: Iterable[Entry]) -> Ledger:
        """Return the ledger with more entries; what was already seen in the same session, of the same code, is not
        counted twice, and the oldest beyond :attr:`MOST_ENTRIES` are dropped.
        """
        known = {(e.source, e.duration_class, e.key, e.session): e for e in self.entries}
        for entry in entries:
            known[entry.source, entry.duration_class, entry.key, entry.session] = entry
        kept: list[Entry] = []
        count: dict[tuple[Source, int], int] = {}
        for entry in reversed(known.values()):
            place = (entry.source, entry.duration_class)
            count[place] = count.get(place, 0) + 1
            if count[place] <= self.MOST_ENTRIES:
                kept.append(entry)
        return replace(self, entries=tuple(reversed(kept)))

    def table(self, defaults: NoiseTable) -> NoiseTable:
        """Return the defaults, with what this ledger knows well enough in their place."""
        return replace(defaults, classes=tuple(self._class(i, found) for i, found in enumerate(defaults.classes)))

    def _class(self, index: int, default: ClassNoise) -> ClassNoise:
        sds: dict[Source, float] = {}
        dfs, words = dict(default.df), dict(default.source)
        for source in SOURCES:
            entries = [e for e in self.entries if (e.source, e.duration_class) == (source, index)]
            df = sum(e.df for e in entries)
            sessions = len({e.session for e in entries})
            if df < FEWEST_DF or (source in ("session", "private") and sessions < FEWEST_SESSIONS):
                continue
            sds[source] = max(LOWEST_SD, _upper_sd(entries))
            dfs[source] = min(df, MOST_DF)
            words[source] = f"ledger of this card: {df:.0f} degrees of freedom from {sessions} measurements"
        return replace(
            default,
            process_sd=sds["two_process"] / math.sqrt(2) if "two_process" in sds else default.process_sd,
            in_process_sd=sds.get("in_process", default.in_process_sd),
            session_sd=sds.get("session", default.session_sd),
            private_sd=sds.get("private", default.private_sd),
            df=dfs,
            source=words,
        )


def pair_entry(
    design: Design, time_ns: float, key: str, log_ratios: Sequence[float], session: str = ""
) -> Entry | None:
    """Return what pairs of identical code add to a ledger; None without a finite pair."""
    logs = np.asarray([value for value in log_ratios if math.isfinite(value)])
    if not len(logs):
        return None
    source: Source = "in_process" if design == "in_process" else "two_process"
    return Entry(source, class_index(time_ns), key, float((logs**2).mean()), float(len(logs)), session)


def session_entries(
    time_ns: float, key: str, log_ratio: float, drift: float | None, process_var: float, session: str
) -> list[Entry]:
    """Return what a row of identical code in two stored runs adds; ``drift`` is the controls' log shift."""
    if not math.isfinite(log_ratio):
        return []
    index = class_index(time_ns)
    found = [Entry("session", index, key, log_ratio**2, 1.0, session, process_var)]
    if drift is not None:
        found.append(Entry("private", index, key, (log_ratio - drift) ** 2, 1.0, session, process_var))
    return found


def _upper_sd(entries: Sequence[Entry]) -> float:
    """The 75th percentile over the codes of a class of their standard deviation, each weighted by what is behind it."""
    codes: dict[str, list[Entry]] = {}
    for entry in entries:
        codes.setdefault(entry.key, []).append(entry)
    found = []
    for seen in codes.values():
        df = sum(e.df for e in seen)
        variance = sum((e.mean_square - e.process_var) * e.df for e in seen) / df
        found.append((math.sqrt(max(variance, 0.0)), df))
    found.sort()
    total, so_far = sum(df for _, df in found), 0.0
    for sd, df in found:
        so_far += df
        if so_far >= QUANTILE * total:
            return sd
    return found[-1][0]
