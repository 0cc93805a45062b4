"""A kernel's machine instructions by class: as they stand in the binary, and as often as they were executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from profiler.analysis.kernels import Kernel
from profiler.analysis.rundata import Row
from profiler.parse.sass import ACCESSES, Instruction

Which = Literal["static", "executed"]

#: Bars of the mix: label and meaning. FFMA and DFMA stand apart from the rest of their classes.
BARS: Mapping[str, tuple[str, str]] = {
    "FFMA": ("FFMA", "FP32 multiply-adds: the work itself, where no tensor core does it"),
    "tensor": ("Tensor", "matrix instructions of the tensor cores: HMMA, HGMMA, IMMA and their kin"),
    "DFMA": ("DFMA", "FP64 multiply-adds"),
    "fp32": ("Other FP32", "FP32 additions, multiplications, comparisons, minima"),
    "fp64": ("Other FP64", "FP64 additions, multiplications, comparisons"),
    "fp16": ("FP16", "two-lane half-precision arithmetic"),
    "special": ("Special", "reciprocals, roots, exponentials and other functions"),
    "shared": ("Shared", "loads and stores of shared memory, ldmatrix"),
    "global": ("Global", "loads and stores of global memory through registers"),
    "async_copy": ("Async copy", "copies from global to shared memory past the registers: cp.async, TMA"),
    "local": ("Local", "local memory: spilled registers, or arrays indexed at run time"),
    "integer": ("Integer, address", "index arithmetic, addresses, predicates"),
    "uniform": ("Uniform", "arithmetic once per warp, mostly addresses and loop counters"),
    "move": ("Move", "moves, selections, special registers"),
    "convert": ("Convert", "conversions between number formats"),
    "constant": ("Constant", "loads of kernel arguments and constants"),
    "atomic": ("Atomic", "atomic operations and reductions in global memory"),
    "texture": ("Texture", "texture and surface accesses"),
    "shuffle": ("Shuffle, vote", "exchange between the lanes of a warp"),
    "barrier": ("Barrier, fence", "barriers, fences, waits for copies"),
    "branch": ("Control", "branches, calls, convergence, exit"),
    "other": ("Other", "whatever has no class of its own"),
}
_APART = {"FFMA": ("fp32", ("FFMA", "FFMA2", "FFMA32I")), "DFMA": ("fp64", ("DFMA",))}
_APART_OF = {opcode: name for name, (_, opcodes) in _APART.items() for opcode in opcodes}


@dataclass(frozen=True)
class Bar:
    """One class: instructions in the binary and executed, as counts and shares; None where not known."""

    key: str
    label: str
    meaning: str
    static: int | None
    static_share: float | None
    executed: int | None
    executed_share: float | None


@dataclass(frozen=True)
class Mix:
    """The instruction mix of a kernel, its access widths (opcode and bits -> count), and why a half is missing."""

    bars: tuple[Bar, ...]
    instructions: int | None  #: in the binary
    executed: int | None  #: one per warp
    static_widths: Mapping[tuple[str, int], int]
    executed_widths: Mapping[tuple[str, int], int]
    why_static: str
    why_executed: str
    ffma_share: float | None  #: of the instructions issued; by counters where there is no table per instruction
    ffma_origin: str

    def count(self, key: str, which: Which) -> int:
        """Return the instructions of a bar."""
        found = next((bar for bar in self.bars if bar.key == key), None)
        return (found.static if which == "static" else found.executed) or 0 if found else 0

    def share(self, key: str) -> float | None:
        """Return a bar's share: of the executed instructions, else of the binary's; None when neither is known."""
        if self.executed is None and self.instructions is None:
            return None
        found = next((bar for bar in self.bars if bar.key == key), None)
        shares = (found.executed_share, found.static_share) if found else (0.0,)
        return next((share for share in shares if share is not None), 0.0)


def instruction_mix(kernel: Kernel) -> Mix:
    """Return the mix of a kernel: static from its binary, executed from the counters per instruction."""
    static = static_counts(kernel)
    rows = kernel.instructions
    executed, widths = executed_counts(rows)
    total_static, total_executed = sum(static.values()), sum(executed.values())
    bars = tuple(
        Bar(
            key, label, meaning,
            static.get(key, 0) if total_static else None,
            static.get(key, 0) / total_static if total_static else None,
            executed.get(key, 0) if total_executed else None,
            executed.get(key, 0) / total_executed if total_executed else None,
        )
        for key, (label, meaning) in BARS.items()
        if static.get(key) or executed.get(key)
    )  # fmt: skip
    share, origin = _ffma_share(kernel, executed, total_executed)
    return Mix(
        bars=bars,
        instructions=total_static or None,
        executed=total_executed or None,
        static_widths=_static_widths(kernel),
        executed_widths=widths,
        why_static="" if total_static else kernel.compiled("sass.instructions").why_text,
        why_executed="" if total_executed else kernel.no_instructions,
        ffma_share=share,
        ffma_origin=origin,
    )


def static_counts(kernel: Kernel) -> dict[str, int]:
    """Return the binary's instructions by bar."""
    counts = Counter(kernel.compiled_counts("sass.class."))
    for key, (parent, opcodes) in _APART.items():
        own = sum(kernel.compiled_counts("sass.opcode.").get(opcode, 0) for opcode in opcodes)
        if own:
            counts[key] += own
            counts[parent] -= own
    return {key if key in BARS else "other": count for key, count in counts.items() if count > 0}


def executed_counts(rows: Iterable[Row]) -> tuple[dict[str, int], dict[tuple[str, int], int]]:
    """Return executed instructions by bar, and memory accesses by opcode and width in bits."""
    counts: Counter[str] = Counter()
    widths: Counter[tuple[str, int]] = Counter()
    for row in rows:
        executed = row["executed"]
        if not executed or not row["sass"]:
            continue
        one = instruction(str(row["sass"]))
        key = _APART_OF.get(one.base, one.kind)
        counts[key if key in BARS else "other"] += int(executed)
        if one.base in ACCESSES and not one.moves_nothing:
            widths[one.base, one.width_bits] += int(executed)
    return dict(counts), dict(sorted(widths.items()))


def instruction(text: str) -> Instruction:
    """Return an instruction from its text without an address: ``@!P0  LDG.E.128 R4, [R2]``."""
    words = text.split(None, 2)
    if words and words[0].startswith("@"):
        return Instruction(0, words[0], words[1] if len(words) > 1 else "", words[2] if len(words) > 2 else "")
    opcode, _, operands = text.strip().partition(" ")
    return Instruction(0, "", opcode, operands.strip())


def loaded_elements(widths: Mapping[tuple[str, int], int], opcode: str) -> float:
    """Return the 32-bit elements that a thread moves by an opcode."""
    return sum(count * bits / 32 for (name, bits), count in widths.items() if name == opcode)


def _static_widths(kernel: Kernel) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for name, count in kernel.compiled_counts("sass.width.").items():
        opcode, _, bits = name.rpartition(".")
        if bits.isdigit():
            found[opcode, int(bits)] = count
    return dict(sorted(found.items()))


def _ffma_share(kernel: Kernel, executed: Mapping[str, int], total: int) -> tuple[float | None, str]:
    if total:
        return executed.get("FFMA", 0) / total, "executed"
    ffma, issued = kernel.counted("ffma_instructions").value, kernel.counted("instructions").value
    threads = kernel.counted("threads_per_instruction").value
    if ffma is not None and issued and threads:
        return min(1.0, ffma / threads / issued), "counters"
    return None, ""
