"""The exit code of a comparison: an explicit table, so that what nobody thought of does not pass."""

from __future__ import annotations

from profiler.comparison.model import Comparison, RowComparison, Settings
from profiler.errors import Exit

#: Worst first. ``Exit.USAGE`` (2) stands before all of them and never comes from a row.
PRECEDENCE: tuple[Exit, ...] = (Exit.USAGE, Exit.NOTHING, Exit.BROKEN, Exit.FAILED, Exit.SUSPECTED, Exit.OK)
#: Reasons that leave the interval of an inconclusive row meaningful: it passes where that excludes a slowdown.
_INTERVAL_HOLDS = frozenset({"noise"})


def row_code(row: RowComparison, settings: Settings) -> Exit:
    """Return what one row means for the exit code; a verdict that is not listed here is broken."""
    verdict: str = row.verdict  # a plain text: what comes from elsewhere need not be one of ours
    match verdict:
        case "incomparable":
            return Exit.NOTHING
        case "broken" | "removed" | "not_measured":
            return Exit.BROKEN
        case "regressed":
            return Exit.FAILED
        case "suspected":
            return Exit.OK if row.direction == "faster" and _harmless(row, settings) else Exit.SUSPECTED
        case "inconclusive":
            return Exit.OK if row.reason in _INTERVAL_HOLDS and _harmless(row, settings) else Exit.SUSPECTED
        case "improved" | "unchanged" | "counters_only":
            return Exit.FAILED if row.explanation == "latent" and settings.fail_on_latent else Exit.OK
        case "new" | "skipped":
            return Exit.OK
        case _:
            return Exit.BROKEN


def exit_code(comparison: Comparison) -> Exit:
    """Return the exit code: the worst row's, and broken (5) when nothing was measured on both sides."""
    codes = {row_code(row, comparison.settings) for row in comparison.rows}
    if comparison.refused:
        codes.add(Exit.NOTHING)
    if not any(row.verdict in _JUDGED for row in comparison.rows):
        codes.add(Exit.BROKEN)
    return next(code for code in PRECEDENCE if code in codes)


#: Verdicts that speak of two sides that were both measured.
_JUDGED = frozenset({"improved", "regressed", "suspected", "unchanged", "inconclusive", "counters_only"})


def _harmless(row: RowComparison, settings: Settings) -> bool:
    return row.ratio is not None and row.ratio.excludes_above(1 + settings.max_regression)
