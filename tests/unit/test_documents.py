"""Tables of the documentation that scripts fill are those of the recorded runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("script", ["readme_ladder.py", "kernel_tables.py"])
def test_tables_are_current(script: str) -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
