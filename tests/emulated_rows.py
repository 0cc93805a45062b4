"""Kernels over rows, and others that are as simple, as C++ for `emulator/rows.hpp`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.emulated_kernels import EMULATOR, without_ptx


def translated(text: str) -> str:
    """Return a source as C++ for the emulator."""
    text = re.sub(r"^#(?:include|pragma once).*\n", "", without_ptx(text), flags=re.M)
    text = re.sub(
        r"__shared__ (\w+) (\w+)((?:\[[^;]*\])?);",
        r"static const char \2_name = 0;\nauto &\2 = emu::shared<\1\3>(&\2_name);",
        text,
    )
    text = re.sub(
        r"extern __shared__ __align__\(\d+\) unsigned char (\w+)\[\];", r"unsigned char *\1 = emu::dynamic();", text
    )
    return re.sub(
        r"(\w+(?:<[^<>;]*>)?)\s*<<<([^;]*?), ([^,;]*?), 0, stream>>>\((.*?)\);",
        r"emu::launch(\2, \3, 1, [&] { \1(\4); });",
        text,
        flags=re.S,
    )


def program_of(folder: Path, main: Path, *flags: str) -> Path:
    """Return the program of a main file that includes ``kernel.hpp`` of the folder; skips where there is no g++."""
    if shutil.which("g++") is None:
        pytest.skip("g++ was not found")
    program = folder / "program"
    argv = [
        "g++", "-std=c++20", "-O1", "-w", f"-I{EMULATOR}", f"-I{folder}", *flags, "-pthread",
        "-o", str(program), str(main),
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return program
