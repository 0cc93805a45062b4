"""Section 6: environment, method, how to reproduce, what is missing and why, files, and the metrics of this page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiler import metrics
from profiler.analysis.environment import Environment
from profiler.analysis.rundata import RunData

_STAGE_MARKS = {"done": "●", "skipped": "○", "failed": "✕", "running": "◐"}


def build(data: RunData, facts: Environment, files: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return what the template of section 6 shows; ``files`` are names in the run directory with what they hold."""
    return {
        "machine": facts.machine,
        "tools": facts.tools,
        "method": facts.method,
        "stages": [
            {
                "name": name,
                "status": status,
                "mark": _STAGE_MARKS.get(status, "○"),
                "seconds": f"{seconds:.1f} s" if isinstance(seconds, (int, float)) else "",
            }
            for name, status, seconds in facts.stages
            if (name, status) != ("report", "running")  # this page is what it is writing
        ],
        "command": facts.command,
        "experiment": facts.experiment,
        "gaps": facts.gaps,
        "notes": facts.notes,
        "origins": facts.origins,
        "controls": facts.controls,
        "files": files,
        "glossary": _glossary(data),
    }


def _glossary(data: RunData) -> list[dict[str, str]]:
    """The rows of the metric table that this run has a value or a reason for."""
    present = {str(row["metric"]) for row in data.rows.get("metrics", ())}
    return [
        {"name": one.name, "unit": one.unit, "meaning": one.meaning, "formula": one.formula, "origin": one.origin}
        for name, one in metrics.table().items()
        if name in present or ("<" in name and any(found.startswith(name.partition("<")[0]) for found in present))
    ]
