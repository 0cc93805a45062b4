"""Every rung of the ladder in both layouts at sizes that fit no tile: right, or skipped for a stated constraint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from profiler import data_files
from tests.gpu.command import run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400)]

CHECKED = [[1, 1, 3], [67, 131, 35], [1000, 1001, 999], [129, 127, 513], [4, 4096, 17], [2048, 8, 256]]


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_rungs_are_right_at_awkward_sizes(tmp_path: Path, layout: str) -> None:
    experiment = yaml.safe_load((data_files.experiments() / "gemm_ladder.yaml").read_text())
    experiment["name"] = f"layout_{layout}"
    experiment["problem"] |= {"layout": layout, "sizes": [[256, 384, 128]], "check_sizes": CHECKED}
    experiment["measure"] = {"samples": 3, "warmup_ms": 10}
    path = tmp_path / "layout.yaml"
    path.write_text(yaml.safe_dump(experiment))
    done = run_experiment([str(path), "--runs-dir", str(tmp_path), "--stages", "build,verify", "--json"])
    document = json.loads(done.stdout)
    wrong = {v["name"]: v["reason"] for v in document["variants"] if v["status"] not in ("ok", "skipped")}
    assert not wrong
    assert any(v["verified"] == "yes" for v in document["variants"])
