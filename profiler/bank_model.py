"""What a warp's addresses cost, by the rules of the hardware: wavefronts of shared memory, sectors of global memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

BANKS = 32
SECTOR_BYTES = 32


def wavefronts(words: Sequence[int], width: int = 1) -> int:
    """Return the passes through the banks that one shared-memory instruction of a warp takes.

    ``words``: the first word of each lane (address over 4 bytes); ``width``: words a lane accesses, 1, 2 or 4. A pass
    serves 32 banks of one word each, and lanes that want the same word share it. Wide accesses are served for half
    of the lanes at a time (8 bytes) or a quarter (16 bytes), so that a conflict-free one takes ``width`` passes.
    """
    if width not in (1, 2, 4):
        raise ValueError(f"a lane accesses 1, 2 or 4 words, not {width}")
    group = BANKS // width
    total = 0
    for first in range(0, len(words), group):
        wanted: dict[int, set[int]] = defaultdict(set)
        for word in words[first : first + group]:
            for one in range(word, word + width):
                wanted[one % BANKS].add(one)
        total += max(len(found) for found in wanted.values())
    return total


def sectors(byte_addresses: Sequence[int], bytes_each: int) -> int:
    """Return the 32-byte sectors that one global-memory instruction of a warp touches."""
    touched: set[int] = set()
    for address in byte_addresses:
        touched.update(range(address // SECTOR_BYTES, (address + bytes_each - 1) // SECTOR_BYTES + 1))
    return len(touched)
