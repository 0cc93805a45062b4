"""Sizes as the frames write them: ``M=4096,N=4096,K=4096``."""

from __future__ import annotations

from collections.abc import Mapping


def size_key(dims: Mapping[str, int]) -> str:
    """Return the canonical text of a size, in the order of the problem's dims."""
    return ",".join(f"{name}={value}" for name, value in dims.items())


def parse_size_key(key: str) -> dict[str, int]:
    """Return the dims of a size key; ``ValueError`` when the text is not one."""
    dims: dict[str, int] = {}
    for part in key.split(","):
        name, eq, value = part.partition("=")
        if not eq or not name:
            raise ValueError(f"not a size: {key!r}")
        dims[name] = int(value)
    return dims
