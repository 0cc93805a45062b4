"""Which roofs there are: the levels of the memory system and the arithmetic pipes, each with its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Level:
    """A level of the memory system: the metric of its bytes and that of its roof."""

    key: str
    label: str
    amount: str
    roof: str


@dataclass(frozen=True)
class Pipe:
    """An arithmetic pipe and number format: the metric of its operations and those that may be its roof.

    A pipe with ``instead_of`` counts only where none of those metrics has a value: it is the coarser count of the same
    operations, which must not be added twice. ``products`` is how many of its operations make one of the contract's:
    amount and roof are divided by it.
    """

    key: str
    label: str
    amount: str
    roofs: tuple[str, ...]
    instead_of: tuple[str, ...] = ()
    products: int = 1


LEVELS: tuple[Level, ...] = (
    Level("dram", "DRAM", "dram_bytes", "roof.dram"),
    Level("l2", "L2", "l2_bytes", "roof.l2"),
    Level("l1", "L1", "l1_bytes", "roof.l1"),
    Level("shared", "shared memory", "shared_bytes", "roof.shared"),
)


def _split(kind: str) -> tuple[str, str]:
    return (f"tensor_ops_{kind}_hgmma", f"tensor_ops_{kind}_hmma")


PIPES: tuple[Pipe, ...] = (
    Pipe("ffma", "FMA pipe (FP32)", "fp32_flop", ("roof.ffma",)),
    Pipe("dfma", "FP64 pipe", "fp64_flop", ("roof.dfma",)),
    Pipe("hfma", "FP16 pipe", "fp16_flop", ("roof.hfma",)),
    Pipe("hgmma_bf16", "tensor pipe (BF16, wgmma)", "tensor_ops_bf16_hgmma", ("roof.hgmma_bf16",)),
    Pipe("hmma_bf16", "tensor pipe (BF16, mma.sync)", "tensor_ops_bf16_hmma", ("roof.hmma_bf16",)),
    Pipe("tensor_bf16", "tensor pipe (BF16)", "tensor_ops_bf16", ("roof.hgmma_bf16", "roof.hmma_bf16"), _split("bf16")),
    Pipe("hgmma_fp16", "tensor pipe (FP16, wgmma)", "tensor_ops_fp16_hgmma", ("roof.hgmma_fp16",)),
    Pipe("hmma_fp16", "tensor pipe (FP16, mma.sync)", "tensor_ops_fp16_hmma", ("roof.hmma_fp16",)),
    Pipe("tensor_fp16", "tensor pipe (FP16)", "tensor_ops_fp16", ("roof.hgmma_fp16", "roof.hmma_fp16"), _split("fp16")),
    Pipe("hgmma_tf32", "tensor pipe (TF32, wgmma)", "tensor_ops_tf32_hgmma", ("roof.hgmma_tf32",)),
    Pipe("hmma_tf32", "tensor pipe (TF32, mma.sync)", "tensor_ops_tf32_hmma", ("roof.hmma_tf32",)),
    Pipe("tensor_tf32", "tensor pipe (TF32)", "tensor_ops_tf32", ("roof.hgmma_tf32", "roof.hmma_tf32"), _split("tf32")),
    Pipe("tensor_fp8", "tensor pipe (FP8)", "tensor_ops_fp8", ("roof.fp8",)),
    Pipe("tensor_int8", "tensor pipe (INT8)", "tensor_ops_int8", ("roof.igmma_int8", "roof.imma_int8")),
    Pipe("tensor_fp64", "tensor pipe (FP64)", "tensor_ops_fp64", ("roof.dmma_fp64",)),
)

#: Contract -> the number format that its operations are made of, and how many operations of that make one of its own.
MADE_OF: Mapping[str, tuple[str, int]] = {"tf32x3": ("tf32", 3)}


def pipe_key(key: str, dtype: str) -> str:
    """Return a pipe's key as a contract sees it: ``hgmma_tf32`` is ``hgmma_tf32x3`` where three operations make one."""
    kind, products = MADE_OF.get(dtype, ("", 1))
    return f"{key}x{products}" if kind and key.endswith(f"_{kind}") else key


def pipes_of(dtype: str) -> tuple[Pipe, ...]:
    """Return the pipes as a contract sees them: operations of which several make one count, and peak, by that less."""
    if dtype not in MADE_OF:
        return PIPES
    products = MADE_OF[dtype][1]
    return tuple(
        pipe if pipe_key(pipe.key, dtype) == pipe.key
        else replace(pipe, key=pipe_key(pipe.key, dtype), label=f"{pipe.label}, 1 / {products}", products=products)
        for pipe in PIPES
    )  # fmt: skip
