"""Which roofs there are: the levels of the memory system and the arithmetic pipes, each with its metrics."""

from __future__ import annotations

from dataclasses import dataclass


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
    operations, which must not be added twice.
    """

    key: str
    label: str
    amount: str
    roofs: tuple[str, ...]
    instead_of: tuple[str, ...] = ()


LEVELS: tuple[Level, ...] = (
    Level("dram", "DRAM", "dram_bytes", "roof.dram"),
    Level("l2", "L2", "l2_bytes", "roof.l2"),
    Level("l1", "L1", "l1_bytes", "roof.l1"),
    Level("shared", "shared memory", "shared_bytes", "roof.shared"),
)

_BF16_SPLIT = ("tensor_ops_bf16_hgmma", "tensor_ops_bf16_hmma")
PIPES: tuple[Pipe, ...] = (
    Pipe("ffma", "FMA pipe (FP32)", "fp32_flop", ("roof.ffma",)),
    Pipe("dfma", "FP64 pipe", "fp64_flop", ("roof.dfma",)),
    Pipe("hfma", "FP16 pipe", "fp16_flop", ("roof.hfma",)),
    Pipe("hgmma_bf16", "tensor pipe (BF16, wgmma)", "tensor_ops_bf16_hgmma", ("roof.hgmma_bf16",)),
    Pipe("hmma_bf16", "tensor pipe (BF16, mma.sync)", "tensor_ops_bf16_hmma", ("roof.hmma_bf16",)),
    Pipe("tensor_bf16", "tensor pipe (BF16)", "tensor_ops_bf16", ("roof.hgmma_bf16", "roof.hmma_bf16"), _BF16_SPLIT),
    Pipe("tensor_fp16", "tensor pipe (FP16)", "tensor_ops_fp16", ("roof.hgmma_fp16", "roof.hmma_fp16")),
    Pipe("tensor_tf32", "tensor pipe (TF32)", "tensor_ops_tf32", ("roof.hgmma_tf32", "roof.hmma_tf32")),
    Pipe("tensor_fp8", "tensor pipe (FP8)", "tensor_ops_fp8", ("roof.fp8",)),
    Pipe("tensor_int8", "tensor pipe (INT8)", "tensor_ops_int8", ("roof.igmma_int8", "roof.imma_int8")),
    Pipe("tensor_fp64", "tensor pipe (FP64)", "tensor_ops_fp64", ("roof.dmma_fp64",)),
)
