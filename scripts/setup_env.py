"""Sets up the virtual environment that the commands run in; standard library only, Python 3.11 and later.

It looks at the machine, makes a plan, prints it, and carries it out. What it did is stamped, so that the next call
costs a fraction of a second. Rules: a PyTorch that the machine already has for CUDA is used; PyTorch is installed only
where there is an NVIDIA GPU; the CUDA compiler, the disassemblers and the reader of ncu's reports only where none is
found.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMP = "kernel-ladder.json"
LEVELS = ("run", "test")


@dataclass(frozen=True)
class Machine:
    """What was found."""

    gpu: bool
    torch_site: Path | None  #: the folder of a PyTorch built for CUDA that this Python can import
    torch_cuda: str
    nvcc: str
    host_compiler: str
    disassemblers: bool
    ncu_reader: bool


@dataclass(frozen=True)
class Step:
    """One thing to do. ``need``: ``must`` ends the set-up when it fails, ``wanted`` is tried again next time,
    ``nice`` is not."""

    what: str
    argv: tuple[str, ...] = ()
    need: str = "must"
    without: str = ""  #: what its absence costs


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--level", choices=LEVELS, default="run", help="what to install for")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="the virtual environment (default: .venv)")
    parser.add_argument("--is-current", action="store_true", help="exit 0 when nothing is to be done, 1 otherwise")
    parser.add_argument("--print-plan", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--cpu-torch", metavar="VERSION", help="install this PyTorch, if it is built without CUDA")
    args = parser.parse_args()
    venv = Path(os.path.abspath(args.venv))
    if args.is_current:
        return 0 if is_current(venv, args.level) else 1
    if args.print_plan:
        for step in plan(inspect(venv), venv, args.level):
            print(f"- {step.what}")
        return 0
    if args.cpu_torch:
        return install_cpu_torch(venv, args.cpu_torch)
    try:
        venv.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(venv.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        place = "set KERNEL_LADDER_VENV to a place that can be written"
        print(f"set-up failed: no folder for {venv}: {error.strerror}\n  {place}", file=sys.stderr)
        return 3
    fcntl.flock(lock, fcntl.LOCK_EX)  # two first commands at once: the second waits, then finds all done
    try:
        if is_current(venv, args.level):
            return 0
        return carry_out(plan(inspect(venv), venv, args.level), venv, args.level)
    finally:
        os.close(lock)


# --- what is here ---------------------------------------------------------------------------------------------------


def inspect(venv: Path) -> Machine:
    """Return what the machine and the virtual environment have already."""
    site, cuda = torch_for_cuda()
    nvcc = find_tool("nvcc", venv)
    nsight = [Path(found).resolve().parent for found in [shutil.which("ncu")] if found]
    nsight += [*Path("/opt/nvidia/nsight-compute").glob("*"), *Path("/usr/local").glob("cuda*/nsight-compute*")]
    return Machine(
        gpu=bool(shutil.which("nvidia-smi")) and answers([shutil.which("nvidia-smi") or "", "-L"], "GPU 0"),
        torch_site=site,
        torch_cuda=cuda,
        nvcc=nvcc if nvcc and answers([nvcc, "--version"], "release") else "",
        host_compiler=shutil.which("g++") or shutil.which("clang++") or "",
        disassemblers=all(find_tool(name, venv) for name in ("cuobjdump", "nvdisasm")),
        ncu_reader=bool(
            [*venv.glob("lib/python3*/site-packages/ncu_report*")]
            or util.find_spec("ncu_report")
            or [path for folder in nsight for path in folder.glob("extras/python/ncu_report.py")]
        ),
    )


def torch_for_cuda() -> tuple[Path | None, str]:
    """Return the folder and the CUDA version of this Python's PyTorch; it is not imported, which takes seconds."""
    spec = util.find_spec("torch")
    if spec is None or not spec.origin:
        return None, ""
    version = Path(spec.origin).with_name("version.py")
    text = version.read_text(encoding="utf-8") if version.is_file() else ""
    found = re.search(r"^cuda\b[^=\n]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)
    return (Path(spec.origin).parent.parent, found[1]) if found else (None, "")


def find_tool(name: str, venv: Path) -> str:
    """Return the path of a CUDA tool where profiler/toolchain.py finds it: pinned or named by the environment, on
    PATH, in the usual places, or from a package."""
    pinned = os.environ.get("KERNEL_LADDER_TOOLS")
    if pinned is not None:
        return shutil.which(name, path=pinned) or ""
    compiler = os.environ.get("CUDACXX", "")
    folders = [str(Path(compiler).parent)] if compiler else []
    folders += [f"{os.environ[key]}/bin" for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    folders += [os.environ.get("PATH", ""), *map(str, Path("/usr/local").glob("cuda*/bin"))]
    folders += map(str, venv.glob("lib/python3*/site-packages/nvidia/cu*/bin"))
    return shutil.which(name, path=os.pathsep.join(folders)) or ""


def answers(argv: Sequence[str], expected: str) -> bool:
    """Whether a program runs, ends well and says what is expected: being on PATH is not enough."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and expected in done.stdout


def usable(venv: Path) -> bool:
    """Whether the virtual environment's Python starts and is recent enough."""
    test = "import sys; sys.exit(sys.version_info < (3, 11))"
    return (venv / "pyvenv.cfg").is_file() and answers([str(venv / "bin" / "python"), "-c", test], "")


# --- what to do -----------------------------------------------------------------------------------------------------


def plan(machine: Machine, venv: Path, level: str) -> list[Step]:
    """Return the steps, in order."""
    python = str(venv / "bin" / "python")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    shared = machine.torch_site is not None
    steps = []
    pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", str(constraints(venv)))
    wanted = [*project["dependencies"], *(extras["checks"] if level == "test" else [])]
    extra = "[checks]" if level == "test" else ""
    if shared and not missing(wanted):
        steps.append(Step("link the checkout (this machine's Python has all that it needs)"))
    else:
        steps.append(Step(f"install kernel-ladder{extra} and what it needs", (*pip, "-e", f"{ROOT}{extra}")))
    if not machine.nvcc:
        steps.append(Step("install the CUDA compiler", (*pip, *extras["nvcc"]), "wanted", "nothing can be built"))
    if not machine.disassemblers:
        without = "there is no instruction mix"
        steps.append(Step("install cuobjdump and nvdisasm", (*pip, *extras["disassemblers"]), "wanted", without))
    if not machine.ncu_reader:
        without = "counters can be read only where Nsight Compute is installed"
        steps.append(Step("install the reader of ncu's reports", (*pip, *extras["ncu"]), "nice", without))
    if machine.gpu and not shared:
        without = "nothing can be verified or timed on the GPU"
        steps.append(Step("install PyTorch for this machine's GPU", (*pip, *extras["gpu"]), "wanted", without))
    if not machine.host_compiler:
        hint = "install g++ (apt-get install g++)"
        steps.append(Step(f"note: there is no C++ compiler, which nvcc needs; {hint}", need="note"))
    if not usable(venv):
        if venv.exists() and not (venv / "pyvenv.cfg").exists() and any(venv.iterdir()):
            sys.exit(f"{venv} is there and is not a virtual environment; move it away")
        flags = ["--system-site-packages"] if shared else []
        flags += [] if any(step.argv for step in steps) else ["--without-pip"]
        why = f", which sees this machine's PyTorch (CUDA {machine.torch_cuda})" if shared else ""
        argv = (sys.executable, "-m", "venv", "--clear", *flags, str(venv))
        steps.insert(0, Step(f"make a virtual environment with {sys.executable}{why}", argv))
    elif any(step.argv for step in steps) and not answers([python, "-m", "pip", "--version"], "pip"):
        steps.insert(0, Step("add pip to the virtual environment", (python, "-m", "ensurepip")))
    return steps


def missing(requirements: Sequence[str]) -> list[str]:
    """Return the requirements that this Python does not meet (lower bounds and names only)."""
    lacking = []
    for text in requirements:
        found = re.match(r"([\w.-]+)(?:\[[^]]*])?\s*(?:>=\s*([\d.]+))?", text)
        if found is None:
            raise ValueError(text)
        try:
            have = metadata.version(found[1])
        except metadata.PackageNotFoundError:
            lacking.append(text)
            continue
        if numbers(have) < numbers(found[2] or "0"):
            lacking.append(text)
    return lacking


def numbers(version: str) -> tuple[int, ...]:
    """Return a version's leading numbers."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)


def constraints(venv: Path) -> Path:
    """Return the constraints to install with: all of them, or, beside a PyTorch of the machine's, those of the packages
    that the machine does not have (its versions stay: they fit its PyTorch)."""
    file = ROOT / "constraints.txt"
    return venv / "constraints.txt" if torch_for_cuda()[0] is not None else file


def write_shared(venv: Path) -> None:
    """Let the environment see this Python's packages, and write the constraints that leave them as they are."""
    site, _ = torch_for_cuda()
    if site is None:
        return
    here = {re.sub(r"[-_.]+", "-", dist.metadata["Name"] or "").lower() for dist in metadata.distributions()}
    kept = []
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() not in here:
            kept.append(line)
    (venv / "constraints.txt").write_text("\n".join(kept) + "\n", encoding="utf-8")
    # --system-site-packages gives the base Python's packages; when this Python is itself a virtual environment, its own
    # folders have to be named.
    folders = [path for path in sys.path if path and any(Path(path).glob("*.dist-info"))]
    folders = [path for path in dict.fromkeys([*folders, str(site)]) if Path(path).resolve().is_dir()]
    (site_packages(venv) / "_machine_packages.pth").write_text("\n".join(folders) + "\n", encoding="utf-8")


def site_packages(venv: Path) -> Path:
    """Return the environment's package folder."""
    return next(iter(sorted(venv.glob("lib/python3*/site-packages"))))


def link(venv: Path) -> None:
    """Make the checkout importable and write its commands, without pip and without a network."""
    (site_packages(venv) / "_kernel_ladder.pth").write_text(f"{ROOT}\n", encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, target in project["scripts"].items():
        module, _, function = target.partition(":")
        script = venv / "bin" / name
        body = f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        script.write_text(shebang(venv / "bin" / "python") + body, encoding="utf-8")
        script.chmod(0o755)


def shebang(python: Path) -> str:
    """Return the first lines of a script; a path that the system refuses there (blanks, length) goes by way of sh."""
    if len(str(python)) < 120 and not re.search(r"\s", str(python)):
        return f"#!{python}\n"
    return f"#!/bin/sh\n'''exec' {shlex.quote(str(python))} \"$0\" \"$@\"\n' '''\n"


# --- doing it -------------------------------------------------------------------------------------------------------


def carry_out(steps: Sequence[Step], venv: Path, level: str) -> int:
    """Carry out the steps; returns the exit code."""
    again = False
    if usable(venv) and not constraints(venv).exists():  # an environment made by hand, beside a PyTorch of the machine
        write_shared(venv)
    for step in steps:
        print(f"set-up: {step.what}", file=sys.stderr, flush=True)
        if step.need == "note":
            continue
        done = True
        if step.argv:
            done = subprocess.run(step.argv, check=False, stdout=sys.stderr).returncode == 0
        else:
            link(venv)
        if done and "venv" in step.argv:
            write_shared(venv)
        if not done and step.need == "must":
            needs = "a package index: is there a network?"
            if {"venv", "ensurepip"} & set(step.argv):
                needs = "Python's venv and ensurepip (apt-get install python3-venv)"
            print(f"set-up failed at: {step.what}\n  it needs {needs}", file=sys.stderr)
            return 3
        if not done:
            print(f"set-up: going on without it: {step.without}", file=sys.stderr)
            again |= step.need == "wanted"
    if not again:
        text = json.dumps({"key": key(venv), "level": level}) + "\n"
        (venv / STAMP).write_text(text, encoding="utf-8")
    return 0


def install_cpu_torch(venv: Path, version: str) -> int:
    """Install PyTorch unless the package index would bring the build for CUDA; returns 0 either way."""
    pip = [
        str(venv / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        f"torch=={version}",
    ]
    report = subprocess.run([*pip, "--dry-run", "--report", "-"], check=False, capture_output=True, text=True)
    if report.returncode != 0:
        print(f"set-up: no PyTorch {version} to be had; the tests that need it are skipped", file=sys.stderr)
        return 0
    names = [entry["metadata"]["name"].lower() for entry in json.loads(report.stdout)["install"]]
    if any(name.startswith(("nvidia-cu", "cuda-toolkit")) for name in names):
        print(f"set-up: PyTorch {version} would bring CUDA here; the tests that need it are skipped", file=sys.stderr)
        return 0
    if names:
        print(f"set-up: install PyTorch {version} (CPU)", file=sys.stderr, flush=True)
        subprocess.run(pip, check=True, stdout=sys.stderr)
    return 0


def key(venv: Path) -> str:
    """Return the hash of all that the set-up depends on."""
    digest = hashlib.sha256()
    for path in (ROOT / "pyproject.toml", ROOT / "constraints.txt", Path(__file__), venv / "pyvenv.cfg"):
        digest.update(path.read_bytes() if path.is_file() else b"-")
    digest.update(f"{ROOT}|{venv}|{bool(shutil.which('nvidia-smi'))}".encode())
    return digest.hexdigest()


def is_current(venv: Path, level: str) -> bool:
    """Whether the set-up of this level, or of a higher one, was done and nothing that it depends on has changed."""
    try:
        stamp = json.loads((venv / STAMP).read_text(encoding="utf-8"))
        done = LEVELS.index(stamp["level"])
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return stamp.get("key") == key(venv) and done >= LEVELS.index(level)


if __name__ == "__main__":
    sys.exit(main())
