"""The SM clock at which a variant's timed launches ran, as they measured it themselves."""

from __future__ import annotations

from profiler.analysis.rundata import APART, RunData
from profiler.analysis.statistics import median
from profiler.frames import CLOCK_WINDOW_NS


def timed_clock_hz(data: RunData, variant: str, size: str) -> float | None:
    """Return the median clock of the launches that gave the event time, in Hz; None where it is missing or coarse."""
    wanted = (data.manifest.get("timing") or {}).get("cache")
    rows = [row for row in data.sample_rows(variant, size) if row["method"] not in APART]
    rows = [row for row in rows if row["cache"] == wanted] or rows
    if not rows or any(not row["sm_clock_mhz"] for row in rows):
        return None
    if median([float(row["time_ns"]) * float(row["launches"] or 1) for row in rows]) < CLOCK_WINDOW_NS:
        return None
    return median([float(row["sm_clock_mhz"]) for row in rows]) * 1e6
