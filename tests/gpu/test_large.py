"""More than 2^31 elements: right, or refused with a clear status; needs a card with room for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from profiler import data_files
from tests.gpu.command import run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

#: Experiment, a small size to be there, sizes beyond 2^31 elements, and bytes of device memory that they take at most.
CASES = [
    ("reduce_sum", [1, 4096], [[1, 2**31 + 5], [3, 715827887], [2**23 + 1, 257]], 45 << 30),
    ("reduce_max", [1, 4096], [[1, 2**31 + 5], [2**23 + 1, 257]], 45 << 30),
    ("transpose", [64, 64], [[46341, 46349], [46344, 46344]], 110 << 30),
]


@pytest.mark.parametrize(("name", "small", "large", "room"), CASES, ids=[case[0] for case in CASES])
def test_sizes_beyond_31_bits_are_right(
    tmp_path: Path, name: str, small: list[int], large: list[list[int]], room: int
) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.mem_get_info()[1] < room:
        pytest.skip(f"needs a card with {room >> 30} GiB")
    torch.cuda.empty_cache()
    experiment = yaml.safe_load((data_files.experiments() / f"{name}.yaml").read_text())
    experiment["problem"] |= {"sizes": [small], "check_sizes": large}
    experiment["problem"].pop("check_distributions")
    experiment["measure"] = {"samples": 3, "warmup_ms": 10}
    experiment.pop("profile", None)
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(experiment))
    done = run_experiment([str(path), "--runs-dir", str(tmp_path), "--stages", "build,verify", "--json"])
    document = json.loads(done.stdout)
    wrong = {v["name"]: v["reason"] for v in document["variants"] if v["status"] not in ("ok", "skipped")}
    assert not wrong
    assert any(v["verified"] == "yes" for v in document["variants"])
