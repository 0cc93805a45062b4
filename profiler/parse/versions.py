"""Versions that tools print about themselves, and the host compilers that a CUDA release accepts: text -> values."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PATTERNS: dict[str, re.Pattern[str]] = {
    "nvcc": re.compile(r"\bV(\d+\.\d+\.\d+)"),
    "cuobjdump": re.compile(r"\bV(\d+\.\d+\.\d+)"),
    "nvdisasm": re.compile(r"\bV(\d+\.\d+\.\d+)"),
    "ncu": re.compile(r"^Version (\d{4}\.\d+(?:\.\d+)*)", re.M),
    "nsys": re.compile(r"version (\d{4}\.\d+(?:\.\d+)*)"),
    "compute-sanitizer": re.compile(r"^Version (\d{4}\.\d+(?:\.\d+)*)", re.M),
}
_HOST = re.compile(r"\b(\d+\.\d+(?:\.\d+)?)\b")
_GNU_MOST = re.compile(r"^\s*#\s*if\s+__GNUC__\s*>\s*(\d+)", re.M)
_CLANG_BELOW = re.compile(r"^\s*#\s*if\s+\(__clang_major__\s*>=\s*(\d+)\)", re.M)


@dataclass(frozen=True)
class HostCompilers:
    """The newest host compilers that a CUDA release takes, by major version; None: not stated."""

    gcc: int | None = None
    clang: int | None = None

    def accepts(self, family: str, version: str) -> bool:
        """Whether a compiler (``gcc`` or ``clang``) of a version is taken; yes where no limit is stated."""
        most = self.clang if family == "clang" else self.gcc
        return most is None or version_key(version)[:1] <= (most,)


def tool_version(tool: str, output: str) -> str | None:
    """Return the version in what a tool answered to ``--version``; None when it is not that tool's answer."""
    if tool in _PATTERNS:
        match = _PATTERNS[tool].search(output)
        return match[1] if match else None
    first = output.strip().partition("\n")[0]
    found = _HOST.findall(first)
    return str(found[-1]) if found else None


def compiler_family(output: str) -> str:
    """Return ``clang`` or ``gcc`` from what a host compiler answered to ``--version``."""
    return "clang" if "clang" in output.partition("\n")[0].lower() else "gcc"


def accepted_hosts(host_config: str) -> HostCompilers:
    """Return the host compilers that ``crt/host_config.h`` accepts."""
    gnu, clang = _GNU_MOST.search(host_config), _CLANG_BELOW.search(host_config)
    return HostCompilers(int(gnu[1]) if gnu else None, int(clang[1]) - 1 if clang else None)


def version_key(version: str) -> tuple[int, ...]:
    """Return a version's numbers, to be compared."""
    return tuple(int(part) for part in re.findall(r"\d+", version))
