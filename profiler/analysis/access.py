"""How well a kernel's accesses fit the memory: bytes used per sector, bank conflicts, local memory, and the lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from profiler.analysis.formatting import number
from profiler.analysis.kernels import Kernel
from profiler.analysis.rundata import Row, Value
from profiler.analysis.sass_mix import instruction

Judgement = Literal["good", "look", "uncertain", "unknown", "not applicable"]

SECTOR_BYTES = 32
#: Of each sector's 32 bytes: at least so many used is good, below the other half a sector is wasted.
_WELL_USED, _HALF_USED = 28.0, 16.0
#: A smaller share of excess is not worth a line of advice.
NOTABLE = 0.02
#: So small a share of what passes L2, or of the instructions, costs nothing: a word that a warp or a block looks up.
_FEW = 0.01
_OFFENDERS = 5
#: Instructions whose shared-memory wavefronts exceed the ideal by design: asynchronous copies, warpgroup products.
_ASYNCHRONOUS = frozenset({"LDGSTS", "UBLKCP", "UTMALDG", "HGMMA", "IGMMA", "QGMMA", "BGMMA"})


@dataclass(frozen=True)
class Offender:
    """A line (or an instruction, where there are no lines) with its excess and its share of all excess."""

    file: str
    line: int | None
    opcodes: tuple[str, ...]
    excess: int
    total: int
    share: float


@dataclass(frozen=True)
class Coalescing:
    """Loads or stores of global memory."""

    what: str
    requests: Value
    sectors: Value
    per_request: Value
    used: Value  #: bytes of each 32-byte sector
    judgement: Judgement
    text: str


@dataclass(frozen=True)
class GlobalAccess:
    """All global accesses of a kernel: by direction, and the excess by address."""

    rows: tuple[Coalescing, ...]
    excess: Value
    total: Value
    excess_share: float | None
    judgement: Judgement
    text: str
    offenders: tuple[Offender, ...]
    why_no_lines: str


@dataclass(frozen=True)
class Banks:
    """Bank conflicts by two witnesses: the excess that the addresses need, and the hardware's counter."""

    excess: Value
    wavefronts: Value  #: by address
    excess_share: float | None
    counter: Value
    hardware: Value  #: wavefronts by the hardware
    counter_share: float | None
    asynchronous_share: float | None  #: of the excess
    judgement: Judgement
    text: str
    offenders: tuple[Offender, ...]
    why_no_lines: str


@dataclass(frozen=True)
class Spills:
    """Local memory: what the compiler reserved and spilled, and what was executed."""

    stack: Value
    stores: Value
    loads: Value
    accesses: Value  #: instructions in the binary
    executed_loads: Value
    executed_stores: Value
    spilling: Value
    judgement: Judgement
    text: str


def global_access(kernel: Kernel) -> GlobalAccess:
    """Return how a kernel's global accesses use the sectors that they touch."""
    rows = (_direction(kernel, "load"), _direction(kernel, "store"))
    excess, total = kernel.counted("global_sectors_excess"), kernel.counted("global_sectors_sass")
    share = _share(excess, total)
    offenders = worst(kernel.instructions, "sectors", "excess_sectors")
    judgement, text = _judge_global(rows, share)
    why = "" if kernel.instructions else kernel.no_instructions
    return GlobalAccess(rows, excess, total, share, judgement, text, offenders, why)


def banks(kernel: Kernel) -> Banks:
    """Return the bank conflicts of a kernel; never judged by one witness alone."""
    excess, wavefronts = kernel.counted("shared_wavefronts_excess"), kernel.counted("shared_wavefronts_sass")
    counter, hardware = kernel.counted("shared_bank_conflicts"), kernel.counted("shared_wavefronts")
    by_address, by_hardware = _share(excess, wavefronts), _share(counter, hardware)
    offenders = worst(kernel.instructions, "shared_wavefronts", "excess")
    asynchronous = _asynchronous_share(kernel.instructions)
    judgement, text = _judge_banks(kernel, by_address, by_hardware, wavefronts, asynchronous)
    return Banks(
        excess, wavefronts, by_address, counter, hardware, by_hardware, asynchronous, judgement, text, offenders,
        "" if kernel.instructions else kernel.no_instructions,
    )  # fmt: skip


def spills(kernel: Kernel) -> Spills:
    """Return what a kernel keeps in local memory."""
    stack, stores = kernel.compiled("ptxas.stack_bytes"), kernel.compiled("ptxas.spill_store_bytes")
    loads, accesses = kernel.compiled("ptxas.spill_load_bytes"), kernel.compiled("sass.local_accesses")
    executed = [kernel.counted(f"local_{what}_instructions") for what in ("load", "store")]
    judgement, text = _judge_spills(stack, stores, loads, accesses, executed)
    ran, all_of_it = [value.value for value in executed], kernel.counted("instructions").value
    if judgement == "look" and all_of_it and ran[0] is not None and ran[1] is not None:
        share = (ran[0] + ran[1]) / all_of_it
        if share < _FEW:
            judgement, text = "uncertain", f"{text} It costs little: {_percent(share)} of the instructions executed."
    return Spills(
        stack, stores, loads, accesses, executed[0], executed[1], kernel.counted("spill_instructions"), judgement, text
    )


def worst(rows: Iterable[Row], total: str, excess: str) -> tuple[Offender, ...]:
    """Return the lines with the most excess, at most five; instructions of one opcode where there are no lines."""
    found: dict[tuple[str, int | None, str], list[int]] = {}
    opcodes: dict[tuple[str, int | None, str], dict[str, None]] = {}
    for row in rows:
        amount = int(row[excess] or 0)
        if amount <= 0:
            continue
        opcode = instruction(str(row["sass"] or "")).opcode
        line = int(row["line"]) if row["line"] is not None else None
        key = (str(row["file"] or ""), line, "" if line is not None else opcode)
        sums = found.setdefault(key, [0, 0])
        sums[0] += amount
        sums[1] += int(row[total] or 0)
        opcodes.setdefault(key, {})[opcode] = None
    everything = sum(sums[0] for sums in found.values())
    ordered = sorted(found.items(), key=lambda item: -item[1][0])[:_OFFENDERS]
    return tuple(
        Offender(key[0], key[1], tuple(opcodes[key]), sums[0], sums[1], sums[0] / everything) for key, sums in ordered
    )


def _direction(kernel: Kernel, what: str) -> Coalescing:
    requests, sectors = (kernel.counted(f"global_{what}_{name}") for name in ("requests", "sectors"))
    per_request = kernel.counted(f"sectors_per_{what}_request")
    used = kernel.counted(f"bytes_used_per_{what}_sector")
    judgement, text = _judge_direction(what, requests, sectors, used)
    passed = kernel.counted("l2_sectors").value
    if judgement in ("look", "uncertain") and passed and (sectors.value or passed) < _FEW * passed:
        judgement, text = "good", f"{text}, but they are only {_percent((sectors.value or 0) / passed)} of those in L2"
    return Coalescing(f"{what}s", requests, sectors, per_request, used, judgement, text)


def _judge_direction(what: str, requests: Value, sectors: Value, used: Value) -> tuple[Judgement, str]:
    if requests.value is None:
        return "unknown", requests.why_text
    if requests.value == 0:
        return "not applicable", f"no {what}s through registers or cp.async: none, or bulk copies (TMA)"
    if used.value is None:
        if used.why == "not_applicable" and sectors.value:
            return "unknown", "asynchronous copies are not in this ratio; the excess below sees them"
        return "unknown", used.why_text
    wasted = SECTOR_BYTES - used.value
    if used.value >= _WELL_USED:
        return "good", "every byte is used" if wasted < 0.5 else f"{number(wasted, 2)} of 32 bytes unused"
    text = f"{number(wasted, 2)} of the 32 bytes of each sector are moved for nothing"
    return ("look" if used.value < _HALF_USED else "uncertain"), text


def _judge_global(rows: Sequence[Coalescing], share: float | None) -> tuple[Judgement, str]:
    worst_rows = [row for row in rows if row.judgement == "look"]
    if worst_rows:
        said = "; ".join(f"{row.what}: {row.text}" for row in worst_rows)
        return "look", f"Not coalesced. {said[0].upper()}{said[1:]}."
    if share is not None:
        if share < NOTABLE:
            excess = f"{_percent(share)} of the sectors are" if share else "no sector is"
            return "good", f"Coalesced: {excess} beyond what the addresses need."
        return "uncertain", f"{_percent(share)} of the sectors are more than perfectly coalesced accesses would need."
    if any(row.judgement == "good" for row in rows) and not any(row.judgement == "uncertain" for row in rows):
        return "good", "Coalesced: the bytes of the sectors are used."
    if any(row.judgement == "uncertain" for row in rows):
        return "uncertain", "Some bytes of the sectors are not used."
    if all(row.judgement == "not applicable" for row in rows):
        return "not applicable", "No global access goes through registers or cp.async: bulk copies (TMA) or none."
    reasons = dict.fromkeys(row.text for row in rows if row.judgement == "unknown")
    return "unknown", "; ".join(reasons)


def _judge_banks(
    kernel: Kernel, by_address: float | None, by_hardware: float | None, wavefronts: Value, asynchronous: float | None
) -> tuple[Judgement, str]:
    touched = [kernel.counted(name).value for name in ("shared_static", "shared_dynamic")]
    if (wavefronts.value == 0 or wavefronts.value is None) and touched == [0.0, 0.0]:
        return "not applicable", "The kernel has no shared memory."
    if by_address is None and by_hardware is None:
        return "unknown", wavefronts.why_text
    on_copies = asynchronous is not None and asynchronous > 0.9
    where = " All of the excess lies on asynchronous copies." if on_copies else ""
    high_address, high_hardware = _high(by_address), _high(by_hardware)
    if high_address and high_hardware:
        taken = _cycles_taken(kernel)
        little = taken is not None and taken < NOTABLE
        cycles = "" if taken is None else f" They take {_percent(taken)} of the cycles of the shared memory's pipe"
        cost = cycles and f"{cycles}{': little is to be gained' if little else ''}."
        return "uncertain" if little else "look", (
            f"Conflicts, by both witnesses: {_percent(by_address)} of the wavefronts exceed what the addresses need, "
            f"and the hardware counts {_percent(by_hardware)}.{cost}{where}"
        )
    if by_address is None or by_hardware is None:
        known, which = (by_address, "excess by address") if by_address is not None else (by_hardware, "counter")
        if not _high(known):
            return "good", f"No sign of conflicts in the {which} ({_percent(known)}), the one witness here."
        return "uncertain", f"{_percent(known)} by the {which} alone: not enough to tell. The other was not collected."
    if high_address:
        reason = (
            " They lie on asynchronous copies or warpgroup products, whose wavefronts exceed the ideal by design."
            if on_copies
            else ""
        )
        return "uncertain", (
            f"{_percent(by_address)} of the wavefronts exceed what the addresses need, while the hardware counts "
            f"{_percent(by_hardware)} conflicts: no fault that can be told apart from the counting.{reason}"
        )
    if high_hardware:
        return "uncertain", (
            f"The hardware counts {_percent(by_hardware)}, while no access needs more wavefronts than it should: the "
            "counter also counts collisions between accesses of different warps, which no layout cures."
        )
    return "good", (
        f"No conflicts: the excess by address is {_percent(by_address)}, the hardware counts {_percent(by_hardware)}."
    )


def _cycles_taken(kernel: Kernel) -> float | None:
    """The share of the active cycles that conflicts cost: a pipe a multiprocessor, a wavefront a cycle."""
    cycles, sms = kernel.counted("sm_cycles_active").value, kernel.counted("sm_count").value
    return _share(kernel.counted("shared_bank_conflicts"), Value(cycles * sms)) if cycles and sms else None


def _judge_spills(
    stack: Value, stores: Value, loads: Value, accesses: Value, executed: Sequence[Value]
) -> tuple[Judgement, str]:
    spilled = max(stores.value or 0, loads.value or 0)
    ran = sum(value.value or 0 for value in executed)
    if spilled:
        text = f"Spills: {stores.value or 0:.0f} B stored and {loads.value or 0:.0f} B loaded a thread"
        return "look", f"{text}, in local memory (L1, then DRAM)."
    if stack.value and stores.value is not None:
        return "look", (
            f"A frame of {stack.value:.0f} B without spills: an array that is indexed at run time lies in local "
            "memory. Unroll the loop that indexes it."
        )
    if ran:
        return "look", "It reads or writes local memory; the binary that would say why is not here."
    if accesses.value:
        return "uncertain", "The code has accesses to local memory that were not executed."
    known = [value for value in (stores, accesses, *executed) if value.value is not None]
    if known:
        return "good", "Nothing is kept in local memory."
    return "unknown", stores.why_text


def _asynchronous_share(rows: Iterable[Row]) -> float | None:
    total = own = 0
    for row in rows:
        amount = int(row["excess"] or 0)
        if amount > 0:
            total += amount
            own += amount if instruction(str(row["sass"] or "")).base in _ASYNCHRONOUS else 0
    return own / total if total else None


def _share(part: Value, whole: Value) -> float | None:
    if part.value is None or whole.value is None:
        return None
    return max(0.0, part.value) / whole.value if whole.value > 0 else None


def _high(share: float | None) -> bool:
    return share is not None and share >= NOTABLE


def _percent(share: float | None) -> str:
    if share is None:
        return "nothing"
    return "0 %" if share == 0 else f"{number(100 * share, 3 if share >= 0.01 else 2)} %"
