"""The command as a user meets it: bad input, missing and broken tools, interrupts; and what each leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from profiler import gpu, pipeline, toolchain
from profiler.cli import run_experiment
from profiler.rundir import RunDir
from tests.fakes import with_gpu

FAKES = Path(__file__).resolve().parent.parent / "fakes"
KERNEL = """#include "gemm.h"
extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) { return cudaSuccess; }
"""
EXPERIMENT = """schema: 1
name: made
title: Made
problem:
  kind: gemm
  sizes: [[64, 64, 64]]
  check_sizes: [[67, 131, 35]]
defaults: {dtype: fp32}
baseline: {fp32: good}
measure: {samples: 3, warmup_ms: 1}
variants:
  - {name: good, cuda: good.cu}
  - {name: other, cuda: other.cu}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with an experiment of two variants; every tool is a fake, and there is no GPU."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "made.yaml").write_text(EXPERIMENT)
    (folder / "good.cu").write_text(KERNEL)
    (folder / "other.cu").write_text(KERNEL + "// another\nint other;\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv(toolchain.PINNED, str(FAKES))
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([], None))
    return folder


@pytest.fixture
def with_card(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the project on a machine that seems to have a GPU."""
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([with_gpu.FAKE_GPU], None))
    monkeypatch.setattr(pipeline, "worker_argv", lambda: [sys.executable, str(FAKES / "worker.py")])
    return project


def invoke(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, dict[str, Any], str]:
    """Run the command with --json; return its exit code, its document and what it said."""
    code = run_experiment.main([*args, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out.strip() else {}, captured.err


def statuses(document: Mapping[str, Any]) -> dict[str, str]:
    return {row["name"]: row["status"] for row in document["variants"]}


# -- input that is wrong: exit 2, one clear line, nothing written


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema: 1\nname: [", "made.yaml:2"),
        ("", "empty"),
        (EXPERIMENT.replace("good.cu", "god.cu"), "god.cu"),
        (EXPERIMENT.split("variants:")[0] + "variants: []\n", "variants"),
        (EXPERIMENT.replace("{name: other", "{nam: other"), 'did you mean "name"?'),
        (EXPERIMENT.replace("fp32: good", "fp32: best"), "best"),
    ],
)
def test_a_bad_file_is_exit_2_with_its_line_and_no_run(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    (project / "made.yaml").write_text(text)
    code, _, said = invoke(capsys, "made.yaml")
    assert code == 2
    assert words in said
    assert "Traceback" not in said
    assert not (project / "runs").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["mad.yaml"], "mad.yaml"),
        ([], "no experiment given"),
        (["made.yaml", "--only", "god"], "no such variant"),
        (["made.yaml", "--stages", "build,tme"], "no stage"),
        (["made.yaml", "--stages", "build,time"], "time without verify"),
        (["made.yaml", "--nonsense"], "--nonsense"),
        (["made.yaml", "--set", "small"], "no such set"),
        (["--resume", "nothing"], "no run 'nothing'"),
        (["made.yaml", "--replay", "nowhere"], "no run 'nowhere'"),
    ],
)
def test_a_bad_command_line_is_exit_2(
    project: Path, capsys: pytest.CaptureFixture[str], args: list[str], words: str
) -> None:
    code, _, said = invoke(capsys, *args)
    assert code == 2
    assert words in said
    assert "Traceback" not in said


def test_check_plans_and_runs_nothing(project: Path, capsys: pytest.CaptureFixture[str], fake_calls: Path) -> None:
    code, document, _ = invoke(capsys, "made.yaml", "--check")
    assert code == 0
    assert [v["name"] for v in document["variants"]] == ["good", "other"]
    assert not fake_calls.exists()
    assert not (project / "runs").exists()


@pytest.fixture
def fake_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that keeps the calls of the fake nvcc."""
    calls = tmp_path / "nvcc-calls.jsonl"
    monkeypatch.setenv("FAKE_NVCC_CALLS", str(calls))
    return calls


def test_a_runs_directory_that_cannot_be_written_is_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "runs").write_text("a file where the folder should be")
    code, _, said = invoke(capsys, "made.yaml")
    assert code == 2
    assert "cannot write the run directory" in said
    assert "--runs-dir" in said


# -- no GPU


def test_without_gpu_and_recording_it_is_exit_3_with_static_analysis_and_a_report(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document, _ = invoke(capsys, "made.yaml")
    assert code == 3
    assert statuses(document) == {"good": "not_run", "other": "not_run"}
    assert Path(document["report"]).is_file()
    metrics = RunDir.open(Path(document["run"])).frame("metrics")
    registers = metrics[metrics["metric"] == "ptxas.registers"]
    assert list(registers["value"]) == [32.0, 32.0]


def test_each_run_renews_the_list_of_runs_and_may_share_assets_and_open_its_report(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", lambda url: bool(opened.append(url)) or True)
    _, first, _ = invoke(capsys, "made.yaml", "--shared-assets", "--open")
    _, second, _ = invoke(capsys, "made.yaml", "--skip", "report")
    runs = Path(first["run"]).parents[1]
    html = (runs / "index.html").read_text(encoding="utf-8")
    assert html.count("<tr>") == 3
    assert html.count("/report.html") == 1
    assert Path(first["run"]).name in html
    assert Path(second["run"]).name in html
    assert len(list((runs / "assets").glob("*/report.css"))) == 1
    assert 'href="../../assets/' in Path(first["report"]).read_text(encoding="utf-8")
    assert opened == [Path(first["report"]).resolve().as_uri()]


def test_a_gpu_that_does_not_answer_is_exit_3_and_says_so(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([], "the driver does not answer: 999"))
    code, document, _ = invoke(capsys, "made.yaml")
    assert code == 3
    assert "the driver does not answer" in document["variants"][0]["reason"]


# -- variants that fail beside others


def test_a_variant_that_does_not_compile_fails_alone(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NCU", "perm")
    (with_card / "other.cu").write_text(KERNEL + "// FAKE_NVCC: error\n")
    code, document, _ = invoke(capsys, "made.yaml")
    assert code == 1
    assert statuses(document) == {"good": "ok", "other": "build_failed"}
    assert "other.cu:2" in document["variants"][1]["reason"]


@pytest.mark.parametrize(
    ("behaviour", "status"), [("crash", "crashed"), ("wrong", "wrong_result"), ("crash_in_time", "crashed")]
)
def test_a_variant_that_fails_on_the_device_fails_alone(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, behaviour: str, status: str
) -> None:
    monkeypatch.setenv("FAKE_NCU", "perm")
    monkeypatch.setenv("FAKE_WORKER", json.dumps({"other": behaviour}))
    code, document, _ = invoke(capsys, "made.yaml")
    assert code == 1
    assert statuses(document) == {"good": "ok", "other": status}
    ladder = {row["variant"]: row for row in document["ladder"]}
    assert ladder["good"]["time_ns"] == pytest.approx(1000.0)
    assert ladder["other"]["time_ns"] is None


@pytest.mark.parametrize("mode", ["perm", "silent", "no_kernels", "truncated"])
def test_ncu_that_gives_nothing_costs_the_counters_only(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("FAKE_NCU", mode)
    code, document, _ = invoke(capsys, "made.yaml")
    expected = "ok" if mode == "perm" else "profile_failed"
    assert statuses(document) == {"good": expected, "other": expected}
    assert code == (0 if mode == "perm" else 1)
    assert [row["time_ns"] for row in document["ladder"]] == pytest.approx([1000.0, 2000.0])
    assert Path(document["report"]).is_file()


def test_without_ncu_the_rows_stay_ok(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("nvcc", "g++", "cuobjdump", "nvdisasm"):
        (tools / name).symlink_to(FAKES / name)
    monkeypatch.setenv(toolchain.PINNED, str(tools))
    code, document, said = invoke(capsys, "made.yaml")
    assert code == 0
    assert statuses(document) == {"good": "ok", "other": "ok"}
    assert "no hardware counters" in said


def test_a_worker_that_cannot_start_is_exit_3(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_WORKER", json.dumps({"*": "no_start"}))
    code, document, _ = invoke(capsys, "made.yaml")
    assert code == 3
    assert set(statuses(document).values()) == {"not_run"}
    assert "error 999" in document["variants"][0]["reason"]


# -- caches, recordings, resuming


def test_an_unchanged_source_is_not_built_again_and_a_changed_one_is(
    project: Path, capsys: pytest.CaptureFixture[str], fake_calls: Path
) -> None:
    for _ in range(2):
        invoke(capsys, "made.yaml")
    assert len(fake_calls.read_text().splitlines()) == 2
    (project / "other.cu").write_text(KERNEL + "int changed;\n")
    invoke(capsys, "made.yaml")
    assert len(fake_calls.read_text().splitlines()) == 3
    invoke(capsys, "made.yaml", "--force")
    assert len(fake_calls.read_text().splitlines()) == 5


def test_a_recorded_run_is_replayed_where_there_is_no_gpu(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NCU", "perm")
    _, measured, _ = invoke(capsys, "made.yaml")
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([], None))
    code, replayed, _ = invoke(capsys, "made.yaml", "--replay", measured["run"])
    assert code == 0
    assert {row["origin"] for row in replayed["variants"]} == {"recorded"}
    assert [row["time_ns"] for row in replayed["ladder"]] == [row["time_ns"] for row in measured["ladder"]]
    assert replayed["replay"]["gpu"]["name"] == "Fake H200"  # as the worker calls it
    (with_card / "other.cu").write_text(KERNEL + "int changed;\n")
    code, partly, _ = invoke(capsys, "made.yaml", "--replay", measured["run"])
    assert code == 1
    assert statuses(partly) == {"good": "ok", "other": "not_run"}
    (with_card / "other.cu").write_text("// a comment\n" + KERNEL + "// another\nint   other;\n")
    code, same, _ = invoke(capsys, "made.yaml", "--replay", measured["run"])
    assert statuses(same) == {"good": "ok", "other": "ok"}


@pytest.mark.parametrize("stage", ["build", "verify", "time", "profile"])
def test_ctrl_c_leaves_no_process_and_a_run_that_resumes(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stage: str, tmp_path: Path
) -> None:
    pid_file = tmp_path / "grandchild.pid"
    hang = {
        "build": {"FAKE_NVCC": "hang", "FAKE_NVCC_PID": str(pid_file)},
        "verify": {"FAKE_WORKER": json.dumps({"other": "hang"})},
        "time": {"FAKE_WORKER": json.dumps({"other": "hang_in_time"})},
        "profile": {"FAKE_NCU": "hang", "FAKE_NCU_PID": str(pid_file)},
    }[stage]
    command = subprocess.Popen(
        [sys.executable, str(FAKES / "with_gpu.py"), "made.yaml"],
        env={**os.environ, **hang}, cwd=with_card, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    run = _wait_for_stage(with_card, stage)
    time.sleep(0.5)
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=30)
    assert command.returncode == 130
    assert "--resume" in said
    assert RunDir.open(run).manifest["stages"][stage]["status"] == "interrupted"
    if pid_file.exists():
        assert _gone(int(pid_file.read_text()))
    monkeypatch.setenv("FAKE_NCU", "perm")
    code, document, _ = invoke(capsys, "made.yaml", "--resume", str(run))
    assert code == 0
    assert statuses(document) == {"good": "ok", "other": "ok"}
    assert Path(document["run"]) == run


def _gone(pid: int) -> bool:
    """Return whether a process is gone, or a zombie that its new parent has yet to reap, within a few seconds."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def _wait_for_stage(project: Path, stage: str) -> Path:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for manifest in project.glob("runs/made/*/manifest.json"):
            if json.loads(manifest.read_text())["stages"].get(stage, {}).get("status") == "running":
                return manifest.parent
        time.sleep(0.05)
    raise AssertionError(f"the stage {stage} did not start")


def test_two_runs_at_once_wait_for_each_other_and_both_finish(with_card: Path) -> None:
    env = {**os.environ, "FAKE_NCU": "perm"}
    argv = [sys.executable, str(FAKES / "with_gpu.py"), "made.yaml", "--json"]
    both = [
        subprocess.Popen(argv, env=env, cwd=with_card, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    documents = [json.loads(process.communicate(timeout=60)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert documents[0]["run"] != documents[1]["run"]


def test_several_experiments_give_one_run_each_and_the_worst_exit_code(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NCU", "perm")
    (with_card / "second.yaml").write_text(EXPERIMENT.replace("name: made", "name: second"))
    (with_card / "other.cu").write_text(KERNEL)
    code = run_experiment.main(["made.yaml", "second.yaml", "--json", "--only", "good"])
    documents = json.loads(capsys.readouterr().out)
    assert code == 0
    assert [d["experiment"] for d in documents] == ["made", "second"]


def test_an_experiment_that_cannot_be_read_leaves_the_others_their_runs(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NCU", "perm")
    code, documents, said = invoke(capsys, "absent.yaml", "made.yaml")
    assert code == 2
    assert "no experiment file 'absent.yaml'" in said
    assert [d["exit"] for d in documents] == [2, 0]
    assert statuses(documents[1]) == {"good": "ok", "other": "ok"}


def test_a_recording_that_is_refused_costs_no_result(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, document, said = invoke(capsys, "made.yaml", "--record")
    assert code == 3
    assert "--record needs a run that was measured here" in said
    assert statuses(document) == {"good": "not_run", "other": "not_run"}


def test_a_run_that_was_not_verified_does_not_resume_with_time(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, document, _ = invoke(capsys, "made.yaml", "--stages", "build")
    assert code == 0
    code, _, said = invoke(capsys, "made.yaml", "--resume", document["run"], "--stages", "time")
    assert code == 2
    assert "has not verified its variants" in said


def test_a_measured_run_is_not_replaced_where_there_is_no_gpu(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NCU", "perm")
    _, measured, _ = invoke(capsys, "made.yaml", "--skip", "profile")
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([], None))
    code, again, _ = invoke(capsys, "made.yaml", "--resume", measured["run"], "--stages", "report")
    assert code == 0
    assert again["variants"] == measured["variants"]
    assert again["ladder"] == measured["ladder"]
    assert again["stages"]["time"] == measured["stages"]["time"]
    code, _, said = invoke(capsys, "made.yaml", "--resume", measured["run"], "--stages", "profile")
    assert code == 2
    assert "begun on Fake H200 (GPU-fake), which is not the GPU here" in said


def test_a_replayed_run_is_not_resumed_on_a_gpu(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, document, _ = invoke(capsys, "made.yaml")
    manifest = RunDir.open(Path(document["run"]))
    manifest.manifest["replay"] = {"from": "h200/made"}
    manifest.save()
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([with_gpu.FAKE_GPU], None))
    code, _, said = invoke(capsys, "made.yaml", "--resume", document["run"])
    assert code == 2
    assert "replays a recording" in said


def test_a_cache_that_cannot_be_made_is_one_line(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "file"))
    code, _, said = invoke(capsys, "made.yaml")
    assert code == 2
    assert "XDG_CACHE_HOME" in said


def test_the_manifest_has_no_path_outside_the_project(
    with_card: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NCU", "perm")
    monkeypatch.setattr(sys, "argv", ["run_experiment", "made.yaml", f"--runs-dir={with_card / 'runs'}"])
    _, document, _ = invoke(capsys, "made.yaml")
    text = (Path(document["run"]) / "manifest.json").read_text()
    assert str(with_card) not in text
    assert str(Path.home()) not in text
    assert os.uname().nodename not in text
