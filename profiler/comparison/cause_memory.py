"""Causes in how memory is reached: bank conflicts, coalescing, access widths, and the traffic of each level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from profiler.analysis.formatting import number, percent, ratio, si
from profiler.comparison.budget import (
    GLOBAL_REASONS,
    LANE_BYTES,
    NO_SHARE,
    SECTOR_BYTES,
    SHARED_REASONS,
    Budget,
    Share,
)
from profiler.comparison.evidence import ASYNCHRONOUS, Access, Side
from profiler.comparison.model import Cause

#: Opcode -> what a reader calls it.
NAMES: Mapping[str, str] = {
    "LDS": "shared load", "STS": "shared store", "LDSM": "ldmatrix", "STSM": "stmatrix", "LDGSTS": "asynchronous copy",
    "LDG": "global load", "STG": "global store", "LD": "generic load", "ST": "generic store", "LDL": "local load",
    "STL": "local store", "RED": "global reduction", "ATOMG": "global atomic", "ATOMS": "shared atomic",
    "REDG": "global reduction", "LDC": "constant load",
}  # fmt: skip
_PLURALS = {
    "ldmatrix": "ldmatrix instructions",
    "stmatrix": "stmatrix instructions",
    "asynchronous copy": "asynchronous copies",
}
#: What a conflict must add to a wavefront or a sector to be named.
_NOTABLE = 0.02
#: Counts that are exact in principle wobble by this much with the order of blocks (persistent kernels, polling loops).
TOLERANCE = 0.01
_NEAR: tuple[tuple[str, str, str, float], ...] = (
    ("dram_bytes", "device memory", "dram", 0.05),
    ("l2_bytes", "L2", "l2", 0.03),
)
_HIT_RATES = (("l2_hit_rate", "L2"), ("l1_hit_rate", "L1"))
_HIT_POINTS = 3.0
#: Half of the wide accesses of an opcode, or more, must have become narrow ones.
_STILL_WIDE = 0.75
#: One opcode that makes this share of a change is named.
_MOST = 0.6
#: The hardware must have counted this share of a change that the addresses predict.
_AGREED = 0.5


def memory_causes(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    """Yield the differences in how memory is reached."""
    yield from _bank_conflicts(before, after, budget)
    yield from _coalescing(before, after, budget)
    yield from _widths(before, after, budget)
    yield from _global_traffic(before, after, budget)
    yield from _shared_traffic(before, after, budget)
    yield from _near(before, after, budget)


# --- bank conflicts -------------------------------------------------------------------------------------------------


def _bank_conflicts(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    totals = [one.total("shared_wavefronts_excess") for one in (before, after)]
    if before.accesses and after.accesses:
        for opcode in (*before.accesses, *(o for o in after.accesses if o not in before.accesses)):
            old, new = before.accesses.get(opcode, Access()), after.accesses.get(opcode, Access())
            if not (old.wavefronts or new.wavefronts):
                continue
            cause = _conflict_of(opcode, old, new, before, after, budget)
            if cause is not None:
                yield cause
        return
    if None not in totals:
        yield from _conflicts_in_total(before, after, budget)
    elif before.total("shared_bank_conflicts") is not None and after.total("shared_bank_conflicts") is not None:
        yield from _conflicts_by_hardware(before, after, budget)


def _conflict_of(opcode: str, old: Access, new: Access, before: Side, after: Side, budget: Budget) -> Cause | None:
    extra = [one.wavefronts_each - one.wavefronts_least for one in (old, new)]
    if abs(extra[1] - extra[0]) < _NOTABLE:
        return None
    worse = extra[1] > extra[0]
    if opcode in ASYNCHRONOUS and not _hardware_agrees(before, after, worse):
        return None
    name, ways = NAMES.get(opcode, opcode), [_way(one) for one in (old, new)]
    if worse:
        said = "now takes" if old.executed else "takes"
        words = f"each {name} {said} {_each(new.wavefronts_each)} wavefronts"
        words += f" instead of {_each(old.wavefronts_each)}" if old.executed else " where "
        words += "" if old.executed else f"{_each(new.wavefronts_least)} would do"
        words += f": {ways[1]} bank conflicts"
        words += f", where they were {ways[0]}" if extra[0] >= _NOTABLE else ""
        words += f", worst at {new.worst_line}" if new.worst_line else ""
    else:
        gone = "its bank conflicts are gone" if extra[1] < _NOTABLE else f"{ways[1]} bank conflicts, not {ways[0]}"
        now = f"{_each(new.wavefronts_each)} wavefronts" if new.executed else "no wavefronts any more"
        words = f"each {name} takes {now} instead of {_each(old.wavefronts_each)}: {gone}"
    added = float(new.wavefronts_excess - old.wavefronts_excess)
    share = _shared_share(before, after, budget, added)
    return Cause(
        "exact", f"shared_wavefronts_excess.{opcode}", old.wavefronts_excess, new.wavefronts_excess, "1", share.value,
        words, worse=worse, fault="bank_conflicts", basis=share.basis,
    )  # fmt: skip


def _hardware_agrees(before: Side, after: Side, worse: bool) -> bool:
    """Asynchronous copies show an excess that the banks do not see: it takes the hardware's counter, too."""
    shares = [_conflict_share(one) for one in (before, after)]
    if shares[0] is None or shares[1] is None:
        return False
    return shares[1] - shares[0] > _NOTABLE if worse else shares[0] - shares[1] > _NOTABLE


def _conflict_share(one: Side) -> float | None:
    conflicts, wavefronts = one.total("shared_bank_conflicts"), one.total("shared_wavefronts")
    return None if conflicts is None or not wavefronts else conflicts / wavefronts


def _conflicts_in_total(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    values = [
        (one.total("shared_wavefronts_excess") or 0.0, one.total("shared_wavefronts_sass")) for one in (before, after)
    ]
    shares = [excess / total if total else 0.0 for excess, total in values]
    if abs(shares[1] - shares[0]) < _NOTABLE:
        return
    worse = shares[1] > shares[0]
    if not _hardware_agrees(before, after, worse):
        return
    was = percent(shares[0]) if shares[0] >= _NOTABLE else "none"
    words = (
        f"{percent(shares[1])} of the wavefronts of shared memory are bank conflicts now "
        f"({si(values[1][0], '').strip()}), {was} before"
    )
    share = _shared_share(before, after, budget, values[1][0] - values[0][0])
    yield Cause(
        "exact", "shared_wavefronts_excess", values[0][0], values[1][0], "1", share.value, words, worse=worse,
        fault="bank_conflicts", basis=share.basis,
    )  # fmt: skip


def _conflicts_by_hardware(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    """The hardware's counter is noisy: 5 points of the wavefronts before it is named, and never as an exact cause."""
    shares = [_conflict_share(one) for one in (before, after)]
    if shares[0] is None or shares[1] is None or abs(shares[1] - shares[0]) < 0.05:
        return
    old, new = (one.total("shared_bank_conflicts") or 0.0 for one in (before, after))
    share = _shared_share(before, after, budget, new - old)
    yield Cause(
        "near", "shared_bank_conflicts", old, new, "1", share.value,
        f"bank conflicts are {percent(shares[1])} of the wavefronts of shared memory by the hardware's counter, "
        f"{percent(shares[0])} before",
        worse=new > old, fault="bank_conflicts", basis=share.basis,
    )  # fmt: skip


def _way(one: Access) -> str:
    least = one.wavefronts_least
    return f"{number(one.wavefronts_each / least, 2)}-way" if least else "no"


def _each(value: float) -> str:
    return f"{value:.1f}" if value < 100 else number(value)


def _shared_share(before: Side, after: Side, budget: Budget, added: float) -> Share:
    """What so many more wavefronts cost: at the banks' peak rate, or by the stalls on shared memory."""
    by_stalls = budget.reasons(SHARED_REASONS, added, before.wavefronts, after.wavefronts)
    return budget.best(budget.roof("shared", added * LANE_BYTES), by_stalls)


def _global_share(before: Side, after: Side, budget: Budget, added: float) -> Share:
    """What so many more sectors cost: at the peak rate of the L1 data pipe, or by the stalls on global memory."""
    by_stalls = budget.reasons(GLOBAL_REASONS, added, before.sectors, after.sectors)
    return budget.best(budget.roof("l1", added * SECTOR_BYTES), by_stalls)


# --- global memory --------------------------------------------------------------------------------------------------


def _coalescing(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    """Sectors beyond those that the bytes need, per access; by the counter of bytes used where no lines were kept."""
    if not before.accesses or not after.accesses:
        yield from _bytes_used(before, after, budget)
        return
    for opcode in dict.fromkeys((*before.accesses, *after.accesses)):
        old, new = before.accesses.get(opcode, Access()), after.accesses.get(opcode, Access())
        extra = [one.sectors_each - one.sectors_least for one in (old, new)]
        if not (old.sectors or new.sectors) or abs(extra[1] - extra[0]) < 0.05:
            continue
        worse = extra[1] > extra[0]
        name = NAMES.get(opcode, opcode)
        words = f"each {name} touches {_each(new.sectors_each)} sectors of 32 B"
        words += f" instead of {_each(old.sectors_each)}" if old.executed else ""
        words += f"; its bytes would fit in {_each(new.sectors_least)}" if worse else ", coalesced"
        words += f" (worst at {new.worst_line})" if worse and new.worst_line else ""
        share = _global_share(before, after, budget, float(new.sectors_excess - old.sectors_excess))
        yield Cause(
            "exact", f"global_sectors_excess.{opcode}", old.sectors_excess, new.sectors_excess, "sector", share.value,
            words, worse=worse, fault="uncoalesced", basis=share.basis,
        )  # fmt: skip


def _bytes_used(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    for what in ("load", "store"):
        metric = f"bytes_used_per_{what}_sector"
        old, new = before.counted(metric), after.counted(metric)
        if old is None or new is None or abs(new - old) < 0.5:
            continue
        totals = [one.total(f"global_{what}_sectors") for one in (before, after)]
        added = (totals[1] or 0.0) - (totals[0] or 0.0)
        share = _global_share(before, after, budget, added)
        yield Cause(
            "exact", metric, old, new, "B", share.value,
            f"of each 32-byte sector that a global {what} touches, {number(new, 3)} bytes are used instead of "
            f"{number(old, 3)}",
            worse=new < old, fault="uncoalesced", basis=share.basis,
        )  # fmt: skip


def _global_traffic(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    for what in ("load", "store"):
        metric = f"global_{what}_sectors"
        old, new = before.total(metric), after.total(metric)
        if old is None or new is None or not _differs(old, new, TOLERANCE):
            continue
        share = _global_share(before, after, budget, new - old)
        yield Cause(
            "exact", metric, old, new, "sector", share.value,
            f"global {what}s touch {_change(old, new)} sectors of 32 B{_times(old, new)}",
            worse=new > old, basis=share.basis,
        )  # fmt: skip


def _shared_traffic(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    metric = "shared_wavefronts_sass"
    old, new = before.total(metric), after.total(metric)
    if old is None or new is None or not _differs(old, new, TOLERANCE) or not _banks_agree(before, after, new - old):
        return
    share = _shared_share(before, after, budget, new - old)
    yield Cause(
        "exact", metric, old, new, "1", share.value,
        f"shared memory serves {_change(old, new)} wavefronts of 128 B{_times(old, new)}{_mostly(before, after)}",
        worse=new > old, basis=share.basis,
    )  # fmt: skip


def _banks_agree(before: Side, after: Side, change: float) -> bool:
    """Whether the hardware's count moved alike: for asynchronous copies and wgmma the addresses tell another one."""
    old, new = before.total("shared_wavefronts"), after.total("shared_wavefronts")
    return old is None or new is None or (new - old) / change >= _AGREED


def _mostly(before: Side, after: Side) -> str:
    """The access that most of the change of the wavefronts is by, where one is."""
    changes = {
        opcode: after.accesses.get(opcode, Access()).wavefronts - before.accesses.get(opcode, Access()).wavefronts
        for opcode in (*before.accesses, *after.accesses)
    }
    total = sum(changes.values())
    found = next((opcode for opcode, change in changes.items() if total and change / total >= _MOST), "")
    name = NAMES.get(found, found)
    return f", mostly by {_PLURALS.get(name, f'{name}s')}" if found else ""


# --- access widths --------------------------------------------------------------------------------------------------


def _widths(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    """Wide accesses that became narrow ones: by executions where both sides have them, else as the binary has them."""
    executed = bool(before.executed_widths and after.executed_widths)
    old_all = before.executed_widths if executed else before.static_widths
    new_all = after.executed_widths if executed else after.static_widths
    for opcode in dict.fromkeys(name for name, _ in old_all):
        if opcode in ("LDL", "STL") or opcode not in NAMES:  # spills have a cause of their own
            continue
        old = {bits: n for (name, bits), n in old_all.items() if name == opcode}
        new = {bits: n for (name, bits), n in new_all.items() if name == opcode}
        if not old or not new:
            continue
        worse = _narrower(old, new)
        if not worse and not _narrower(new, old):
            continue
        one, two = _main(old), _main(new)
        if one == two:
            one, two = (max(old), min(new)) if worse else (min(old), max(new))
        name = NAMES[opcode]
        counts = [(sum(found.values())) for found in (old, new)]
        words = (
            f"{_PLURALS.get(name, f'{name}s')} are {two} bits wide instead of {one}: "
            f"{_listed(opcode, new)} instead of {_listed(opcode, old)}{'' if executed else ' in the binary'}"
        )
        share = _width_share(before, after, budget, opcode, counts[1] - counts[0]) if executed else NO_SHARE
        yield Cause(
            "exact", f"access_width.{opcode}", one, two, "bit", share.value, words, worse=worse, fault="vector_width",
            basis=share.basis,
        )  # fmt: skip


def _width_share(before: Side, after: Side, budget: Budget, opcode: str, added: int) -> Share:
    """What so many more accesses cost: their own issue slots, or the stalls on the memory that they go to."""
    shared = opcode in ("LDS", "STS", "LDSM", "STSM")
    reasons = SHARED_REASONS if shared else GLOBAL_REASONS
    totals = [one.executions(shared=shared) for one in (before, after)]
    return budget.best(budget.instructions(added), budget.reasons(reasons, added, *totals))


def _narrower(old: Mapping[int, int], new: Mapping[int, int]) -> bool:
    """Whether bits that went by the widest access go by narrower ones now."""
    widest = max((*old, *new))
    if not old.get(widest) or old[widest] * _STILL_WIDE < new.get(widest, 0):
        return False
    narrow = [sum(count * bits for bits, count in found.items() if bits < widest) for found in (old, new)]
    return narrow[1] > narrow[0]


def _main(found: Mapping[int, int]) -> int:
    """The width that moves the most bits."""
    return max(found, key=lambda bits: found[bits] * bits)


def _listed(opcode: str, found: Mapping[int, int]) -> str:
    return " and ".join(f"{amount(found[bits])} {opcode}.{bits}" for bits in sorted(found, reverse=True)[:3])


# --- noisy counters -------------------------------------------------------------------------------------------------


def _near(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    for metric, level, roof, tolerance in _NEAR:
        old, new = before.total(metric), after.total(metric)
        if old is None or new is None or not _differs(old, new, tolerance):
            continue
        share = budget.roof(roof, new - old)
        yield Cause(
            "near", metric, old, new, "B", share.value,
            f"{si(new, 'B')} to and from {level} instead of {si(old, 'B')}{_times(old, new)}",
            worse=new > old, basis=share.basis,
        )  # fmt: skip
    for metric, level in _HIT_RATES:
        old, new = before.average(metric).value, after.average(metric).value
        if old is None or new is None or abs(new - old) < _HIT_POINTS:
            continue
        yield Cause(
            "near", metric, old, new, "%", None,
            f"{level} holds {number(new, 3)} % of the sectors that it is asked for instead of {number(old, 3)} %",
            worse=new < old,
        )  # fmt: skip


def amount(count: float) -> str:
    """Return a count: whole where it is small, with an SI prefix where it is large."""
    return f"{count:.0f}" if abs(count) < 10_000 else si(count, "").strip()


def _differs(old: float, new: float, tolerance: float) -> bool:
    return abs(new - old) > tolerance * max(abs(old), abs(new))


def _change(old: float, new: float) -> str:
    return f"{amount(new)} instead of {amount(old)}"


def _times(old: float, new: float) -> str:
    return f" ({ratio(new / old)})" if old > 0 and new > 0 else ""
