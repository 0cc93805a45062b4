"""Copy: y = x. The function of the lessons, whose variants differ in how they do it and in nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from profiler.bank_model import sectors, wavefronts
from profiler.problem import Arg, In, Mutation, Out, Problem, Scalar, Tensors

_LANES = 32
#: Values that a lane of the bank lesson carries through shared memory: a warp's tile is 32 x 32.
_TILE = 32


class Copy(Problem):
    """y[N] = x[N], bit for bit."""

    name: ClassVar[str] = "copy"
    dims: ClassVar[tuple[str, ...]] = ("N",)
    options: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    dtypes: ClassVar[tuple[str, ...]] = ("fp32",)
    distributions: ClassVar[tuple[str, ...]] = ("normal", "uniform")
    args: ClassVar[tuple[Arg | Scalar, ...]] = (In("x", "N", "float32"), Out("y", "N", "float32"))

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
        """Return x: standard normal, or uniform in [-1, 1]."""
        import torch

        distribution = cls.distribution(init)
        generator = torch.Generator(device=device).manual_seed(seed)
        x = torch.empty(dims["N"], dtype=torch.float32, device=device)
        if distribution == "normal":
            return {"x": x.normal_(generator=generator)}
        return {"x": x.uniform_(-1.0, 1.0, generator=generator)}

    @classmethod
    def reference(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return x in float64, which holds every float32."""
        return {"y": inputs["x"].double()}

    @classmethod
    def magnitude(cls, inputs: Tensors, dims: Mapping[str, int], options: Mapping[str, str]) -> Tensors:
        """Return |x| in float64."""
        return {"y": inputs["x"].double().abs_()}

    @classmethod
    def tolerance(cls, dims: Mapping[str, int], contract: str) -> float:
        """Return 0: a copy has no rounding."""
        return 0.0

    @classmethod
    def mutations(
        cls, inputs: Tensors, reference: Tensors, dims: Mapping[str, int], options: Mapping[str, str]
    ) -> Sequence[Mutation]:
        """Return zeros, a copy without its last eight values, one of rounded values, and one shifted by one place."""
        import torch

        y = reference["y"]
        short = y.clone()
        short[-8:] = 0
        found = [
            Mutation("zeros", {"y": torch.zeros_like(y)}),
            Mutation("missing end", {"y": short}),
            Mutation("rounded to BF16", {"y": y.bfloat16().double()}),
        ]
        if dims["N"] > 1:
            found.append(Mutation("shifted", {"y": torch.roll(y, 1)}))
        return found

    @classmethod
    def predictions(cls, params: Mapping[str, Any]) -> Mapping[str, float]:
        """Return what the lessons' accesses cost by the rules of the hardware, from a variant's parameters: ACCESS and
        STRIDE of memory_access.cu, STORE and LOAD with their strides, and WIDTH, of bank_conflicts.cu.
        """
        if "ACCESS" in params:
            cost = load_sectors(str(params["ACCESS"]), int(params.get("STRIDE", 1)))
            return {} if cost is None else {"sectors_per_load_request": cost}
        if "STORE" not in params:
            return {}
        width = int(params.get("WIDTH", 1))
        store = (str(params["STORE"]), int(params.get("STORE_STRIDE", 1)))
        load = (str(params.get("LOAD", params["STORE"])), int(params.get("LOAD_STRIDE", store[1])))
        return {
            "wavefronts_per_shared_store": shared_wavefronts(*store, width),
            "wavefronts_per_shared_load": shared_wavefronts(*load, width),
        }


def load_sectors(access: str, stride: int) -> float | None:
    """Return the sectors of one global load of the access lesson; None where it depends on chance."""
    lanes = range(_LANES)
    if access in ("CONTIGUOUS", "SOA"):
        return float(sectors([4 * lane for lane in lanes], 4))
    if access == "STRIDED":
        return float(sectors([4 * stride * lane for lane in lanes], 4))
    if access == "MISALIGNED":
        return float(sectors([4 * (lane + 1) for lane in lanes], 4))
    if access == "BROADCAST":
        return float(sectors([0 for _ in lanes], 4))
    if access == "AOS":
        return float(sectors([16 * lane for lane in lanes], 4))
    if access in ("VECTOR2", "VECTOR4"):
        width = 4 * int(access[-1])
        return float(sectors([width * lane for lane in lanes], width))
    return None


def shared_word(pattern: str, stride: int, lane: int, j: int) -> int:
    """Return where a lane of the bank lesson keeps its j-th value, in units of WIDTH words.

    Strided: lanes lie ``stride`` apart; stride 1 is a row of the tile, 32 a column.
    """
    if pattern == "STRIDED":
        return j // stride * _LANES * stride + lane * stride + j % stride
    if pattern == "PADDED":
        return lane * (_TILE + 1) + j
    if pattern == "SWIZZLED":
        return lane * _TILE + (j ^ lane)
    if pattern == "PADDED_ROW":
        return j * (_TILE + 1) + lane
    if pattern == "BROADCAST":
        return j
    raise ValueError(f"no pattern {pattern!r}")


def shared_wavefronts(pattern: str, stride: int, width: int) -> float:
    """Return the mean wavefronts of one shared access of the bank lesson."""
    count = _TILE // width
    costs = [
        wavefronts([width * shared_word(pattern, stride, lane, j) for lane in range(_LANES)], width)
        for j in range(count)
    ]
    return sum(costs) / count
