"""Mean filter in Triton: sums down the columns into a scratch image, then sums of those along the rows; two kernels.

Triton has no shared memory to exchange neighbours through: a program that wants a shifted block loads it again, and
leaves it to L1. One kernel would load each window whole, (2R+1)^2 blocks; two kernels load 2 (2R+1), and move the image
twice. So this takes twice the time of a copy at best, and shows what the exchange by hand is worth.

Nothing is subtracted, so a NaN is in the windows that have it and in no others. The scratch image is kept for the next
call.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

BLOCK = 1024
#: Rows that one program sums at a time: each row that it loads serves several of them from L1.
ROWS = 8
WARPS = 4
#: Contraction of a multiply and an add to FMA is on in Triton 3.6 and announced to be off from 3.10: say it.
LAUNCH: dict[str, Any] = {"num_warps": WARPS, "enable_fp_fusion": True}
_scratch: dict[tuple[Any, ...], Any] = {}


@triton.jit
def column_sums_kernel(x, sums, H, W, R, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    columns = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    for i in range(ROWS):
        row = tl.program_id(1).to(tl.int64) * ROWS + i
        if row < H:
            total = tl.zeros((BLOCK,), dtype=tl.float32)
            for other in range(tl.maximum(row - R, 0), tl.minimum(row + R, H - 1) + 1):
                total += tl.load(x + other * W + columns, mask=columns < W, other=0.0)
            tl.store(sums + row * W + columns, total, mask=columns < W)


@triton.jit
def means_kernel(sums, y, H, W, R, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    columns = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for shift in range(-R, R + 1):
        at = columns + shift
        total += tl.load(sums + row * W + at, mask=(at >= 0) & (at < W), other=0.0)
    rows = tl.minimum(row + R, H - 1) - tl.maximum(row - R, 0) + 1
    across = tl.minimum(columns + R, W - 1) - tl.maximum(columns - R, 0) + 1
    tl.store(y + row * W + columns, total / (rows * across).to(tl.float32), mask=columns < W)


def mean_filter(x: Any, *, out: Any, size: dict[str, int]) -> None:
    """Fills `out` with the means over the pixels of each window that lie in the image. H up to 65535."""
    import torch

    height, width = x.shape
    key = (height, width, x.device)
    if key not in _scratch:
        _scratch.clear()  # one size at a time
        _scratch[key] = torch.empty_like(x)
    sums = _scratch[key]
    across = triton.cdiv(width, BLOCK)
    column_sums_kernel[(across, triton.cdiv(height, ROWS))](
        x, sums, height, width, size["R"], BLOCK=BLOCK, ROWS=ROWS, **LAUNCH
    )
    means_kernel[(across, height)](sums, out, height, width, size["R"], BLOCK=BLOCK, **LAUNCH)


def compile_for(sizes: list[Any], dtype: str, *, arch: int = 90) -> dict[str, bytes]:
    """The cubins that `mean_filter` would launch at these sizes, by name. Needs no GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if dtype != "fp32":
        raise ValueError(f"mean_filter is defined for fp32, not {dtype!r}")
    cubins: dict[str, bytes] = {}
    for size in sizes:
        given = {name: int(size[name] if hasattr(size, "keys") else size[place]) for place, name in enumerate("HWR")}
        for kernel, pointers, more in (
            (column_sums_kernel, ("x", "sums"), {"BLOCK": BLOCK, "ROWS": ROWS}),
            (means_kernel, ("sums", "y"), {"BLOCK": BLOCK}),
        ):
            constants: dict[str, Any] = dict(more)
            signature = dict.fromkeys(pointers, "*fp32")
            attributes = {(place,): [["tt.divisibility", 16]] for place in range(2)}  # allocations are aligned
            special = ""
            for place, (name, value) in enumerate(given.items(), start=2):
                one, sixteen = value == 1, value % 16 == 0
                signature[name] = "constexpr" if one else "i32"
                if one:
                    constants[name] = 1
                elif sixteen:
                    attributes[(place,)] = [["tt.divisibility", 16]]
                special += "1" if one else "d" if sixteen else "g"  # one, divisible by 16, general
            signature |= dict.fromkeys(constants, "constexpr")
            compiled = triton.compile(
                ASTSource(kernel, signature, constants, attributes),
                target=GPUTarget("cuda", arch, 32),
                options=LAUNCH,
            )
            cubins[f"{kernel.fn.__name__}_{special}"] = compiled.asm["cubin"]
    return cubins
