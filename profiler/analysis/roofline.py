"""How near each variant comes to each roof: bytes by level, operations by pipe, and the roofs at the pass's own clock.

Rates are taken inside one profiler pass: counted bytes or operations over the profiled duration, against the roof
that the same pass reports for its clock.
A missing counter is a missing point with its reason. Where there are no counters at
all, the problem's own operations and least bytes over the timed median give a model point, labelled so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from profiler.analysis.formatting import percent
from profiler.analysis.roofs import LEVELS as LEVELS
from profiler.analysis.roofs import MADE_OF, pipe_key, pipes_of
from profiler.analysis.rundata import Launch, RunData, Value
from profiler.analysis.statistics import median
from profiler.controls import parse_row_name

Family = Literal["memory", "compute", "issue"]

#: Limits of "near its roof" and "far below": memory 80 % and 60 %, arithmetic 70 % and 50 %.
NEAR = {"memory": 0.80, "compute": 0.70, "issue": 0.75}
FAR = {"memory": 0.60, "compute": 0.50, "issue": 0.60}
#: A rate this far above its roof is no noise: units or precision are wrong.
ABOVE = 1.03


#: A pipe below this share of a variant's operations is left out: FP32 kernels move registers with HFMA2.
MINOR = 0.02


@dataclass(frozen=True)
class RoofUse:
    """How much of one roof a variant uses in its profiled pass; ``share`` is None when something is missing."""

    key: str
    label: str
    family: Family
    amount: Value  #: bytes or operations of the whole variant
    achieved: float | None
    roof: Value
    share: float | None
    unit: str
    why: str = ""

    @property
    def above(self) -> bool:
        """Whether the rate lies above its roof: evidence of wrong units or precision, not of a fast kernel."""
        return self.share is not None and self.share > ABOVE


@dataclass(frozen=True)
class Limit:
    """What binds a variant: a roof it is near, or latency when it is far below all of them."""

    key: str  #: a roof's key, ``latency``, or empty when unknown
    label: str
    share: float | None  #: of the binding roof; for latency, of the highest one
    roof: str  #: the label of the highest roof
    verdict: Literal["near", "between", "latency", "unknown"]
    text: str
    origin: str = "ncu"


@dataclass(frozen=True)
class Point:
    """A dot: a variant at a level; ``intensity`` or ``performance`` is None when it is missing, with the reason."""

    variant: str
    dtype: str
    level: str
    intensity: float | None
    performance: float | None
    amount_bytes: float | None
    share: float | None  #: of the level's own roof
    pipe: str
    pipe_share: float | None
    clock_hz: float | None
    origin: str  #: ncu, or model
    why: str = ""
    flag: str = ""


@dataclass(frozen=True)
class Roof:
    """A line: a level's bandwidth or a pipe's peak, at a clock, and where the figure comes from."""

    key: str
    label: str
    family: Family
    value: float
    unit: str
    clock_hz: float | None
    origin: str  #: counter, measured, nominal
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arrow:
    """A step of the path from rung to rung, within one contract and level."""

    dtype: str
    level: str
    before: Point
    after: Point


@dataclass(frozen=True)
class Roofline:
    """Everything that the chart of one size shows."""

    size: str
    points: tuple[Point, ...]
    roofs: tuple[Roof, ...]
    arrows: tuple[Arrow, ...]
    model: bool  #: no counters: points come from the problem's own counts


def duration_s(data: RunData, name: str, size: str) -> Value:
    """Return the profiled duration of a variant: the sum over its kernels."""
    return data.total(name, size, "duration")


def roof_uses(data: RunData, name: str, size: str) -> tuple[RoofUse, ...]:
    """Return the shares of every roof of a variant: sums of bytes and operations over the sum of durations."""
    return _uses(data, name, size, data.launches(name, size))


def _utilized(
    data: RunData, name: str, size: str, launches: Sequence[Launch], use: RoofUse, metric: str, what: str
) -> RoofUse:
    """The profiler's own share of a unit's peak, where the counts or the roof are missing; else the use as it is."""
    if use.share is not None:
        return use
    own = _mean(data, name, size, launches, metric)
    return use if own.value is None else replace(use, share=own.value / 100, why=f"the profiler's own {what}")


def _uses(data: RunData, name: str, size: str, launches: Sequence[Launch]) -> tuple[RoofUse, ...]:
    duration = _sum(data, name, size, launches, "duration")
    uses = []
    for level in LEVELS:
        amount = _sum(data, name, size, launches, level.amount)
        roof = _mean(data, name, size, launches, level.roof)
        use = _use(level.key, level.label, "memory", amount, duration, roof, "B/s")
        uses.append(_utilized(data, name, size, launches, use, f"utilization.{level.key}", "utilization"))
    pipes = pipes_of(str((data.variant(name) or {}).get("dtype") or ""))
    amounts = {pipe: _part(_sum(data, name, size, launches, pipe.amount), pipe.products) for pipe in pipes}
    for pipe in pipes:
        if any(amounts[other].value is not None for other in pipes if other.amount in pipe.instead_of):
            amounts[pipe] = Value(None, why="not_applicable")
    most = max((value.value or 0.0 for value in amounts.values()), default=0.0)
    for pipe, amount in amounts.items():
        if amount.value and amount.value >= MINOR * most:
            roofs = [_part(_mean(data, name, size, launches, roof), pipe.products) for roof in pipe.roofs]
            roof = next((value for value in roofs if value.value is not None), roofs[0])
            use = _use(pipe.key, pipe.label, "compute", amount, duration, roof, "FLOP/s")
            if "tensor" in pipe.label:
                use = _utilized(data, name, size, launches, use, "pipe_tensor", "share of active cycles")
            uses.append(use)
    if data.foreign and not any(use.family == "compute" and use.share is not None for use in uses):
        blank = RoofUse("sm", "busiest unit of the SM", "compute", Value(None), None, Value(None), None, "FLOP/s")
        busiest = _utilized(data, name, size, launches, blank, "sm_throughput", "utilization")
        uses += [busiest] if busiest.share is not None else []
    issue = _mean(data, name, size, launches, "issue_active")
    if issue.value is not None:
        one = Value(1.0, "1", issue.origin)
        uses.append(RoofUse("issue", "issue slots", "issue", issue, issue.value, one, issue.value, "1/cycle"))
    return tuple(uses)


def _part(value: Value, parts: int) -> Value:
    return value if value.value is None or parts == 1 else replace(value, value=value.value / parts)


def _use(key: str, label: str, family: Family, amount: Value, duration: Value, roof: Value, unit: str) -> RoofUse:
    for part in (amount, duration, roof):
        if part.value is None:
            return RoofUse(key, label, family, amount, None, roof, None, unit, part.why_text)
    if not duration.value or not roof.value:
        return RoofUse(
            key, label, family, amount, None, roof, None, unit, "the profiler gave a duration or roof of zero"
        )
    achieved = (amount.value or 0.0) / duration.value
    return RoofUse(key, label, family, amount, achieved, roof, achieved / roof.value, unit)


def limit_of(uses: Sequence[RoofUse], why: str = "") -> Limit:
    """Return what binds: the roof it is nearest to, latency when it is far below all, unknown without counters."""
    known = [use for use in uses if use.share is not None and use.family != "issue"]
    if not known:
        return Limit("", "", None, "", "unknown", why or "no counters")
    near = [use for use in known if (use.share or 0.0) >= NEAR[use.family]]
    top = _most_used(near or known)  # what is near is named even where the share of another is higher, but not near
    share = top.share or 0.0
    if near:
        return Limit(top.key, top.label, share, top.label, "near", f"{top.label} ({percent(share)} of its roof)")
    issue = next((use for use in uses if use.family == "issue" and use.share is not None), None)
    if issue is not None and (issue.share or 0.0) >= NEAR["issue"]:
        return Limit(
            "issue", issue.label, issue.share, top.label, "near", f"issue slots ({percent(issue.share or 0.0)} used)"
        )
    if any((use.share or 0.0) >= FAR[use.family] for use in known):
        text = f"{top.label} most of all ({percent(share)} of its roof), not yet near it"
        return Limit(top.key, top.label, share, top.label, "between", text)
    text = f"latency: no roof is near, the highest is {top.label} at {percent(share)}"
    return Limit("latency", "latency", share, top.label, "latency", text)


def _most_used(known: Sequence[RoofUse]) -> RoofUse:
    """The highest share; shared memory is named rather than L1 where it is most of what the L1 data pipe carries."""
    top = max(known, key=lambda use: use.share or 0.0)
    if top.key == "l1":
        for use in known:
            if use.key == "shared" and (use.share or 0.0) >= 0.75 * (top.share or 0.0):
                return use
    return top


def dominant_pipe(uses: Sequence[RoofUse]) -> RoofUse | None:
    """Return the pipe that does most of the operations; None when no operation was counted."""
    pipes = [use for use in uses if use.family == "compute" and use.amount.value]
    return max(pipes, key=lambda use: use.amount.value or 0.0, default=None)


def roofline(data: RunData, size: str) -> Roofline:
    """Return points, roofs and the rung-to-rung path of a size."""
    points: list[Point] = []
    pipes: dict[str, list[str]] = {}
    uses_of: dict[str, tuple[RoofUse, ...]] = {}
    for variant in data.variants:
        name, dtype = str(variant["name"]), str(variant["dtype"] or "")
        if not data.timed(name):
            continue
        uses = uses_of[name] = roof_uses(data, name, size)
        pipe = dominant_pipe(uses)
        if pipe is not None:
            pipes.setdefault(pipe.key, []).append(dtype)
        points += _points(data, name, dtype, size, uses, pipe)
    counted = any(point.performance is not None for point in points)
    if not counted:
        model = [point for variant in data.variants if (point := _model_point(data, variant, size)) is not None]
        if model:
            return Roofline(size, tuple(model), _ceilings(data), _arrows(data, model), model=True)
    roofs = (*_counter_roofs(data, size, uses_of, pipes), *_ceilings(data))
    return Roofline(size, tuple(points), roofs, _arrows(data, points), model=False)


def _points(
    data: RunData, name: str, dtype: str, size: str, uses: Sequence[RoofUse], pipe: RoofUse | None
) -> list[Point]:
    duration = duration_s(data, name, size).value
    clock = data.average(name, size, "sm_clock").value
    work = pipe.amount.value if pipe else None
    work_origin, why_work = "ncu", ""
    if work is None:
        counted = data.total(name, size, "fp32_flop")
        why_work = "it executes no operation of a known pipe"
        if counted.value is None:
            why_work = f"its operations: {counted.why_text}"
    points = []
    for use in (use for use in uses if use.family == "memory"):
        amount = use.amount.value
        why = why_work or ("" if amount is not None else use.amount.why_text)
        if amount == 0:
            why = why or f"it moves nothing through {use.label}"
        if (amount is not None and amount < 0) or (work is not None and work < 0):
            why = why or "the profiler gave a count below zero"
        if duration is None:
            why = why or duration_s(data, name, size).why_text
        complete = not why and amount and work and duration
        flags = [
            f"{u.label} at {percent(u.share or 0.0)} of its roof" for u in (use, pipe) if u is not None and u.above
        ]
        points.append(
            Point(
                name,
                dtype,
                use.key,
                work / amount if complete and work and amount else None,
                work / duration if complete and work and duration else None,
                amount,
                use.share,
                pipe.key if pipe else "",
                pipe.share if pipe else None,
                clock,
                work_origin,
                why,
                "above its roof, which is evidence of wrong units or precision: " + ", ".join(flags) if flags else "",
            )
        )
    return points


def _model_point(data: RunData, variant: object, size: str) -> Point | None:
    row = variant if isinstance(variant, dict) else {}
    name, dtype = str(row.get("name")), str(row.get("dtype") or "")
    flops, least = data.flops(size), data.min_bytes(dtype, size)
    samples = data.samples(name, size) if data.timed(name) else []
    if not samples or not flops or not least:
        return None
    time_s = median([sample.time_ns for sample in samples]) * 1e-9
    return Point(
        name, dtype, "model", flops / least, flops / time_s, float(least), None, "", None, None, "model"
    )  # fmt: skip


def _counter_roofs(
    data: RunData, size: str, uses_of: dict[str, tuple[RoofUse, ...]], pipes: dict[str, list[str]]
) -> tuple[Roof, ...]:
    """Each roof at the highest clock that any of the passes saw; a variant's own share uses its own pass."""
    best: dict[str, tuple[RoofUse, str]] = {}
    for name, uses in uses_of.items():
        for use in uses:
            if use.family == "issue" or use.roof.value is None:
                continue
            known = best.get(use.key)
            if known is None or use.roof.value > (known[0].roof.value or 0.0):
                best[use.key] = (use, name)
    roofs = []
    for key, (use, name) in best.items():
        if use.family == "compute" and key not in pipes:
            continue
        clock = data.average(name, size, "dram_clock" if key == "dram" else "sm_clock").value
        dtypes = tuple(dict.fromkeys(pipes.get(key, ())))
        roofs.append(Roof(key, use.label, use.family, use.roof.value or 0.0, use.unit, clock, "counter", dtypes))
    return tuple(roofs)


def _ceilings(data: RunData) -> tuple[Roof, ...]:
    """The ceilings frame: copies and pipes measured by small kernels in the same run, and nominal figures."""
    levels = {level.key for level in LEVELS}
    made = [dtype for dtype in MADE_OF if any(row["dtype"] == dtype for row in data.variants)]
    roofs = []
    for row in data.rows.get("ceilings", ()):
        if not row["value"] or row["origin"] == "counter" or parse_row_name(str(row["name"])):
            continue  # a control is no roof: it holds for its own bytes
        key = str(row["level_or_pipe"] or "")
        family: Family = "memory" if key in levels or row["unit"] == "B/s" else "compute"
        clock = row["clock_mhz"] * 1e6 if row["clock_mhz"] else None
        value, unit, origin = float(row["value"]), str(row["unit"]), str(row["origin"])
        roofs.append(Roof(key, str(row["name"]), family, value, unit, clock, origin))
        for dtype in made:
            if (part := pipe_key(key, dtype)) != key:
                products = MADE_OF[dtype][1]
                roofs.append(
                    Roof(part, f"{row['name']}, 1 / {products}", family, value / products, unit, clock, origin)
                )
    return tuple(roofs)


def _arrows(data: RunData, points: Sequence[Point]) -> tuple[Arrow, ...]:
    if data.foreign:  # launches are no rungs
        return ()
    arrows = []
    last: dict[tuple[str, str], Point] = {}
    for point in points:
        if point.variant in data.baselines or point.intensity is None or point.performance is None:
            continue
        key = (point.dtype, point.level)
        if key in last:
            arrows.append(Arrow(point.dtype, point.level, last[key], point))
        last[key] = point
    return tuple(arrows)


def _sum(data: RunData, name: str, size: str, launches: Sequence[Launch], metric: str) -> Value:
    if not launches:
        return Value(None, why=data.profile_why(name))
    values = [data.launch_value(name, size, launch, metric) for launch in launches]
    missing = next((value for value in values if value.value is None), None)
    return missing or Value(sum(v.value or 0.0 for v in values), values[0].unit, values[0].origin)


def _mean(data: RunData, name: str, size: str, launches: Sequence[Launch], metric: str) -> Value:
    if len(launches) == 1:
        return data.launch_value(name, size, launches[0], metric)
    return data.average(name, size, metric) if launches else Value(None, why=data.profile_why(name))
