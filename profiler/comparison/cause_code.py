"""Causes in the code and what it asks of the machine: spills, occupancy, instructions, tensor cores, the launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from profiler.analysis.formatting import listed, number, percent, ratio, si
from profiler.analysis.occupancy_view import RESOURCES
from profiler.analysis.sass_mix import instruction
from profiler.comparison.budget import GLOBAL_REASONS, LANE_BYTES, NO_SHARE, Budget, Share
from profiler.comparison.cause_memory import TOLERANCE, amount
from profiler.comparison.evidence import Side
from profiler.comparison.model import Cause

#: Executed instructions wobble where a kernel polls a barrier; a change of the code is larger.
_INSTRUCTIONS = 0.005
_OPCODES = 3
_GEOMETRY = (("grid", "blocks in the grid"), ("block", "threads in a block"), ("cluster", "blocks in a cluster"))


def code_causes(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    """Yield the differences in the code, its resources and its launch."""
    yield from _spills(before, after, budget)
    yield from _stack(before, after)
    yield from _occupancy(before, after, budget)
    yield from _instructions(before, after, budget)
    yield from _tensor(before, after)
    yield from _divergence(before, after, budget)
    yield from _serialised(before, after)
    yield from _resources(before, after)
    yield from _launch(before, after, budget)


# --- registers ------------------------------------------------------------------------------------------------------


def _spills(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    old, new = (_spilled(one) for one in (before, after))
    if old is None or new is None:
        yield from _local(before, after, budget)
        return
    if old == new:
        return
    worse = sum(new) > sum(old)
    was = "none before" if not sum(old) else f"{_bytes(old[0])} stored and {_bytes(old[1])} loaded before"
    words = f"the compiler spills registers: {_bytes(new[0])} stored and {_bytes(new[1])} loaded back a thread, {was}"
    if not sum(new):
        words = f"no registers are spilled any more: {_bytes(old[0])} were stored and {_bytes(old[1])} loaded back"
    words += _register_limit(before, after)
    executed = [_local_executed(one) for one in (before, after)]
    added = None
    if executed[0] is not None and executed[1] is not None:
        added = executed[1] - executed[0]
        if worse and executed[1]:
            words += f"; {si(executed[1], '').strip()} loads and stores of local memory were executed"
    share = _local_share(before, after, budget, added)
    yield Cause(
        "exact", "ptxas.spill_store_bytes", old[0], new[0], "B", share.value, words, worse=worse, fault="spills",
        basis=share.basis,
    )  # fmt: skip


def _spilled(one: Side) -> tuple[float, float] | None:
    stores, loads = one.compiled("ptxas.spill_store_bytes"), one.compiled("ptxas.spill_load_bytes")
    return None if stores is None else (stores, loads or 0.0)


def _local_executed(one: Side) -> float | None:
    loads, stores = one.total("local_load_instructions"), one.total("local_store_instructions")
    return None if loads is None or stores is None else loads + stores


def _local(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    """Where no compiler spoke, as for a report from elsewhere: what was executed."""
    old, new = _local_executed(before), _local_executed(after)
    if old is None or new is None or abs(new - old) <= TOLERANCE * max(old, new):
        return
    share = _local_share(before, after, budget, new - old)
    yield Cause(
        "exact", "local_instructions", old, new, "inst", share.value,
        f"{si(new, '').strip()} loads and stores of local memory instead of {si(old, '').strip()}: registers spilled, "
        "or arrays indexed at run time",
        worse=new > old, fault="spills", basis=share.basis,
    )  # fmt: skip


def _local_share(before: Side, after: Side, budget: Budget, added: float | None) -> Share:
    """What so many more accesses of local memory cost: issue slots, stalls, or the traffic that spills over to L2."""
    if not added:
        return NO_SHARE
    waves = [one.total("l1_wavefronts") for one in (before, after)]
    shares = [budget.instructions(added), budget.reasons(GLOBAL_REASONS, added, *waves)]
    for metric, level in (("l1_bytes", "l1"), ("l2_bytes", "l2"), ("dram_bytes", "dram")):
        old, new = before.total(metric), after.total(metric)
        if old is not None and new is not None and (new - old) * added > 0:  # no more than the accesses themselves move
            moved = min(abs(new - old), abs(added) * LANE_BYTES)
            shares.append(budget.roof(level, moved if added > 0 else -moved))
    return budget.best(*shares)


def _register_limit(before: Side, after: Side) -> str:
    old, new = before.registers(), after.registers()
    return "" if old is None or new is None or old == new else f", with {new:.0f} registers instead of {old:.0f}"


def _stack(before: Side, after: Side) -> Iterator[Cause]:
    """A stack frame without spills is an array that is indexed at run time."""
    stacks = [one.compiled("ptxas.stack_bytes") for one in (before, after)]
    spills = [_spilled(one) for one in (before, after)]
    if None in stacks or stacks[0] == stacks[1] or any(sum(one or (0.0, 0.0)) for one in spills):
        return
    old, new = stacks[0] or 0.0, stacks[1] or 0.0
    words = f"a stack frame of {_bytes(new)} a thread instead of {_bytes(old)}, without spills: "
    words += "a local array is indexed at run time" if new > old else "a local array moved into registers"
    yield Cause("exact", "ptxas.stack_bytes", old, new, "B", None, words, worse=new > old, fault="local_array")


def _bytes(value: float) -> str:
    return f"{value:.0f} B"


# --- occupancy ------------------------------------------------------------------------------------------------------


def _occupancy(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    old, new = _allowed(before), _allowed(after)
    if old is None or new is None or abs(new - old) < 0.5:
        return
    worse = new < old
    words = f"the SM holds {number(new, 3)} % of its warps instead of {number(old, 3)} %"
    blocks = [_blocks(one) for one in (before, after)]
    if blocks[0] is not None and blocks[1] is not None:
        words = f"{_blocks_text(before, after, blocks[0], blocks[1])}: {number(new, 3)} % of its warps instead of "
        words += f"{number(old, 3)} %"
    limiters = _limiters(after)
    if limiters and worse:
        words += f", limited by {listed(limiters)}{_uses(before, after, limiters)}"
    share = budget.best(budget.issue(), budget.factor("warps"))
    yield Cause(
        "exact", "theoretical_occupancy", old, new, "%", share.value, words, worse=worse, fault="occupancy",
        basis=share.basis,
    )  # fmt: skip


def _blocks_text(before: Side, after: Side, old: float, new: float) -> str:
    """Blocks that fit on an SM, with their threads where those differ."""
    threads = [one.counted("block") for one in (before, after)]
    text = f"{new:.0f} block{'' if new == 1 else 's'}"
    text += f" of {threads[1]:.0f} threads" if threads[1] else ""
    text += f" {'fits' if new == 1 else 'fit'} on an SM instead of {old:.0f}"
    return text + (f" of {threads[0]:.0f} threads" if threads[0] and threads[0] != threads[1] else "")


def _allowed(one: Side) -> float | None:
    counted = one.counted("theoretical_occupancy")
    return counted if counted is not None else one.compiled("model.occupancy.percent")


def _blocks(one: Side) -> float | None:
    known = _limits(one)
    return min(known.values()) if known else one.compiled("model.occupancy.blocks")


def _limits(one: Side) -> dict[str, float]:
    found = {name: one.counted(metric) for name, metric in RESOURCES}
    return {name: value for name, value in found.items() if value is not None}


def _limiters(one: Side) -> list[str]:
    known = _limits(one)
    if known:
        return [name for name, value in known.items() if value == min(known.values())]
    text = one.data.static_text(one.variant, "model.occupancy.limiter")
    return [text] if text else []


def _uses(before: Side, after: Side, limiters: list[str]) -> str:
    """What the limiting resource is asked for, on both sides."""
    said = []
    if any("registers" in one for one in limiters):
        old, new = before.registers(), after.registers()
        if new is not None:
            said.append(f"{new:.0f} registers a thread" + (f" instead of {old:.0f}" if old not in (None, new) else ""))
    if any("shared" in one for one in limiters):
        old, new = _shared_bytes(before), _shared_bytes(after)
        if new is not None:
            instead = f" instead of {number(old / 1024)}" if old is not None and old != new else ""
            said.append(f"{number(new / 1024)} KiB of shared memory a block{instead}")
    return f" ({', '.join(said)})" if said else ""


def _shared_bytes(one: Side) -> float | None:
    static, dynamic = one.counted("shared_static"), one.counted("shared_dynamic")
    if static is None and dynamic is None:
        return one.compiled("ptxas.shared_bytes")
    return (static or 0.0) + (dynamic or 0.0)


# --- instructions ---------------------------------------------------------------------------------------------------


def _instructions(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    old, new = before.total("instructions"), after.total("instructions")
    if old and new:
        if abs(new - old) <= _INSTRUCTIONS * max(old, new):
            return
        share = budget.factor("instructions")
        words = f"it executes {si(new, '').strip()} instructions instead of {si(old, '').strip()} ({ratio(new / old)})"
        words += _most(before.executed_opcodes, after.executed_opcodes, more=new > old)
        yield Cause("exact", "instructions", old, new, "inst", share.value, words, worse=new > old, basis=share.basis)
        return
    old, new = before.compiled("sass.instructions"), after.compiled("sass.instructions")
    if old and new and old != new:
        words = f"the binary has {new:.0f} instructions instead of {old:.0f}"
        words += _most(before.static_opcodes, after.static_opcodes, more=new > old)
        yield Cause("exact", "sass.instructions", old, new, "inst", None, words, worse=new > old, neutral=True)


def _most(old: Mapping[str, int], new: Mapping[str, int], *, more: bool) -> str:
    """The opcodes that account for the difference, largest first."""
    if not old or not new:
        return ""
    changes = {name: new.get(name, 0) - old.get(name, 0) for name in (*old, *new)}
    sign = 1 if more else -1
    largest = sorted((name for name in changes if changes[name] * sign > 0), key=lambda name: -abs(changes[name]))
    said = [f"{name} {'+' if more else '−'}{amount(abs(changes[name]))}" for name in largest[:_OPCODES]]
    return f": {', '.join(said)}" if said else ""


def _tensor(before: Side, after: Side) -> Iterator[Cause]:
    """Matrix instructions that came, went, or became others: HGMMA (wgmma), HMMA (mma.sync)."""
    old, new = (_matrix(one) for one in (before, after))
    if old is None or new is None or set(old) == set(new):
        return
    gone, come = sorted(set(old) - set(new)), sorted(set(new) - set(old))
    words = f"{listed(come)} now do" if come else "no tensor core does"
    words += f" the products that {listed(gone)} did" if gone else " products that none did before"
    # wgmma reaches a higher peak than mma.sync, and either a far higher one than no tensor core at all
    worse = _rank(new) < _rank(old)
    yield Cause(
        "exact", "tensor_instructions", listed(sorted(old)) or "none", listed(sorted(new)) or "none", "", None, words,
        worse=worse, neutral=_rank(new) == _rank(old), fault="tensor_cores",
    )  # fmt: skip


def _matrix(one: Side) -> dict[str, int] | None:
    found = one.executed_opcodes or one.static_opcodes
    if not found:
        return None
    return {name: count for name, count in found.items() if instruction(name).kind == "tensor"}


def _rank(found: Mapping[str, int]) -> int:
    return 2 if any("GMMA" in name for name in found) else 1 if found else 0


def _divergence(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    old, new = before.counted("threads_per_instruction"), after.counted("threads_per_instruction")
    if not old or not new or abs(new - old) < 0.5:
        return
    yield Cause(
        "exact", "threads_per_instruction", old, new, "thread", None,
        f"{number(new, 3)} threads of a warp take part in an instruction on average instead of {number(old, 3)}: "
        + ("its branches diverge" if new < old else "less divergence"),
        worse=new < old, fault="divergence",
    )  # fmt: skip


def _serialised(before: Side, after: Side) -> Iterator[Cause]:
    old, new = before.compiled("ptxas.wgmma_serialised"), after.compiled("ptxas.wgmma_serialised")
    if old is None or new is None or bool(old) == bool(new):
        return
    said = "the compiler makes its warpgroup products wait for one another" if new else "its warpgroup products overlap"
    words = f"{said} ({new:.0f} warnings, {old:.0f} before)"
    yield Cause(
        "exact", "ptxas.wgmma_serialised", old, new, "1", None, words, worse=bool(new), fault="wgmma_serialised"
    )


# --- resources and launch -------------------------------------------------------------------------------------------


def _resources(before: Side, after: Side) -> Iterator[Cause]:
    """Registers and shared memory by themselves: they cost only through what the other causes say."""
    old, new = before.registers(), after.registers()
    if old is not None and new is not None and old != new:
        words = f"{new:.0f} registers a thread instead of {old:.0f}"
        yield Cause("exact", "registers", old, new, "register", None, words, worse=new > old, neutral=True)
    for metric, what in (("shared_static", "static"), ("shared_dynamic", "dynamic")):
        compiled = "ptxas.shared_bytes" if what == "static" else ""
        old, new = (_counted_or(one, metric, compiled) for one in (before, after))
        if old is not None and new is not None and old != new:
            words = f"{number(new / 1024)} KiB of {what} shared memory a block instead of {number(old / 1024)}"
            yield Cause("exact", metric, old, new, "B", None, words, worse=new > old, neutral=True)


def _counted_or(one: Side, metric: str, compiled: str) -> float | None:
    found = one.counted(metric)
    return found if found is not None or not compiled else one.compiled(compiled)


def _launch(before: Side, after: Side, budget: Budget) -> Iterator[Cause]:
    if before.launches and after.launches and before.launches != after.launches:
        share = budget.factor("kernels")
        words = f"it launches {after.launches} kernel{'' if after.launches == 1 else 's'} instead of {before.launches}"
        worse = after.launches > before.launches
        yield Cause(
            "exact", "launches", before.launches, after.launches, "1", share.value, words, worse=worse,
            neutral=share.value is None, basis=share.basis,
        )  # fmt: skip
    for metric, what in _GEOMETRY:
        old, new = before.counted(metric), after.counted(metric)
        if old is None or new is None or old == new:
            continue
        words = f"{new:.0f} {what} instead of {old:.0f}"
        if metric == "cluster" and not new:
            words = f"no clusters instead of clusters of {old:.0f} blocks"
        yield Cause("exact", metric, old, new, "1", None, words, worse=True, neutral=True)
    old, new = before.counted("waves"), after.counted("waves")
    if old and new and _fill(old) - _fill(new) > 0.05:
        words = (
            f"the grid fills the GPU {number(new, 3)} times instead of {number(old, 3)}: its last wave leaves "
            f"{percent(1 - _fill(new))} of the block slots empty over the launch, {percent(1 - _fill(old))} before"
        )
        yield Cause("exact", "waves", old, new, "1", None, words, worse=True, fault="tail")


def _fill(waves: float) -> float:
    """The share of the block slots that are filled over a launch of so many waves."""
    whole = -(-waves // 1)
    return waves / whole if whole else 1.0
