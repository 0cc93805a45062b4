"""Writes docs/metrics.md from the metric table."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from generated import ROOT, write_or_check  # noqa: E402

from profiler.metrics import METRICS, STALL_REASONS, Metric, table  # noqa: E402

TARGET = ROOT / "docs" / "metrics.md"

_INTRO = """# Metrics

Generated from the metric table (`profiler/metric_sets.py`, `profiler/static_metrics.py`) by
`python scripts/generate_metrics_doc.py`; do not edit it by hand.

Every number of the frame `metrics` is one of these, in SI units. A formula names other metrics of this page, or names
of Nsight Compute; where there are several, the first whose names the report has is used. Roofs hold at the clock of the
pass in which they were read. A metric without a value says why: `not_collected`, `not_supported` by the chip,
`not_permitted`, `not_applicable`, or `failed`. The experiment's own `profile.metrics` appear as `ncu.<name>`.
"""

_STALLS = """## Stall reasons

The frame `stalls` holds, per reason, the cycles of a warp per issued instruction; they add up to `warp_latency`. A warp
that is `eligible` was ready and another one went first; `issue` is the one that issued. Neither is a fault.
"""


def text() -> str:
    """Return the page."""
    parts = [_INTRO]
    for group, rows in groupby(METRICS.values(), key=lambda one: one.group):
        parts.append(f"## {group.capitalize()}\n\n" + _table(list(rows)))
    static = [one for name, one in table().items() if name not in METRICS]
    if static:
        parts.append("## Computed from the binary\n\n" + _table(static))
    reasons = ["| reason | kind | meaning |", "| --- | --- | --- |"]
    reasons += [f"| `{reason.name}` | {reason.kind} | {reason.meaning} |" for reason in STALL_REASONS]
    parts.append(_STALLS + "\n" + "\n".join(reasons) + "\n")
    return "\n".join(parts)


def _table(rows: list[Metric]) -> str:
    lines = ["| metric | unit | meaning | formula |", "| --- | --- | --- | --- |"]
    for one in rows:
        shown = "<br>".join(f"`{formula}`" for formula in one.source)
        lines.append(f"| `{one.name}` | {one.unit} | {one.meaning} | {shown} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check("generate_metrics_doc.py", __doc__, lambda: {TARGET: text()}))
