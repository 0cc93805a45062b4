"""Matrix product: C = A B, in FP32, in FP32 by three TF32 products, or in BF16 or FP16 with FP32 accumulation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from profiler.problem import Arg, In, Mutation, Out, Problem, Scalar, Tensors

_LAMBDA = 8.0
_LEAST_TERMS = 4
#: Unit roundoff of one accumulation step by contract.
#:
#: fp32: round to nearest, 2^-24.
#:
#: bf16, fp16: products of two such numbers (8 or 11 bits of significand) are exact in FP32; tensor cores align the
#: addends and truncate them with no or few guard bits (Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA
#: tensor cores, PeerJ Computer Science 7:e330, 2021): up to 2^-23 for each of the sum and the addends of a step, taken
#: together as 2^-22.
#:
#: tf32x3: a number is split as a = h + l + r with h and l in TF32 (11 bits), both rounded to nearest: |l| <= 2^-11 |a|
#: and |r| <= 2^-22 |a|. Of a b the products h h', h l' and l h' are added; l l', r b and a r' are lost, 3 * 2^-22 |a b|
#: at most. The three are exact in FP32 and added in steps of 4 terms or more: at most 3 K / 4 additions of 2^-22 each
#: as above. With lambda and the root of K from :meth:`Gemm.tolerance`, 8 sqrt(3 K / 4) 2^-22 + 3 * 2^-22 is at most
#: 8 sqrt(K) 2^-22 for K >= 8 (fewer terms make too few additions to matter): one unit of 2^-22 covers both, and is four
#: times that of fp32. A kernel that lets the tensor cores sum all of K is within it, but errs more than FFMA at long K,
#: since truncation has a sign; partial sums added in FP32 registers do not (Ootomo, Yokota: Recovering single precision
#: accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance, International Journal of High
#: Performance Computing Applications 36(4), 2022). One TF32 product alone, wrong by up to 2^-10, fails where K is
#: small: have a check size with a K below 100.
_UNIT: dict[str, float] = {"fp32": 2.0**-24, "tf32x3": 2.0**-22, "bf16": 2.0**-22, "fp16": 2.0**-22}


class Gemm(Problem):
    """C[M, N] = A[M, K] B, where B is stored as K x N (layout nn) or N x K (layout nt)."""

    name: ClassVar[str] = "gemm"
    dims: ClassVar[tuple[str, ...]] = ("M", "N", "K")
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {"layout": ("nn", "nt")}
    dtypes: ClassVar[tuple[str, ...]] = ("fp32", "bf16", "fp16", "tf32x3")
    distributions: ClassVar[tuple[str, ...]] = ("normal", "uniform")
    args: ClassVar[tuple[Arg | Scalar, ...]] = (
        In("A", "M K", {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "tf32x3": "float32"}),
        In(
            "B",
            {"layout=nn": "K N", "layout=nt": "N K"},
            {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "tf32x3": "float32"},
        ),
        Out("C", "M N", {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "tf32x3": "float32"}),
    )

    @classmethod
    def flops(cls, dims: Mapping[str, int]) -> int:
        """Return 2 M N K: a multiplication and an addition for each term."""
        return 2 * dims["M"] * dims["N"] * dims["K"]

    @classmethod
    def inputs(
        cls,
        dims: Mapping[str, int],
        contract: str,
        options: Mapping[str, str],
        init: Mapping[str, Any],
        seed: int,
        device: str,
    ) -> Tensors:
        """Return A and B: standard normal, or uniform in [-1, 1]; drawn in float32, rounded to the contract's type."""
        import torch

        distribution = cls.distribution(init)
        generator = torch.Generator(device=device).manual_seed(seed)
        found: Tensors = {}
        for arg in cls.tensors(In):
            shape = arg.extents(dims, options)
            if distribution == "normal":
                values = torch.randn(shape, generator=generator, device=device, dtype=torch.float32)
            else:
                values = torch.rand(shape, generator=generator, device=device, dtype=torch.float32).mul_(2.0).sub_(1.0)
            found[arg.name] = values.to(getattr(torch, arg.dtype_in(contract)))
        return found

    @classmethod
    def _factors(cls, inputs: Tensors, options: Mapping[str, str]) -> tuple[Any, Any]:
        a, b = inputs["A"].double(), inputs["B"].double()
        return a, b.T if options.get("layout", "nn") == "nt" else b

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return C in float64 from the exact values of the inputs."""
        a, b = cls._factors(inputs, options)
        return {"C": a @ b}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return |A| |B| in float64."""
        a, b = cls._factors(inputs, options)
        return {"C": a.abs() @ b.abs()}

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
        """Return lambda sqrt(K) u with lambda = 8: the probabilistic bound of Higham and Mary (A New Approach to
        Probabilistic Rounding Error Analysis, SIAM Journal on Scientific Computing 41(5), 2019) relative to |A| |B|.

        Sums of fewer than 4 terms are allowed what 4 are, for the rounding of a product and of an epilogue. The
        output's own rounding comes on top, in ``profiler.judge``.
        """
        return _LAMBDA * math.sqrt(max(dims["K"], _LEAST_TERMS)) * _UNIT[contract]

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Sequence[Mutation]:
        """Return zeros, a product without its last K tile, one that is 5 % too large, and a shuffled one."""
        import torch

        c = reference["C"]
        a, b = cls._factors(inputs, options)
        tile = min(8, dims["K"])
        found = [
            Mutation("zeros", {"C": torch.zeros_like(c)}),
            Mutation("missing last K tile", {"C": c - a[:, -tile:] @ b[-tile:, :]}),
            Mutation("5 % scale", {"C": c * 1.05}),
        ]
        if dims["M"] > 1 or dims["N"] > 1:
            found.append(Mutation("shuffled", {"C": torch.roll(c, shifts=(1, 1), dims=(0, 1))}))
        return found
