"""The instruction mix: classes that add up, executed counts from the instruction table, widths, and what is missing."""

from __future__ import annotations

from typing import Any

import pytest
from variant_data import KERNEL, kernel_of

from profiler.analysis.sass_mix import instruction, instruction_mix, loaded_elements

BINARY: dict[str, Any] = {
    "sass.instructions": 20, "sass.class.fp32": 12, "sass.class.shared": 4, "sass.class.integer": 3,
    "sass.class.branch": 1, "sass.opcode.FFMA": 10, "sass.opcode.FADD": 2, "sass.opcode.LDS": 4,
    "sass.width.LDS.128": 4,
}  # fmt: skip
ROWS = [
    {"sass": "FFMA R1, R2, R3, R1", "executed": 800},
    {"sass": "@!P0  LDS.128 R4, [R2]", "executed": 100},
    {"sass": "LDGSTS.E.BYPASS.LTC128B.128 desc[UR4][R2.64], [R3]", "executed": 25},
    {"sass": "IMAD.MOV.U32 R1, RZ, RZ, R2", "executed": 25},
    {"sass": "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8]", "executed": 40},
    {"sass": "XYZZY R1", "executed": 10},
    {"sass": "BRA 0x10", "executed": None},
]


def test_multiply_adds_stand_apart_and_classes_add_up() -> None:
    mix = instruction_mix(kernel_of({}, BINARY))
    counts = {bar.key: bar.static for bar in mix.bars}
    assert counts == {"FFMA": 10, "fp32": 2, "shared": 4, "integer": 3, "branch": 1}
    assert sum(bar.static_share or 0 for bar in mix.bars) == pytest.approx(1)
    assert mix.static_widths == {("LDS", 128): 4}


def test_executed_counts_come_from_the_instructions() -> None:
    mix = instruction_mix(kernel_of({"registers": 1}, BINARY, instructions=ROWS))
    executed = {bar.key: bar.executed for bar in mix.bars if bar.executed}
    assert executed == {"FFMA": 800, "tensor": 40, "shared": 100, "async_copy": 25, "move": 25, "other": 10}
    assert mix.executed == 1000
    assert (mix.ffma_share, mix.ffma_origin) == (0.8, "executed")
    assert mix.executed_widths == {("LDGSTS", 128): 25, ("LDS", 128): 100}


def test_without_a_table_the_counters_give_the_share_of_ffma() -> None:
    counters = {"ffma_instructions": 32 * 700, "instructions": 1000, "threads_per_instruction": 32}
    mix = instruction_mix(kernel_of(counters, None, kind="python"))
    assert (mix.ffma_share, mix.ffma_origin) == (pytest.approx(0.7), "counters")
    assert mix.bars == ()
    assert mix.why_static == "a library's kernel: its binary is not part of this run"
    assert mix.why_executed == "not collected in this run"


def test_the_binary_of_the_kernel_that_ran_is_taken() -> None:
    other = {"sass.instructions": 99, "sass.class.fp32": 99, "sass.opcode.FFMA": 99}
    more = {KERNEL.replace("(bool)0", "(bool)1"): other}
    assert instruction_mix(kernel_of({"registers": 1}, BINARY, more_kernels=more)).instructions == 20
    unknown = instruction_mix(kernel_of({"registers": 1}, BINARY, more_kernels=more, kernel="cub::scan(int)"))
    assert unknown.instructions is None
    assert unknown.why_static == "the binary of this variant has no kernel of this name"


@pytest.mark.parametrize(
    ("text", "opcode", "operands"),
    [
        ("@!UP0 UIADD3 UR4, UR5, 0x1, URZ", "UIADD3", "UR4, UR5, 0x1, URZ"), ("EXIT", "EXIT", ""),
        ("@P0 EXIT", "EXIT", ""), ("", "", ""), ("@P0", "", ""),
    ],
)  # fmt: skip
def test_an_instruction_is_read_from_its_text(text: str, opcode: str, operands: str) -> None:
    found = instruction(text)
    assert (found.opcode, found.operands) == (opcode, operands)


def test_elements_are_32_bits() -> None:
    assert loaded_elements({("LDS", 128): 2, ("LDS", 32): 3, ("LDG", 128): 9}, "LDS") == 11


def test_an_access_that_no_predicate_lets_through_moves_nothing() -> None:
    """ptxas puts `@!PT LDS RZ, [RZ]` before copies and barriers: issued, and never a load."""
    rows = [*ROWS, {"sass": "@!PT LDS RZ, [RZ]", "executed": 7}, {"sass": "@!P0 LDS R1, [R2]", "executed": 3}]
    mix = instruction_mix(kernel_of({"registers": 1}, BINARY, instructions=rows))
    assert mix.executed_widths == {("LDGSTS", 128): 25, ("LDS", 32): 3, ("LDS", 128): 100}
    assert mix.executed == 1010
