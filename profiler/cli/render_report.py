"""render_report RUN: (re)render a run directory, without running anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from profiler.cli import common
from profiler.errors import UsageError
from profiler.rundir import find

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

#: Files of other tools, which a later version renders.
_TOOL_FILES = (".ncu-rep", ".ncu-repz", ".nsys-rep", ".sqlite")


@app.command()
def render_report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Runs: a folder, an id, or latest.", show_default=False)
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write; beside the run when left out.")
    ] = None,
    runs_dir: Annotated[Path, typer.Option("--runs-dir", help="Where ids and latest are looked up.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the paths.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Also print the size of each report.")] = False,
) -> int:
    """Render the report of a run again, as one HTML file, from its frames alone.

    Exit code: 0 every report is written, 2 usage or unreadable input.
    """
    if output is not None and len(runs) > 1:
        raise UsageError(f"--output names one file, but {len(runs)} runs are given", hint="render them one by one")
    paths = [_run(runs_dir, run) for run in runs]
    from reports.render import render_run  # the page's libraries are loaded once the command line is right

    written = [render_run(path, output) for path in paths]
    if as_json:
        common.print_json({"reports": [{"path": str(p), "bytes": p.stat().st_size} for p in written]})
    elif not quiet:
        for path in written:
            size = f"  {path.stat().st_size / 1e6:.1f} MB" if verbose else ""
            common.stdout_console().print(f"{path}{size}", markup=False, soft_wrap=True)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code of the command."""
    return common.run_app(app, argv)


def _run(runs_dir: Path, run: str) -> Path:
    if run.endswith(_TOOL_FILES) and Path(run).is_file():
        raise UsageError(f"{run}: files of the profilers are not rendered by this version", hint="give a run directory")
    return find(runs_dir, run)


if __name__ == "__main__":
    import sys

    sys.exit(main())
