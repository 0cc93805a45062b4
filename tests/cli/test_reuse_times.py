"""``--reuse-times``, ``--gpus`` and ``-v`` through the command, on a card that is a fake."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler import frames, gpu, pipeline, toolchain
from profiler.analysis.leads import leads
from profiler.analysis.verdicts import verdict_lines, verdicts
from profiler.cli import compare_runs, run_experiment
from profiler.rundir import RunDir
from profiler.toolchain import Gpu
from tests.fakes import with_gpu

FAKES = Path(__file__).resolve().parent.parent / "fakes"
SIZE = "M=64,N=64,K=64"
EXPERIMENT = """schema: 1
name: made
title: Made
problem: {kind: gemm, sizes: [[64, 64, 64]]}
defaults: {dtype: fp32}
baseline: {fp32: good}
measure: {samples: 5, warmup_ms: 1}
variants:
  - {name: good, cuda: good.cu}
  - {name: other, cuda: other.cu}
"""
Invoke = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "made.yaml").write_text(EXPERIMENT)
    for name in ("good", "other"):
        source = f'#include "gemm.h"\nextern "C" cudaError_t launch(const Args *, void *, cudaStream_t);\nint {name};\n'
        (folder / f"{name}.cu").write_text(source)
    monkeypatch.chdir(folder)
    monkeypatch.setenv(toolchain.PINNED, str(FAKES))
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([with_gpu.FAKE_GPU], None))
    monkeypatch.setattr(pipeline, "worker_argv", lambda: [sys.executable, str(FAKES / "worker.py")])
    times(monkeypatch, good=1000.0, other=900.0)
    return folder


def times(monkeypatch: pytest.MonkeyPatch, **given: float) -> None:
    monkeypatch.setenv("FAKE_TIMES", json.dumps(given))


@pytest.fixture
def invoke(project: Path, capsys: pytest.CaptureFixture[str]) -> Invoke:
    def call(*args: str) -> tuple[int, dict[str, Any], str]:
        code = run_experiment.main(["made.yaml", "--stages", "build,verify,time", "--json", *args])
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if captured.out.strip() else {}, captured.err

    return call


def medians(document: dict[str, Any]) -> dict[str, tuple[str, float]]:
    return {row["variant"]: (row["origin"], round(row["time_ns"], -1)) for row in document["ladder"]}


def test_what_is_unchanged_is_taken_over_and_labelled(
    project: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, first, _ = invoke()
    times(monkeypatch, good=2000.0, other=500.0)
    (project / "other.cu").write_text((project / "other.cu").read_text() + "int changed;\n")
    code, second, said = invoke("--reuse-times")
    assert code == 0, said
    assert medians(second) == {"good": ("reused", 1000.0), "other": ("measured", 500.0)}
    run = RunDir.open(Path(second["run"]))
    of_first = "/".join(Path(first["run"]).parts[-2:])
    assert run.manifest["reused_times"]["good"][SIZE]["run"] == of_first
    assert "other" not in run.manifest["reused_times"]
    samples = run.frame("samples")
    assert len(samples) == 10
    # No round holds samples of two runs, so the ratio is not reckoned as if they had been taken in turns.
    assert set(samples.loc[samples["variant"] == "good", "process"]) == {1000}
    assert set(samples.loc[samples["variant"] == "other", "process"]) == {0}
    assert set(run.manifest["timing"]["method"][SIZE]) == {"good", "other"}
    assert f"times of 1 of 2 rows are taken over from {of_first}" in said

    told = {tie["variant"] for verdict in second["verdicts"] for tie in verdict["ties"]}
    told |= {verdict["fastest"] for verdict in second["verdicts"]}
    assert told <= {row["variant"] for row in second["ladder"]}
    assert [line for verdict in second["verdicts"] for line in verdict["sentences"]] == verdict_lines(*_rows_of(run))
    data, rows = _rows_of(run)
    run_experiment.print_result(_run_of(run), data, rows, verdicts(data, leads(data, rows)))
    table = capsys.readouterr().out
    assert "reused" in table
    assert of_first in table

    # A row that was taken over is not handed on; it comes from the run that measured it.
    (project / "other.cu").write_text((project / "other.cu").read_text() + "int again;\n")
    _, third, _ = invoke("--reuse-times")
    assert RunDir.open(Path(third["run"])).manifest["reused_times"]["good"][SIZE]["run"] == of_first

    code = compare_runs.main([str(first["run"]), str(second["run"]), "--json"])
    compared = {row["variant"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert compared["good"]["verdict"] not in ("unchanged", "improved")
    assert "taken over" in json.dumps(compared["good"])
    assert code == 5


def _run_of(directory: RunDir) -> Any:
    from types import SimpleNamespace

    return SimpleNamespace(dir=directory, experiment=SimpleNamespace(title="Made"))


def _rows_of(directory: RunDir) -> tuple[Any, Any]:
    from profiler.analysis.ladder import ladder_rows
    from profiler.analysis.rundata import RunData

    data = RunData.load(directory)
    return data, ladder_rows(data)


def test_all_rows_may_be_taken_over(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke()
    times(monkeypatch, good=2000.0, other=500.0)
    code, second, _ = invoke("--reuse-times")
    assert code == 0
    assert medians(second) == {"good": ("reused", 1000.0), "other": ("reused", 900.0)}
    checks = frames.rows_of(RunDir.open(Path(second["run"])).frame("checks"))
    assert {row["when"] for row in checks} == {"before", "after"}
    assert {row["status"] for row in checks} == {"ok"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("samples: 6", "samples is 6 here and 5 there"),
        ("driver", "another GPU, driver, clock or power limit"),
        ("--processes", "processes is 2 here and 1 there"),
        ("unfinished", "its timing did not end"),
        ("foreign", "another process was on the card"),
        ("", "there is no earlier run"),
    ],
)
def test_what_differs_is_timed_anew_and_said(
    project: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, change: str, reason: str
) -> None:
    flags = []
    if change:
        _, first, _ = invoke()
        run = RunDir.open(Path(first["run"]))
    if change.startswith("samples"):
        (project / "made.yaml").write_text(EXPERIMENT.replace("samples: 5", change))
    elif change == "driver":
        run.manifest["gpu"]["driver"] = "older"
        run.save()
    elif change == "--processes":
        flags = ["--processes", "2"]
    elif change == "unfinished":
        run.mark_stage("time", "interrupted")
    elif change == "foreign":
        samples = run.frame("samples")
        run.write_frame("samples", samples.assign(foreign=True))
    code, document, said = invoke("--reuse-times", "-v", *flags)
    assert code == 0, said
    assert {origin for origin, _ in medians(document).values()} == {"measured"}
    assert document["reused_times"] is None
    assert f"good at {SIZE}: timed anew: " in said
    assert reason in said


def test_times_of_other_runs_are_not_recorded(invoke: Invoke) -> None:
    code, _, said = invoke("--reuse-times", "--record")
    assert code == 2
    assert "leave --reuse-times out" in said


def test_verbose_shows_children_and_caches(invoke: Invoke) -> None:
    _, _, said = invoke("-v")
    assert "+ " in said
    assert "nvcc -" in said.replace(str(FAKES) + "/", "")
    assert "nvcc: exit code 0" in said
    assert "worker: exit code 0" in said
    assert "not in the cache: built" in said
    _, _, said = invoke("-v")
    assert ": in the cache" in said
    assert "not in the cache" not in said
    _, _, said = invoke()
    assert "in the cache" not in said
    assert "exit code" not in said


CARDS = [
    Gpu(0, "NVIDIA H200", "GPU-aaaa", (9, 0), "580.159", 150 << 30),
    Gpu(1, "NVIDIA H200", "GPU-bbbb", (9, 0), "580.159", 150 << 30),
]


@pytest.mark.parametrize(
    ("wanted", "uuid"),
    [(None, "GPU-aaaa"), ("1", "GPU-aaaa"), ("device=1", "GPU-bbbb"), ("GPU-bbbb", "GPU-bbbb"), ("GPU-b", "GPU-bbbb")],
)
def test_the_card_that_is_meant(wanted: str | None, uuid: str) -> None:
    chosen = gpu.choose_gpu(CARDS, wanted)
    assert chosen is not None
    assert chosen.uuid == uuid
    assert gpu.choose_gpu(CARDS[:1], "all") == CARDS[0]
    assert gpu.choose_gpu([], wanted if wanted in (None, "1") else "all") is None


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("2", "several are not supported yet"),
        ("all", "several are not supported yet"),
        ("0", "several are not supported yet"),
        ("device=2", "no such GPU here"),
        ("GPU-", "no such GPU here"),
        ("GPU-cccc", "device=1 is GPU-bbbb"),
    ],
)
def test_a_card_that_is_not_to_be_had_is_a_usage_error(
    project: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, wanted: str, words: str
) -> None:
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: (CARDS, None))
    code, _, said = invoke("--gpus", wanted)
    assert code == 2
    assert words in said
    assert not (project / "runs").exists()


def test_the_worker_gets_the_card_and_a_run_goes_on_with_its_own(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: (CARDS, None))
    seen = []
    worker_env = pipeline.worker_env
    monkeypatch.setattr(pipeline, "worker_env", lambda card, base: seen.append(card) or worker_env(card, base))
    _, document, _ = invoke("--gpus", "device=1")
    run = RunDir.open(Path(document["run"]))
    assert run.manifest["gpu"]["uuid"] == "GPU-bbbb"
    run.mark_stage("time", "interrupted")
    code, _, said = invoke("--resume", document["run"])
    assert code == 0, said
    assert seen == ["GPU-bbbb", "GPU-bbbb"]
