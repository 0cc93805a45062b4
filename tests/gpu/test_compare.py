"""compare_runs on a real GPU: two runs built again from their copies and measured side by side, in both designs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profiler import frames
from profiler.rundir import RunDir
from tests.gpu.command import document_of, run_command, run_experiment

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

NOISE = Path(__file__).resolve().parents[2] / "scripts" / "noise"
#: About 200 us; a step is 4 cycles and a little.
EXPERIMENT = """schema: 1
name: delay
problem: {kind: "delay_problem.py:Delay", sizes: [[16896, 80000]]}
defaults: {dtype: fp32}
measure: {samples: 30, warmup_ms: 300}
variants:
  - {name: steady, cuda: delay.cu, params: {EXTRA_PERMILLE: 0, LAUNCH_STEPS: 900}}
  - {name: changed, cuda: delay.cu, params: {EXTRA_PERMILLE: %d, LAUNCH_STEPS: 900}}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a runs directory with two runs; in the second one variant is 3 % slower. Their files are gone since."""
    folder = tmp_path_factory.mktemp("compare")
    for name in ("delay.cu", "delay_problem.py"):
        (folder / name).write_text((NOISE / name).read_text())
    for name, permille in (("1-before", 0), ("2-after", 30)):
        (folder / "delay.yaml").write_text(EXPERIMENT % permille)
        done = run_experiment(
            [str(folder / "delay.yaml"), "--skip", "profile,report", "--runs-dir", str(folder / "new"), "--json"]
        )
        assert done.returncode == 0, done.output
        (folder / "runs" / "delay").mkdir(parents=True, exist_ok=True)
        Path(document_of(done)["run"]).rename(folder / "runs" / "delay" / name)
    for file in ("delay.cu", "delay_problem.py", "delay.yaml"):
        (folder / file).unlink()
    return folder / "runs"


def compared(runs: Path, *flags: str) -> tuple[int, dict[str, Any], str]:
    done = run_command("compare_runs", ["1-before", "2-after", "--runs-dir", str(runs), "--json", *flags])
    return done.returncode, document_of(done), done.stderr


@pytest.mark.parametrize("design", ["in_process", "two_process"])
def test_three_percent_is_found_and_identical_code_is_not_flagged(runs: Path, design: str) -> None:
    code, document, err = compared(runs, "--remeasure", f"--{design.replace('_', '-')}")
    rows = {row["variant"]: row for row in document["rows"]}
    assert (code, document["design"]) == (1, design), err
    assert (rows["changed"]["verdict"], rows["steady"]["verdict"]) == ("regressed", "unchanged")
    assert 1.02 < rows["changed"]["ratio"]["value"] < 1.04
    assert rows["steady"]["pairs"] == 3
    kept = Path(next(line for line in err.splitlines() if line.startswith("kept: ")).removeprefix("kept: "))
    for side in ("before", "after"):
        run = RunDir.open(kept / side)
        samples = frames.rows_of(run.frame("samples"))
        assert {row["process"] for row in samples if row["variant"] == "steady"} == {0, 1, 2}
        assert {row["when"] for row in frames.rows_of(run.frame("checks"))} == {"before", "during", "after"}
        assert {row["status"] for row in frames.rows_of(run.frame("checks"))} == {"ok"}


def test_two_stored_runs_only_suspect_it(runs: Path) -> None:
    code, document, _ = compared(runs)
    verdict = {row["variant"]: row["verdict"] for row in document["rows"]}["changed"]
    assert code in (0, 4)
    assert verdict in ("suspected", "inconclusive", "unchanged")
