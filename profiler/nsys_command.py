"""The command lines of Nsight Systems, and what its output means. Pure: argument lists and text in, values out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from profiler.parse.folders import without_folders


@dataclass(frozen=True)
class Trouble:
    """Why a step gave nothing: one clear line, and what to do."""

    message: str
    hint: str = ""


def profile_argv(nsys: Path, program: Sequence[str], output: Path, *, leaves_children: bool = False) -> list[str]:
    """Return the command line that traces a program into ``output`` (a path without suffix).

    A program that may leave children behind is not waited for once it has ended itself.

    CUDA and NVTX only: with CPU sampling a trace of seconds took minutes and gigabytes. Graphs are traced node by node,
    because their kernels are what the report is about.
    """
    return [
        str(nsys), "profile", "--trace", "cuda,nvtx", "--sample", "none", "--cpuctxsw", "none",
        "--cuda-graph-trace", "node", *(["--wait", "primary"] if leaves_children else []),
        "--force-overwrite", "true", "--output", str(output), *program,
    ]  # fmt: skip


def import_argv(importer: Path, stream: Path, report: Path) -> list[str]:
    """Return the command line that turns a ``.qdstrm``, which an nsys without its importer leaves, into a report."""
    return [str(importer), "-i", str(stream), "-o", str(report)]


def export_argv(nsys: Path, report: Path, target: Path) -> list[str]:
    """Return the command line that exports a report to SQLite."""
    return [
        str(nsys), "export", "--type", "sqlite", "--force-overwrite", "true", "--output", str(target), str(report)
    ]  # fmt: skip


#: What nsys says of a program that failed; its own exit code is 0 in some versions.
LAUNCH_FAILED = re.compile(r"target application returned non-zero exit code (-?\d+)", re.IGNORECASE)
_LIBRARY = re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file")
_PACKAGES = {"libdw": "libdw1", "libelf": "libelf1"}
_REFUSED = re.compile(
    r"unrecogni[sz]ed option '?([-\w]+)|Illegal (?:--)?([-\w]+) argument|option '?([-\w]+)'? is (?:ambiguous|invalid)",
    re.I,
)
_ERROR = re.compile(r"(?:FATAL |^)ERROR:?\s*(.+)|^(?:Error|error): (.+)|^Failed (.+)", re.MULTILINE)


def trouble(step: str, text: str, returncode: int) -> Trouble:
    """Return what a failed step said: ``step`` is what was tried, as ``trace`` or ``nsys export``."""
    library = _LIBRARY.search(text)
    if library:
        package = next((name for start, name in _PACKAGES.items() if library[1].startswith(start)), "")
        hint = f"install it: `apt-get install {package}`" if package else "install the package that brings it"
        return Trouble(f"{step}: the library {library[1]} is missing", hint)
    if re.search(r"permission|not permitted|EPERM|seccomp", text, re.IGNORECASE) and returncode:
        return Trouble(
            f"{step}: the system does not permit it ({_line(text)})", "run in a container with --cap-add=SYS_ADMIN"
        )
    if re.search(r"newer version|unsupported (?:file )?version|created by a (?:newer|later)", text, re.IGNORECASE):
        return Trouble(
            f"{step}: the report is of a newer Nsight Systems than this one", "install a newer Nsight Systems"
        )
    refused = _REFUSED.search(text)
    if refused and returncode:
        name = next(part for part in refused.groups() if part)
        return Trouble(f"{step}: this nsys does not take {name}", "install Nsight Systems 2022 or newer")
    said = _ERROR.search(text)
    if said:
        return Trouble(f"{step}: {without_folders(next(part for part in said.groups() if part).strip())[:200]}")
    if returncode < 0:
        return Trouble(f"{step} was ended by signal {-returncode}")
    if returncode:
        return Trouble(f"{step} ended with exit code {returncode}: {_line(text)}")
    return Trouble(f"{step} ended well but wrote nothing: {_line(text)}")


def _line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return without_folders(lines[-1])[:160] if lines else "it said nothing"
