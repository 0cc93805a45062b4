"""What GPU tests make out of shipped experiments is valid: a test that needs a card must not fail for its file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from profiler import data_files
from profiler.experiment import check_text
from tests.gpu import derived

MADE: list[tuple[Callable[[str], dict[str, Any]], str]] = [
    *((derived.in_layout, layout) for layout in ("nn", "nt")),
    *((derived.hopper_rungs, dtype) for dtype in ("bf16", "fp16")),
    *((derived.beyond_31_bits, name) for name in ("reduce_sum", "reduce_max", "transpose")),
]


@pytest.mark.parametrize(("make", "of"), MADE, ids=[f"{make.__name__}-{of}" for make, of in MADE])
def test_a_derived_experiment_is_valid(make: Callable[[str], dict[str, Any]], of: str) -> None:
    path = data_files.experiments() / "derived.yaml"
    assert [issue.text("f") for issue in check_text(yaml.safe_dump(make(of)), path)] == []
