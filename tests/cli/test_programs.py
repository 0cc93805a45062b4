"""Programs of the user's own, with a fake nsys and ncu: built, timed, profiled; a wrong one ends its own row only."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler import gpu, pipeline, toolchain
from profiler.analysis.kernels import no_counters
from profiler.analysis.rundata import RunData
from profiler.cli import run_experiment
from profiler.rundir import RunDir
from tests.fakes import with_gpu
from tests.make_nsys import NsysFile

FAKES = Path(__file__).resolve().parent.parent / "fakes"
KERNEL = """#include "gemm.h"
extern "C" cudaError_t launch(const Args *args, void *, cudaStream_t stream) { return cudaSuccess; }
"""
HEAD = """schema: 1
name: made
problem:
  kind: gemm
  sizes: [[64, 64, 64]]
defaults: {dtype: fp32}
measure: {samples: 3, warmup_ms: 1}
"""
#: What the program does, by its first argument.
PROGRAM = """
import os, pathlib, sys, time
what, size = sys.argv[1], sys.argv[2]
pathlib.Path("environment.txt").write_text("\\n".join(sorted(os.environ)))
if what == "flood":
    for _ in range(100):
        sys.stdout.write("x" * 999_999 + "\\n")
if what == "fork" and os.fork() == 0:
    pathlib.Path("child.txt").write_text(str(os.getpid()))
    time.sleep(600)
if what == "hang":
    time.sleep(600)
if what == "die":
    os.kill(os.getpid(), 11)
print(f"size {size}: avg 2.5 ms" if what != "silent" else "nothing to say", flush=True)
if what == "fail":
    sys.exit("result is wrong at 17")
"""


class Project:
    """A folder with an experiment of one rung and programs, on a machine that seems to have a GPU."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.tools = folder.parent / "tools"

    def told(self, tool: str, **env: object) -> None:
        """What a fake tool does, where it is given a bare environment."""
        text = json.dumps({key: str(value) for key, value in env.items()})
        (self.tools / f"{tool}.env.json").write_text(text, encoding="utf-8")

    def run(self, variants: str, *flags: str, head: str = HEAD) -> tuple[int, dict[str, Any], str, RunDir]:
        (self.folder / "made.yaml").write_text(head + variants, encoding="utf-8")
        code = run_experiment.main(["made.yaml", "--json", "--stages", "build,verify,time,profile", *flags])
        said = self.capsys.readouterr()
        document = json.loads(said.out) if said.out.strip() else {}
        made = [*(self.folder / "runs" / "made").glob("*/manifest.json")]
        newest = max(made, key=lambda path: path.stat().st_mtime_ns)  # names of one second sort by chance
        return code, document, said.err, RunDir.open(newest.parent)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    folder = tmp_path / "project"
    folder.mkdir()
    made = Project(folder, capsys)
    shutil.copytree(FAKES, made.tools, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (folder / "rung.cu").write_text(KERNEL)
    (folder / "program.py").write_text(PROGRAM)
    monkeypatch.chdir(folder)
    monkeypatch.setenv(toolchain.PINNED, str(made.tools))
    monkeypatch.setenv("SECRET", "hunter2")
    monkeypatch.setattr(gpu, "find_gpus", lambda env=None, nvml=None: ([with_gpu.FAKE_GPU], None))
    monkeypatch.setattr(pipeline, "worker_argv", lambda: [sys.executable, str(FAKES / "worker.py")])
    made.told("ncu", FAKE_NCU="no_kernels")
    made.told("nsys", FAKE_NSYS="silent")
    return made


def traced(project: Project, export: Callable[[NsysFile], None], mode: str = "run") -> Path:
    """Let the fake nsys export this; return the file of its calls."""
    path, calls = project.tools / "canned.sqlite", project.tools / "calls"
    with NsysFile(path) as made:
        made.version()
        made.gpu()
        export(made)
    project.told("nsys", FAKE_NSYS=mode, FAKE_NSYS_SQLITE=path, FAKE_NSYS_CALLS=calls)
    return calls


def four_launches(made: NsysFile) -> None:
    """A set-up kernel, then one that is launched three times; and the rung's range with two launches beside them."""
    made.launch("void fill(float *)", (0, 1_000), (1_000, 2_000))
    for index, duration in enumerate((9_000, 4_000, 6_000)):
        at = 10_000 + 20_000 * index
        made.launch(
            "void warp_tile<(int)64>(float const *, float *)", (at, at + 500), (at + 1_000, at + 1_000 + duration)
        )
    made.range("kl.0000", (100_000, 200_000))
    for index in range(2):
        at = 100_000 + 20_000 * index
        made.range("kl.launch", (at, at + 6_000))
        made.launch("rung", (at + 1_000, at + 5_000), (at + 8_000, at + 18_000))


PRINTS = """variants:
  - {name: rung, cuda: rung.cu}
  - name: theirs
    command: [python, program.py, WHAT, "{M}"]
    env: {LEVEL: "3"}
    time: {stdout: 'avg ([0-9.]+) ms', unit: ms}
"""
TRACES = """baseline: rung
variants:
  - {name: rung, cuda: rung.cu}
  - name: theirs
    command: [python, program.py, fine, "{M}"]
    launches: {match: "*warp_tile*", skip: 1, count: 2, combine: mean}
"""


def row_of(document: dict[str, Any], name: str = "theirs") -> dict[str, Any]:
    return next(row for row in document["ladder"] if row["variant"] == name)


def test_a_printed_time_is_shown_apart_and_unverified(project: Project) -> None:
    code, document, _, run = project.run(PRINTS.replace("WHAT", "fine"), "--skip", "profile")
    assert code == 0
    row = row_of(document)
    assert (row["own_method"], row["time_ns"]) == ("printed", None)
    assert row["own_time_ns"] == pytest.approx(2.5e6)
    assert (row["verified"], row["own_rank"], row["own_ratio"]) == ("unverified", None, None)
    assert row_of(document, "rung")["time_ns"] is not None
    samples = run.frame("samples")
    own = samples[samples["method"] == "printed"]
    assert own["process"].tolist() == [0, 1, 2]
    assert own["cache"].tolist() == ["own"] * 3


def test_the_environment_of_a_program_is_bare(project: Project) -> None:
    project.run(PRINTS.replace("WHAT", "fine"), "--skip", "profile")
    names = set((project.folder / "environment.txt").read_text().split())
    assert {"PATH", "LEVEL", "HOME", "CUDA_VISIBLE_DEVICES"} <= names
    assert "SECRET" not in names
    assert "KERNEL_LADDER_TOOLS" not in names


@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        ("fail", "launch_failed", "exit code 1: result is wrong at 17"),
        ("die", "crashed", "killed by SIGSEGV"),
        ("hang", "timeout", "it did not end within 1 s"),
        ("silent", "launch_failed", "its last line is: nothing to say"),
    ],
)
def test_a_program_that_fails_ends_its_own_row(project: Project, what: str, status: str, words: str) -> None:
    code, document, _, run = project.run(PRINTS.replace("WHAT", what), "--skip", "profile", "--timeout", "1")
    assert code == 1
    theirs, rung = (next(v for v in document["variants"] if v["name"] == name) for name in ("theirs", "rung"))
    assert theirs["status"] == status
    assert words in theirs["reason"]
    assert rung["status"] == "ok"
    assert "theirs" not in set(run.frame("samples")["variant"])


def test_a_program_that_prints_a_hundred_megabytes_and_one_that_leaves_a_child(project: Project) -> None:
    both = PRINTS.replace("WHAT", "flood") + PRINTS.split("rung.cu}\n")[1].replace("WHAT", "fork").replace(
        "theirs", "forks"
    )
    began = time.monotonic()
    code, document, _, run = project.run(both, "--skip", "profile", "--timeout", "30")
    assert code == 0
    assert time.monotonic() - began < 30
    assert [row_of(document, name)["own_time_ns"] for name in ("theirs", "forks")] == pytest.approx([2.5e6] * 2)
    assert sum(path.stat().st_size for path in run.path.rglob("*") if path.is_file()) < 1_000_000
    child = int((project.folder / "child.txt").read_text())
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]


def test_traced_durations_rank_beside_a_baseline_that_was_traced(project: Project) -> None:
    calls = traced(project, four_launches)
    code, document, said, run = project.run(TRACES, "--skip", "profile")
    assert code == 0, said
    theirs, rung = row_of(document), row_of(document, "rung")
    assert (theirs["own_method"], theirs["own_time_ns"]) == ("trace", pytest.approx(5_000))  # the mean of 4 and 6 us
    assert (rung["own_method"], rung["own_time_ns"]) == ("trace", pytest.approx(10_000))
    assert (theirs["own_rank"], rung["own_rank"], theirs["own_ratio"]) == (1, 2, pytest.approx(2.0))
    assert theirs["time_ns"] is None
    assert theirs["ratio"] is None
    argv = [json.loads(line)["argv"] for line in calls.read_text().splitlines()]
    profiles = [words for words in argv if words[0] == "profile"]
    assert [words[-4:] for words in profiles if "program.py" in words] == [["python", "program.py", "fine", "64"]] * 3
    assert all(words[words.index("--wait") + 1] == "primary" for words in profiles if "program.py" in words)
    report = run_experiment.main(["--resume", str(run.path), "--stages", "report"])
    assert report == 0
    page = (run.path / "report.html").read_text(encoding="utf-8")
    assert "Traced or printed" in page
    assert "unverified" in page


@pytest.mark.parametrize(
    ("launches", "words"),
    [
        ('{match: "*tile_3d*"}', "no launch matches '*tile_3d*'; the program launched void warp"),
        ('{match: "*warp_tile*", count: 9}', "'*warp_tile*' matches 3 launches, and count is 9"),
        ("{count: 1}", "launches means one kernel and finds 3"),
        ('{match: "*", count: 3, combine: max}', "match means one kernel and finds 2"),
    ],
)
def test_no_launch_or_several_where_one_is_meant_lists_the_names(project: Project, launches: str, words: str) -> None:
    traced(project, four_launches)
    text = TRACES.replace('{match: "*warp_tile*", skip: 1, count: 2, combine: mean}', launches)
    code, document, _, _ = project.run(text, "--skip", "profile")
    theirs = next(v for v in document["variants"] if v["name"] == "theirs")
    assert (code, theirs["status"]) == (1, "launch_failed")
    assert words in theirs["reason"]
    assert "warp_tile<(int)64>" in theirs["reason"]


def test_without_nsys_a_traced_program_is_not_run_and_says_what_to_do(project: Project) -> None:
    (project.tools / "nsys").unlink()
    code, document, _, _ = project.run(TRACES, "--skip", "profile")
    theirs = next(v for v in document["variants"] if v["name"] == "theirs")
    assert (code, theirs["status"]) == (1, "not_run")
    assert "nsys was not found" in theirs["reason"]
    assert "stdout" in theirs["reason"]


def test_a_program_is_built_once_for_its_inputs(project: Project) -> None:
    text = PRINTS.replace("[python, program.py, WHAT", '["{build}/it", program.py, fine').replace(
        "    env:",
        "    params: {LEVEL: 2}\n    build_inputs: [program.py]\n"
        '    build_command: [sh, -c, "echo {LEVEL} {arch} >> built.txt; ln -sf $(which python) {build}/it"]\n    env:',
    )
    code, _, said, run = project.run(text, "--skip", "profile")
    assert code == 0, said
    assert (project.folder / "built.txt").read_text().split() == ["2", "sm_90a"]
    assert run.manifest["programs"]["theirs"]["cached"] is False
    assert (run.path / "sources" / "theirs" / "program.py").is_file()
    _, _, _, again = project.run(text, "--skip", "profile")
    assert again.manifest["programs"]["theirs"]["cached"] is True
    (project.folder / "program.py").write_text(PROGRAM + "# changed\n")
    project.run(text, "--skip", "profile")
    assert len((project.folder / "built.txt").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            '[sh, -c, "echo hello; echo prog.cu:7: error: no such thing; echo more; exit 2"]',
            "prog.cu:7: error: no such",
        ),
        ("[no-such-compiler, x]", "no-such-compiler cannot be started"),
        ('[sh, -c, "exit 3"]', "sh: exit code 3"),
        ('[sh, -c, "true"]', "sh ended well, and there is no program it"),
    ],
)
def test_a_build_that_fails_says_its_first_error(project: Project, command: str, words: str) -> None:
    text = PRINTS.replace("[python, program.py, WHAT", '["{build}/it", fine').replace(
        "    env:", f"    build_command: {command}\n    env:"
    )
    code, document, _, _ = project.run(text, "--skip", "profile")
    theirs = next(v for v in document["variants"] if v["name"] == "theirs")
    assert (code, theirs["status"]) == (1, "build_failed")
    assert words in theirs["reason"]


def test_a_dim_in_the_build_command_is_refused(project: Project) -> None:
    (project.folder / "made.yaml").write_text(
        HEAD + PRINTS.replace("WHAT", "fine").replace("    env:", '    build_command: [make, "{M}"]\n    env:')
    )
    assert run_experiment.main(["made.yaml", "--check"]) == 2
    assert "{M} is a dim, and a program is built once for all sizes" in project.capsys.readouterr().err


def test_a_program_is_profiled_in_a_process_of_its_own(project: Project) -> None:
    traced(project, four_launches)
    calls = project.tools / "ncu-calls"
    project.told("ncu", FAKE_NCU="no_kernels", FAKE_NCU_CALLS=calls)
    code, document, _, run = project.run(TRACES)
    theirs = next(v for v in document["variants"] if v["name"] == "theirs")
    assert (code, theirs["status"]) == (1, "profile_failed")
    assert "ncu saw no launch that matches '*warp_tile*' after the first 1" in theirs["reason"]
    assert row_of(document)["own_time_ns"] == pytest.approx(5_000)  # the profiler's failure does not touch the time
    own = [words for line in calls.read_text().splitlines() if "program.py" in (words := json.loads(line))]
    assert len(own) == 1
    for option, value in {
        "--target-processes": "all", "--kernel-name-base": "demangled", "--kernel-name": "regex:^.*warp_tile.*$",
        "--launch-skip": "1", "--launch-count": "1",
    }.items():  # fmt: skip
        assert own[0][own[0].index(option) + 1] == value
    assert own[0][-4:] == ["python", "program.py", "fine", "64"]
    whys = run.frame("metrics")
    assert set(whys[whys["variant"] == "theirs"]["why"]) == {"failed"}


def test_a_program_that_is_left_out_of_the_profile_has_its_time_and_says_so(project: Project) -> None:
    traced(project, four_launches)
    calls = project.tools / "ncu-calls"
    project.told("ncu", FAKE_NCU="no_kernels", FAKE_NCU_CALLS=calls)
    code, document, _, run = project.run(TRACES, "--only", "theirs", head=HEAD + "profile: {skip: [theirs]}\n")
    (theirs,) = document["variants"]
    assert (code, theirs["status"]) == (0, "ok")
    assert row_of(document)["own_time_ns"] == pytest.approx(5_000)
    started = [json.loads(line) for line in calls.read_text().splitlines()] if calls.is_file() else []
    assert not [words for words in started if "program.py" in words]
    assert run.manifest["profile"] == {"outcome": "nothing_to_profile", "skip": ["theirs"]}
    assert no_counters(RunData.load(run), "theirs") == "left_out"


def test_a_program_that_nsys_says_has_failed_has_no_time(project: Project) -> None:
    traced(project, four_launches)
    text = TRACES.replace("fine", "once")
    (project.folder / "program.py").write_text(
        PROGRAM + "first = not os.path.exists('ran')\nopen('ran', 'w').close()\nsys.exit(0 if first else 4)\n"
    )
    _, document, _, _ = project.run(text, "--skip", "profile")
    theirs = next(v for v in document["variants"] if v["name"] == "theirs")
    assert (theirs["status"], row_of(document)["own_time_ns"]) == ("launch_failed", None)
    assert "under nsys it ended with exit code 4, though not by itself" in theirs["reason"]
    assert os.path.exists(project.folder / "ran")


def test_a_name_that_ncu_refuses_is_left_out_and_asked_again(project: Project) -> None:
    traced(project, four_launches)
    calls = project.tools / "ncu-calls"
    project.told("ncu", FAKE_NCU="unknown", FAKE_NCU_CALLS=calls, FAKE_NCU_UNKNOWN="gpu__time_duration.sum")
    project.run(TRACES, "--only", "theirs")
    own = [words for line in calls.read_text().splitlines() if "program.py" in (words := json.loads(line))]
    asked = ["gpu__time_duration.sum" in words[words.index("--metrics") + 1].split(",") for words in own]
    assert asked == [True, False]


def test_refused_counters_leave_the_time_and_say_why(project: Project) -> None:
    traced(project, four_launches)
    project.told("ncu", FAKE_NCU="perm")
    code, document, _, run = project.run(TRACES, "--only", "theirs")
    assert code == 0
    assert row_of(document)["own_time_ns"] == pytest.approx(5_000)
    assert run.manifest["profile"]["outcome"] == "not_permitted"
    assert set(run.frame("metrics")["why"]) == {"not_permitted"}
