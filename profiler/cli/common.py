"""What all commands share: the one place where errors are caught, consoles, and the signal that ends a run kindly."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console

try:  # typer of 2026 carries its own copy of click; older ones use the package
    from typer import _click as click
except ImportError:
    import click  # type: ignore[no-redef]

from profiler.errors import Exit, LadderError


def run_app(app: typer.Typer, argv: Sequence[str] | None) -> int:
    """Run a command and return its exit code; every expected error becomes one message on standard error.

    While it runs, TERM ends it as Ctrl-C does; afterwards the signal means to a caller what it meant before.
    """
    earlier = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return _run_app(app, argv)
    finally:
        signal.signal(signal.SIGTERM, earlier if earlier is not None else signal.SIG_DFL)


def _run_app(app: typer.Typer, argv: Sequence[str] | None) -> int:
    command = typer.main.get_command(app)
    try:
        result = command.main(args=list(argv) if argv is not None else None, standalone_mode=False)
    except typer.Exit as ended:
        return int(ended.exit_code)
    except click.exceptions.ClickException as error:
        error.show(file=sys.stderr)
        return int(Exit.USAGE)
    except (KeyboardInterrupt, typer.Abort):
        print("interrupted", file=sys.stderr)
        return int(Exit.INTERRUPTED)
    except LadderError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(error.code)
    except BrokenPipeError:  # the reader of our output has gone; nothing is left to say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.OK)
    return int(result) if isinstance(result, int) else int(Exit.OK)


def stdout_console() -> Console:
    """Return the console for results: plain when piped, colours as the terminal and NO_COLOR say."""
    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS", "160"))
    return Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False)


def stderr_console() -> Console:
    """Return the console for progress and notices."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=True)


def print_json(document: Any) -> None:
    """Print one JSON document on standard output; a NaN in it is a bug and raises."""
    sys.stdout.write(json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n")


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt
