"""The one metric table: what every number of the report is called, measured in, made from, and means.

``METRICS`` holds what Nsight Compute measures; :func:`table` adds what other stages compute from the binary.
``docs/metrics.md`` is generated from it, the reports read their hover text in it, and :func:`requests` says which of
ncu's names must be collected so that a chip can serve it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType

from profiler.metric_sets import NCU_METRICS, STALL_REASONS, Metric, StallReason
from profiler.report_metrics import REPORT_METRICS
from profiler.static_metrics import STATIC_METRICS

__all__ = [
    "HEADLINE",
    "METRICS",
    "PC_SAMPLING",
    "STALL_REASONS",
    "Metric",
    "NoValue",
    "StallReason",
    "always_there",
    "base_name",
    "evaluate",
    "metric",
    "names_in",
    "requests",
    "stall_source",
    "supported_source",
    "table",
]

METRICS: Mapping[str, Metric] = MappingProxyType({one.name: one for one in (*NCU_METRICS, *REPORT_METRICS)})

#: The rows that say why there are no counters, where there are none.
HEADLINE: tuple[str, ...] = (
    "duration", "sm_clock", "dram_bytes", "l2_bytes", "l1_bytes", "shared_bytes", "instructions", "issue_active",
    "warp_latency", "achieved_occupancy", "theoretical_occupancy", "pipe_fma", "pipe_tensor", "roof.dram", "roof.ffma",
)  # fmt: skip

PC_SAMPLING = "group:smsp__pcsamp_warp_stall_reasons"
#: Names outside ``ncu --query-metrics``: of the launch (asked for), of the report (there anyway, never asked for).
_OF_LAUNCH = ("launch__", "sm__maximum_", "smsp__maximum_", "group:")
_OF_REPORT = ("device__", "profiler__", "derived__", "sass__", "memory_", "smsp__pcsamp_", "inst_executed")


class NoValue(Exception):
    """A formula has no value; ``why`` is one of the words of the ``metrics`` frame."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@cache
def table() -> Mapping[str, Metric]:
    """Return all metrics by name: ncu's, and those that the static stage computes from the binary."""
    return MappingProxyType({**METRICS, **{one.name: one for one in STATIC_METRICS}})


def metric(name: str) -> Metric:
    """Return a metric of the table; ``KeyError`` when there is none of that name."""
    return table()[name]


def names_in(formula: str) -> tuple[str, ...]:
    """Return the names in a formula, ours and ncu's, in order."""
    return tuple(token for token in formula.split() if token not in ("*", "/", "+", "-") and not _is_number(token))


def evaluate(formula: str, value_of: Callable[[str], float]) -> float:
    """Return a formula's value; ``NoValue`` when a name has none, or for a division by zero (``not_applicable``)."""
    tokens = formula.split()
    total, sign = 0.0, 1.0
    product = _factor(tokens[0], value_of)
    for operator, token in zip(tokens[1::2], tokens[2::2], strict=True):
        value = _factor(token, value_of)
        if operator == "*":
            product *= value
        elif operator == "/":
            if value == 0:
                raise NoValue("not_applicable")
            product /= value
        else:
            total += sign * product
            sign, product = (1.0 if operator == "+" else -1.0), value
    result = total + sign * product
    if not math.isfinite(result):
        raise NoValue("failed")
    return result


def base_name(name: str) -> str:
    """Return the name that ``ncu --query-metrics`` lists for a metric with its suffixes."""
    return name.partition(".")[0]


def always_there(name: str) -> bool:
    """Whether a report carries this name without being asked, so that it must not be asked for."""
    return name.startswith(_OF_REPORT)


def supported_source(one: Metric, available: Collection[str] | None) -> str | None:
    """Return the first formula that a chip can serve; ``available`` None means unknown, and gives the first of all."""
    for formula in one.source:
        if all(_servable(name, available) for name in names_in(formula)):
            return formula
    return None


def stall_source(reason: str) -> str:
    """Return ncu's name for the cycles per issued instruction of a stall reason."""
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


def requests(available: Collection[str] | None = None, extra: Sequence[str] = ()) -> list[str]:
    """Return ncu's names of the ``ladder`` set, those that a chip has, and the experiment's own ``extra`` ones.

    ``available`` holds the base names that ``ncu --query-metrics`` lists for the chip: one unknown name would end the
    whole run. Without it, the names of the newest generation.
    """
    wanted: dict[str, None] = {}
    for one in (one for one in METRICS.values() if one.asked):
        for name in _leaves(one, available):
            wanted.setdefault(name)
    for name in (*(stall_source(reason.name) for reason in STALL_REASONS), *extra):
        if _servable(name, available):
            wanted.setdefault(name)
    wanted.setdefault(PC_SAMPLING)
    return [name for name in wanted if not always_there(name)]


def _leaves(one: Metric, available: Collection[str] | None) -> Iterator[str]:
    formula = supported_source(one, available)
    for name in names_in(formula) if formula else ():
        if name in METRICS:
            yield from _leaves(METRICS[name], available)
        else:
            yield name


def _servable(name: str, available: Collection[str] | None) -> bool:
    if name in METRICS:
        return supported_source(METRICS[name], available) is not None
    if available is None or name.startswith(_OF_LAUNCH):
        return True
    if always_there(name):  # comes with a section or not at all; never the reason to choose a formula over another
        return True
    return base_name(name) in available


def _factor(token: str, value_of: Callable[[str], float]) -> float:
    return float(token) if _is_number(token) else value_of(token)


def _is_number(token: str) -> bool:
    return token.replace(".", "", 1).isdigit()
