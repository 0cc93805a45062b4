"""Row sums and row maxima in Triton; a single row goes in two stages.

Idea: the sums of a block are one value of shape [BLOCK], added to as a whole and reduced once at the end; the compiler
picks load widths and shuffles. The maximum asks for NaN to be passed on, which ``tl.max`` does not do by itself.

Rows: a program for each. One row: PROGRAMS programs that sweep over it together, then one over their results.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

BLOCK = 8192
NUM_WARPS = 8
#: Programs of the first stage, in multiples of the multiprocessors.
PROGRAMS_PER_SM = 4


@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def _max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def reduce_kernel(x, y, N, MAX: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    # SPLIT: all programs share one row, and each leaves its part; else each has a row of its own.
    program = tl.program_id(0).to(tl.int64)
    if SPLIT:
        row, first, step = x, program, tl.num_programs(0).to(tl.int64)
    else:
        row, first, step = x + program * N, program * 0, program * 0 + 1
    nothing = float("-inf") if MAX else 0.0
    total = tl.full((BLOCK,), nothing, tl.float32)
    lanes = tl.arange(0, BLOCK).to(tl.int64)
    whole = N // BLOCK
    for block in range(first, whole, step):
        v = tl.load(row + block * BLOCK + lanes)
        total = _max(total, v) if MAX else _add(total, v)
    if (whole * BLOCK < N) & (whole % step == first):
        at = whole * BLOCK + lanes
        v = tl.load(row + at, mask=at < N, other=nothing)
        total = _max(total, v) if MAX else _add(total, v)
    result = tl.reduce(total, 0, _max) if MAX else tl.reduce(total, 0, _add)
    tl.store(y + program, result)


_partials: dict[Any, Any] = {}


def _workspace(out: Any, programs: int) -> Any:
    # One buffer for each device and size, kept: a launch must not allocate.
    key = (out.device, programs)
    if key not in _partials:
        _partials[key] = out.new_empty(programs)
    return _partials[key]


def _reduce(x: Any, out: Any, maximum: bool) -> None:
    import torch

    rows, columns = x.shape
    block = min(BLOCK, max(32, triton.next_power_of_2(columns)))
    warps = max(1, NUM_WARPS * block // BLOCK)
    if rows > 1:
        reduce_kernel[(rows,)](x, out, columns, MAX=maximum, BLOCK=block, SPLIT=False, num_warps=warps)
        return
    most = PROGRAMS_PER_SM * torch.cuda.get_device_properties(x.device).multi_processor_count
    programs = max(1, min(most, columns // block))
    partials = _workspace(out, programs)
    reduce_kernel[(programs,)](x, partials, columns, MAX=maximum, BLOCK=block, SPLIT=True, num_warps=warps)
    reduce_kernel[(1,)](partials, out, programs, MAX=maximum, BLOCK=1024, SPLIT=False, num_warps=4)


def row_sum(x: Any, *, out: Any) -> None:
    """Fills `out` with the sum of each row."""
    _reduce(x, out, False)


def row_max(x: Any, *, out: Any) -> None:
    """Fills `out` with the maximum of each row; NaN where the row has one."""
    _reduce(x, out, True)


def compile_for(
    sizes: list[Any], dtype: str, *, options: dict[str, Any] | None = None, arch: int = 90
) -> dict[str, bytes]:
    """The cubins that `row_sum` or `row_max` (option ``op``) would launch at these sizes. Needs no GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    maximum = (options or {}).get("op") == "max"
    cubins: dict[str, bytes] = {}
    for size in sizes:
        rows, columns = int(size["M"]), int(size["N"])
        block = min(BLOCK, max(32, triton.next_power_of_2(columns)))
        stages = [(block, rows == 1, max(1, NUM_WARPS * block // BLOCK), columns)]
        if rows == 1:
            stages.append((1024, False, 4, 1 if columns < 2 * block else PROGRAMS_PER_SM * 132))  # programs
        for width, split, warps, count in stages:
            attributes: dict[tuple[int, ...], list[list[Any]]] = {(0,): [["tt.divisibility", 16]]}
            attributes[(1,)] = [["tt.divisibility", 16]]
            constants: dict[str, Any] = {"MAX": maximum, "BLOCK": width, "SPLIT": split}
            signature = {"x": "*fp32", "y": "*fp32", "N": "i32" if count < 2**31 else "i64"}
            if count % 16 == 0:
                attributes[(2,)] = [["tt.divisibility", 16]]
            if count == 1:
                constants["N"] = 1
            signature |= {name: "constexpr" for name in constants}
            compiled = triton.compile(
                ASTSource(reduce_kernel, signature, constants, attributes),
                target=GPUTarget("cuda", arch, 32),
                options={"num_warps": warps},
            )
            special = "d" if count % 16 == 0 else "1" if count == 1 else "g"  # divisible by 16, one, general
            name = f"reduce_kernel_{'max' if maximum else 'sum'}_{'split' if split else 'row'}_{width}_{special}"
            cubins[name] = compiled.asm["cubin"]
    return cubins
