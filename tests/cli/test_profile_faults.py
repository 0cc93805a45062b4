"""What a fake ncu does wrong, and what the profile stage makes of it: clear reasons, and the other variants go on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler import frames, profile
from profiler.metrics import HEADLINE, requests
from profiler.run import Run
from profiler.toolchain import Gpu, Tool, Toolchain
from tests.gpu_less_run import make_run
from tests.unit.ncu_samples import OTHERS, sample

FAKE = Path(__file__).resolve().parents[1] / "fakes" / "ncu"
GPU = Gpu(0, "NVIDIA H200", "GPU-0", (9, 0), "580.1", 1 << 37)
NAMES = ("a", "b", "c", "d", "e")

Start = Callable[..., tuple[Run, list[str], Callable[[], list[list[str]]]]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Run the stage over five variants with a fake ncu; returns the run, the lines said, and ncu's calls."""

    def run_stage(mode: str, names: tuple[str, ...] = NAMES, timeout_s: float = 20.0, **env: object) -> Any:
        calls = tmp_path / "calls"
        for name, value in {"FAKE_NCU": mode, "FAKE_NCU_CALLS": calls, **env}.items():
            monkeypatch.setenv(name, str(value))
        said: list[str] = []
        run = make_run(tmp_path, *names, timeout_s=timeout_s, said=said)
        run.gpu = GPU
        run.toolchain = Toolchain(ncu=Tool(FAKE, "2025.3.1.0"))
        profile.profile_stage(run)

        def profiling_calls() -> list[list[str]]:
            lines = calls.read_text().splitlines() if calls.is_file() else []
            return [call for line in lines if "-o" in (call := json.loads(line))]

        return run, said, profiling_calls

    return run_stage


def whys(run: Run) -> set[tuple[str, str]]:
    rows = frames.rows_of(run.dir.frame("metrics"))
    assert not [row for row in rows if row["value"] is not None or row["text"] is not None]  # no invented number
    assert {row["metric"] for row in rows} == set(HEADLINE)
    return {(row["variant"], row["why"]) for row in rows}


@pytest.mark.parametrize("returncode", [0, 1])
@pytest.mark.parametrize("stream", ["log", "stdout", "stderr"])
def test_refused_counters_are_asked_for_once(start: Start, returncode: int, stream: str) -> None:
    run, said, calls = start("perm", FAKE_NCU_RC=returncode, FAKE_NCU_STREAM=stream)
    assert len(calls()) == 1
    assert whys(run) == {(name, "not_permitted") for name in NAMES}
    assert set(run.status().values()) == {"ok"}
    note = run.dir.manifest["profile"]
    assert note["outcome"] == "not_permitted"
    assert "ERR_NVGPUCTRPERM" in note["reason"]
    for remedy in ("root", "--cap-add=SYS_ADMIN", "NVreg_RestrictProfilingToAdminUsers=0"):
        assert remedy in note["hint"]
    assert len([line for line in said if "ERR_NVGPUCTRPERM" in line]) == 1


def test_another_tool_holds_the_counters(start: Start) -> None:
    run, _, calls = start("busy")
    assert len(calls()) == 1
    assert run.dir.manifest["profile"]["outcome"] == "busy"
    assert "dcgmi profile --pause" in run.dir.manifest["profile"]["hint"]
    assert whys(run) == {(name, "not_collected") for name in NAMES}
    assert set(run.status().values()) == {"ok"}


def test_an_ncu_that_does_not_know_our_options(start: Start) -> None:
    run, _, calls = start("option")
    assert len(calls()) == 1
    assert run.dir.manifest["profile"]["outcome"] == "bad_option"
    assert "2022" in run.dir.manifest["profile"]["hint"]


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("silent", "ncu wrote nothing (exit code 0)"),
        ("no_kernels", "ncu saw no launch inside the marked ranges"),
        ("app_failed", "the profiled program failed with exit code 1"),
    ],
)
def test_no_result_has_its_own_reason(start: Start, mode: str, reason: str) -> None:
    run, said, calls = start(mode, ("a", "b"))
    assert len(calls()) == 3  # all together, then each alone, once
    assert run.status() == {"a": "profile_failed", "b": "profile_failed"}
    assert whys(run) == {("a", "failed"), ("b", "failed")}
    for row in frames.rows_of(run.dir.frame("variants")):
        assert reason in row["reason"]
        assert "\n" not in row["reason"]
    assert any(line.startswith("a at M=64,N=64,K=64: profile_failed: ") for line in said)
    assert run.dir.manifest["profile"]["outcome"] == mode


def test_a_hanging_ncu_ends_with_its_grandchild(start: Start, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    began = time.monotonic()
    run, _, calls = start("hang", ("a",), timeout_s=0.7, FAKE_NCU_PID=pid_file)
    assert time.monotonic() - began < 6
    assert len(calls()) == 2
    assert run.status() == {"a": "profile_failed"}
    assert "did not end within 1 s" in frames.rows_of(run.dir.frame("variants"))[0]["reason"]
    assert ended(int(pid_file.read_text()))


def ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie that its new parent has not reaped yet."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def test_a_truncated_report_is_not_a_result(start: Start) -> None:
    run, _, calls = start("truncated", ("a", "b"), FAKE_NCU_REPORT=sample(OTHERS[1]))
    assert len(calls()) == 3
    assert set(run.status().values()) == {"profile_failed"}
    assert whys(run) == {("a", "failed"), ("b", "failed")}


def test_a_report_of_other_launches_is_not_a_result(start: Start) -> None:
    """The canned report is whole, but none of its launches lies in a range of ours."""
    run, _, _ = start("copy", ("a",), FAKE_NCU_REPORT=sample(OTHERS[1]))
    assert run.status() == {"a": "profile_failed"}
    assert "its range holds no launch" in frames.rows_of(run.dir.frame("variants"))[0]["reason"]
    assert any("4 launches of" in remark for remark in run.dir.manifest["profile"]["remarks"])


def test_one_unknown_metric_is_left_out(start: Start) -> None:
    unknown = "sm__pipe_fmaheavy_cycles_active.avg.pct_of_peak_sustained_active"
    run, said, calls = start("unknown", ("a",), FAKE_NCU_UNKNOWN=unknown)
    asked = [call[call.index("--metrics") + 1].split(",") for call in calls()]
    assert unknown in asked[0]
    assert unknown not in asked[1]
    assert len(asked[0]) == len(asked[1]) + 1 == len(requests())
    assert any("sm__pipe_fmaheavy_cycles_active" in line for line in said)
    assert run.dir.manifest["profile"]["outcome"] != "unknown_metric"


def test_no_ncu(tmp_path: Path) -> None:
    said: list[str] = []
    run = make_run(tmp_path, *NAMES, said=said)
    run.gpu = GPU
    run.toolchain = Toolchain(missing=(("ncu", "ncu is not on PATH"),))
    profile.profile_stage(run)
    assert run.dir.manifest["profile"]["outcome"] == "no_ncu"
    assert run.dir.manifest["profile"]["reason"] == "ncu is not on PATH"
    assert whys(run) == {(name, "not_collected") for name in NAMES}
    assert set(run.status().values()) == {"ok"}
    assert len(said) == 1


def test_an_old_ncu_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NCU_CALLS", str(tmp_path / "calls"))
    run = make_run(tmp_path, "a")
    run.gpu = GPU
    run.toolchain = Toolchain(ncu=Tool(FAKE, "2021.3.1.0"))
    profile.profile_stage(run)
    assert run.dir.manifest["profile"]["outcome"] == "too_old"
    assert "2021.3.1.0" in run.dir.manifest["profile"]["reason"]
    assert not (tmp_path / "calls").exists()


def test_an_ncu_that_is_gone(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    run.gpu = GPU
    run.toolchain = Toolchain(ncu=Tool(tmp_path / "gone" / "ncu", "2025.3.1.0"))
    profile.profile_stage(run)
    assert run.status() == {"a": "profile_failed"}
    reason = frames.rows_of(run.dir.frame("variants"))[0]["reason"]
    assert reason == "M=64,N=64,K=64: ncu cannot be started: No such file or directory"
