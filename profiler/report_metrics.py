"""Metrics that reports from elsewhere may hold and our own runs never ask for: the profiler's own utilizations.

``--set basic`` and older sets have no bytes and no operations; these shares of a peak are then all that says how busy a
unit was. They stand in only where the counts are missing, and are labelled.
"""

from __future__ import annotations

from profiler.metric_sets import Metric

_ACTIVE, _ELAPSED = "pct_of_peak_sustained_active", "pct_of_peak_sustained_elapsed"


def _read(name: str, meaning: str, *source: str) -> Metric:
    return Metric(name, "%", "utilization", meaning, source, asked=False)


REPORT_METRICS: tuple[Metric, ...] = (
    _read(
        "utilization.dram", "The profiler's own share of device memory's peak.",
        f"gpu__dram_throughput.avg.{_ELAPSED}", f"dram__throughput.avg.{_ELAPSED}",
        f"dram__cycles_active.avg.{_ELAPSED}",
    ),
    _read(
        "utilization.l2", "The profiler's own share of L2's peak: its busiest part.",
        f"lts__throughput.avg.{_ELAPSED}",
    ),
    _read(
        "utilization.l1", "The profiler's own share of L1's peak: its busiest part.",
        f"l1tex__throughput.avg.{_ELAPSED}", f"l1tex__throughput.avg.{_ACTIVE}",
    ),
    _read(
        "utilization.shared", "Share of the L1 data pipe's cycles that shared memory took.",
        f"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.{_ELAPSED}",
        f"l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.{_ELAPSED}",
    ),
)  # fmt: skip
