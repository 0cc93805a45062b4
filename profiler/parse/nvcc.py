"""What went wrong in a compiler's log: the first error, where it stands, and what helps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class CompileError:
    """The first error of a log. ``file`` as the user knows it, empty where the log names none."""

    message: str
    file: str = ""
    line: int | None = None
    hint: str = ""

    @property
    def text(self) -> str:
        """One line: place, message, hint."""
        place = f"{self.file}:{self.line}: " if self.file and self.line is not None else ""
        return f"{place}{self.message}" + (f" ({self.hint})" if self.hint else "")


_PLACED = (
    re.compile(r"^(?P<file>[^\s(][^(]*?)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$"),
    re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<text>.*)$"),
    re.compile(r"^ptxas (?P<file>.+), line (?P<line>\d+); (?:error|fatal)\s*: (?P<text>.*)$"),
)
_UNPLACED = (
    re.compile(r"^(?P<tool>ptxas|nvlink|nvcc|fatbinary|cicc)\s+(?:error|fatal)\s*: (?P<text>.*)$"),
    re.compile(r"^(?:\S*/)?(?P<tool>ld|ld\.\w+|collect2): (?:error: |fatal: )?(?P<text>.*)$"),
    re.compile(r"^(?P<tool>error|sh|gcc|g\+\+|clang\+\+)\s*: (?P<text>.*)$"),
)
_SHARED = re.compile(r"uses too much shared data \(0x([0-9a-f]+) bytes, 0x([0-9a-f]+) max\)")
_CRASH = re.compile(r"died due to signal (\d+)|Segmentation fault|[Kk]illed")
_LAST_RESORT = ("Ptx assembly aborted", "ld returned", "died with status")


def first_error(
    log: str, originals: Mapping[str, str] | None = None, *, nvcc: str = "", host: str = "", archs: str = ""
) -> CompileError | None:
    """Return the first error of a log; None when it holds none.

    ``originals`` gives the user's name for each copied file; ``nvcc``, ``host`` (versions) and ``archs`` (what nvcc
    builds for) fill in the hints.
    """
    fallback: CompileError | None = None
    for line in log.splitlines():
        for pattern in _PLACED:
            if match := pattern.match(line):
                file, text = match["file"].strip(), match["text"].strip()
                if file.endswith(".ptx"):
                    return _complete(CompileError(f"ptxas: {text} (in inline PTX)"), nvcc, host, archs)
                name = _original(file, originals or {})
                return _complete(CompileError(text, name, int(match["line"])), nvcc, host, archs)
        for pattern in _UNPLACED:
            if match := pattern.match(line):
                error = CompileError(f"{match['tool']}: {match['text'].strip()}")
                if not any(words in line for words in _LAST_RESORT):
                    return _complete(error, nvcc, host, archs)
                fallback = fallback or error
    if crash := _CRASH.search(log):
        return CompileError(f"the compiler crashed: {crash[0]}", hint="out of memory, or a compiler bug")
    return fallback


def _complete(error: CompileError, nvcc: str, host: str, archs: str) -> CompileError:
    message, hint = error.message, ""
    if "unsupported GNU version" in message or "unsupported clang version" in message:
        versions = f"nvcc {nvcc} does not accept host compiler {host}: " if nvcc and host else ""
        hint = f"{versions}install an older one and name it in NVCC_CCBIN, such as NVCC_CCBIN=g++-12"
    elif "nsupported gpu architecture" in message or "is not defined for option 'gpu-architecture'" in message:
        hint = f"nvcc {nvcc} builds for {archs}" if archs else "see `nvcc --list-gpu-arch`"
    elif "host compiler properties" in message or "Failed to preprocess" in message:
        hint = "the host C++ compiler does not work: set NVCC_CCBIN to one that does"
    elif "No such file or directory" in message and error.file:
        hint = "add its folder to build.include"
    elif "Unknown option" in message:
        hint = "from build.flags"
    elif "cannot find -l" in message:
        hint = "from build.link"
    elif shared := _SHARED.search(message):
        used, most = int(shared[1], 16), int(shared[2], 16)
        hint = f"{used} bytes of static shared memory, {most} allowed; dynamic shared memory may be larger"
    return CompileError(message, error.file, error.line, hint)


def _original(file: str, originals: Mapping[str, str]) -> str:
    clean = file.removeprefix("./")
    if clean in originals:
        return originals[clean]
    parts: list[str] = []
    for part in clean.split("/"):  # nvcc names a header by the way it was reached: gemm/fp32/../../common/x.cuh
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    named = originals.get("/".join(parts), clean)
    return named.rpartition("/")[2] if named.startswith("/") else named
