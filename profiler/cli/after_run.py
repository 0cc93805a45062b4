"""What happens to a report once it is written: the list of all runs beside it, and the reader's browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiler.errors import LadderError


def render_into(directory: Any, shared_assets: Path | None = None) -> None:
    """Write ``report.html`` into a run directory, its styles and scripts into ``shared_assets`` if that is given."""
    from reports.render import render_run

    render_run(directory.path, None, shared_assets)


def list_runs(runs_dir: Path, run: Path, say: Callable[[str], None]) -> Path | None:
    """Write ``index.html`` of a runs directory and return its path; None for a run that lies elsewhere.

    A list that cannot be written is said and no more: the run itself is done.
    """
    from reports.runs_index import write_index

    if run.resolve().parent.parent != runs_dir.resolve():
        return None
    try:
        return write_index(runs_dir)
    except (OSError, LadderError) as error:
        say(f"the list of runs was not written: {error}")
        return None


def open_report(report: Path, say: Callable[[str], None]) -> bool:
    """Open a report in the reader's browser and return whether there is one."""
    screen = sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if not report.is_file():
        say("--open: there is no report to open")
    elif screen and webbrowser.open(
        report.resolve().as_uri()
    ):  # without a screen a text browser would take the terminal
        return True
    else:
        say(f"--open: there is no browser here; the report is {report}")
    return False
