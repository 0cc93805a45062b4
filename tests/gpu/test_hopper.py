"""The Hopper rungs on the card: right at every check size, in both contracts, or skipped for a stated constraint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.command import verified
from tests.gpu.derived import hopper_rungs

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_rungs_are_right_at_awkward_sizes(tmp_path: Path, dtype: str) -> None:
    experiment = hopper_rungs(dtype)
    document = verified(experiment, tmp_path)
    assert sum(v["verified"] == "yes" for v in document["variants"]) == len(experiment["variants"])
