"""The Hopper rungs on the card: right at every check size, in both contracts, or skipped for a stated constraint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from profiler import data_files
from tests.gpu.command import run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

#: Grids of one tile, of one cluster that sticks out, of more tiles than multiprocessors; K from 8 to many stages.
SIZES = [[256, 512, 128], [2048, 4096, 1096]]
CHECKED = [[1, 8, 8], [129, 264, 72], [67, 131, 40], [4097, 4104, 64], [40, 20000, 136], [20001, 40, 4104]]


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_rungs_are_right_at_awkward_sizes(tmp_path: Path, dtype: str) -> None:
    experiment = yaml.safe_load((data_files.experiments() / "hopper_ladder.yaml").read_text())
    rungs = [v | {"dtype": dtype} for v in experiment["variants"] if "cuda" in v and "dtype" not in v]
    library = {"name": "library", "python": "gemm/torch_gemm.py:matmul", "dtype": dtype}
    experiment["name"] = f"hopper_{dtype}"
    experiment["problem"] |= {"sizes": SIZES, "check_sizes": CHECKED}
    experiment |= {"variants": [*rungs, library], "baseline": {dtype: "library"}}
    experiment["measure"] = {"samples": 3, "warmup_ms": 10}
    path = tmp_path / "hopper.yaml"
    path.write_text(yaml.safe_dump(experiment))
    done = run_experiment([str(path), "--runs-dir", str(tmp_path), "--stages", "build,verify", "--json"])
    document = json.loads(done.stdout)
    wrong = {v["name"]: v["reason"] for v in document["variants"] if v["status"] not in ("ok", "skipped")}
    assert not wrong
    assert sum(v["verified"] == "yes" for v in document["variants"]) == len(rungs) + 1
