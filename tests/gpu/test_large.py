"""More than 2^31 elements: right, or refused with a clear status; needs a card with room for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.command import verified
from tests.gpu.derived import beyond_31_bits

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

#: Bytes of device memory that an experiment takes at most.
ROOM = {"reduce_sum": 45 << 30, "reduce_max": 45 << 30, "transpose": 110 << 30}


@pytest.mark.parametrize("name", list(ROOM))
def test_sizes_beyond_31_bits_are_right(tmp_path: Path, name: str) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.mem_get_info()[1] < ROOM[name]:
        pytest.skip(f"needs a card with {ROOM[name] >> 30} GiB")
    torch.cuda.empty_cache()
    document = verified(beyond_31_bits(name), tmp_path)
    assert any(v["verified"] == "yes" for v in document["variants"])
