"""compare_runs BEFORE AFTER: two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from profiler.analysis import formatting
from profiler.analysis.rundata import RunData, Value
from profiler.analysis.statistics import Interval
from profiler.cli import common
from profiler.compare import INTERVAL_NOTE, KEYS, NO_VERDICT, Comparison, CounterPair, Row, compare, to_json
from profiler.errors import Exit, UsageError
from profiler.rundir import RunDir, find

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_OUTCOME = {
    Exit.OK: "every row was measured on both sides",
    Exit.NOTHING: "incomparable",
    Exit.BROKEN: "something is broken, removed or not measured",
}
_STATUS_TEXT = {"not_measured": "not measured"}


@app.command()
def compare_runs(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A run: its folder, its id, or latest.")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The run to hold against it.")],
    runs_dir: Annotated[Path, typer.Option("--runs-dir", help="Where ids and latest are looked up.")] = Path("runs"),
    allow_mismatch: Annotated[
        list[str] | None,
        typer.Option("--allow-mismatch", metavar="KEY", help=f"Compare although this differs: {', '.join(KEYS)}."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print the outcome line only.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Also list the counters that did not move.")] = False,
) -> int:
    """Show two runs' times and counters side by side.

    Exit code: 0 every row was measured on both sides, 2 usage or unreadable input, 3 incomparable, 5 broken, removed or
    not measured. This version gives no verdict on speed: a slower run exits 0.
    """
    allowed = allow_mismatch or []
    unknown = [key for key in allowed if key not in KEYS]
    if unknown:
        raise UsageError(f"--allow-mismatch {unknown[0]}: no such key", hint=f"the keys are {', '.join(KEYS)}")
    opened = [RunDir.open(find(runs_dir, run)) for run in (before, after)]
    names = (_name(opened[0]), _name(opened[1]))
    result = compare(RunData.load(opened[0]), RunData.load(opened[1]), names=names, allow=allowed)
    if as_json:
        common.print_json(to_json(result))
    else:
        _print(result, quiet=quiet, verbose=verbose)
    for key in result.refused:
        common.stderr_console().print(
            f"incomparable: {KEYS[key]} differs; --allow-mismatch {key} compares all the same"
        )
    return int(result.code)


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code of the command."""
    return common.run_app(app, argv)


def _name(run: RunDir) -> str:
    path = run.path.resolve()
    return f"{path.parent.name}/{path.name}"


def _print(result: Comparison, *, quiet: bool, verbose: bool) -> None:
    out = common.stdout_console()
    counts = {status: sum(row.status == status for row in result.rows) for status in {r.status for r in result.rows}}
    if not quiet:
        out.print(f"before  {result.before}\nafter   {result.after}", markup=False)
        for note in result.notes:
            out.print(f"note    {note}", markup=False)
        for key in result.allowed:
            out.print(f"note    a mismatch of {key} was allowed", markup=False)
        out.print(_times(result.rows))
        if any(row.ratio is not None for row in result.rows):
            out.print(f"note    {INTERVAL_NOTE}", markup=False)
        counters = _counters(result.rows, every=verbose)
        if counters.row_count:
            out.print(counters)
    total = ", ".join(f"{count} {_STATUS_TEXT.get(name, name)}" for name, count in sorted(counts.items()))
    out.print(f"{_OUTCOME[result.code]} (exit {int(result.code)}): {total or 'no rows'}; {NO_VERDICT}", markup=False)


def _times(rows: Sequence[Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("variant", "dtype", "size"):
        table.add_column(heading, no_wrap=True)
    for heading in ("before", "after", "after / before"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("source", "binary", "status"):
        table.add_column(heading, no_wrap=True)
    table.add_column("reason", overflow="fold")
    for row in rows:
        cells = [row.variant, row.dtype, formatting.size(row.size), _time(row.before), _time(row.after)]
        cells += [_ratio(row.ratio), row.source, row.binary, _STATUS_TEXT.get(row.status, row.status), row.reason]
        table.add_row(*map(_plain, cells))
    return table


def _counters(rows: Sequence[Row], *, every: bool) -> Table:
    table = Table(box=None, pad_edge=False, title="counters", title_justify="left")
    for heading in ("variant", "size", "counter"):
        table.add_column(heading, no_wrap=True)
    for heading in ("before", "after", "after / before"):
        table.add_column(heading, justify="right")
    for row in rows:
        for pair in row.counters:
            if every or pair.before.value != pair.after.value:
                ratio = formatting.ratio(pair.ratio) if pair.ratio is not None else ""
                cells = [row.variant, formatting.size(row.size), pair.spec.label, *_values(pair), ratio]
                table.add_row(*map(_plain, cells))
    return table


def _values(pair: CounterPair) -> tuple[str, str]:
    return _value(pair.before), _value(pair.after)


def _value(value: Value) -> str:
    if value.value is None:
        return f"missing: {value.why_text}"
    if value.unit == "s":
        return formatting.time_ns(value.value * 1e9)
    if value.unit in ("", "1", "register"):
        return formatting.number(value.value, 6) if value.value % 1 else f"{value.value:.0f}"
    return formatting.si(value.value, {"byte": "B"}.get(value.unit, value.unit), 4)


def _time(interval: Interval | None) -> str:
    return "" if interval is None else formatting.time_ns(interval.value)


def _ratio(interval: Interval | None) -> str:
    if interval is None:
        return ""
    if interval.low is None or interval.high is None:
        return f"{interval.value:.3f} (too few samples for an interval)"
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _plain(text: str) -> Text:
    return Text(text)


if __name__ == "__main__":
    import sys

    sys.exit(main())
