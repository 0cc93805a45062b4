"""scripts/noise_check.py with a card that is a fake: the plan, a small measurement, the file, the tables."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from profiler import gpu, pipeline, toolchain
from profiler.comparison.escalation import DONE, Step
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
    assert {length for _, length, slow in rows if slow} == {5, 20, 100, 500}
    assert all(script.slow_down(name) == (length, slow) for name, length, slow in rows)
    assert all(script.steps_of(us) % 8 == 0 for us in script.SAME)
    before, after = script.sides_of(rows, script.SAMPLES)
    for side, slowed in ((before, False), (after, True)):
        found = {v.name: v.params["EXTRA_PERMILLE"] for v in side.experiment.variants}
        assert found == {name: permille if slowed else 0 for name, _, permille in rows}


SCALE = 0.02


@pytest.fixture
def card(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that is a fake, on which kernels last as long as they should."""
    monkeypatch.setenv(toolchain.PINNED, str(FAKES))
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([with_gpu.FAKE_GPU], None))
    monkeypatch.setattr(pipeline, "worker_argv", lambda: [sys.executable, "-S", str(FAKES / "worker.py")])
    times = tmp_path / "times.json"
    times.write_text(
        json.dumps(
            {
                f"{side}:{name}": us * 1e3 * (1 + permille / 1000 * (side == "after"))
                for name, us, permille in script.planned(SCALE)
                for side in ("before", "after")
            }
        )
    )
    monkeypatch.setenv("FAKE_TIMES", f"@{times}")


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("in_process", [False, True])
def test_a_small_one_is_measured_stored_and_judged_again(
    script: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], in_process: bool
) -> None:
    file = tmp_path / "noise.parquet"
    flags = ["--in-process"] if in_process else []
    assert script.main(["--scale", str(SCALE), "--output", str(file), *flags]) == 1  # so few rows
    said = capsys.readouterr().out
    assert "in all 0 flags of 31 rows" in said
    assert "judged again with: scripts/noise_check.py --replay FILE" in said
    assert re.search(r"identical code: at most 1 of them flagged +0 flagged  kept", said)
    assert re.search(r"identical code: at least 1500 rows +31 rows  NOT kept", said)
    assert re.search(r"5 % slower at 100 us: 59 of 59 found +1 of 1  NOT kept", said)
    assert script.main(["--replay", str(file)]) == 1
    again = capsys.readouterr().out
    assert again == said.partition("\n")[2]  # the first line is of the file
    rows, facts = script.read(file)
    assert set(rows) == {name for name, _, _ in script.planned(SCALE)}
    assert facts["complete"]
    assert facts["command"].split()[1:] == [*flags, "--scale", "0.02", "--output", "FILE"]
    assert not list(tmp_path.glob("*.partial"))
    assert facts["design"] == ("in_process" if in_process else "two_process")
    slowed = {name for name, sides in rows.items() if any(s["process"] >= CONFIRMATION_BASE for s in sides[1])}
    assert {name for name in rows if name.startswith("slower") and "100us" in name} <= slowed


@pytest.mark.usefixtures("card")
def test_one_that_is_ended_is_judged_as_far_as_it_came(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stored: list[int] = []

    def store(path: Path, columns: Any, facts: Any) -> None:
        kept(path, columns, facts)
        stored.append(len(script.read(path)[1]))
        if len(stored) == 3:
            signal.raise_signal(signal.SIGTERM)

    kept = script.store
    monkeypatch.setattr(script, "store", store)
    file = tmp_path / "noise.parquet"
    handler = signal.getsignal(signal.SIGTERM)
    assert script.main(["--scale", str(SCALE), "--output", str(file)]) == 1
    assert signal.getsignal(signal.SIGTERM) == handler
    said = capsys.readouterr()
    assert "interrupted; what was measured is judged" in said.err
    assert "; ended early" in said.out
    assert "in all 0 flags of 31 rows" in said.out
    rows, facts = script.read(file)
    assert (facts["pairs"], facts["complete"]) == (3, False)
    assert {s["process"] for sides in rows.values() for side in sides for s in side} == {0, 1, 2}


def test_one_length_can_be_measured_apart_and_judged_with_the_others(
    script: Any, tmp_path: Path, card: None, capsys: pytest.CaptureFixture[str]
) -> None:
    long, rest = tmp_path / "long.parquet", tmp_path / "rest.parquet"
    assert script.planned(1.0, 500) == [row for row in script.planned(1.0) if row[1] == 500]
    assert script.main(["--scale", str(SCALE), "--length", "500", "--output", str(long)]) == 1  # too few trials
    said = capsys.readouterr().out
    assert "nothing of 100 us" in said
    assert re.search(r"identical code: at least 1500 rows +1 rows  open", said)
    assert "noise_check.py --length 500 --scale 0.02" in said
    assert script.main(["--scale", str(SCALE), "--length", "100", "--output", str(rest)]) == 1
    capsys.readouterr()
    assert script.main(["--replay", str(rest), str(long)]) == 1
    said = capsys.readouterr().out
    assert "in all 0 flags of 29 rows" in said
    assert re.search(r"5 % slower at 500 us: 59 of 59 found +1 of 1  NOT kept", said)


def planning(script: Any, pair_s: float, budget_s: float, pairs: int = 1) -> Any:
    """Return a plan that has seen a first pair of so many seconds, of all rows."""
    now = [10.0]
    names = [name for name, _, _ in script.planned(1.0)]
    rule = lambda row, before, after: Step(1, 2)  # noqa: E731
    plan = script.Budget(rule, names, budget_s, 2, lambda: now[0])
    assert {plan((name, ""), [], []) for name in names} == {Step(1, 1)}
    now[0] += pair_s
    steps = [plan((name, ""), [{"process": 0}], [{"process": 0}]) for name in names]
    assert sum(step == DONE for step in steps) == len(plan.left_out)
    now[0] += 2 * pair_s
    return plan


def test_what_does_not_fit_into_the_time_is_left_out(script: Any) -> None:
    three = [{"process": number} for number in range(3)]
    plan = planning(script, 20.0, 400.0)
    assert not plan.left_out
    assert plan(("same 20us 0001", ""), three, three) == Step(1, 2)
    plan = planning(script, 30.0, 165.0)
    assert not plan.left_out
    assert plan(("same 20us 0001", ""), three, three) == DONE  # no time for more pairs of short rows
    assert plan(("same 100us 0001", ""), three, three) == Step(1, 2)
    assert plan.ended_early == {"same 20us 0001"}
    plan = planning(script, 34.0, 165.0)
    assert {name.split("us")[0].split()[-1] for name in plan.left_out} == {"500"}
    plan = planning(script, 46.0, 165.0)
    kept = [name for name, _, _ in script.planned(1.0) if name not in plan.left_out]
    assert sum(name.startswith("slower") and " 100us " in name for name in kept) == 2 * 59
    assert 300 < sum(name.startswith("same 100us") for name in kept) < 1400


def test_without_a_gpu_it_is_3(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([], None))
    assert script.main([]) == 3
    assert "needs a GPU" in capsys.readouterr().err
