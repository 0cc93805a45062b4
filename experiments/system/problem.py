"""What the host programs of this folder are asked for: sizes, and what their times are of.

They verify themselves: each computes its result again on the host, and exits with 1 where it is wrong. So these classes
have no inputs, reference or tolerance; their only variants are programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from profiler.problem import Arg, Out, Problem, Scalar


class LaunchOverhead(Problem):
    """L steps one after the other, each of NS nanoseconds; the time is per step."""

    name: ClassVar[str] = "launch_overhead"
    dims: ClassVar[tuple[str, ...]] = ("L", "NS")
    dtypes: ClassVar[tuple[str, ...]] = ("steps",)
    args: ClassVar[tuple[Arg | Scalar, ...]] = (Out("words", "L", "int32"),)

    @classmethod
    def min_bytes(cls, dims: Mapping[str, int], contract: str, options: Mapping[str, str]) -> int:
        """Return nothing: what a step moves is not what is asked."""
        return 0


class Overlap(Problem):
    """N 32-bit words to the GPU, worked on and brought back; or only copied in both directions."""

    name: ClassVar[str] = "overlap"
    dims: ClassVar[tuple[str, ...]] = ("N",)
    dtypes: ClassVar[tuple[str, ...]] = ("pipeline", "copies")
    args: ClassVar[tuple[Arg | Scalar, ...]] = (Out("words", "N", "int32"),)

    @classmethod
    def min_bytes(cls, dims: Mapping[str, int], contract: str, options: Mapping[str, str]) -> int:
        """Return nothing: the bytes go through the bus, and the roofs of the GPU's memory say nothing of them."""
        return 0


class Concurrency(Problem):
    """K kernels of one block each, each of NS nanoseconds, as far beside one another as they will go."""

    name: ClassVar[str] = "concurrency"
    dims: ClassVar[tuple[str, ...]] = ("K", "NS")
    dtypes: ClassVar[tuple[str, ...]] = ("kernels",)
    args: ClassVar[tuple[Arg | Scalar, ...]] = (Out("words", "K", "int32"),)

    @classmethod
    def min_bytes(cls, dims: Mapping[str, int], contract: str, options: Mapping[str, str]) -> int:
        """Return nothing: the work is arithmetic."""
        return 0
