"""``check_setup``: what it says and how it exits, on a machine with everything faked and on one with nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profiler import gpu, toolchain
from profiler.cli import check_setup
from profiler.toolchain import Gpu, Tool, Toolchain

FAKES = Path(__file__).resolve().parent.parent / "fakes"
H200 = Gpu(0, "NVIDIA H200", "GPU-1", (9, 0), "580.95.05", 150_000_000_000)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Return a machine with nothing on it, to which a test adds what it wants."""
    monkeypatch.setenv(toolchain.PINNED, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.delenv("NVCC_CCBIN", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(gpu, "find_gpus", lambda: ([], None))
    monkeypatch.setattr(check_setup.data_files, "recorded", lambda: tmp_path / "recorded")
    return monkeypatch


def document(capsys: pytest.CaptureFixture[str], code: int) -> dict[str, dict[str, str]]:
    """Return the items of --json by name; stdout holds one document and nothing else."""
    assert check_setup.main(["--json"]) == code
    captured = capsys.readouterr()
    parsed = json.loads(captured.out)
    assert captured.err == ""
    assert parsed["usable"] is (code == 0)
    return {item["name"]: item for item in parsed["items"]}


@pytest.mark.usefixtures("machine")
def test_nothing_is_usable_where_nothing_is(capsys: pytest.CaptureFixture[str]) -> None:
    items = document(capsys, 3)
    for name in (
        "GPU",
        "nvcc",
        "host compiler",
        "cuobjdump",
        "nvdisasm",
        "ncu",
        "nsys",
        "compute-sanitizer",
        "browser",
    ):
        assert items[name]["state"] == "missing", name
        assert items[name]["costs"], name
    assert "set CUDACXX" in items["nvcc"]["next_step"]
    assert check_setup.main([]) == 3
    assert "nothing can be measured, built or shown here" in capsys.readouterr().out


def test_a_compiler_is_enough(machine: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    machine.setenv(toolchain.PINNED, str(FAKES))
    machine.setenv("PATH", f"{FAKES}:/usr/bin:/bin")
    items = document(capsys, 0)
    assert items["nvcc"] == {"name": "nvcc", "state": "ok", "found": "13.0.88", "costs": "", "next_step": ""}
    assert items["host compiler"]["found"] == "g++ 12.2.0"
    assert items["ncu"]["state"] == "ok"
    assert items["nsys"]["state"] == "ok"
    assert check_setup.main(["-q"]) == 0
    assert capsys.readouterr().out == "usable: this machine can build and analyse binaries\n"
    assert check_setup.main(["-v"]) == 0
    assert str(FAKES / "nvcc") in capsys.readouterr().out.replace("\n", "").replace(" ", "")


def test_recorded_runs_are_enough(
    machine: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "recorded/h200/gemm_ladder"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    items = document(capsys, 0)
    assert items["recorded runs"]["found"] == "gemm_ladder (h200)"


def test_a_broken_driver_is_told_from_no_driver(
    machine: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.setattr(gpu, "find_gpus", lambda: ([], "the NVIDIA driver is installed but does not work: mismatch"))
    items = document(capsys, 3)
    assert items["GPU"]["state"] == "problem"
    assert "mismatch" in items["GPU"]["found"]
    assert "nvidia-smi" in items["GPU"]["next_step"]


def test_a_tool_that_does_not_answer_says_how(
    machine: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ncu").write_text("#!/bin/sh\necho directory is not found\nexit 1\n")
    (tmp_path / "ncu").chmod(0o755)
    items = document(capsys, 3)
    assert "ended with exit code 1: directory is not found" in items["ncu"]["found"]


@pytest.mark.parametrize(
    ("permission", "reader", "state", "can"),
    [
        ("allowed", "ok", "ok", "measure, profile and"),
        ("allowed", "missing", "ok", "can measure and"),
        ("refused", "ok", "problem", "can measure and"),
        ("unknown", "ok", "unknown", "measure, profile and"),
    ],
)
def test_a_gpu_with_and_without_its_counters(
    machine: pytest.MonkeyPatch, permission: gpu.Permission, reader: check_setup.State, state: str, can: str
) -> None:
    tools = Toolchain(*(Tool(Path(name), "13.0") for name in ("nvcc", "g++", "cuobjdump", "nvdisasm", "ncu")))
    machine.setattr(gpu, "counter_permission", lambda: permission)
    machine.setattr(check_setup, "torch_item", lambda any_gpu: check_setup.Item("torch", "ok", "2.13.0"))
    machine.setattr(check_setup, "reader_item", lambda ncu: check_setup.Item("ncu-report", reader, ""))
    items = check_setup.all_items(tools, [H200], None)
    by_name = {item.name: item for item in items}
    assert by_name["GPU 0"].found == "NVIDIA H200, 140 GiB, compute capability 9.0, sm_90a"
    assert by_name["driver"].found == "580.95.05"
    assert by_name["counters"].state == state
    if permission == "refused":
        assert by_name["counters"].next_step.count("; or ") == 2
    usable, summary = check_setup.verdict(items)
    assert usable
    assert can in summary


def test_a_torch_without_cuda_beside_a_gpu_is_a_problem(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(check_setup.importlib.util, "find_spec", lambda name: object())
    machine.setattr(check_setup, "_version", lambda package: "2.13.0+cpu")
    assert check_setup.torch_item(any_gpu=True).state == "problem"
    assert check_setup.torch_item(any_gpu=False).state == "ok"


def test_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_setup.main(["--nonsense"]) == 2
    assert "--nonsense" in capsys.readouterr().err
