"""Transposition in Triton: a tile is loaded, transposed as a value, and stored.

Idea: ``tl.trans`` says what is wanted; the compiler finds the layouts for both sides, the trip through shared memory
between them and its swizzle. Programs walk over the tiles in bands of GROUP tile rows, as rung 7 in CUDA, but wider.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

TILE = 64
GROUP = 16
NUM_WARPS = 8


@triton.jit
def transpose_kernel(A, B, M, N, TILE: tl.constexpr, GROUP: tl.constexpr):
    program = tl.program_id(0)
    tiles_m = tl.cdiv(M, TILE)
    tiles_n = tl.cdiv(N, TILE)
    band = program // (GROUP * tiles_n)
    height = min(tiles_m - band * GROUP, GROUP)
    inside = program % (GROUP * tiles_n)
    ms = (band * GROUP + inside % height).to(tl.int64) * TILE + tl.arange(0, TILE)
    ns = (inside // height).to(tl.int64) * TILE + tl.arange(0, TILE)
    mask = (ms[:, None] < M) & (ns[None, :] < N)
    a = tl.load(A + ms[:, None] * N + ns[None, :], mask=mask, other=0.0)
    tl.store(B + ns[:, None] * M + ms[None, :], tl.trans(a), mask=tl.trans(mask))


def transpose(A: Any, *, out: Any) -> None:
    """Fills `out` with the transpose of A."""
    m, n = A.shape
    grid = (triton.cdiv(m, TILE) * triton.cdiv(n, TILE),)
    transpose_kernel[grid](A, out, m, n, TILE=TILE, GROUP=GROUP, num_warps=NUM_WARPS)


def compile_for(sizes: list[Any], dtype: str, *, arch: int = 90) -> dict[str, bytes]:
    """The cubins that `transpose` would launch at these sizes. Needs no GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    cubins: dict[str, bytes] = {}
    for size in sizes:
        m, n = int(size["M"]), int(size["N"])
        constants: dict[str, Any] = {"TILE": TILE, "GROUP": GROUP}
        signature = {"A": "*fp32", "B": "*fp32"}
        attributes: dict[tuple[int, ...], list[list[Any]]] = {
            (0,): [["tt.divisibility", 16]],
            (1,): [["tt.divisibility", 16]],
        }
        for place, (name, value) in enumerate((("M", m), ("N", n)), start=2):
            if value == 1:
                signature[name] = "constexpr"
                constants[name] = 1
                continue
            signature[name] = "i32" if value < 2**31 else "i64"
            if value % 16 == 0:
                attributes[(place,)] = [["tt.divisibility", 16]]
        signature |= {name: "constexpr" for name in constants}
        compiled = triton.compile(
            ASTSource(transpose_kernel, signature, constants, attributes),
            target=GPUTarget("cuda", arch, 32),
            options={"num_warps": NUM_WARPS},
        )
        special = "".join("d" if value % 16 == 0 else "1" if value == 1 else "g" for value in (m, n))
        cubins[f"transpose_kernel_{special}"] = compiled.asm["cubin"]
    return cubins
