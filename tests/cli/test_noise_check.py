"""scripts/noise_check.py with a card that is a fake: the plan, a small measurement, the file, the tables."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from profiler import gpu, pipeline, toolchain
from profiler.comparison.model import CONFIRMATION_BASE
from tests.fakes import with_gpu

ROOT = Path(__file__).resolve().parents[2]
FAKES = ROOT / "tests" / "fakes"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """Return the script as a module."""
    spec = importlib.util.spec_from_file_location("noise_check", ROOT / "scripts" / "noise_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["noise_check"] = module
    spec.loader.exec_module(module)
    return module


def test_the_plan_is_what_is_promised(script: Any) -> None:
    rows = script.planned(1.0)
    names = [name for name, _, _ in rows]
    assert len(set(names)) == len(names)
    assert sum(permille == 0 for _, _, permille in rows) >= 1500
    for us in (100, 500):
        for permille in (20, 50):
            assert sum((length, slow) == (us, permille) for _, length, slow in rows) == 59
    assert all(script.steps_of(us) % 8 == 0 for us in script.SAME)
    before, after = script.sides_of(rows, 12)
    for side, slowed in ((before, False), (after, True)):
        found = {v.name: v.params["EXTRA_PERMILLE"] for v in side.experiment.variants}
        assert found == {name: permille if slowed else 0 for name, _, permille in rows}


@pytest.mark.parametrize("in_process", [False, True])
def test_a_small_one_is_measured_stored_and_judged_again(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], in_process: bool
) -> None:
    monkeypatch.setenv(toolchain.PINNED, str(FAKES))
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([with_gpu.FAKE_GPU], None))
    monkeypatch.setattr(pipeline, "worker_argv", lambda: [sys.executable, "-S", str(FAKES / "worker.py")])
    times = tmp_path / "times.json"
    scale = 0.02
    times.write_text(
        json.dumps(
            {
                f"{side}:{name}": us * 1e3 * (1 + permille / 1000 * (side == "after"))
                for name, us, permille in script.planned(scale)
                for side in ("before", "after")
            }
        )
    )
    monkeypatch.setenv("FAKE_TIMES", f"@{times}")
    file = tmp_path / "noise.parquet"
    flags = ["--in-process"] if in_process else []
    assert script.main(["--scale", str(scale), "--output", str(file), *flags]) == 0
    said = capsys.readouterr().out
    assert "in all 0 flags of" in said
    assert said.rstrip().endswith("reached")
    assert script.main(["--replay", str(file)]) == 0
    again = capsys.readouterr().out
    assert again == said.partition("\n")[2]  # the first line is of the file
    rows, facts = script.read(file)
    assert set(rows) == {name for name, _, _ in script.planned(scale)}
    assert facts["design"] == ("in_process" if in_process else "two_process")
    slowed = {name for name, sides in rows.items() if any(s["process"] >= CONFIRMATION_BASE for s in sides[1])}
    assert {name for name in rows if name.startswith("slower") and "100us" in name} <= slowed


def test_without_a_gpu_it_is_3(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([], None))
    assert script.main([]) == 3
    assert "needs a GPU" in capsys.readouterr().err
