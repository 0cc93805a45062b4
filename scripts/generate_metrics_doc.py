"""Writes docs/metrics.md from the metric table. ``--check`` only says whether the file is current."""

from __future__ import annotations

import argparse
import sys
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

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


def main() -> int:
    """Write the page, or check it; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is not current")
    wanted = text()
    if parser.parse_args().check:
        current = TARGET.is_file() and TARGET.read_text(encoding="utf-8") == wanted
        if not current:
            print("docs/metrics.md is not current: run python scripts/generate_metrics_doc.py", file=sys.stderr)
        return 0 if current else 1
    TARGET.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
