"""Every rung of the ladder in both layouts at sizes that fit no tile: right, or skipped for a stated constraint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.command import verified
from tests.gpu.derived import in_layout

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_rungs_are_right_at_awkward_sizes(tmp_path: Path, layout: str) -> None:
    document = verified(in_layout(layout), tmp_path)
    assert any(v["verified"] == "yes" for v in document["variants"])
