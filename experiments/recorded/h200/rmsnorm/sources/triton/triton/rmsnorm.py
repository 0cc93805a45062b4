"""RMSNorm in Triton: a program a row, the row as one value where it fits registers, else twice over it.

Idea: to N = 32768 the row is a block of the next power of two, 32 elements a thread: read once, reduced, written.
Longer rows are walked over in blocks of 8192, once to sum and once to write; the second read finds most of a row in
L2.
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
def rmsnorm_kernel(x, w, y, N, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    values = tl.load(x + at + columns, mask=inside, other=0.0).to(tl.float32)
    inverse = 1.0 / tl.sqrt(tl.sum(values * values, axis=0) / N + eps)
    weight = tl.load(w + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + at + columns, (values * inverse * weight).to(y.dtype.element_ty), mask=inside)


@triton.jit
def rmsnorm_long_kernel(x, w, y, N, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * N
    columns = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, N, BLOCK):
        values = tl.load(x + at + first + columns, mask=first + columns < N, other=0.0).to(tl.float32)
        squares += values * values
    inverse = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    for first in range(0, N, BLOCK):
        inside = first + columns < N
        values = tl.load(x + at + first + columns, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(w + first + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + at + first + columns, (values * inverse * weight).to(y.dtype.element_ty), mask=inside)


def _shape(n: int) -> tuple[Any, int, int]:
    """The kernel for rows of n elements, its block, its warps."""
    whole = n <= WHOLE_MOST
    block = triton.next_power_of_2(n) if whole else BLOCK
    return rmsnorm_kernel if whole else rmsnorm_long_kernel, block, min(MOST_WARPS, max(1, block // (32 * EACH)))


def rms_norm(x: Any, w: Any, *, out: Any, eps: float) -> None:
    """Fills `out` with RMSNorm of each row of x."""
    rows, n = x.shape
    kernel, block, warps = _shape(n)
    kernel[(rows,)](x, w, out, n, eps, BLOCK=block, num_warps=warps, enable_fp_fusion=True)


def compile_for(sizes: list[Any], dtype: str, *, arch: int = 90) -> dict[str, bytes]:
    """The cubins that `rms_norm` would launch at these sizes. Needs no GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    pointer = {"fp32": "*fp32", "bf16": "*bf16"}[dtype]
    tensors = ("x", "w", "y")
    cubins: dict[str, bytes] = {}
    for size in sizes:
        n = int(size["N"])
        kernel, block, warps = _shape(n)
        constants: dict[str, Any] = {"BLOCK": block}
        signature = dict.fromkeys(tensors, pointer) | {"N": "i32" if n < 2**31 else "i64", "eps": "fp32"}
        attributes = {(place,): [["tt.divisibility", 16]] for place in range(len(tensors))}  # allocations are aligned
        if n == 1:
            signature["N"] = "constexpr"
            constants["N"] = 1
        elif n % 16 == 0:
            attributes[(len(tensors),)] = [["tt.divisibility", 16]]
        signature |= {name: "constexpr" for name in constants}
        compiled = triton.compile(
            ASTSource(kernel, signature, constants, attributes),
            target=GPUTarget("cuda", arch, 32),
            options={"num_warps": warps, "enable_fp_fusion": True},
        )
        special = "1" if n == 1 else "d" if n % 16 == 0 else "g"
        cubins[f"{kernel.__name__}_{dtype}_{block}_{special}"] = compiled.asm["cubin"]
    return cubins
