"""Runs the commands as a user does, in a process of their own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from profiler.process import Completed, run

ROOT = Path(__file__).resolve().parents[2]


def run_experiment(args: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = 560.0) -> Completed:
    """Run ``run_experiment`` and return what it said."""
    return run_command("run_experiment", args, env, timeout)


def run_command(
    command: str, args: Sequence[str], env: Mapping[str, str] | None = None, timeout: float = 560.0
) -> Completed:
    """Run one of the commands, as it is in this tree, and return what it said."""
    paths = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    argv = [sys.executable, "-m", f"profiler.cli.{command}", *args]
    return run(argv, timeout=timeout, env={**os.environ, "PYTHONPATH": paths, **(env or {})}, cwd=ROOT)


def document_of(done: Completed) -> dict[str, Any]:
    """Return the document that a command with ``--json`` printed; fails with what it said where there is none."""
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        how = "after its time" if done.timed_out else f"with {done.returncode}"
        raise AssertionError(f"no JSON, ended {how} in {done.seconds:.0f} s:\n{done.output}") from None
    return document


def verified(experiment: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Build and verify an experiment; return its document. Fails with the reasons where a variant is wrong or fails."""
    path = folder / f"{experiment['name']}.yaml"
    path.write_text(yaml.safe_dump(dict(experiment)), "utf-8")
    document = document_of(run_experiment([str(path), "--runs-dir", str(folder), "--stages", "build,verify", "--json"]))
    assert {v["name"]: v["reason"] for v in document["variants"] if v["status"] not in ("ok", "skipped")} == {}
    return document
