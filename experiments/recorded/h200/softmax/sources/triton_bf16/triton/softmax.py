"""Softmax in Triton: a program a row, the row as one value where it fits registers, else twice over it.

Idea: to N = 32768 the row is a block of the next power of two, 32 elements a thread: read once, reduced, written.
Longer rows are walked over in blocks of 8192, each place of the block carrying its own pair of maximum and sum (the
online normaliser), and then once more to write; the second read finds most of a row in L2.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

WHOLE_MOST = 32768  #: the longest row that is held as one value
BLOCK = 8192  #: what longer rows are walked over in
EACH = 32  #: elements a thread
MOST_WARPS = 32


@triton.jit
def softmax_kernel(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    values = tl.load(x + at + columns, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + at + columns, (powers / tl.sum(powers, axis=0)).to(y.dtype.element_ty), mask=inside)


@triton.jit
def softmax_long_kernel(x, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, N, BLOCK):
        values = tl.load(x + at + first + columns, mask=first + columns < N, other=-float("inf")).to(tl.float32)
        grown = tl.maximum(largest, values)
        origin = tl.where(
            grown == -float("inf"), 0.0, grown
        )  # a place that has seen nothing but -inf counts as nothing
        total = total * tl.exp(largest - origin) + tl.exp(values - origin)
        largest = grown
    row = tl.max(largest, axis=0)
    origin = tl.where(row == -float("inf"), 0.0, row)
    whole = tl.sum(total * tl.exp(largest - origin), axis=0)
    for first in range(0, N, BLOCK):
        inside = first + columns < N
        values = tl.load(x + at + first + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + at + first + columns, (tl.exp(values - row) / whole).to(y.dtype.element_ty), mask=inside)


def _shape(n: int) -> tuple[Any, int, int]:
    """The kernel for rows of n elements, its block, its warps."""
    whole = n <= WHOLE_MOST
    block = triton.next_power_of_2(n) if whole else BLOCK
    return softmax_kernel if whole else softmax_long_kernel, block, min(MOST_WARPS, max(1, block // (32 * EACH)))


def softmax(x: Any, *, out: Any) -> None:
    """Fills `out` with the softmax of each row of x."""
    rows, n = x.shape
    kernel, block, warps = _shape(n)
    kernel[(rows,)](x, out, n, BLOCK=block, num_warps=warps, enable_fp_fusion=True)


def compile_for(sizes: list[Any], dtype: str, *, arch: int = 90) -> dict[str, bytes]:
    """The cubins that `softmax` would launch at these sizes. Needs no GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    pointer = {"fp32": "*fp32", "bf16": "*bf16"}[dtype]
    cubins: dict[str, bytes] = {}
    for size in sizes:
        n = int(size["N"])
        kernel, block, warps = _shape(n)
        constants: dict[str, Any] = {"BLOCK": block}
        signature = {"x": pointer, "y": pointer, "N": "i32" if n < 2**31 else "i64"}
        attributes = {(place,): [["tt.divisibility", 16]] for place in range(2)}  # allocations are aligned
        if n == 1:
            signature["N"] = "constexpr"
            constants["N"] = 1
        elif n % 16 == 0:
            attributes[(2,)] = [["tt.divisibility", 16]]
        signature |= {name: "constexpr" for name in constants}
        compiled = triton.compile(
            ASTSource(kernel, signature, constants, attributes),
            target=GPUTarget("cuda", arch, 32),
            options={"num_warps": warps, "enable_fp_fusion": True},
        )
        special = "1" if n == 1 else "d" if n % 16 == 0 else "g"
        cubins[f"{kernel.__name__}_{dtype}_{block}_{special}"] = compiled.asm["cubin"]
    return cubins
