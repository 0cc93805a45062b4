"""A comparison in, one HTML file out: verdict, rows, causes, roofline, sources, environments, thresholds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from profiler.analysis.decomposition import Decomposition, decompose, side
from profiler.analysis.roofline import Roofline
from profiler.analysis.rundata import RunData
from profiler.comparison import words
from profiler.comparison.model import Comparison, RowComparison
from reports.compare_figures import cycles_figure, is_before, label, roofline_pairs, rows_figure
from reports.figures import Figure
from reports.page import render_page
from reports.page_assets import relative_url, write_shared
from reports.render import write_page
from reports.roofline_figure import drawn_lines, roofline_figure
from reports.sections import compare as section

#: More dots than these cannot be told apart.
_MOST_DOTS = 8


def write_comparison(
    target: Path,
    comparison: Comparison,
    before: RunData | None = None,
    after: RunData | None = None,
    shared_assets: Path | None = None,
) -> Path:
    """Write the page and return its path; ``LadderError`` when its place cannot be written."""
    shared = relative_url(write_shared(shared_assets), target) if shared_assets is not None else ""
    write_page(target, render_comparison(comparison, before, after, shared))
    return target


def render_comparison(
    comparison: Comparison, before: RunData | None = None, after: RunData | None = None, shared: str = ""
) -> str:
    """Return the page; the runs, where they are at hand, give the roofline, the waterfall and the environments."""
    explained = [(row, _decomposition(row, before, after)) for row in section.explained_rows(comparison)]
    every = [row for row, _ in explained]
    lines = _rooflines(comparison, every, before, after)
    content = section.build(comparison, explained, before, after) | {"dots": section.dots(lines)}
    figures = {
        "rows": rows_figure(words.worst_first(comparison.rows), comparison.settings.equivalence),
        "why": cycles_figure(
            [(section.row_id(row), label(row, every, 60), one) for row, one in explained if one is not None]
        ),
        "roofline": _roofline_figure(lines),
    }
    specs = [figure.spec() for figure in figures.values() if figure is not None]
    return render_page({**_head(comparison, after or before), "compare": content, "figures": figures}, specs, shared,
                       template="compare.html.j2")  # fmt: skip


def _decomposition(row: RowComparison, before: RunData | None, after: RunData | None) -> Decomposition | None:
    if before is None or after is None or before.variant(row.variant) is None or after.variant(row.variant) is None:
        return None
    sides = (side(before, row.variant, row.size), side(after, row.variant, row.size))
    return decompose(replace(sides[0], variant="before"), replace(sides[1], variant="after"))


def _rooflines(
    comparison: Comparison, moved: list[RowComparison], before: RunData | None, after: RunData | None
) -> list[Roofline]:
    if before is None or after is None:
        return []
    return roofline_pairs(before, after, (moved or words.worst_first(comparison.rows))[:_MOST_DOTS])


def _roofline_figure(lines: list[Roofline]) -> Figure | None:
    earlier = [point.variant for line in lines for point in line.points if is_before(point.variant)]
    return roofline_figure(drawn_lines(lines), [line.size for line in lines], earlier)


def _head(comparison: Comparison, data: RunData | None) -> dict[str, Any]:
    manifest = data.manifest if data is not None else {}
    experiment = str((manifest.get("experiment") or {}).get("name") or "")
    gpu = str((manifest.get("gpu") or {}).get("name") or "")
    no_times = comparison.kind == "counters_only"
    facts = [
        ("Before", comparison.before),
        ("After", comparison.after),
        ("Times", "" if no_times else words.DESIGN_TEXT.get(comparison.design, comparison.design)),
        ("GPU", gpu),
    ]
    version = str(manifest.get("tool_version") or "")
    return {
        "title": f"{experiment}: before and after" if experiment and not no_times else "Before and after",
        "kicker": f"compare_runs · {words.KIND_TEXT.get(comparison.kind, comparison.kind)}",
        "facts": [(name, text) for name, text in facts if text],
        "gpu": gpu,
        "footer": f"kernel-ladder {version}".strip(),
    }
