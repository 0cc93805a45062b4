"""``compare_runs BEFORE AFTER``: verdicts, causes, and an exit code that a build can trust."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiler.cli import common
from profiler.errors import Exit, UsageError

if TYPE_CHECKING:
    from profiler.cli.compare_inputs import Inputs
    from profiler.comparison.assemble import Assembled
    from profiler.comparison.model import Settings
    from profiler.comparison.selfcheck import SelfCheck
    from profiler.rundir import RunDir

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def compare_runs(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BEFORE AFTER",
            help="Two runs: a folder, an id, latest, or a baseline's name; or two .ncu-rep. One, when it is a folder "
            "that --remeasure has written.",
            show_default=False,
        ),
    ] = None,
    runs_dir: Annotated[Path, typer.Option("--runs-dir", help="Where ids, latest and baselines are.")] = Path("runs"),
    only: Annotated[list[str] | None, typer.Option(help="Compare this variant only (repeatable).")] = None,
    max_regression: Annotated[
        str, typer.Option(metavar="PERCENT", help="An inconclusive row passes if a slowdown above this is ruled out.")
    ] = "5",
    min_effect: Annotated[str, typer.Option(metavar="PERCENT", help="No smaller change is flagged.")] = "0.5",
    fail_on: Annotated[
        str | None,
        typer.Option(metavar="latent", help="latent: exit 1 too when exact counters got worse at the same time."),
    ] = None,
    allow_mismatch: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Compare although this differs (repeatable); the report says so."),
    ] = None,
    remeasure: Annotated[
        bool, typer.Option("--remeasure", help="Build both sides from their sources and measure them side by side.")
    ] = False,
    in_process: Annotated[
        bool, typer.Option("--in-process", help="With --remeasure: both sides in one process (default where possible).")
    ] = False,
    two_process: Annotated[
        bool, typer.Option("--two-process", help="With --remeasure: pairs of processes, in the order A B B A.")
    ] = False,
    pairs: Annotated[
        int | None,
        typer.Option(min=1, help="With --remeasure: so many pairs, and as many to confirm (default: 3 to 9, and 5)."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=1, help="With --remeasure: longest silence of a variant, in s.")
    ] = 120.0,
    self_: Annotated[
        str | None, typer.Option("--self", metavar="RUN", help="Hold a run against itself: how often is it flagged?")
    ] = None,
    save_baseline: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Keep AFTER (or the only RUN) under this name, if it is complete and passes."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the comparison as one HTML file.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it as Markdown, for a comment on a change.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as JUnit XML, for a CI system.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, everything else on stderr.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print the outcome line only.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Also list every counter.")] = False,
) -> int:
    """Hold AFTER against BEFORE and give each row a verdict, with its cause.

    Exit code: 0 passed, 1 regressed, 2 usage or unreadable input, 3 incomparable, 4 suspected or inconclusive (no proof
    against a slowdown above --max-regression), 5 broken, removed or nothing measured. 2 goes before 3, 5, 1, 4, 0.

    Two stored runs can only tell large changes; --remeasure tells small ones, and needs a GPU. Files of Nsight Compute
    are compared by their counters, launch by launch, and never by time: 0 every launch of BEFORE has its counterpart, 1
    with --fail-on latent, 3 from another kind of GPU, 5 a launch is gone or none corresponds.
    """
    from profiler.cli.compare_inputs import read_inputs, settings_of

    settings = settings_of(max_regression, min_effect, fail_on, allow_mismatch or (), pairs)
    check_flags(runs or [], self_, remeasure, in_process, two_process, pairs, save_baseline)
    if self_ is not None:
        if runs:
            raise UsageError("--self takes one run, and compares it with nothing else")
        return check_self(runs_dir, self_, settings, as_json=as_json, quiet=quiet)
    inputs = read_inputs(runs or [], runs_dir)
    if inputs.files and save_baseline is not None:
        raise UsageError("--save-baseline keeps a run; a profiler's file is none")
    if len(inputs.runs) == 1:
        if save_baseline is None or remeasure:
            raise UsageError(f"two runs are compared, but only {inputs.names[0]} is given")
        return keep_baseline(runs_dir, save_baseline, inputs.runs[0], as_json=as_json, quiet=quiet)
    design = "in_process" if in_process else "two_process" if two_process else None
    if remeasure:
        inputs = measure_again(inputs, settings, design, tuple(only or ()), timeout, runs_dir, quiet=quiet)
        html = html or inputs.kept_folder / "comparison.html"
    found = assembled(inputs, settings, tuple(only or ()))
    code = report(found, html, markdown, junit, as_json=as_json, quiet=quiet, verbose=verbose)
    if inputs.kept is not None and remeasure and not quiet:
        say(f"kept: {inputs.kept_folder}")
    if save_baseline is not None:
        save_if_passed(runs_dir, save_baseline, inputs, code, quiet=quiet)
    return int(code)


def check_flags(
    runs: Sequence[str],
    self_: str | None,
    remeasure: bool,
    in_process: bool,
    two_process: bool,
    pairs: int | None,
    save_baseline: str | None,
) -> None:
    """Raise ``UsageError`` for flags that exclude one another or mean nothing here."""
    if in_process and two_process:
        raise UsageError("--in-process and --two-process exclude each other")
    for flag, given in (("--in-process", in_process), ("--two-process", two_process), ("--pairs", pairs is not None)):
        if given and not remeasure:
            raise UsageError(f"{flag} says how --remeasure measures", hint="add --remeasure")
    if self_ is not None and (remeasure or save_baseline is not None):
        raise UsageError("--self measures and keeps nothing", hint="leave --remeasure and --save-baseline out")
    if save_baseline is not None:
        from profiler.comparison.baselines import check_name

        check_name(save_baseline)
    if len(runs) > 2 or (not runs and self_ is None):
        raise UsageError(
            f"two runs are compared, but {len(runs) or 'none'} are given", hint="compare_runs BEFORE AFTER"
        )


def measure_again(
    inputs: Inputs,
    settings: Settings,
    design: str | None,
    only: tuple[str, ...],
    timeout_s: float,
    runs_dir: Path,
    *,
    quiet: bool,
) -> Inputs:
    """Measure both sides again and return what was kept, in place of the runs that were given."""
    from dataclasses import replace

    from profiler.comparison.side_by_side import Wanted, remeasure

    if inputs.files:
        raise UsageError("--remeasure needs runs: a profiler's file keeps no sources to build")
    if inputs.kept is not None:
        raise UsageError("this was measured side by side already", hint="give the two runs that it was made of")
    wanted = Wanted(settings, design, only, timeout_s=timeout_s)  # type: ignore[arg-type]
    kept = remeasure(
        (inputs.runs[0], inputs.runs[1]), inputs.names, wanted, runs_dir, (lambda line: None) if quiet else say
    )
    return replace(inputs, kept=kept)


def assembled(inputs: Inputs, settings: Settings, only: tuple[str, ...]) -> Assembled:
    """Return the comparison of what was given."""
    from profiler.comparison.assemble import compare_dirs, compare_files, compare_kept

    if inputs.files:
        if only:
            raise UsageError("--only names variants of runs; a profiler's file has launches")
        return compare_files(*inputs.files, settings)
    if inputs.kept is not None:
        return compare_kept(inputs.kept, settings, only=only)
    return compare_dirs(inputs.runs[0], inputs.runs[1], settings, only=only)


def report(
    found: Assembled,
    html: Path | None,
    markdown: Path | None,
    junit: Path | None,
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> Exit:
    """Print the comparison and write the files that are wanted; return the exit code."""
    from profiler.comparison import terminal
    from profiler.comparison.gate import exit_code
    from profiler.comparison.json_report import to_json
    from profiler.comparison.junit import junit as junit_text
    from profiler.comparison.markdown import markdown as markdown_text

    comparison = found.comparison
    if markdown is not None:
        write(markdown, markdown_text(comparison), "--markdown")
    if junit is not None:
        write(junit, junit_text(comparison), "--junit")
    if html is not None:
        from reports.compare import write_comparison

        write_comparison(html, comparison, found.before, found.after)
    if as_json:
        common.print_json(to_json(comparison))
        return exit_code(comparison)
    out = common.stdout_console()
    if not quiet:
        for part in terminal.tables(comparison, verbose=verbose):
            out.print(part)
        for label, path in (("report", html), ("markdown", markdown), ("junit", junit)):
            if path is not None:
                out.print(f"{label}: {path}", markup=False, soft_wrap=True)
    out.print(terminal.outcome_line(comparison), soft_wrap=True)
    return exit_code(comparison)


def write(path: Path, text: str, flag: str) -> None:
    """Write an output whole; ``UsageError`` where that is not possible."""
    from profiler.rundir import write_text

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except OSError as error:
        raise UsageError(f"{flag} {path}: cannot be written: {error.strerror or error}") from error


def check_self(runs_dir: Path, text: str, settings: Settings, *, as_json: bool, quiet: bool) -> int:
    """Print how often the rule flags a run held against itself; 0 sound, 4 it flags too much, 5 nothing to split."""
    from profiler.analysis.rundata import RunData
    from profiler.comparison import ledger
    from profiler.comparison.baselines import find_run, run_name
    from profiler.comparison.selfcheck import self_check
    from profiler.comparison.selfcheck_words import lines, to_json
    from profiler.rundir import RunDir

    run = RunDir.open(find_run(runs_dir, text))
    data = RunData.load(run)
    found: SelfCheck = self_check(data, settings, ledger.table(data.manifest.get("gpu") or {}))
    code = Exit.BROKEN if not found.rows else Exit.OK if found.sound else Exit.SUSPECTED
    if as_json:
        common.print_json({**to_json(found), "run": run_name(run), "exit_code": int(code)})
        return int(code)
    said = lines(found, run_name(run), code)
    for line in said[-1:] if quiet else said:
        common.stdout_console().print(line, markup=False, soft_wrap=True)
    return int(code)


def keep_baseline(runs_dir: Path, name: str, run: RunDir, *, as_json: bool, quiet: bool) -> int:
    """Keep a run as a baseline, without comparing anything."""
    from profiler.comparison.baselines import run_name, save

    of, path = run_name(run), save(runs_dir, name, run)
    if as_json:
        common.print_json({"baseline": name, "run": of, "path": str(path), "exit_code": 0})
    elif not quiet:
        common.stdout_console().print(f"baseline {name}: {of}", markup=False, soft_wrap=True)
    return int(Exit.OK)


def save_if_passed(runs_dir: Path, name: str, inputs: Inputs, code: Exit, *, quiet: bool) -> None:
    """Keep AFTER as a baseline when the comparison passed; say why not otherwise."""
    from profiler.comparison.baselines import save

    if code is not Exit.OK:
        say(f"the baseline {name} is not saved: the comparison did not pass (exit {int(code)})")
        return
    save(runs_dir, name, inputs.runs[1])
    if not quiet:
        say(f"baseline {name}: {inputs.names[1]}")


def say(line: str) -> None:
    """Print a line of progress or a notice on standard error."""
    common.stderr_console().print(line, markup=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code of the command."""
    return common.run_app(app, argv)


if __name__ == "__main__":
    import sys

    sys.exit(main())
