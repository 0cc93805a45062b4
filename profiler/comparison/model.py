"""What a comparison is made of: rows with their verdicts, mismatches, controls, causes, and the settings used.

Plain values, frozen; everything else in this package fills or prints them. Ratios are time after over time before:
above one is slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Verdict = Literal[
    "improved", "regressed", "suspected", "unchanged", "inconclusive", "incomparable", "new", "removed", "broken",
    "skipped", "not_measured", "counters_only",
]  # fmt: skip
VERDICTS: tuple[str, ...] = get_args(Verdict)

#: Why a row is inconclusive.
Reason = Literal[
    "noise",  #: the interval is too wide to say either
    "bimodal",  #: a side has two modes, and the difference is no larger than their distance
    "throttled",  #: too many samples were taken throttled or beside another process
    "clock",  #: the time moved, the cycles did not
    "too_short",  #: a sample lasts too few ticks of the timer
    "controls",  #: what should not have moved did not move alike
    "environment",  #: code that did not change moved too far
    "few_samples",  #: too few samples or processes for an interval
]
REASONS: tuple[str, ...] = get_args(Reason)

Kind = Literal["stored", "side_by_side", "self", "counters_only"]
Design = Literal["stored", "two_process", "in_process"]
Direction = Literal["slower", "faster", ""]
Sameness = Literal["same", "changed", "unknown"]
Action = Literal["refuse", "warn", "allowed"]
Explanation = Literal["", "explained", "unexplained", "latent", "identical"]
CauseClass = Literal["exact", "near"]

#: In side-by-side samples ``process`` numbers the pair, alike on both sides; from here on it is the confirmation's.
CONFIRMATION_BASE = 1000


@dataclass(frozen=True)
class Settings:
    """The thresholds of a comparison; shares unless the name says otherwise (0.02 is 2 %)."""

    min_effect: float = 0.005  #: no smaller change is flagged
    max_regression: float = 0.05  #: an inconclusive row passes where its interval excludes a slowdown above this
    equivalence: float = 0.02  #: ``unchanged`` is claimed where the 90 % interval lies within this
    alpha_stage: float = 0.05  #: level of each of the two stages
    alpha_flag: float = 0.01  #: level of a flag; its interval is the one that rows show
    alpha_family: float = 0.05  #: level of the whole comparison (Holm)
    stored_share: float = 0.10  #: stored runs: nothing smaller is ``regressed`` or ``improved``
    stored_spreads: float = 6.0  #: nor anything below this many cross-session spreads
    controls_needed: int = 3  #: stored runs: steady controls that a firm verdict takes
    controls_agree: float = 0.01  #: controls whose shifts scatter more say nothing
    identical_share: float = 0.02  #: unchanged code that moved by more than this,
    identical_floors: float = 3.0  #: and by more than this many noise floors, means the environment changed
    excluded_share: float = 0.20  #: more samples marked throttled or foreign make a row inconclusive
    fewest_samples: int = 5  #: in a process
    fewest_ticks: float = 20.0  #: of the timer in a sample
    pairs: tuple[int, ...] = (3, 5, 9)  #: process pairs of the first stage, as it escalates
    confirmation_pairs: int = 5
    fail_on_latent: bool = False
    allow: tuple[str, ...] = ()  #: keys whose mismatch the user accepts


@dataclass(frozen=True)
class Estimate:
    """A ratio with the bounds of its interval; None where too little is known to say."""

    value: float
    low: float | None
    high: float | None
    confidence: float = 0.99

    def excludes_above(self, limit: float) -> bool:
        """Whether the interval shows that the ratio is at most ``limit``."""
        return self.high is not None and self.high <= limit


@dataclass(frozen=True)
class Noise:
    """The noise floor that a row was judged by: standard deviations of log times (0.01 is 1 %)."""

    sd: float  #: of the difference that the design takes: pairs of processes, or two sessions
    df: float  #: degrees of freedom behind it
    source: str  #: where it comes from, in words
    duration_class: str = ""  #: such as ``30-100 us``


@dataclass(frozen=True)
class Times:
    """One side's times: the mean of the processes' medians (trimmed means for coarse ticks), geometric, in ns."""

    value_ns: float
    low_ns: float | None
    high_ns: float | None
    samples: int  #: that counted
    processes: int
    excluded: int = 0  #: throttled or foreign
    tick_ns: float = 0.0  #: of the timer, per launch; 0 where none shows
    sm_clock_mhz: float | None = None  #: median; None where it is unknown or the window too short to tell it
    statistic: Literal["median", "trimmed_mean"] = "median"


@dataclass(frozen=True)
class CodeIdentity:
    """Whether a row is the same code on both sides, all told and part by part."""

    code: Sameness = "unknown"
    parts: tuple[tuple[str, Sameness], ...] = ()  #: such as ("binary", "same"), ("launch", "changed")
    words: str = ""

    def part(self, name: str) -> Sameness:
        """Return one part."""
        return dict(self.parts).get(name, "unknown")


@dataclass(frozen=True)
class CounterPair:
    """A counter on both sides; a missing value says why."""

    metric: str
    label: str
    unit: str
    before: float | None
    after: float | None
    cls: Literal["exact", "near", "timing"] = "near"
    why: str = ""

    @property
    def ratio(self) -> float | None:
        """After over before; None when either is missing or before is zero."""
        return None if self.before is None or self.after is None or self.before == 0 else self.after / self.before


@dataclass(frozen=True)
class Cause:
    """A difference between the two sides that can explain a change of time."""

    cls: CauseClass
    metric: str
    before: float | str | None
    after: float | str | None
    unit: str
    share: float | None  #: of the log change of time that it predicts; None where nothing predicts it
    words: str
    worse: bool = True  #: whether the difference is one that costs time
    neutral: bool = False  #: a change of shape that neither costs nor saves by itself, such as the grid
    fault: str = ""  #: the well-known fault that it is, such as ``bank_conflicts``
    basis: str = ""  #: what the share rests on: the identity's factor, or a roof


@dataclass(frozen=True)
class Diff:
    """A unified diff of a source, the flags or the parameters, cut to a stated length."""

    title: str
    text: str
    lines_left_out: int = 0


@dataclass(frozen=True)
class RowComparison:
    """One variant at one size."""

    variant: str
    size: str
    dtype: str
    verdict: Verdict
    reason: Reason | Literal[""] = ""  #: of ``inconclusive`` alone
    words: str = ""  #: one sentence: why this verdict
    direction: Direction = ""  #: which way a flagged or suspected row moved
    ratio: Estimate | None = None
    p: float | None = None  #: of the flag, unadjusted
    p_holm: float | None = None  #: adjusted over the comparison
    detectable: float | None = None  #: the smallest relative effect that would have been flagged, at 95 % power
    min_effect: float | None = None  #: the smallest relative effect that may be flagged here
    noise: Noise | None = None
    pairs: int = 0  #: process pairs, both stages; 0 for stored runs
    stage: Literal["", "first", "confirmed", "not_confirmed"] = ""
    before: Times | None = None
    after: Times | None = None
    corrected_by: float = 1.0  #: stored runs: the controls' shift that the ratio was divided by
    identity: CodeIdentity = field(default_factory=CodeIdentity)
    counters: tuple[CounterPair, ...] = ()
    causes: tuple[Cause, ...] = ()
    explanation: Explanation = ""
    diffs: tuple[Diff, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """What tells rows apart."""
        return (self.variant, self.size)


@dataclass(frozen=True)
class Mismatch:
    """A fact on which the two sides differ, or that one of them does not state."""

    key: str
    before: str
    after: str
    action: Action
    rows: tuple[tuple[str, str], ...] = ()  #: (variant, size) that it concerns; empty: all of them

    def __str__(self) -> str:
        return f"{self.key}: {self.before} before, {self.after} after"


@dataclass(frozen=True)
class Control:
    """Something that should not have moved, and by how much it did."""

    name: str
    kind: Literal["ceiling", "identical"]
    shift: float  #: ratio after over before, as a time
    steady: bool = True  #: within the agreement of the others


@dataclass(frozen=True)
class Comparison:
    """The whole of it."""

    before: str
    after: str
    kind: Kind
    rows: tuple[RowComparison, ...]
    mismatches: tuple[Mismatch, ...] = ()
    controls: tuple[Control, ...] = ()
    drift: float | None = None  #: the controls' median shift, as a ratio; None without controls
    settings: Settings = field(default_factory=Settings)
    design: Design = "stored"
    same_run: bool = False  #: before and after are one and the same
    edited: tuple[str, ...] = ()  #: files that no longer are what the manifest says, as ``before: samples.parquet``
    notes: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)  #: what was held against what, such as ``before.created``

    @property
    def counts(self) -> dict[str, int]:
        """How many rows have each verdict, in the order of :data:`VERDICTS`; verdicts without a row are left out."""
        found = {verdict: sum(row.verdict == verdict for row in self.rows) for verdict in VERDICTS}
        return {verdict: count for verdict, count in found.items() if count}

    @property
    def latent(self) -> tuple[RowComparison, ...]:
        """The rows whose exact counters are worse at an unchanged time."""
        return tuple(row for row in self.rows if row.explanation == "latent")

    @property
    def refused(self) -> tuple[str, ...]:
        """The keys that stand in the way, each once."""
        return tuple(dict.fromkeys(m.key for m in self.mismatches if m.action == "refuse"))

    @property
    def allowed(self) -> tuple[str, ...]:
        """The keys whose mismatch was accepted, each once."""
        return tuple(dict.fromkeys(m.key for m in self.mismatches if m.action == "allowed"))
