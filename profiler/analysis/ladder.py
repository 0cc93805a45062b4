"""The ladder: one row per variant and size: time, rate, ratio to the baseline, the roof that binds, the status."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median as middle

from profiler.analysis import formatting
from profiler.analysis.own_times import PROGRAM_WHY, OwnTime, own_ranks, own_time
from profiler.analysis.roofline import Limit, RoofUse, limit_of, roof_uses
from profiler.analysis.rundata import TIMED_STATUSES, Row, RunData, Value
from profiler.analysis.statistics import Interval, Sample, median_interval, quartile_spread, ratio_interval
from profiler.analysis.sustained import sustained_ratio
from profiler.analysis.taken_over import reused_from
from profiler.frames import SKIPPED


@dataclass(frozen=True)
class Check:
    """The worst check of a variant: error beside its tolerance and the baseline's own error."""

    error: float | None
    tolerance: float | None
    baseline_error: float | None
    size: str
    status: str
    reason: str


@dataclass(frozen=True)
class CopyShare:
    """A rate against the control's: the copy (or read) of the same bytes in the same rounds."""

    kind: str  #: copy or read
    rate: float  #: B/s, of the control
    share: float  #: this variant's rate over it


@dataclass(frozen=True)
class LadderRow:
    """One variant at one size. What is None is missing; ``why`` says why there is no time."""

    variant: str
    dtype: str
    kind: str
    size: str
    order: int
    idea: str
    status: str
    reason: str
    verified: str
    origin: str
    is_baseline: bool
    time: Interval | None  #: ns
    why: str
    spread: float | None
    rate: float | None
    rate_unit: str
    baseline: str | None
    baseline_dtype: str | None
    ratio: Interval | None  #: baseline time / this time: above one is faster
    ratio_why: str
    copy: CopyShare | None  #: only where the problem is bound by memory
    copy_why: str  #: why there is none although it is; empty for other problems
    step: Interval | None  #: previous rung's time / this time
    previous: str | None
    sustained: Interval | None
    sustained_ratio: Interval | None
    limit: Limit
    uses: tuple[RoofUse, ...]
    check: Check | None
    clock_mhz: float | None
    registers: Value
    spill_bytes: Value
    occupancy: Value  #: %, what the launch's resources allow
    method: str
    foreign: int  #: samples taken beside another process
    left_out: int  #: of those, how many were left out
    rank: int | None
    own: OwnTime | None = None  #: a program's time, or, beside programs, the time in the trace

    @property
    def cross_contract(self) -> bool:
        """Whether the baseline keeps another numeric contract, so that the ratio must be labelled."""
        return self.baseline_dtype is not None and self.baseline_dtype != self.dtype


def ladder_rows(data: RunData) -> list[LadderRow]:
    """Return every variant at every size, in the order of the experiment, ranked within contract and size."""
    rows: list[LadderRow] = []
    for size in data.sizes:
        here: list[LadderRow] = []
        previous: dict[str, str] = {}
        for order, variant in enumerate(data.variants):
            row = _row(data, variant, size, order, previous.get(str(variant["dtype"] or "")))
            here.append(row)
            if row.time is not None and not row.is_baseline and not _starts_from_baseline(data, row.dtype):
                previous[row.dtype] = row.variant
        rows += _ranked(here)
    return rows


def _starts_from_baseline(data: RunData, dtype: str) -> bool:
    """Whether the rungs of a contract are all changes of one kernel: the first of them is ours and their baseline. Then
    no rung is a step from the one before it.
    """
    first = next((row for row in data.variants if str(row["dtype"] or "") == dtype), None)
    return first is not None and first["name"] == data.baseline(dtype) and first["kind"] in ("cuda", "triton")


def _row(data: RunData, variant: Row, size: str, order: int, previous: str | None) -> LadderRow:
    name, dtype = str(variant["name"]), str(variant["dtype"] or "")
    is_baseline = name in data.baselines
    status, reason = _status_at(data, variant, size)
    program = variant["kind"] == "command"
    samples = data.samples(name, size) if data.timed(name) and status != SKIPPED and not program else []
    time = median_interval(samples) if samples else None
    baseline = data.baseline(dtype)
    ratio, ratio_why = _against(data, baseline, samples, size, name)
    baseline_row = data.variant(baseline) if baseline else None
    step = None
    if previous is not None and samples and not is_baseline:
        step = ratio_interval(data.samples(previous, size), samples)
    sustained = data.samples(name, size, "sustained") if samples else []
    uses = roof_uses(data, name, size)
    rate, unit = _rate(data, dtype, size, time)
    copy, copy_why = _copy_share(data, dtype, size, rate)
    raw = [r for r in data.sample_rows(name, size) if r["method"] != "sustained"] if samples else []
    clocks = [float(r["sm_clock_mhz"]) for r in raw if r["sm_clock_mhz"] is not None]
    return LadderRow(
        variant=name,
        dtype=dtype,
        kind=str(variant["kind"] or ""),
        size=size,
        order=order,
        idea=str(variant["idea"] or ""),
        status=status,
        reason=reason,
        verified=str(variant["verified"] or ""),
        origin="reused" if time and reused_from(data.manifest, name, size) else str(variant["origin"] or "none"),
        is_baseline=is_baseline,
        time=time,
        why="" if time else PROGRAM_WHY if program and status in TIMED_STATUSES else _no_time(data, status, reason),
        spread=quartile_spread([s.time_ns for s in samples]) if len(samples) >= 3 else None,
        rate=rate,
        rate_unit=unit,
        baseline=baseline,
        baseline_dtype=str(baseline_row["dtype"] or "") if baseline_row else None,
        ratio=ratio,
        ratio_why=ratio_why,
        copy=copy,
        copy_why=copy_why,
        step=step,
        previous=previous if step else None,
        sustained=median_interval(sustained) if sustained else None,
        sustained_ratio=sustained_ratio(data, baseline, name, size) if sustained else None,
        limit=limit_of(uses, _why_unknown(data, name, size)),
        uses=uses,
        check=_check(data, name, size),
        clock_mhz=middle(clocks) if clocks else None,
        registers=data.first(name, size, "ptxas.registers", "registers"),
        spill_bytes=data.first(name, size, "ptxas.spill_store_bytes"),
        occupancy=data.first(name, size, "model.occupancy.percent", "theoretical_occupancy"),
        method=str(raw[0]["method"] or "") if raw else "",
        foreign=sum(1 for r in raw if r["foreign"]),
        left_out=len(raw) - len(samples) if raw else 0,
        rank=None,
        own=own_time(data, name, dtype, size) if status != SKIPPED else None,
    )


def _against(
    data: RunData, baseline: str | None, samples: Sequence[Sample], size: str, name: str
) -> tuple[Interval | None, str]:
    if not samples:
        return None, ""
    if baseline is None:
        return None, "this contract has no baseline"
    if baseline == name:
        return Interval(1.0, None, None, len(samples)), ""
    reference = data.samples(baseline, size) if data.timed(baseline) else []
    if not reference:
        row = data.variant(baseline)
        state = formatting.status(str(row["status"])) if row else "is not in this run"
        return None, f"the baseline {baseline} has no time ({state})"
    return ratio_interval(reference, samples), ""


def _status_at(data: RunData, variant: Row, size: str) -> tuple[str, str]:
    """A variant's status, or ``skipped`` at a size that its constraints exclude."""
    status, reason = str(variant["status"] or "not_run"), str(variant["reason"] or "")
    skipped = ((data.manifest.get("skips") or {}).get(str(variant["name"])) or {}).get(size)
    if skipped and status in ("ok", "profile_failed"):
        return SKIPPED, str(skipped)
    return status, reason


def _no_time(data: RunData, status: str, reason: str) -> str:
    if status not in ("ok", "profile_failed"):
        return reason or formatting.status(status)
    stage = (data.manifest.get("stages") or {}).get("time") or {}
    return str(stage.get("reason") or "it was not timed")


def _why_unknown(data: RunData, name: str, size: str) -> str:
    if not data.launches(name, size) and any(data.launches(name, other) for other in data.sizes):
        return "not profiled at this size"
    return Value(None, why=data.profile_why(name)).why_text


def _rate(data: RunData, dtype: str, size: str, time: Interval | None) -> tuple[float | None, str]:
    flops, least = data.flops(size), data.min_bytes(dtype, size)
    by_bytes = flops is None or data.memory_bound(dtype, size)
    work, unit = (least, "B/s") if by_bytes else (flops, "FLOP/s")
    if time is None or not work:
        return None, unit
    return work / (time.value * 1e-9), unit


def _copy_share(data: RunData, dtype: str, size: str, rate: float | None) -> tuple[CopyShare | None, str]:
    if not data.memory_bound(dtype, size):
        return None, ""
    control = data.control(dtype, size)
    if control is None:
        return None, "no copy of the same bytes was timed in this run"
    if rate is None:
        return None, "it has no time"
    return CopyShare(str(control["kind"]), float(control["value"]), rate / float(control["value"])), ""


def _check(data: RunData, name: str, size: str) -> Check | None:
    """The check at this size that came nearest to its tolerance; a failed one, at any size, before all others."""

    def severity(row: Row) -> tuple[bool, bool, float]:
        failed = row["status"] not in ("ok", SKIPPED)
        error, tolerance = row["error"], row["tolerance"]
        share = error / tolerance if error is not None and tolerance else math.inf if failed else -1.0
        return (failed, row["size"] == size, share)

    found = [r for r in data.checks(name) if r["status"] != SKIPPED and (r["size"] == size or r["status"] != "ok")]
    if not found:
        return None
    worst = max(found, key=severity)
    return Check(
        worst["error"], worst["tolerance"], worst["baseline_error"], str(worst["size"]), str(worst["status"]),
        str(worst["reason"] or ""),
    )  # fmt: skip


def _ranked(rows: Sequence[LadderRow]) -> list[LadderRow]:
    ranks: dict[int, int] = {}
    for dtype in {row.dtype for row in rows}:
        timed = [row for row in rows if row.dtype == dtype and row.time is not None and row.verified != "unverified"]
        for rank, row in enumerate(sorted(timed, key=lambda r: r.time.value if r.time else math.inf), start=1):
            ranks[row.order] = rank
    places = own_ranks([(row.order, row.dtype, row.own) for row in rows])
    owned = {row.order: replace(row.own, rank=places.get(row.order)) for row in rows if row.own is not None}
    return [replace(row, rank=ranks.get(row.order), own=owned.get(row.order)) for row in rows]
