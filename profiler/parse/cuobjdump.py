"""What ``cuobjdump`` says of a kernel besides its code: resources (``-res-usage``) and launch bounds (``-elf``)."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Bytes that the driver keeps of a block's shared memory; from sm_90 on the toolkit counts them with the static part.
RESERVED_SHARED_BYTES = 1024

_ARCH = re.compile(r"^\s*arch = (sm_(\d+)\w?)", re.M)
_FUNCTION = re.compile(r"^\s*Function\s+(\S+?):\s*$")
_USAGE = re.compile(r"REG:(\d+)\s+STACK:(\d+)\s+SHARED:(\d+)\s+LOCAL:(\d+)")
_SECTION = re.compile(r"^\.nv\.info\.(\S+)\s*$")
_ATTRIBUTE = re.compile(r"^\s*Attribute:\s*(\S+)")
_VALUE = re.compile(r"^\s*Value:\s*(.*)$")


@dataclass(frozen=True)
class Usage:
    """Resources of one kernel as the binary states them."""

    name: str
    registers: int
    stack_bytes: int
    shared_bytes: int  #: static, without the driver's part
    local_bytes: int


@dataclass(frozen=True)
class Bounds:
    """The launch bounds of one kernel: the most threads in a block, and whether the block has exactly that shape."""

    name: str
    threads: tuple[int, int, int]
    exact: bool

    @property
    def total(self) -> int:
        """Threads in a block."""
        x, y, z = self.threads
        return x * y * z


def resource_usage(text: str, arch: str = "") -> tuple[Usage, ...]:
    """Return the kernels of ``cuobjdump -res-usage``; ``arch`` for a bare cubin, whose listing names none."""
    rows: list[Usage] = []
    name: str | None = None
    major = _major(arch)
    for line in text.splitlines():
        if match := _ARCH.match(line):
            major = _major(match[1])
        elif match := _FUNCTION.match(line):
            name = match[1]
        elif name is not None and (match := _USAGE.search(line)):
            registers, stack, shared, local = (int(group) for group in match.groups())
            if major >= 9 and shared >= RESERVED_SHARED_BYTES:
                shared -= RESERVED_SHARED_BYTES
            rows.append(Usage(name, registers, stack, shared, local))
            name = None
    return tuple(rows)


def launch_bounds(text: str) -> dict[str, Bounds]:
    """Return the launch bounds of the kernels that have any, from ``cuobjdump -elf``."""
    bounds: dict[str, Bounds] = {}
    name: str | None = None
    attribute = ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            name, attribute = match[1], ""
        elif line.startswith("."):
            name = None
        elif match := _ATTRIBUTE.match(line):
            attribute = match[1]
        elif (
            name is not None and attribute in {"EIATTR_MAX_THREADS", "EIATTR_REQNTID"} and (match := _VALUE.match(line))
        ):
            numbers = [int(word, 0) for word in match[1].split() if re.fullmatch(r"0x[0-9a-fA-F]+|\d+", word)]
            exact = attribute == "EIATTR_REQNTID"
            if len(numbers) == 3 and (exact or name not in bounds):
                bounds[name] = Bounds(name, (numbers[0], numbers[1], numbers[2]), exact)
            attribute = ""
    return bounds


def _major(arch: str) -> int:
    digits = re.sub(r"\D", "", arch)
    return int(digits[:-1]) if len(digits) > 1 else 0
