"""A comparison on a terminal: the table of rows, their causes, and on request every counter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from profiler.analysis import formatting
from profiler.comparison import words
from profiler.comparison.model import Comparison, RowComparison

_STYLES = {
    "regressed": "bold red", "broken": "bold red", "removed": "bold red", "incomparable": "bold red",
    "not_measured": "bold red", "suspected": "yellow", "inconclusive": "yellow", "improved": "green",
}  # fmt: skip
_CAUSES, _CAUSES_VERBOSE = 3, 12
_NAME = 60


def tables(comparison: Comparison, *, verbose: bool = False) -> Iterator[RenderableType]:
    """Yield what is printed above the outcome line: what is compared, notices, rows, causes, counters, what is next."""
    yield Text(f"before  {comparison.before}\nafter   {comparison.after}")
    for text in filter(None, (*words.notices(comparison), words.also_differs(comparison))):
        yield Text(f"note    {text}", style="yellow" if "ncomparable" in text else "")
    rows = words.worst_first(comparison.rows)
    if len(rows) > 1 and all(row.verdict == "not_measured" and row.words == rows[0].words for row in rows):
        yield Text(f"none of {len(rows)} rows is measured: {rows[0].words}", style=_STYLES["not_measured"])
        yield Text("next: on a machine with a GPU, the same with --remeasure builds and times both sides there")
    elif rows:
        yield _Rows(rows)
    causes = [_causes(row, verbose=verbose) for row in rows if row.causes and words.shows_causes(row)]
    if causes:
        yield Group(*(part for block in causes for part in block))
    if verbose:
        counters = _counters(rows)
        if counters.row_count:
            yield counters
    for text in words.next_steps(comparison, verbose=verbose):
        yield Text(f"next: {text}")


def outcome_line(comparison: Comparison) -> Text:
    """Return the line that says how it ended: ``regressed (exit 1): 1 regressed, 3 unchanged``."""
    return Text(f"{words.outcome(comparison)}: {words.counts_line(comparison)}")


@dataclass(frozen=True)
class _Rows:
    """The rows as the terminal's width allows: a table with the reasons, a table above them, or a list."""

    rows: Sequence[RowComparison]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = max(len(formatting.short(row.variant, _NAME)) for row in self.rows)
        sizes = max(len(formatting.size(row.size)) for row in self.rows) if _several_sizes(self.rows) else 0
        numbers = names + sizes + (72 if self._timed else 20)
        if options.max_width >= numbers + 36:
            yield self._table(reasons=True)
        elif options.max_width >= numbers:
            yield self._table(reasons=False)
            yield from (Text(f"{formatting.short(row.variant, _NAME)}: {row.words}") for row in self.rows if row.words)
        else:
            yield from (_lines(row) for row in self.rows)

    @property
    def _timed(self) -> bool:
        return any(row.before or row.after or row.ratio for row in self.rows)

    def _table(self, *, reasons: bool) -> Table:
        table = Table(box=None, pad_edge=False)
        several_sizes = _several_sizes(self.rows)
        table.add_column("variant", no_wrap=True)
        if several_sizes:
            table.add_column("size", no_wrap=True)
        if self._timed:
            for heading in ("before", "after", "after / before", "detectable"):
                table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("verdict", no_wrap=True)
        if reasons:
            table.add_column("why", overflow="fold")
        for row in self.rows:
            cells = [Text(formatting.short(row.variant, _NAME))]
            if several_sizes:
                cells.append(Text(formatting.size(row.size)))
            if self._timed:
                cells += [
                    Text(words.time(row.before)), Text(words.time(row.after)), Text(words.ratio(row.ratio)),
                    Text(words.percent(row.detectable)),
                ]  # fmt: skip
            table.add_row(*cells, _verdict(row), *([Text(row.words)] if reasons else ()))
        return table


def _verdict(row: RowComparison) -> Text:
    return Text(words.verdict(row), style=_STYLES.get(row.verdict, ""))


def _several_sizes(rows: Sequence[RowComparison]) -> bool:
    return len({row.size for row in rows}) > 1


def _head(row: RowComparison, most: int) -> str:
    """Return a row's name and size; a launch in a profiler's file has none."""
    name = formatting.short(row.variant, most)
    return f"{name} at {formatting.size(row.size)}" if row.size else name


def _lines(row: RowComparison) -> Text:
    numbers = [words.time(row.before), words.time(row.after), words.ratio(row.ratio)]
    text = Text(f"{_head(row, len(row.variant))}: ").append_text(_verdict(row))
    if any(numbers):
        text.append(f"\n  {' '.join(number for number in numbers if number)}")
    return text.append(f"\n  {row.words}") if row.words else text


def _causes(row: RowComparison, *, verbose: bool) -> Iterator[Text]:
    label, most = words.EXPLANATION_TEXT[row.explanation], _CAUSES_VERBOSE if verbose else _CAUSES
    head = _head(row, _NAME)
    yield Text(f"{head}: {label}" if label else head, style="bold")
    for cause in row.causes[:most]:
        share = words.share(cause)
        yield Text(f"  {cause.words}" + (f": {share}" if share else ""))
    if len(row.causes) > most:
        yield Text(f"  {words.more(len(row.causes) - most, 'difference')}{'' if verbose else ' (-v)'}")


def _counters(rows: Sequence[RowComparison]) -> Table:
    table = Table(box=None, pad_edge=False, title="counters", title_justify="left")
    several_sizes = _several_sizes(rows)
    for heading in ("variant", *(["size"] if several_sizes else []), "counter", "kind"):
        table.add_column(heading, no_wrap=True)
    for heading in ("before", "after", "after / before"):
        table.add_column(heading, justify="right")
    for row in rows:
        for pair in row.counters:
            before, after, ratio = words.counter(pair)
            cells = [
                formatting.short(row.variant, 40), *([formatting.size(row.size)] if several_sizes else []),
                pair.label, pair.cls,
                before or f"missing: {pair.why}", after or f"missing: {pair.why}", ratio,
            ]  # fmt: skip
            table.add_row(*map(Text, cells))
    return table
