"""Why one variant is faster than another: the profiler's time as a product of counters, and the ratio of two products.

``time = instructions per scheduler x latency per issued instruction / warps per scheduler / active share / clock``

The active share is made from the launch's duration and issue rate, so what the product tests is Little's law: warps =
latency x issue rate, which holds by construction where one pass counted all three. What it misses is a factor of its
own, as is what lies between the profiler's time and the event time; so the factors of a step multiply to the measured
speed-up exactly. Where the timed launches have a clock, it is the clock of the step, and the profiler's time and the
event time are held against each other in cycles: two passes at other clocks say nothing of the launches that count.
The latency's factor is split among the stall reasons with log-mean weights (LMDI), which leave nothing over and do not
depend on the order of the factors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.analysis import formatting
from profiler.analysis.log_mean import split
from profiler.analysis.rundata import Launch, RunData, Value
from profiler.analysis.stalls import SUM_TOLERANCE, Reason, reason_of
from profiler.analysis.statistics import median
from profiler.analysis.tensor_work import TensorWork, tensor_work
from profiler.analysis.timed_clock import timed_clock_hz
from profiler.metrics import METRICS

#: The product and the profiler's time agree within this share, or the page says that they do not.
TOLERANCE = 0.01


@dataclass(frozen=True)
class Kind:
    """One factor of a time: its counter (if it is one), and whether time grows (1) or shrinks (-1) with it."""

    key: str
    label: str
    metric: str
    power: int
    meaning: str


def _counter(key: str, label: str, metric: str, power: int) -> Kind:
    return Kind(key, label, metric, power, METRICS[metric].meaning)


FACTORS: tuple[Kind, ...] = (
    _counter("instructions", "instructions", "instructions_per_scheduler", 1),
    _counter("latency", "latency", "warp_latency", 1),
    _counter("warps", "warps", "warps_per_scheduler", -1),
    _counter("active", "active share", "active_share", -1),
    _counter("clock", "clock", "sm_clock", -1),
)
UNEXPLAINED = Kind(
    "unexplained", "unexplained", "", 1,
    "The profiler's time over the product of the other factors; 1 where warps = latency x issue rate holds exactly.",
)  # fmt: skip
REST = Kind("rest", "not separated", "", 1, "What the factors without a counter account for, taken together.")
KERNELS = Kind("kernels", "other kernels", "", 1, "The time of all kernels over that of the longest one.")
EVENT = Kind(
    "event", "event / profiler", "", 1,
    "The median event time over the profiler's time of one launch: another state of the caches, and another clock "
    "where that of the timed launches is not known.",
)  # fmt: skip
#: The factors of a step whose timed launches have a clock, in place of the pass's clock and of the ratio of the times.
TIMED_CLOCK = Kind("clock", "clock", "", -1, "The SM clock of the timed launches, their median.")
EVENT_CYCLES = Kind(
    "event", "event / profiler", "", 1,
    "The timed launch over the profiler's launch, each in cycles of its own clock: another state of the caches.",
)  # fmt: skip
KINDS: Mapping[str, Kind] = {kind.key: kind for kind in (*FACTORS, UNEXPLAINED, REST, KERNELS, EVENT)}
#: The part of the latency that no stall reason accounts for, so that the parts add up to the measured latency.
NO_REASON = Reason("", "in no reason", "other", "", frozenset(), "The measured latency beyond the sum of the reasons.")


@dataclass(frozen=True)
class Missing:
    """A counter that one side lacks."""

    variant: str
    metric: str
    why: str


@dataclass(frozen=True)
class Identity:
    """The factors of one launch and their product beside its duration."""

    launch: Launch
    values: Mapping[str, Value]  #: by the factor's key
    duration_s: Value

    @property
    def product_s(self) -> float | None:
        """Return the time that the factors multiply to; None when one is missing."""
        return self.product([kind.key for kind in FACTORS])

    def product(self, keys: Sequence[str]) -> float | None:
        """Return the product of some of the factors."""
        result = 1.0
        for key in keys:
            value = self.values[key].value
            if value is None:
                return None
            result *= value ** KINDS[key].power
        return result

    @property
    def off(self) -> float | None:
        """Return by how much the product misses the duration, as a share of it; None when either is missing."""
        product, duration = self.product_s, self.duration_s.value
        return None if product is None or duration is None else product / duration - 1

    @property
    def holds(self) -> bool | None:
        """Whether the product explains the duration within the tolerance; None when it cannot be said."""
        return None if self.off is None else abs(self.off) <= TOLERANCE


@dataclass(frozen=True)
class Side:
    """One variant at one size as a step sees it: event time, profiled time, and the factors of its longest kernel."""

    variant: str
    size: str
    kernels: int
    identity: Identity | None
    reasons: Mapping[str, float]
    profiled_s: Value  #: of all kernels together
    event_s: Value
    event_hz: float | None = None  #: the SM clock of the timed launches; None where it is unknown or too coarse
    tensor: TensorWork | None = None  #: of the only kernel

    @property
    def dominance(self) -> float | None:
        """Return the longest kernel's share of the profiled time."""
        if self.identity is None or self.identity.duration_s.value is None or self.profiled_s.value is None:
            return None
        return self.identity.duration_s.value / self.profiled_s.value

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Return the counters that the decomposition needs and this side lacks."""
        if self.identity is None:
            return (Missing(self.variant, "duration", self.profiled_s.why_text),)
        values = {"duration": self.profiled_s} | {k.metric: self.identity.values[k.key] for k in FACTORS}
        return tuple(Missing(self.variant, name, v.why_text) for name, v in values.items() if v.value is None)


@dataclass(frozen=True)
class Part:
    """A stall reason's part in the latency's factor. ``log_gain`` is in natural logarithms of the speed-up."""

    reason: Reason
    before: float
    after: float
    log_gain: float

    @property
    def gain(self) -> float:
        """Return the part as a factor of the speed-up: above 1 it saves time."""
        return math.exp(self.log_gain)


@dataclass(frozen=True)
class Effect:
    """One factor on both sides, and what its change does to the time."""

    kind: Kind
    before: float | None
    after: float | None
    log_gain: float
    parts: tuple[Part, ...] = ()

    @property
    def gain(self) -> float:
        """Return the factor of the speed-up: above 1 it saves time, below it costs time."""
        return math.exp(self.log_gain)

    @property
    def ratio(self) -> float:
        """Return the factor after over before: 0.24 for a quarter of the instructions."""
        return math.exp(-self.log_gain * self.kind.power)


@dataclass(frozen=True)
class Decomposition:
    """A speed-up and the factors that multiply to it; no factors where counters are missing."""

    before: Side
    after: Side
    speedup: float | None  #: time before over time after: above 1 is faster
    measured: bool  #: whether the times are event times; otherwise the profiler's
    effects: tuple[Effect, ...]
    why: str = ""  #: why there is no speed-up or no factor
    remarks: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Return the counters that either side lacks."""
        return self.before.missing + self.after.missing

    def effect(self, key: str) -> Effect | None:
        """Return a factor by its key."""
        return next((effect for effect in self.effects if effect.kind.key == key), None)

    @property
    def issue_cycles(self) -> tuple[float, float] | None:
        """Return the cycles between two issues of a scheduler, before and after: latency over warps."""
        latency, warps = self.effect("latency"), self.effect("warps")
        if latency is None or warps is None:
            return None
        assert latency.before and latency.after and warps.before and warps.after
        return latency.before / warps.before, latency.after / warps.after


def explain(data: RunData, before: str, after: str, size: str, after_data: RunData | None = None) -> Decomposition:
    """Return why ``after`` takes another time than ``before``; ``after_data`` is its run where it is another one."""
    return decompose(side(data, before, size), side(data if after_data is None else after_data, after, size))


def profiled_sides(data: RunData) -> tuple[Side, ...]:
    """Return every variant at every size that has a profiled launch, for the table of the factors themselves."""
    names = [str(row["name"]) for row in data.variants]
    return tuple(side(data, name, size) for size in data.sizes for name in names if data.launches(name, size))


def identity(data: RunData, variant: str, size: str, launch: Launch) -> Identity:
    """Return the factors of one launch."""
    values = {kind.key: _positive(data.launch_value(variant, size, launch, kind.metric)) for kind in FACTORS}
    return Identity(launch, values, _positive(data.launch_value(variant, size, launch, "duration")))


def side(data: RunData, variant: str, size: str) -> Side:
    """Return what a variant brings to a comparison; what is missing says why."""
    launches = data.launches(variant, size)
    found = tensor = None
    reasons: Mapping[str, float] = {}
    if launches:
        longest = max(launches, key=lambda one: data.launch_weight(variant, size, one))
        found = identity(data, variant, size, longest)
        reasons = data.stalls(variant, size).get(longest, {})
        tensor = tensor_work(data, variant, size, longest) if len(launches) == 1 else None
    profiled = _positive(data.total(variant, size, "duration"))
    event = _event(data, variant, size)
    clock = None if event.value is None else timed_clock_hz(data, variant, size)
    return Side(variant, size, len(launches), found, reasons, profiled, event, clock, tensor)


def _event(data: RunData, variant: str, size: str) -> Value:
    row = data.variant(variant)
    if row is None:
        return Value(None, "s", why="it is not in this run")
    if not data.timed(variant):
        return Value(None, "s", why=formatting.status(str(row["status"])))
    samples = data.samples(variant, size)
    if not samples:
        return Value(None, "s", why="it was not timed")
    return Value(median([sample.time_ns for sample in samples]) * 1e-9, "s", "timing")


def _positive(value: Value) -> Value:
    """A factor of a time is above zero and finite; anything else is no value."""
    if value.value is None or (math.isfinite(value.value) and value.value > 0):
        return value
    return Value(None, value.unit, value.origin, f"the profiler reports {value.value:g}")


def decompose(before: Side, after: Side) -> Decomposition:
    """Return the speed-up from one side to the other and its factors."""
    measured = before.event_s.value is not None and after.event_s.value is not None
    times = [(one.event_s if measured else one.profiled_s).value for one in (before, after)]
    if times[0] is None or times[1] is None:
        lacking = before if times[0] is None else after
        why = f"{formatting.short(lacking.variant, 60)} has no time: {lacking.event_s.why_text}"
        return Decomposition(before, after, None, measured, (), why)
    effects = _effects(before, after, measured)
    why = "" if effects else _why(before, after)
    said = tuple(text for one in (before, after) for text in remarks(one)) if effects else ()
    return Decomposition(before, after, times[0] / times[1], measured, effects, why, said)


def _effects(before: Side, after: Side, measured: bool) -> tuple[Effect, ...]:
    one, two = before.identity, after.identity
    whole = before.profiled_s.value, after.profiled_s.value
    if one is None or two is None or whole[0] is None or whole[1] is None:
        return ()
    known = [k for k in FACTORS if one.values[k.key].value is not None and two.values[k.key].value is not None]
    if not known:
        return ()
    cycles = _in_cycles(before, after) if measured and FACTORS[-1] in known else None
    effects = []
    for kind in known:
        if kind.key == "clock" and cycles is not None:
            effects.append(_effect(TIMED_CLOCK, before.event_hz, after.event_hz))
            continue
        parts = _parts(before, after) if kind.key == "latency" else ()
        effects.append(_effect(kind, one.values[kind.key].value, two.values[kind.key].value, parts))
    left = [_left(each, known) for each in (one, two)]
    if len(known) == len(FACTORS):
        effects.append(_effect(UNEXPLAINED, left[0], left[1]))
    else:
        effects.append(Effect(REST, None, None, math.log(left[0] / left[1])))
    if max(before.kernels, after.kernels) > 1:
        effects.append(_effect(KERNELS, 1 / (before.dominance or math.nan), 1 / (after.dominance or math.nan)))
    if measured and cycles is not None:
        effects.append(_effect(EVENT_CYCLES, *cycles))
    elif measured:
        effects.append(
            _effect(EVENT, (before.event_s.value or 0.0) / whole[0], (after.event_s.value or 0.0) / whole[1])
        )
    return tuple(effects)


def _in_cycles(before: Side, after: Side) -> tuple[float, float] | None:
    """The cycles of a timed launch over those of the profiled one, on both sides; None where a clock is missing."""
    found = []
    for one in (before, after):
        clock = one.identity.values["clock"].value if one.identity is not None else None
        profiled, event = one.profiled_s.value, one.event_s.value
        if clock is None or profiled is None or event is None or one.event_hz is None:
            return None
        found.append(event * one.event_hz / (profiled * clock))
    return found[0], found[1]


def _left(one: Identity, known: Sequence[Kind]) -> float:
    """What the duration has beyond the product of the known factors."""
    duration, product = one.duration_s.value, one.product([kind.key for kind in known])
    assert duration is not None and product is not None
    return duration / product


def _effect(kind: Kind, before: float | None, after: float | None, parts: tuple[Part, ...] = ()) -> Effect:
    assert before is not None and after is not None
    return Effect(kind, before, after, kind.power * math.log(before / after), parts)


def _parts(before: Side, after: Side) -> tuple[Part, ...]:
    """The latency by stall reason; a reason that one side does not have is 0 there, which the log-mean allows."""
    one, two = _by_reason(before), _by_reason(after)
    if not one or not two:
        return ()
    parts = [
        Part(reason_of(name) if name else NO_REASON, one.get(name, 0.0), two.get(name, 0.0), log_gain)
        for name, log_gain in split(one, two).items()
        if one.get(name) or two.get(name)
    ]
    return tuple(sorted(parts, key=lambda part: -abs(part.log_gain)))


def _by_reason(one: Side) -> dict[str, float]:
    """The cycles by reason, and those in no reason, so that they add up to the measured latency."""
    latency = one.identity.values["latency"].value if one.identity is not None else None
    if latency is None or not one.reasons:
        return {}
    return {**one.reasons, NO_REASON.name: latency - sum(one.reasons.values())}


def _why(before: Side, after: Side) -> str:
    """Why there are no factors: which counters are missing, and the reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in before.missing + after.missing:
        found.setdefault((one.variant, one.why), []).append(one.metric)
    return "; ".join(
        f"{formatting.short(variant, 60)} has no {formatting.listed(names)} ({why})"
        for (variant, why), names in found.items()
    )


def remarks(one: Side) -> list[str]:
    """Return what a reader must know of a side: a product that is off, several kernels, reasons that do not add up."""
    found: list[str] = []
    name = formatting.short(one.variant, 60)
    if one.identity is None:
        return found
    lacking = [missing for missing in one.missing if missing.metric != "duration"]
    if lacking:
        names = formatting.listed(f"{m.metric} ({m.why})" for m in lacking)
        found.append(f"{name} has no {names}, and what that leaves open is one factor of its own.")
    if one.identity.holds is False and one.identity.off is not None:
        found.append(
            f"The product of {name} is off by {formatting.percent(abs(one.identity.off), 1)} of the profiler's time: "
            "its counters come from different passes or its warps from different roles."
        )
    if one.kernels > 1 and one.dominance is not None:
        found.append(
            f"{name} launches {one.kernels} kernels: its times are sums, its factors those of "
            f"{formatting.short(one.identity.launch[1], 60)}, which takes {formatting.percent(one.dominance)} of them."
        )
    latency, total = one.identity.values["latency"].value, sum(one.reasons.values())
    if latency is not None and not one.reasons:
        found.append(f"{name} has no stall reasons, so its latency is not split.")
    elif latency is not None and abs(total - latency) > SUM_TOLERANCE * latency:
        share = formatting.percent(total / latency, 1)
        found.append(f"The stall reasons of {name} add up to {share} of its latency; the rest is in no reason.")
    return found
