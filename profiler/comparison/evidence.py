"""One side of a comparison as the causes read it: counters, what the binary says, accesses by opcode.

Counts are sums over a variant's launches; what belongs to one kernel (registers, occupancy, widths, conflicts per
access) is that of the kernel that ran longest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from profiler.analysis.kernels import Kernel, kernels
from profiler.analysis.rundata import RunData, Value
from profiler.analysis.sass_mix import executed_counts, instruction

#: Instructions whose shared-memory excess exceeds the ideal by design: judged only with the hardware's counter.
ASYNCHRONOUS = frozenset({"LDGSTS", "UBLKCP", "UTMALDG", "HGMMA", "IGMMA", "QGMMA", "BGMMA"})


@dataclass(frozen=True)
class Access:
    """What one opcode does to memory: executions (one a warp), wavefronts and sectors with their excess."""

    executed: int = 0
    wavefronts: int = 0
    wavefronts_excess: int = 0
    sectors: int = 0
    sectors_excess: int = 0
    worst_line: str = ""  #: of the excess, as ``file:line``; empty where there is none or no line is known

    @property
    def wavefronts_each(self) -> float:
        """Wavefronts of one execution."""
        return self.wavefronts / self.executed if self.executed else 0.0

    @property
    def wavefronts_least(self) -> float:
        """Wavefronts of one execution without a bank conflict."""
        return (self.wavefronts - self.wavefronts_excess) / self.executed if self.executed else 0.0

    @property
    def sectors_each(self) -> float:
        """Sectors of one execution."""
        return self.sectors / self.executed if self.executed else 0.0

    @property
    def sectors_least(self) -> float:
        """Sectors of one execution whose addresses lie side by side."""
        return (self.sectors - self.sectors_excess) / self.executed if self.executed else 0.0


def _largest(by_line: Mapping[str, int]) -> str:
    return max(by_line, key=by_line.__getitem__) if by_line else ""


@dataclass(frozen=True)
class Side:
    """A variant at a size in one run."""

    data: RunData
    variant: str
    size: str

    @cached_property
    def kernels(self) -> list[Kernel]:
        """Its launches, longest first; its compiled kernels where nothing was profiled."""
        return kernels(self.data, self.variant, self.size)

    @property
    def kernel(self) -> Kernel | None:
        """The kernel that ran longest."""
        return self.kernels[0] if self.kernels else None

    @property
    def launches(self) -> int:
        """Profiled launches; zero when nothing was profiled."""
        return len(self.data.launches(self.variant, self.size))

    def total(self, metric: str) -> float | None:
        """Return a count summed over the launches."""
        value = self.data.total(self.variant, self.size, metric).value
        return value if value is None or value >= 0 else None

    def counted(self, metric: str) -> float | None:
        """Return a counter of the longest kernel."""
        return self.kernel.counted(metric).value if self.kernel is not None else None

    def compiled(self, metric: str) -> float | None:
        """Return a metric of the longest kernel's binary."""
        return self.kernel.compiled(metric).value if self.kernel is not None else None

    def registers(self) -> float | None:
        """Return the registers of a thread: as launched, else as compiled."""
        counted = self.counted("registers")
        return counted if counted is not None else self.compiled("ptxas.registers")

    def average(self, metric: str) -> Value:
        """Return a share or a clock, averaged over the launches by their durations."""
        return self.data.average(self.variant, self.size, metric)

    @cached_property
    def static_opcodes(self) -> Mapping[str, int]:
        """Instructions of the binary by opcode."""
        return self.kernel.compiled_counts("sass.opcode.") if self.kernel is not None else {}

    @cached_property
    def static_widths(self) -> Mapping[tuple[str, int], int]:
        """Memory instructions of the binary by opcode and bits a thread moves."""
        found: dict[tuple[str, int], int] = {}
        if self.kernel is not None:
            for name, count in self.kernel.compiled_counts("sass.width.").items():
                opcode, _, bits = name.rpartition(".")
                if bits.isdigit():
                    found[opcode, int(bits)] = count
        return found

    @cached_property
    def executed_widths(self) -> Mapping[tuple[str, int], int]:
        """Executed memory instructions by opcode and bits; empty without counters per instruction."""
        return executed_counts(self.kernel.instructions)[1] if self.kernel is not None else {}

    @cached_property
    def executed_opcodes(self) -> Mapping[str, int]:
        """Executed instructions by opcode over all launches; empty when one lacks counters per instruction."""
        found: dict[str, int] = {}
        for kernel in self.kernels:
            if not kernel.instructions:
                return {}
            for row in kernel.instructions:
                if row["executed"] and row["sass"]:
                    opcode = instruction(str(row["sass"])).base
                    found[opcode] = found.get(opcode, 0) + int(row["executed"])
        return found

    @cached_property
    def accesses(self) -> Mapping[str, Access]:
        """What each opcode does to shared and global memory, over all launches."""
        sums: dict[str, tuple[int, int, int, int, int]] = {}
        lines: dict[str, dict[str, int]] = {}
        for kernel in self.kernels:
            for row in kernel.instructions:
                amounts = [
                    int(row[name] or 0)
                    for name in ("executed", "shared_wavefronts", "excess", "sectors", "excess_sectors")
                ]
                if not row["sass"] or not (amounts[1] or amounts[3]):
                    continue
                opcode = instruction(str(row["sass"])).base
                old = sums.get(opcode, (0, 0, 0, 0, 0))
                sums[opcode] = (
                    old[0] + amounts[0], old[1] + amounts[1], old[2] + amounts[2], old[3] + amounts[3],
                    old[4] + amounts[4],
                )  # fmt: skip
                if row["line"] is not None and (amounts[2] or amounts[4]):
                    place = f"{str(row['file'] or '').rpartition('/')[2]}:{int(row['line'])}"
                    by_line = lines.setdefault(opcode, {})
                    by_line[place] = by_line.get(place, 0) + amounts[2] + amounts[4]
        return {opcode: Access(*found, _largest(lines.get(opcode, {}))) for opcode, found in sums.items()}

    @cached_property
    def wavefronts(self) -> float | None:
        """Wavefronts of shared memory, by address."""
        return self.total("shared_wavefronts_sass")

    @cached_property
    def sectors(self) -> float | None:
        """Sectors of global memory that loads and stores touch."""
        loads, stores = self.total("global_load_sectors"), self.total("global_store_sectors")
        return None if loads is None or stores is None else loads + stores

    def executions(self, *, shared: bool) -> float:
        """Return the executed accesses of shared or of global memory."""
        return sum(one.executed for one in self.accesses.values() if (one.wavefronts if shared else one.sectors))
