"""Tensor-core operations from the executed matrix instructions, where a chip has no counter of operations. Pure.

The opcode of a matrix instruction names its shape: ``HMMA.16816.F32.BF16`` multiplies 16x8x16 once per warp,
``HGMMA.64x128x16`` once per group of four warps, each of which counts the instruction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

#: Prefix of the names under which the metric table finds these sums.
PREFIX = "opcodes__tensor_"
KINDS = ("bf16", "fp16", "tf32", "fp8", "int8", "fp64")
_MATRIX = re.compile(r"^(UTC)?[A-Z]*MMA(\.|$)")
_WARP = re.compile(r"^[HID]MMA\.(\d{3,5})(\.|$)")
_GROUP = re.compile(r"^[HQI]GMMA\.(\d+)x(\d+)x(\d+)(\.|$)")
_SHAPES = {
    "16816": (16, 8, 16), "1688": (16, 8, 8), "1684": (16, 8, 4), "16832": (16, 8, 32), "16864": (16, 8, 64),
    "8816": (8, 8, 16), "8832": (8, 8, 32),
}  # fmt: skip
_FP64_SHAPES = {"884": (8, 8, 4), "1684": (16, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16)}
_WARPS_OF_A_GROUP = 4


def tensor_scalars(opcodes: Mapping[str, float] | None) -> dict[str, tuple[float, str]]:
    """Return operations by input type, zeros included, as scalars of a launch; a multiply-add counts as two.

    Nothing at all when no table was collected, or when it holds a matrix instruction of a shape that is not known (a
    sparse one, say): a partial sum would read as a whole one.
    """
    if opcodes is None:
        return {}
    sums = dict.fromkeys(KINDS, 0.0)
    for opcode, count in opcodes.items():
        if not count or not is_matrix(opcode):
            continue
        found = _operations(opcode)
        if found is None:
            return {}
        kind, each = found
        sums[kind] += count * each
    return {PREFIX + kind: (value, "") for kind, value in sums.items()}


def is_matrix(opcode: str) -> bool:
    """Whether an opcode is a matrix instruction; ``HFMA2.MMA`` is not, it multiplies two halves of a register."""
    return _MATRIX.match(opcode) is not None


def _operations(opcode: str) -> tuple[str, float] | None:
    words = opcode.split(".")
    kind = _kind(words)
    if "SP" in words or kind is None:
        return None
    if group := _GROUP.match(opcode):
        m, n, k = (int(text) for text in group.group(1, 2, 3))
        return kind, 2 * m * n * k / _WARPS_OF_A_GROUP
    warp = _WARP.match(opcode)
    shape = (_FP64_SHAPES if kind == "fp64" else _SHAPES).get(warp.group(1)) if warp else None
    if shape is None:
        return None
    return kind, 2.0 * shape[0] * shape[1] * shape[2]


def _kind(words: list[str]) -> str | None:
    first, rest = words[0], set(words[1:])
    if first == "DMMA":
        return "fp64"
    if first in ("IMMA", "IGMMA"):
        return "int8" if rest & {"S8", "U8"} else None
    if first == "QGMMA":
        return "fp8"
    if first in ("HMMA", "HGMMA"):
        return "bf16" if "BF16" in rest else "tf32" if "TF32" in rest else "fp16"
    return None
