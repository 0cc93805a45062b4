"""What the registers cost in the FP32 rungs, counted in their SASS: the model that 10_register_banks.cu is built on.

An FFMA reads three registers. One with an even and one with an odd number come a cycle; an operand that the instruction
before marked `.reuse` in the same place comes for nothing. `tests/emulated/test_register_sass.py` builds the kernels.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,5})\*/\s+(?:@!?U?P\w+\s+)?(.*?)\s*;", re.M)


@dataclass(frozen=True)
class Cost:
    """Of a main loop: instructions, FFMAs among them, and the cycles that FFMAs wait for registers."""

    instructions: int
    ffma: int
    conflicts: int

    @property
    def rate(self) -> float:
        """FFMAs a cycle, if nothing else stalls."""
        return self.ffma / (self.instructions + self.conflicts)


def conflicts(body: list[str]) -> int:
    """Return the cycles that the FFMAs of a list of instructions wait for registers."""
    found, kept = 0, dict[int, str]()
    for text in body:
        if not text.startswith("FFMA"):
            kept = {}
            continue
        operands = [operand.strip().lstrip("-|") for operand in text.split(None, 1)[1].split(",")][1:4]
        fetched, reused = set[int](), dict[int, str]()
        for place, operand in enumerate(operands):
            register, _, reuse = operand.partition(".")
            if not re.fullmatch(r"R\d+", register):
                continue
            if kept.get(place) != register:
                fetched.add(int(register[1:]))
            if reuse == "reuse":
                reused[place] = register
        kept = reused
        parities = Counter(register % 2 for register in fetched)
        found += max(parities.values(), default=1) - 1
    return found


def cost(sass: str) -> Cost:
    """Return the cost of the loop with the greatest share of FFMAs."""
    lines = [(int(at, 16), text) for at, text in _LINE.findall(sass)]
    best = Cost(1, 0, 0)
    for end, text in lines:
        jump = re.match(r"BRA\b.*0x([0-9a-f]+)", text)
        if jump is None or int(jump[1], 16) > end:
            continue
        body = [line for at, line in lines if int(jump[1], 16) <= at <= end]
        ffma = sum(line.startswith("FFMA") for line in body)
        if ffma >= 512 and ffma / len(body) > best.ffma / best.instructions:
            best = Cost(len(body), ffma, conflicts(body))
    return best


def test_the_model_on_single_instructions() -> None:
    assert conflicts(["FFMA R1, R2, R4, R1"]) == 1  # 2 and 4
    assert conflicts(["FFMA R1, R2.reuse, R3, R1", "FFMA R6, R2, R5, R6"]) == 1  # 3 and 1; then 5 and 6
    assert conflicts(["FFMA R0, R2.reuse, R3, R0", "FFMA R6, R2, R5, R6"]) == 1  # 2 and 0
    assert conflicts(["FFMA R0, R1, R1, R0", "FFMA R0, R1, R3, R0"]) == 1
    assert conflicts(["FFMA R1, R2.reuse, R4, R1", "LDS.128 R8, [R9]", "FFMA R6, R2, R5, R6"]) == 2  # kept no longer
    assert conflicts(["FFMA R1, R2.reuse, R4, R1", "FFMA R6, R5, R2, R6"]) == 2  # kept in another place
