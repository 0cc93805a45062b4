"""Softmax, LayerNorm and RMSNorm on a real GPU: every rung right, for special inputs too, and the best worth having."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gpu.command import document_of, run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=["softmax", "layernorm", "rmsnorm"])
def document(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the document of one quick run of the experiment."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    done = run_experiment(
        [request.param, "--quick", "--runs-dir", str(folder / "runs"), "--json"],
        env={"XDG_CACHE_HOME": str(folder / "cache")},
    )
    assert done.returncode == 0, done.output
    return document_of(done)


def test_every_rung_is_right_and_measured(document: dict[str, Any]) -> None:
    assert {(row["status"], row["verified"], row["origin"]) for row in document["variants"]} == {
        ("ok", "yes", "measured")
    }


def test_the_choice_by_size_is_at_least_the_librarys_at_every_size(document: dict[str, Any]) -> None:
    reached = {(row["variant"], row["size"]): row["ratio"] for row in document["ladder"] if row["ratio"]}
    chosen = {key: ratio for key, ratio in reached.items() if key[0].startswith("by_size")}
    assert len(chosen) == 10  # five sizes, two contracts
    assert {key: ratio for key, ratio in chosen.items() if ratio < 0.97} == {}
