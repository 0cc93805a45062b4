"""Cells of the variants' tables: a text with what it sorts by, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.access import Banks, GlobalAccess, Judgement, Spills
from profiler.analysis.occupancy_view import OccupancyView
from profiler.analysis.rundata import Value
from profiler.analysis.sass_mix import Mix
from profiler.analysis.traffic import LevelTraffic

Cell = dict[str, Any]
_EMPTY: Cell = {
    "text": "", "why": "", "sort": None, "under": "", "tone": "", "title": "", "mark": "", "word": "",
}  # fmt: skip

#: Judgement -> (mark, tone, word): a shape and a word beside the colour.
JUDGEMENTS: Mapping[Judgement, tuple[str, str, str]] = {
    "good": ("●", "good", "fine"),
    "look": ("▲", "warn", "look here"),
    "uncertain": ("◐", "quiet", "uncertain"),
    "unknown": ("○", "quiet", "not known"),
    "not applicable": ("○", "quiet", "does not apply"),
}


def integer(value: float) -> str:
    """Return a count: whole up to a million, then with its prefix."""
    return f"{value:.0f}" if abs(value) < 1e6 else formatting.si(value, "").strip()


def kibibytes(value: float) -> str:
    """Return bytes of shared memory as people name them."""
    return f"{value / 1024:.4g} KiB" if value >= 1024 else f"{value:.0f} B"


def byte_count(value: float) -> str:
    """Return bytes with their SI prefix."""
    return formatting.si(value, "B") if value else "0 B"


def of_sector(value: float) -> str:
    """Return the bytes used of a 32-byte sector."""
    return f"{formatting.number(value).removesuffix('.0')} of 32 B"


def percentage(value: float) -> str:
    """Return a percentage that never rounds to zero what is not."""
    if value and abs(value) < 0.01:
        return f"{formatting.number(value, 1)} %"
    return f"{formatting.number(value, 3)} %"


def cell(value: Value, text: Callable[[float], str], **more: Any) -> Cell:
    """Return a cell of a table: its text, or why there is none."""
    if value.value is None:
        return none(value.why_text) | more
    return _EMPTY | {"text": text(value.value), "sort": value.value} | more


def none(why: str) -> Cell:
    """Return a cell that says why it is empty."""
    return _EMPTY | {"why": why or "not collected in this run"}


def judged(judgement: Judgement, text: str) -> dict[str, str]:
    """Return the line that opens a part: mark, tone, word and sentence."""
    mark, tone, word = JUDGEMENTS[judgement]
    return {"mark": mark, "tone": tone, "word": word, "text": text}


def times_cell(level: LevelTraffic) -> Cell:
    """Return how often each byte of the minimum moved at a level."""
    if level.times is None:
        return none(level.times_why)
    return cell(Value(level.times), lambda value: f"{formatting.number(value, 3)}×")


def occupancy_cell(view: OccupancyView) -> Cell:
    """Return theoretical occupancy with what was achieved and the limiter."""
    under = f"{percentage(view.achieved.value)} achieved" if view.achieved.value is not None else ""
    title = f"limited by {formatting.listed(view.limiters)}" if view.limiters else ""
    if view.theoretical.value is None:
        return none(view.why or view.theoretical.why_text)
    return cell(view.theoretical, percentage, under=under, title=title)


def sectors_cell(found: GlobalAccess) -> Cell:
    """Return the excess sectors' share, or the bytes used of a loaded sector where that is all there is."""
    mark, tone, word = JUDGEMENTS[found.judgement]
    if found.excess_share is not None:
        return cell(Value(100 * found.excess_share), percentage, tone=tone, title=found.text, mark=mark, word=word)
    used = found.rows[0].used
    return cell(used, of_sector, tone=tone, title=found.text, mark=mark, word=word)


def banks_cell(found: Banks) -> Cell:
    """Return the excess wavefronts' share with the counter's beside it, marked by the verdict."""
    mark, tone, word = JUDGEMENTS[found.judgement]
    if found.judgement in ("not applicable", "unknown"):
        return none(found.text)
    under = f"counter {percentage(100 * found.counter_share)}" if found.counter_share is not None else ""
    if found.excess_share is None:
        return none(found.excess.why_text) | {"under": under, "title": found.text}
    return cell(
        Value(100 * found.excess_share), percentage, under=under, tone=tone, title=found.text, mark=mark, word=word
    )


def spills_cell(found: Spills) -> Cell:
    """Return the bytes that a thread spills, or the local instructions executed where no binary says more."""
    mark, tone, word = JUDGEMENTS[found.judgement]
    more = {"tone": tone, "title": found.text, "mark": mark, "word": word}
    if found.stores.value is not None:
        if not found.stores.value and found.stack.value:
            return cell(found.stack, lambda value: f"frame {byte_count(value)}", **more)
        return cell(found.stores, byte_count, **more)
    if found.executed_loads.value is not None and found.executed_stores.value is not None:
        total = found.executed_loads.value + found.executed_stores.value
        return cell(Value(total), lambda value: f"{integer(value)} inst." if value else "none", **more)
    return none(found.stores.why_text)


def work_cell(mix: Mix) -> Cell:
    """Return the share of the instructions that do the work: FFMA, or matrix instructions."""
    tensor = mix.share("tensor")
    if tensor:
        return cell(Value(100 * tensor), percentage, under="tensor")
    if mix.ffma_share is not None:
        return cell(Value(100 * mix.ffma_share), percentage, under="FFMA")
    return none(mix.why_executed)
