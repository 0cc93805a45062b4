"""Runs the commands as a user does, in a process of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from profiler.process import Completed, run

ROOT = Path(__file__).resolve().parents[2]


def run_experiment(args: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = 560.0) -> Completed:
    """Run ``run_experiment`` and return what it said."""
    paths = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    argv = [sys.executable, "-m", "profiler.cli.run_experiment", *args]
    return run(argv, timeout=timeout, env={**os.environ, "PYTHONPATH": paths, **(env or {})}, cwd=ROOT)
