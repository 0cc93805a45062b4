"""Mean filter and TopK on a real GPU: every rung right, and the last ones near the copy of the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.command import document_of, run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]


def shares(folder: Path, name: str) -> dict[tuple[str, str], float]:
    done = run_experiment([name, "--runs-dir", str(folder), "--json"])
    document = document_of(done)
    assert done.returncode == 0, {row["name"]: row["reason"] for row in document["variants"] if row["status"] != "ok"}
    assert document["wall"]["seconds"] <= 60
    return {(row["variant"], row["size"]): row["copy_share"] for row in document["ladder"]}


def test_the_mean_filter_takes_the_time_of_a_copy(tmp_path: Path) -> None:
    found = shares(tmp_path, "mean_filter")
    last = {radius: found["warp_strips", f"H=8192,W=8192,R={radius}"] for radius in (1, 3, 7, 15)}
    assert min(last[1], last[3], last[7]) >= 0.85, last
    assert last[15] >= 0.6, last


def test_topk_takes_the_time_of_a_read(tmp_path: Path) -> None:
    found = shares(tmp_path, "topk")
    assert found["no_barrier", "B=1,N=67108864,K=64"] >= 0.6, found
    assert found["no_barrier", "B=4096,N=32768,K=64"] >= 0.6, found
