"""The stage trace with a fake nsys that refuses, hangs, dies, or leaves only a stream: clear words, CUPTI instead."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler import frames, trace
from profiler.run import Run
from profiler.toolchain import Gpu, Tool, Toolchain
from tests.gpu_less_run import make_run
from tests.make_nsys import NsysFile

FAKE = Path(__file__).resolve().parents[1] / "fakes" / "nsys"
GPU = Gpu(0, "NVIDIA H200", "GPU-0", (9, 0), "580.1", 1 << 37)
SIZE = "M=64,N=64,K=64"
STATUS = "\n".join([json.dumps({"index": 0, "status": "ok"}), json.dumps({"seconds": 1.5, "torch": "2.11"})])

#: Stands in for PyTorch's profiler: writes what FAKE_CUPTI names, beside the interpreter's own arguments.
PROGRAM = """
import json, pathlib, shutil, sys
told = json.loads(pathlib.Path(__file__).with_suffix(".json").read_text())
arguments = sys.argv[1:]
if told.get("status"):
    pathlib.Path(arguments[0]).with_suffix(".status").write_text(told["status"])
if told.get("trace"):
    pathlib.Path(arguments[arguments.index("--cupti") + 1]).write_text(told["trace"])
print(told.get("says", ""))
sys.exit(told.get("code", 0))
"""


def kineto() -> str:
    def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": 1, "args": args}

    events = []
    for index in range(2):
        at = 1_000.0 * index
        events += [
            event("user_annotation", f"kl.{index:04d}", at, 500), event("user_annotation", "kl.launch", at + 1, 20),
            event("cuda_runtime", "cudaLaunchKernel", at + 2, 5, correlation=index + 1),
            event("kernel", f"kernel_{index}", at + 10, 100, device=0, stream=7, correlation=index + 1),
        ]  # fmt: skip
    return json.dumps({"traceEvents": events})


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """What the fake nsys exports: a setup, then two variants with three launches each, and secrets."""
    with NsysFile(tmp_path / "canned.sqlite") as made:
        made.version()
        made.gpu()
        made.call("cudaMalloc_v3020", (0, 900_000))
        for index in range(2):
            at = 1_000_000 * (index + 1)
            made.range(f"kl.{index:04d}", (at, at + 100_000))
            for launch in range(3):
                begin = at + 20_000 * launch
                made.range("kl.launch", (begin, begin + 6_000))
                made.launch(f"kernel_{index}", (begin + 1_000, begin + 5_000), (begin + 8_000, begin + 18_000))
        made.rows("META_DATA_CAPTURE", ("name", "value"), [("ENVIRONMENT_VARIABLE", "SECRET=hunter2")])
        made.text("/home/alice/bin/python")
    return tmp_path / "canned.sqlite"


Start = Callable[..., tuple[Run, list[str], list[dict[str, Any]]]]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, export: Path) -> Start:
    """Run the stage; ``cupti`` is what the program says where there is no nsys."""

    def run_stage(
        mode: str | None, *, timeout_s: float = 20.0, cupti: dict[str, Any] | None = None, skip: tuple[str, ...] = (),
        **env: Any,
    ) -> Any:  # fmt: skip
        tools = tmp_path / "tools"
        tools.mkdir()
        nsys = Path(shutil.copy(FAKE, tools / "nsys"))
        calls = tmp_path / "calls"
        told = {"FAKE_NSYS": mode, "FAKE_NSYS_CALLS": str(calls), "FAKE_NSYS_SQLITE": str(export),
                "FAKE_NSYS_STATUS": STATUS, **{key: str(value) for key, value in env.items()}}  # fmt: skip
        (tools / "nsys.env.json").write_text(json.dumps(told), encoding="utf-8")
        program = tmp_path / "program.py"
        program.write_text(PROGRAM, encoding="utf-8")
        program.with_suffix(".json").write_text(
            json.dumps(cupti or {"code": 1, "says": "no CUDA here"}), encoding="utf-8"
        )
        monkeypatch.setattr(trace, "program_argv", lambda: [sys.executable, str(program)])
        monkeypatch.setattr(trace, "AFTER_S", 5.0 if mode != "hang" else 0.5)
        monkeypatch.setenv("SECRET", "hunter2")
        monkeypatch.setenv("KERNEL_LADDER_TOOLS", str(tools))
        said: list[str] = []
        run = make_run(tmp_path, "a", "b", timeout_s=timeout_s, said=said)
        run.gpu = GPU
        options = dataclasses.replace(run.experiment.profile, skip=skip)
        run.experiment = dataclasses.replace(run.experiment, profile=options)
        missing = (("nsys", "nsys was not found; install Nsight Systems and put nsys on PATH"),)
        run.toolchain = Toolchain(nsys=Tool(nsys, "2025.3.2")) if mode else Toolchain(missing=missing)
        trace.trace_stage(run)
        lines = calls.read_text().splitlines() if calls.is_file() else []
        return run, said, [json.loads(line) for line in lines]

    return run_stage


def spans(run: Run) -> list[dict[str, Any]]:
    return frames.rows_of(run.dir.frame("spans"))


def test_what_the_profile_leaves_out_is_traced(start: Start) -> None:
    run, _, _ = start("report", skip=("a",))
    assert {row["variant"] for row in spans(run)} == {"a", "b"}


def test_a_trace_becomes_spans_of_the_variants(start: Start) -> None:
    run, _, calls = start("report")
    rows = spans(run)
    kernels = [(row["variant"], row["size"], row["name"]) for row in rows if row["kind"] == "kernel"]
    assert kernels == [("a", SIZE, "kernel_0")] * 3 + [("b", SIZE, "kernel_1")] * 3
    assert {row["name"] for row in rows if row["kind"] == "nvtx"} == {"a at 64³", "b at 64³", "kl.launch"}
    assert "cudaMalloc" not in {row["name"] for row in rows}  # the setup is no part of it
    note = run.dir.manifest["trace"]
    assert (note["outcome"], note["route"], note["version"]) == ("ok", "nsys", "2025.3.2")
    assert note["gpus"] == {"0": "NVIDIA H200"}
    assert note["seconds"]["program"] == 1.5
    assert set(run.status().values()) == {"ok"}
    profile = calls[0]["argv"]
    for option, value in (
        ("--sample", "none"),
        ("--cpuctxsw", "none"),
        ("--trace", "cuda,nvtx"),
        ("--cuda-graph-trace", "node"),
    ):
        assert profile[profile.index(option) + 1] == value


def test_the_environment_is_bare_and_the_export_is_scrubbed(start: Start) -> None:
    run, _, calls = start("report")
    for call in calls:
        assert "SECRET" not in call["env"]
        assert set(call["env"]) <= {
            *trace.KEPT_VARIABLES, "HOME", "LC_ALL", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING",
            "LC_CTYPE", "PWD", "SHLVL", "_",
        }  # fmt: skip
        assert call["env"]["HOME"] != os.environ.get("HOME")
    kept = sorted(path.name for path in (run.dir.path / "raw").iterdir())
    assert kept == ["trace.nsys.out", "trace.sqlite"]
    for path in run.dir.path.rglob("*"):
        if path.is_file():
            assert b"hunter2" not in path.read_bytes()
            assert b"alice" not in path.read_bytes()


def test_findings_are_written_and_written_anew(start: Start) -> None:
    run, said, _ = start("report")
    rows = frames.rows_of(run.dir.frame("findings"))
    assert [row["name"] for row in rows] == ["launch_bound"]
    assert "kernel_0 at 0.008 ms" in rows[0]["lines"]
    assert f"trace: {rows[0]['evidence']}" in said
    trace.trace_stage(run)
    assert len(run.dir.frame("findings")) == 1


def test_only_a_stream_is_imported_first(start: Start, tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    run, _, calls = start("stream")
    # no importer lies beside the fake: the words say what is missing, and CUPTI was tried
    note = run.dir.manifest["trace"]
    assert note["outcome"] == "failed"
    assert "QdstrmImporter" in note["instead"]["reason"]
    assert [call["argv"][0] for call in calls] == ["profile"]


IMPORTER = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in -i) in="$2";; -o) out="$2";; esac; shift; done
cp "$in" "$out"
"""


@pytest.mark.parametrize(
    ("script", "outcome", "words"),
    [
        (IMPORTER, "ok", ""),
        ("#!/bin/sh\necho 'QdstrmImporter: error while loading shared libraries: libdw.so.1: cannot open shared object "
         "file: No such file or directory' >&2\nexit 127\n", "failed", "the library libdw.so.1 is missing"),
        ("#!/bin/sh\nexit 0\n", "failed", "QdstrmImporter ended well but wrote nothing"),
    ],
)  # fmt: skip
def test_the_importer_beside_nsys(start: Start, tmp_path: Path, script: str, outcome: str, words: str) -> None:
    host = tmp_path / "host-linux-x64"
    host.mkdir()
    (host / "QdstrmImporter").write_text(script, encoding="utf-8")
    (host / "QdstrmImporter").chmod(0o755)
    run, _, _ = start("stream")
    note = run.dir.manifest["trace"]
    assert note["outcome"] == outcome
    if words:
        assert words in note["instead"]["reason"]
        if "libdw" in words:
            assert "apt-get install libdw1" in note["instead"]["hint"]
    else:
        assert len([row for row in spans(run) if row["kind"] == "kernel"]) == 6


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("refuse", "does not take --cuda-graph-trace"), ("permission", "the system does not permit it"),
        ("silent", "nsys ended well but wrote nothing"), ("die", "nsys was ended by signal 9"),
    ],
)  # fmt: skip
def test_where_nsys_gives_nothing_cupti_stands_in_and_says_so(start: Start, mode: str, words: str) -> None:
    run, said, _ = start(mode, cupti={"trace": kineto(), "status": STATUS})
    note = run.dir.manifest["trace"]
    assert (note["outcome"], note["route"]) == ("ok", "cupti")
    assert words in note["instead"]["reason"]
    assert note["remarks"][0].startswith("traced through CUPTI by PyTorch's profiler, because ")
    assert len([line for line in said if "through CUPTI instead" in line]) == 1
    assert [(row["variant"], row["name"]) for row in spans(run) if row["kind"] == "kernel"] == [
        ("a", "kernel_0"), ("b", "kernel_1"),
    ]  # fmt: skip


def test_without_nsys(start: Start) -> None:
    run, _, calls = start(None, cupti={"trace": kineto(), "status": STATUS})
    assert calls == []
    note = run.dir.manifest["trace"]
    assert (note["route"], note["version"]) == ("cupti", "PyTorch 2.11")
    assert "nsys was not found" in note["instead"]["reason"]


def test_an_nsys_that_hangs_is_ended_with_what_it_started(start: Start, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    began = time.monotonic()
    run, _, _ = start("hang", timeout_s=0.5, cupti={"trace": kineto()}, FAKE_NSYS_PID=pid)
    assert time.monotonic() - began < 15
    note = run.dir.manifest["trace"]
    assert "nsys did not end within 2 s" in note["instead"]["reason"]
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid.read_text()}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid.read_text()}/exe").exists() or "Z" in Path(f"/proc/{pid.read_text()}/stat").read_text()


@pytest.mark.parametrize(
    ("cupti", "words"),
    [
        (
            {"code": 1, "says": "RuntimeError: /opt/secret/lib no CUDA"},
            "the traced program left no trace (exit code 1)",
        ),
        ({"trace": "no json"}, "the trace cannot be read"),
        ({"trace": '{"traceEvents": []}'}, "the trace holds no launch of a variant"),
    ],
)
def test_where_nothing_works_the_reason_is_kept_and_no_row_fails(
    start: Start, cupti: dict[str, Any], words: str
) -> None:
    run, said, _ = start("silent", cupti=cupti)
    note = run.dir.manifest["trace"]
    assert note["outcome"] == "failed"
    assert words in note["reason"]
    assert "/opt/secret" not in json.dumps(note)
    assert set(run.status().values()) == {"ok"}
    assert spans(run) == []
    assert len([line for line in said if line.startswith("no timeline: ")]) == 1


def test_a_failed_export_is_told(start: Start) -> None:
    run, _, _ = start(
        "report", FAKE_NSYS_EXPORT="ERROR: the file was created by a newer version", cupti={"trace": kineto()}
    )
    assert "newer Nsight Systems" in run.dir.manifest["trace"]["instead"]["reason"]


def test_a_variant_that_could_not_be_launched_is_named(start: Start) -> None:
    status = json.dumps({"index": 1, "status": "failed", "reason": "OSError: /home/alice/x.so: undefined symbol"})
    run, _, _ = start("report", FAKE_NSYS_STATUS=status)
    assert run.dir.manifest["trace"]["failed"] == {f"b at {SIZE}": "OSError: x.so: undefined symbol"}
    assert run.dir.manifest["trace"]["outcome"] == "ok"


def test_without_a_gpu_nothing_is_started(tmp_path: Path) -> None:
    run = make_run(tmp_path, "a")
    trace.trace_stage(run)
    assert run.dir.manifest["trace"]["outcome"] == "no_gpu"
