"""What ``-Xptxas -v`` says, as rows: registers, stack, spills, shared memory and barriers of each kernel.

Reads the text of CUDA 11 to 13. The stream is the compiler's standard error, in which warnings, errors and other lines
stand between the facts; a line that is not understood is passed over, and a fact that was not printed is None.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

#: Codes that say an asynchronous warpgroup product was serialised: the kernel is correct and slow.
_SERIALISED = frozenset({"C7508", "C7509", "C7510", "C7511", "C7512", "C7513", "C7514"})


@dataclass(frozen=True)
class KernelResources:
    """The resources of one kernel for one architecture, as ``ptxas`` states them; None: not stated."""

    name: str  #: mangled
    arch: str
    registers: int | None = None
    barriers: int | None = None
    stack_bytes: int | None = None  #: stack frame of the kernel itself
    cumulative_stack_bytes: int | None = None  #: with what it calls; CUDA 12 and later
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    shared_bytes: int | None = None  #: static; None only when no resource line was printed
    local_bytes: int | None = None


@dataclass(frozen=True)
class DeviceFunction:
    """A function that was not inlined: it has a frame of its own and its registers count in the caller."""

    name: str
    arch: str
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


@dataclass(frozen=True)
class PtxasWarning:
    """A ``ptxas`` warning or advisory: its code (``C7510``) where it has one, its text, the function it names."""

    code: str
    text: str
    function: str = ""

    @property
    def serialises_wgmma(self) -> bool:
        """Whether it says that asynchronous warpgroup products wait for one another."""
        return self.code in _SERIALISED or ("wgmma" in self.text and "serialized" in self.text)


@dataclass(frozen=True)
class PtxasLog:
    """Everything that was understood in one compiler log."""

    kernels: tuple[KernelResources, ...] = ()
    functions: tuple[DeviceFunction, ...] = ()
    warnings: tuple[PtxasWarning, ...] = ()

    def for_arch(self, arch: str) -> tuple[KernelResources, ...]:
        """Return the kernels of one architecture, in the order of the log."""
        return tuple(kernel for kernel in self.kernels if kernel.arch == arch)


def refusal(log: PtxasLog, refuse: Collection[str]) -> str:
    """Return why a build is refused, by what ``refuse`` names (see ``BuildOptions``); empty when it is not."""
    if "serialised_wgmma" in refuse:
        for warning in log.warnings:
            if warning.serialises_wgmma:
                return f"ptxas serialises wgmma: {' '.join([warning.code, warning.text]).strip()} (build.refuse)"
    if "spills" in refuse:
        # A function that is not inlined spills in a frame of its own.
        compiled: list[KernelResources | DeviceFunction] = [*log.kernels, *log.functions]
        spilled = [(one.spill_store_bytes or 0) + (one.spill_load_bytes or 0) for one in compiled]
        if any(spilled):
            what = "kernels and functions" if log.functions else "kernels"
            many = f"{sum(map(bool, spilled))} of {len(compiled)} {what} spill"
            return f"{many}, {max(spilled)} bytes stored and loaded at most (build.refuse)"
    return ""


_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '(sm_\w+)'")
_PROPERTIES = re.compile(r"Function properties for '?([^\s']+)'?")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"\bUsed (\d+) registers\b(.*)")
_FACT = re.compile(r"(?:used )?(\d+)(?:\+\d+)?\s+(barriers|bytes smem|bytes lmem|bytes cumulative stack size)")
_CODE = re.compile(r"\((C\d{4,5})\)\s*(.*)$")
_IN_FUNCTION = re.compile(r"function '([^']+)'")
_ALIASES = {
    "barriers": "barriers",
    "bytes smem": "shared_bytes",
    "bytes lmem": "local_bytes",
    "bytes cumulative stack size": "cumulative_stack_bytes",
}


def parse(text: str) -> PtxasLog:
    """Return the kernels, device functions and warnings of a compiler log; never raises."""
    kernels: list[KernelResources] = []
    functions: list[DeviceFunction] = []
    warnings: list[PtxasWarning] = []
    current: str | None = None  # the function that the next frame line belongs to
    arch = ""
    for line in text.splitlines():
        warning = _warning(line)
        if warning is not None:
            warnings.append(warning)
            continue
        if match := _ENTRY.search(line):
            current, arch = match[1], match[2]
            kernels.append(KernelResources(match[1], match[2]))
        elif match := _PROPERTIES.search(line):
            current = match[1]
        elif match := _FRAME.search(line):
            frame, stores, loads = (int(group) for group in match.groups())
            index = _index(kernels, current, arch)
            if index is not None:
                kernels[index] = replace(
                    kernels[index], stack_bytes=frame, spill_store_bytes=stores, spill_load_bytes=loads
                )
            elif current is not None:
                functions.append(DeviceFunction(current, arch, frame, stores, loads))
        elif (match := _USED.search(line)) and kernels:
            kernels[-1] = _used(kernels[-1], int(match[1]), match[2])
    return PtxasLog(tuple(kernels), tuple(functions), tuple(warnings))


def _index(kernels: list[KernelResources], name: str | None, arch: str) -> int | None:
    for index in range(len(kernels) - 1, -1, -1):
        if kernels[index].name == name and kernels[index].arch == arch:
            return index
    return None


def _used(kernel: KernelResources, registers: int, rest: str) -> KernelResources:
    facts: dict[str, int] = {"shared_bytes": 0}  # a resource line that names no shared memory says there is none
    for number, what in _FACT.findall(rest):
        facts[_ALIASES[what]] = int(number)
    return replace(
        kernel,
        registers=registers,
        barriers=facts.get("barriers", kernel.barriers),
        shared_bytes=facts["shared_bytes"],
        local_bytes=facts.get("local_bytes", kernel.local_bytes),
        cumulative_stack_bytes=facts.get("cumulative_stack_bytes", kernel.cumulative_stack_bytes),
    )


def _warning(line: str) -> PtxasWarning | None:
    if not line.lstrip().startswith("ptxas"):
        return None
    coded = _CODE.search(line)
    if coded is None and "warning" not in line.partition(" : ")[0] and " warning :" not in line:
        return None
    text = coded[2] if coded else line.partition(":")[2].strip() if ":" in line else line.strip()
    named = _IN_FUNCTION.search(line)
    return PtxasWarning(coded[1] if coded else "", text.strip(), named[1] if named else "")
