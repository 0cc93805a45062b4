"""scripts/ladder, scripts/test and .ci/run: what the set-up would do on machines of all kinds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / "scripts" / "setup_env.py"
NVCC = 'echo "Cuda compilation tools, release 13.0, V13.0.88"'
SMI = 'echo "GPU 0: NVIDIA H200 (UUID: GPU-1)"'


class Machine:
    """A machine whose tools are fakes: PATH holds them and a few plain programs, nothing else."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.site = folder / "site"
        self.venv = folder / "venv"
        self.bin.mkdir()
        self.site.mkdir()
        for name in ("sh", "dirname", "env"):
            (self.bin / name).symlink_to(shutil.which(name) or name)
        self.tool("python3", f'exec "{sys.executable}" "$@"')
        self.env = {
            "PATH": str(self.bin),
            "KERNEL_LADDER_VENV": str(self.venv),
            "KERNEL_LADDER_TOOLS": str(self.bin),
            "PYTHONPATH": str(self.site),
        }
        self.torch(None)  # hides the one of the machine that runs the tests

    def tool(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def toolkit(self) -> None:
        self.tool("nvcc", NVCC)
        for name in ("cuobjdump", "nvdisasm"):
            self.tool(name, "exit 0")

    def torch(self, cuda: str | None) -> None:
        (self.site / "torch").mkdir(exist_ok=True)
        (self.site / "torch" / "__init__.py").write_text(
            "raise RuntimeError('must not be imported')\n", encoding="utf-8"
        )
        text = f"__version__ = '2.11.0'\ncuda: Optional[str] = {cuda!r}\n"
        (self.site / "torch" / "version.py").write_text(text, encoding="utf-8")

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=60, check=False)

    def plan(self, script: str = "ladder") -> str:
        done = self.run("/bin/sh", str(ROOT / "scripts" / script), "--print-plan")
        assert done.returncode == 0, done.stderr
        assert not self.venv.exists()
        return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_bare_machine_gets_a_compiler_and_no_torch(machine: Machine) -> None:
    plan = machine.plan()
    assert "make a virtual environment with" in plan
    assert "install the CUDA compiler" in plan
    assert "install cuobjdump and nvdisasm" in plan
    assert "there is no C++ compiler" in plan
    assert "PyTorch" not in plan


def test_a_toolkit_and_a_compiler_are_used(machine: Machine) -> None:
    machine.toolkit()
    machine.tool("g++", "exit 0")
    plan = machine.plan()
    assert "the CUDA compiler" not in plan
    assert "cuobjdump" not in plan
    assert "C++" not in plan


@pytest.mark.parametrize("body", ["exit 1", 'echo "directory is not found"', "exit 127"])
def test_a_compiler_that_does_not_run_is_none(machine: Machine, body: str) -> None:
    machine.toolkit()
    machine.tool("nvcc", body)
    assert "install the CUDA compiler" in machine.plan()


def test_a_gpu_without_torch_gets_torch(machine: Machine) -> None:
    machine.tool("nvidia-smi", SMI)
    assert "install PyTorch for this machine's GPU" in machine.plan()


@pytest.mark.parametrize("body", ["exit 9", 'echo "No devices were found"', 'echo "NVIDIA-SMI has failed" >&2; exit 1'])
def test_a_driver_without_a_gpu_gets_no_torch(machine: Machine, body: str) -> None:
    machine.tool("nvidia-smi", body)
    assert "PyTorch" not in machine.plan()


@pytest.mark.parametrize("gpu", [True, False])
def test_the_torch_of_the_machine_is_used(machine: Machine, gpu: bool) -> None:
    machine.torch("13.0")
    if gpu:
        machine.tool("nvidia-smi", SMI)
    plan = machine.plan()
    assert "which sees this machine's PyTorch (CUDA 13.0)" in plan
    assert "install PyTorch" not in plan


def test_a_torch_without_cuda_does_not_serve_a_gpu(machine: Machine) -> None:
    machine.torch(None)
    machine.tool("nvidia-smi", SMI)
    plan = machine.plan()
    assert "which sees" not in plan
    assert "install PyTorch for this machine's GPU" in plan


def test_the_tests_install_what_they_need_and_never_torch(machine: Machine) -> None:
    plan = machine.plan("test")
    assert "kernel-ladder[checks]" in plan
    assert "PyTorch" not in plan


def test_an_old_python_is_refused_in_one_line(machine: Machine) -> None:
    machine.tool("python3", "exit 1")
    done = machine.run("/bin/sh", str(ROOT / "scripts" / "ladder"), "--print-plan")
    assert done.returncode == 3
    assert done.stderr == "kernel-ladder needs Python 3.11 or later, and found none on PATH\n"


def test_another_python_is_found_when_python3_is_old(machine: Machine) -> None:
    machine.tool("python3", "exit 1")
    machine.tool("python3.12", f'exec "{sys.executable}" "$@"')
    assert "make a virtual environment" in machine.plan()


def test_a_folder_that_is_no_environment_is_left_alone(machine: Machine) -> None:
    machine.venv.mkdir()
    (machine.venv / "thesis.txt").write_text("mine", encoding="utf-8")
    done = machine.run(sys.executable, str(SETUP), "--venv", str(machine.venv))
    assert done.returncode != 0
    assert "is not a virtual environment" in done.stderr
    assert (machine.venv / "thesis.txt").read_text(encoding="utf-8") == "mine"


def test_a_python_without_venv_is_one_line(machine: Machine) -> None:
    machine.tool("python3", f'case "$*" in *"-m venv"*) exit 1;; esac\nexec "{sys.executable}" "$@"')
    broken = f"import sys, runpy; sys.executable = {str(machine.bin / 'python3')!r}; sys.argv = sys.argv[1:]; "
    broken += f"runpy.run_path({str(SETUP)!r}, run_name='__main__')"
    done = machine.run(sys.executable, "-c", broken, "setup", "--venv", str(machine.venv))
    assert done.returncode == 3
    assert "apt-get install python3-venv" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["/proc/nothing/venv", "/dev/null/venv"])
def test_a_place_that_cannot_be_written_is_one_line(machine: Machine, place: str) -> None:
    machine.env["KERNEL_LADDER_VENV"] = place
    done = machine.run("/bin/sh", str(ROOT / "scripts" / "ladder"), "--setup-only")
    assert done.returncode == 3
    assert f"set-up failed: no folder for {place}" in done.stderr
    assert "KERNEL_LADDER_VENV" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_network_is_one_line(machine: Machine) -> None:
    """pip is pointed at an index that is not there."""
    machine.toolkit()
    machine.tool("g++", "exit 0")
    machine.env.update(PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS=str(machine.bin))
    done = machine.run("/bin/sh", str(ROOT / "scripts" / "ladder"))
    assert done.returncode == 3
    assert "set-up failed at: install kernel-ladder" in done.stderr
    assert "is there a network?" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def linked(machine: Machine) -> Machine:
    """Return a machine whose Python has all that is needed, a PyTorch for CUDA included: nothing is fetched."""
    machine.toolkit()
    machine.tool("g++", "exit 0")
    machine.torch("13.0")
    machine.env.update(PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    (machine.site / "ncu_report.py").write_text("", encoding="utf-8")
    return machine


def test_a_machine_that_has_all_needs_no_network(linked: Machine) -> None:
    ladder = str(ROOT / "scripts" / "ladder")
    plan = linked.plan()
    assert "link the checkout" in plan
    done = linked.run("/bin/sh", ladder, "--setup-only")
    assert done.returncode == 0, done.stderr
    assert json.loads((linked.venv / "kernel-ladder.json").read_text(encoding="utf-8"))["level"] == "run"
    help_text = linked.run(str(linked.venv / "bin" / "compare_runs"), "--help")
    assert help_text.returncode == 0, help_text.stderr
    assert "BEFORE" in help_text.stdout

    # The second call has nothing to do, and says nothing; a higher level has.
    started = time.monotonic()
    again = linked.run("/bin/sh", ladder, "--setup-only")
    assert time.monotonic() - started < 1
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    current = [str(linked.venv / "bin" / "python"), str(SETUP), "--venv", str(linked.venv), "--is-current"]
    assert linked.run(*current, "--level", "run").returncode == 0
    assert linked.run(*current, "--level", "test").returncode == 1
    linked.tool("nvidia-smi", SMI)  # a GPU has come
    assert linked.run(*current, "--level", "run").returncode == 1


def test_the_commands_start_from_a_folder_with_blanks(linked: Machine) -> None:
    venv = linked.venv.with_name("an environment's folder")
    done = linked.run(str(linked.bin / "python3"), str(SETUP), "--venv", str(venv))
    assert done.returncode == 0, done.stderr
    help_text = linked.run(str(venv / "bin" / "compare_runs"), "--help")
    assert help_text.returncode == 0, help_text.stderr
    assert "BEFORE" in help_text.stdout


def test_a_broken_environment_is_made_anew(linked: Machine) -> None:
    (linked.venv / "bin").mkdir(parents=True)
    (linked.venv / "pyvenv.cfg").write_text("home = /nowhere\n", encoding="utf-8")
    (linked.venv / "bin" / "python").symlink_to("/nowhere/python3")
    done = linked.run("/bin/sh", str(ROOT / "scripts" / "ladder"), "--setup-only")
    assert done.returncode == 0, done.stderr
    assert linked.run(str(linked.venv / "bin" / "python"), "-c", "import profiler").returncode == 0


def test_constraints_leave_the_packages_of_the_machine_alone(linked: Machine) -> None:
    assert linked.run("/bin/sh", str(ROOT / "scripts" / "ladder"), "--setup-only").returncode == 0
    text = (linked.venv / "constraints.txt").read_text(encoding="utf-8")
    assert "nvidia-cuda-nvcc==13.0.88" in text
    assert "numpy==" not in text
    assert "numpy==" in (ROOT / "constraints.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", ["scripts/ladder", "scripts/test", "scripts/common.sh"])
def test_the_shell_reads_the_scripts(script: str) -> None:
    assert subprocess.run(["sh", "-n", str(ROOT / script)], check=False).returncode == 0


@pytest.mark.parametrize("script", ["ladder", "test"])
def test_help_sets_up_nothing(machine: Machine, script: str) -> None:
    machine.tool("sed", f'exec "{shutil.which("sed")}" "$@"')
    found = subprocess.run(
        ["sh", str(ROOT / "scripts" / script), "--help"], env=machine.env, capture_output=True, text=True, check=True
    )
    assert "--print-plan" in found.stdout
    assert "set -eu" not in found.stdout
    assert not machine.venv.exists()


def test_bash_reads_the_ci_script() -> None:
    assert subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=False).returncode == 0


@pytest.mark.parametrize("script", ["scripts/ladder", "scripts/test", ".ci/run"])
def test_the_scripts_can_be_executed(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)


@pytest.fixture
def pretended(machine: Machine) -> Machine:
    """Return a machine whose environment is set up, and whose Python says what it was called with and exits with 4."""
    (machine.venv / "bin").mkdir(parents=True)
    fake = machine.venv / "bin" / "python"
    fake.write_text('#!/bin/sh\ncase "$*" in *--is-current*) exit 0;; esac\necho "$*"\nexit 4\n', encoding="utf-8")
    fake.chmod(0o755)
    return machine


def test_all_tests_run_the_fast_ones_first_and_their_exit_code_counts(pretended: Machine) -> None:
    done = pretended.run("/bin/sh", str(ROOT / "scripts" / "test"))
    beside, alone = done.stdout.splitlines()
    assert beside.startswith("-m pytest -q -n auto --maxprocesses 4 --dist loadfile tests/unit tests/cli")
    assert alone == "-m pytest -q tests/gpu"
    folders = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/**/test_*.py")}
    assert folders == {word for word in (*beside.split(), *alone.split()) if word.startswith("tests/")}
    assert done.returncode == 4


def test_arguments_are_passed_on(pretended: Machine) -> None:
    done = pretended.run("/bin/sh", str(ROOT / "scripts" / "test"), "tests/unit", "-k", "a or b")
    assert done.stdout == "-m pytest tests/unit -k a or b\n"
    ladder = pretended.venv / "bin" / "run_experiment"
    ladder.write_text('#!/bin/sh\necho "$*"\nexit 3\n', encoding="utf-8")
    ladder.chmod(0o755)
    done = pretended.run("/bin/sh", str(ROOT / "scripts" / "ladder"), "--only", "naive")
    assert (done.stdout, done.returncode) == ("gemm_ladder.yaml --only naive\n", 3)


def test_a_hand_made_environment_beside_a_torch_of_the_machine_is_used(linked: Machine) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(linked.venv)], check=True)
    done = linked.run("/bin/sh", str(ROOT / "scripts" / "ladder"), "--setup-only")
    assert done.returncode == 0, done.stderr
    assert "make a virtual environment" not in done.stderr
    assert (linked.venv / "constraints.txt").is_file()


def test_a_wheel_carries_the_kernels_and_the_experiments_once(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    data = "profiler/_data"
    kernels = [f"{data}/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("kernels/**/*.cu")]
    beside = (path for path in ROOT.glob("experiments/*/**/*") if path.is_file() and "__pycache__" not in path.parts)
    of_experiments = [*ROOT.glob("experiments/*.yaml"), *(path for path in beside if "recorded" not in path.parts)]
    experiments = [f"{data}/{path.relative_to(ROOT).as_posix()}" for path in of_experiments]
    assert kernels
    assert experiments
    assert {*kernels, *experiments} <= set(names)
    assert len(names) == len(set(names))
    recorded = [name for name in names if name.startswith(f"{data}/experiments/recorded/")]
    assert [name for name in recorded if name.split("/")[5] != "gemm_ladder"] == []
    assert "reports/assets/plotly-cartesian.min.js" in names
    assert [name for name in names if name.startswith(("tests/", "scripts/", "kernels/"))] == []
