#!/usr/bin/env python3
"""Writes the golden files of the tests anew from their inputs; look at the difference before you keep it."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE.parent / "tests")]

from generated import write_or_check  # noqa: E402

from tests import golden, golden_report  # noqa: E402


def files() -> dict[Path, str]:
    """Return every golden file with what it should hold."""
    captured = {golden.expected(path): golden.rendered(path) for path in golden.inputs()}
    return captured | golden.others() | golden_report.files()


if __name__ == "__main__":
    sys.exit(write_or_check("update_golden.py", __doc__, files))
