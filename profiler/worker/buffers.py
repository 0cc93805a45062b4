"""Guarded buffers: outputs lie between two guard zones and are poisoned before every checked launch.

A kernel that writes outside its output changes a guard; one that leaves part of it unwritten leaves the poison, which
is NaN for floating-point types and so never passes a comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

GUARD_BYTES = 1 << 18
_GUARD_PATTERN = 0xA5
#: Fill patterns: floats get all ones, which is a NaN in every IEEE-like type; integers two different fills.
FLOAT_POISON = (0xFF,)
INTEGER_POISON = (0x5A, 0xA7)


@dataclass
class Guarded:
    """A tensor inside a larger byte buffer. ``tensor`` is what kernels see."""

    tensor: torch.Tensor
    _bytes: torch.Tensor
    _payload: int

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: torch.dtype, device: str) -> Guarded:
        """Return a guarded, poisoned tensor."""
        import torch

        count = 1
        for extent in shape:
            count *= extent
        payload = count * torch.empty((), dtype=dtype).element_size()
        padded = (payload + 255) // 256 * 256  # the rear guard starts right behind the last element all the same
        raw = torch.full((GUARD_BYTES + padded + GUARD_BYTES,), _GUARD_PATTERN, dtype=torch.uint8, device=device)
        view = raw[GUARD_BYTES : GUARD_BYTES + payload].view(dtype).view(shape)
        guarded = cls(view, raw, payload)
        guarded.poison()
        return guarded

    def poison(self, pattern: int = FLOAT_POISON[0]) -> None:
        """Fill the tensor with a byte pattern."""
        self._bytes[GUARD_BYTES : GUARD_BYTES + self._payload].fill_(pattern)

    def untouched(self, pattern: int = FLOAT_POISON[0]) -> bool:
        """Whether every byte of the tensor still holds the poison."""
        return bool((self._bytes[GUARD_BYTES : GUARD_BYTES + self._payload] == pattern).all())

    def damage(self) -> str:
        """Return what was written outside the tensor, in words; empty when nothing was. Repairs the guards."""
        front = self._bytes[:GUARD_BYTES]
        rear = self._bytes[GUARD_BYTES + self._payload :]
        said = []
        for place, zone in (("before", front), ("behind", rear)):
            wrong = int((zone != _GUARD_PATTERN).sum())
            if wrong:
                said.append(f"{wrong} bytes {place} it")
                zone.fill_(_GUARD_PATTERN)
        return " and ".join(said)
