"""GEMM in Triton: one program per tile of C, for FP32 (FFMA, never TF32), and BF16 and FP16 (tensor cores).

Idea: say what a block does with whole tiles; the compiler picks the shared-memory layout, the copies and their
pipeline (``num_stages``), and for 16-bit types on Hopper wgmma. Programs walk over C in bands of ``GROUP`` tile rows,
so that those that run together share rows of A and columns of B in L2.

FP32 asks for ``input_precision="ieee"``: Triton's default for FP32 operands is TF32, another numeric contract.
Measured with Triton 3.6, H200, cold L2, 4096, median of 30, ratio to cuBLAS in the same process: FP32 0.839 (3199 us),
BF16 0.927 (192 us).
Sizes that are no multiples of the tile take masked loads; strides are arguments, so nn and nt are the same code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl


@dataclass(frozen=True)
class Config:
    """Tile shape and launch shape of one dtype."""

    block_m: int
    block_n: int
    block_k: int
    group: int
    num_warps: int
    num_stages: int


# Sizes that are multiples of the tile; and all others, whose masks need registers, so that the tile must be smaller.
WHOLE = {
    "fp32": Config(block_m=128, block_n=128, block_k=32, group=8, num_warps=8, num_stages=3),
    "bf16": Config(block_m=128, block_n=128, block_k=64, group=8, num_warps=4, num_stages=3),
    "fp16": Config(block_m=128, block_n=128, block_k=64, group=8, num_warps=4, num_stages=3),
}
MASKED = {
    "fp32": Config(block_m=64, block_n=64, block_k=16, group=8, num_warps=4, num_stages=3),
    "bf16": Config(block_m=64, block_n=128, block_k=32, group=8, num_warps=4, num_stages=3),
    "fp16": Config(block_m=64, block_n=128, block_k=32, group=8, num_warps=4, num_stages=3),
}

ARGUMENTS = ("A", "B", "C", "M", "N", "K", "stride_am", "stride_ak", "stride_bk", "stride_bn", "stride_cm")


@triton.jit
def gemm_kernel(
    A, B, C, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    WHOLE: tl.constexpr,  # M, N and K are multiples of the tile: no masks
    PRECISION: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    band = program // (GROUP * tiles_n)
    height = min(tiles_m - band * GROUP, GROUP)  # the last band may be lower
    inside = program % (GROUP * tiles_n)
    tile_m = band * GROUP + inside % height
    tile_n = inside // height

    # 64 bits: a row times a stride passes 2^31 long before memory is full.
    rows = tile_m.to(tl.int64) * BM + tl.arange(0, BM)
    cols = tile_n.to(tl.int64) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK).to(tl.int64)
    a_from = A + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_from = B + ks[:, None] * stride_bk + cols[None, :] * stride_bn

    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        if WHOLE:
            a = tl.load(a_from)
            b = tl.load(b_from)
        else:
            left = K - k * BK
            a = tl.load(a_from, mask=(rows[:, None] < M) & (ks[None, :] < left), other=0.0)
            b = tl.load(b_from, mask=(ks[:, None] < left) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        a_from += BK * stride_ak
        b_from += BK * stride_bk

    c = acc.to(C.dtype.element_ty)
    c_to = C + rows[:, None] * stride_cm + cols[None, :]
    if WHOLE:
        tl.store(c_to, c)
    else:
        tl.store(c_to, c, mask=(rows[:, None] < M) & (cols[None, :] < N))


def _config(dtype: str, m: int, n: int, k: int) -> tuple[Config, bool]:
    # The configuration for a size, and whether its tiles cover the matrices exactly.
    config = WHOLE[dtype]
    whole = m % config.block_m == 0 and n % config.block_n == 0 and k % config.block_k == 0
    return (config, True) if whole else (MASKED[dtype], False)


def _constants(config: Config, whole: bool) -> dict[str, Any]:
    return {
        "BM": config.block_m,
        "BN": config.block_n,
        "BK": config.block_k,
        "GROUP": config.group,
        "WHOLE": whole,
        "PRECISION": "ieee",  # decides for FP32 only; products of 16-bit numbers are exact in FP32 either way
    }


def _launch(config: Config) -> dict[str, Any]:
    # Contraction of a multiply and an add to FMA is on in Triton 3.6 and announced to be off from 3.10: say it.
    return {"num_warps": config.num_warps, "num_stages": config.num_stages, "enable_fp_fusion": True}


def _layout(options: dict[str, Any] | None) -> str:
    layout = str((options or {}).get("layout", "nn"))
    if layout not in ("nn", "nt"):
        raise ValueError(f"layout {layout!r}: this kernel knows nn and nt")
    return layout


def matmul(
    A: Any, B: Any, *, out: Any, options: dict[str, Any] | None = None, dtype: str | None = None
) -> None:  # fmt: skip
    """Fills `out` with A @ B (nn) or A @ B.T (nt). `dtype` is fp32, bf16 or fp16, by default that of A."""
    layout = _layout(options)
    m, k = A.shape
    n = out.shape[1]
    if dtype is None:
        dtype = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16"}[str(A.dtype)]
    config, whole = _config(dtype, m, n, k)
    stride_bk, stride_bn = B.stride() if layout == "nn" else B.stride()[::-1]
    grid = (triton.cdiv(m, config.block_m) * triton.cdiv(n, config.block_n),)
    gemm_kernel[grid](
        A, B, out, m, n, k, A.stride(0), A.stride(1), stride_bk, stride_bn, out.stride(0),
        **_constants(config, whole), **_launch(config),
    )  # fmt: skip


def compile_for(
    sizes: list[Any], dtype: str, *, options: dict[str, Any] | None = None, arch: int = 90
) -> dict[str, bytes]:
    """The cubins that `matmul` would launch at these sizes, by a name that tells them apart. Needs no GPU.

    Triton specialises on what it sees in the arguments (a stride of 1, sizes and addresses divisible by 16), so that
    several sizes may share a cubin.
    """
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    layout = _layout(options)
    pointer = {"fp32": "*fp32", "bf16": "*bf16", "fp16": "*fp16"}[dtype]
    cubins: dict[str, bytes] = {}
    for size in sizes:
        m, n, k = (int(size[d]) for d in "MNK") if hasattr(size, "keys") else (int(d) for d in size)
        strides = (k, 1, n, 1, n) if layout == "nn" else (k, 1, 1, k, n)
        config, whole = _config(dtype, m, n, k)
        constants = _constants(config, whole)
        signature: dict[str, str] = {}
        attributes: dict[tuple[int, ...], list[list[Any]]] = {}
        for place, name in enumerate(ARGUMENTS):
            if name in "ABC":
                signature[name] = pointer
                attributes[(place,)] = [["tt.divisibility", 16]]  # allocations are aligned
                continue
            value = (m, n, k, *strides)[place - 3]
            if value == 1:
                signature[name] = "constexpr"
                constants[name] = 1
                continue
            signature[name] = "i32" if value < 2**31 else "i64"
            if value % 16 == 0:
                attributes[(place,)] = [["tt.divisibility", 16]]
        signature |= {name: "constexpr" for name in constants}
        compiled = triton.compile(
            ASTSource(gemm_kernel, signature, constants, attributes),
            target=GPUTarget("cuda", arch, 32),
            options=_launch(config),
        )
        special = "".join(
            "1" if name in constants else "d" if (place,) in attributes else "g"  # one, divisible by 16, general
            for place, name in enumerate(ARGUMENTS[3:], start=3)
        )
        name = f"gemm_kernel_{dtype}_{layout}_{'whole' if whole else 'masked'}_{special}"
        cubins[name] = compiled.asm["cubin"]
    return cubins
