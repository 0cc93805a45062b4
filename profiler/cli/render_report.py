"""render_report RUN_OR_FILE: (re)render a run directory, or a file of Nsight Compute or Systems; runs no program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from profiler.cli import common
from profiler.comparison.kept import is_kept
from profiler.errors import LadderError, UsageError
from profiler.foreign import is_foreign, launches_shown, load_ncu_report
from profiler.foreign_nsys import is_nsys, load_nsys_report
from profiler.rundir import find

if TYPE_CHECKING:
    from profiler.analysis.rundata import RunData

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

#: A page of more launches would be slow to open and hard to read; the longest are shown.
MOST_LAUNCHES = 48


@app.command()
def render_report(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN_OR_FILE",
            help="Runs: a folder, an id, or latest. Files: a .ncu-rep, the CSV of ncu --csv, the SQLite export "
            "of nsys, or a .nsys-rep.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write; beside the run or file when left out.")
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(help="Also write the timeline as JSON for ui.perfetto.dev (gzip where the name ends in .gz)."),
    ] = None,
    runs_dir: Annotated[Path, typer.Option("--runs-dir", help="Where ids and latest are looked up.")] = Path("runs"),
    shared_assets: Annotated[
        bool, typer.Option("--shared-assets", help="Styles and scripts once in RUNS_DIR/assets, not in each report.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the paths.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Also print the size of each report.")] = False,
) -> int:
    """Render the report of a run again, from its frames alone, or that of a profiler's file from elsewhere, as one HTML
    file.

    Exit code: 0 every report is written, 2 usage or unreadable input.
    """
    if output is not None and len(runs) > 1:
        raise UsageError(f"--output names one file, but {len(runs)} runs are given", hint="render them one by one")
    if perfetto is not None and len(runs) > 1:
        raise UsageError(f"--perfetto names one file, but {len(runs)} runs are given", hint="render them one by one")
    inputs = [_read(runs_dir, run) for run in runs]
    pages = [_page_of(one[0]) for one in inputs if not isinstance(one, Path)]
    twice = next((page for page in pages if pages.count(page) > 1), None)
    if twice is not None:
        raise UsageError(f"two of these files would both write {twice}", hint="render them one by one, with --output")
    from reports.render import render_foreign, render_run  # the page's libraries are loaded once the inputs are right

    if perfetto is not None:
        _write_perfetto(inputs[0], perfetto)
    shared = runs_dir / "assets" if shared_assets else None
    written = [
        render_run(one, output, shared)
        if isinstance(one, Path)
        else render_foreign(one[1], output or _page_of(one[0]), shared)
        for one in inputs
    ]
    written += [perfetto] if perfetto is not None else []
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


def _read(runs_dir: Path, run: str) -> Path | tuple[Path, RunData]:
    """A run's directory; a file from elsewhere with what it holds, so that a bad one is told before any is written."""
    path = Path(run)
    if not is_foreign(path):
        if is_kept(path):
            raise UsageError(
                f"{run} holds two sides of a comparison",
                hint=f"its page: compare_runs {run} --html FILE; a side's: render_report {path / 'after'}",
            )
        return find(runs_dir, run)
    from profiler.analysis.rundata import RunData
    from profiler.frames import FRAME_NAMES, rows_of

    if is_nsys(path):
        traced = load_nsys_report(path, judged=False)  # the page judges, with links
        return path, RunData(traced.manifest, spans=traced.spans)
    shown, left_out = launches_shown(load_ncu_report(path), MOST_LAUNCHES)
    manifest = {**shown.manifest, "foreign": {**shown.manifest["foreign"], "left_out": left_out}}
    return path, RunData(manifest, {name: rows_of(shown.frame(name)) for name in FRAME_NAMES if name != "spans"})


def _write_perfetto(one: Path | tuple[Path, RunData], target: Path) -> None:
    """Write a timeline as JSON for Perfetto; ``LadderError`` where there is none, or its place cannot be written."""
    import gzip

    from profiler.analysis.rundata import RunData
    from profiler.analysis.timeline import timeline
    from profiler.analysis.timeline_export import perfetto
    from profiler.rundir import RunDir

    data = one[1] if isinstance(one, tuple) else RunData.load(RunDir.open(one), details=True)
    if data.spans is None or not len(data.spans):
        what = one[0].name if isinstance(one, tuple) else one
        raise LadderError(
            f"{what} holds no timeline", hint="--perfetto is for traces: a run with trace: true, or nsys's"
        )
    title = str((data.manifest.get("experiment") or {}).get("title") or target.stem)
    pieces = perfetto(timeline(data.spans), data.gpu_names, title)
    try:
        if target.suffix == ".gz":
            with gzip.open(target, "wt", encoding="utf-8") as packed:
                packed.writelines(pieces)
        else:
            with target.open("w", encoding="utf-8") as file:
                file.writelines(pieces)
    except OSError as error:
        raise LadderError(f"cannot write {target}: {error.strerror}", hint="choose a writable file") from error


def _page_of(path: Path) -> Path:
    """Where a file's page goes: beside it, with the suffix of a page."""
    return path.with_name(f"{path.stem or path.name}.html")


if __name__ == "__main__":
    import sys

    sys.exit(main())
