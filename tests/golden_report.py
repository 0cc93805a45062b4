"""Golden analysis: what ladder, roofline, stalls and environment make of one small synthetic run.

``scripts/update_golden.py`` writes the files; ``tests/unit/test_report_golden.py`` reads them.
Floats keep six significant digits, so that a last bit of another numpy is no difference.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from make_run import FAULTS, SIZE, make_run

from profiler.analysis.environment import environment
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.roofline import roofline
from profiler.analysis.rundata import RunData
from profiler.analysis.stalls import stall_tables
from profiler.analysis.verdicts import verdict_lines

FOLDER = Path(__file__).resolve().parent / "unit" / "golden_report"


def documents() -> dict[str, Any]:
    """Return the analysis of the fixed run, by file name."""
    with tempfile.TemporaryDirectory() as folder:
        data = RunData.load(
            make_run(Path(folder) / "run", sizes=(SIZE,), faults={"tile_2d": FAULTS["tile_2d"]}, samples=9)
        )
    rows = ladder_rows(data)
    return {
        "ladder.json": plain(rows),
        "verdict.json": verdict_lines(data, rows),
        "roofline.json": plain(roofline(data, SIZE)),
        "stalls.json": plain(stall_tables(data, {(row.variant, row.size): row.limit.key for row in rows})),
        "environment.json": plain(environment(data)),
    }


def files() -> dict[Path, str]:
    """Return the golden files with what they should hold."""
    return {
        FOLDER / name: json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        for name, document in documents().items()
    }


def plain(value: Any) -> Any:
    """Return dataclasses, mappings, sets and tuples as JSON has them, floats to six significant digits."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value
