"""What scripts that make files have in common: they write them, or with ``--check`` say which ones differ."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def write_or_check(
    script: str, description: str, wanted: Callable[[], Mapping[Path, str]], argv: Sequence[str] | None = None
) -> int:
    """Write the files that ``wanted`` returns with their texts, or check them, and say so; return the exit code.

    Files that are as wanted are left alone; those that differ, or were written, are named on standard output. 1: with
    ``--check`` a file differs or is not there, or ``wanted`` raised ``ValueError``; nothing is written then. 2: another
    argument.
    """
    parser = argparse.ArgumentParser(
        prog=f"python scripts/{script}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file differs")
    check: bool = parser.parse_args(argv).check
    try:
        files = wanted()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    stale = {path: text for path, text in files.items() if not _holds(path, text)}
    for path, text in stale.items():
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT).as_posix()} {'differs' if check else 'written'}")
    if stale:
        print(f"{len(stale)} of {len(files)} {f'differ: run python scripts/{script}' if check else 'written'}")
    else:
        print(f"all of {len(files)} are current")
    return 1 if stale and check else 0


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()
