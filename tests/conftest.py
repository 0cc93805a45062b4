"""What all tests share: no test touches the user's cache, and none starts a real CUDA tool unless marked for it."""

from __future__ import annotations

import functools
import gc
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest

from profiler import process

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT.parent / "shared" / "samples"
TOOLS = frozenset(
    {"nvcc", "ptxas", "ncu", "nsys", "cuobjdump", "nvdisasm", "nvidia-smi", "compute-sanitizer", "ncu-ui", "cudafe++"}
)

# Two busy cores make any deadline a coin toss; the seed is fixed, so that a failure can be seen again.
hypothesis.settings.register_profile("kernel-ladder", deadline=None, derandomize=True, max_examples=60)
hypothesis.settings.load_profile("kernel-ladder")


def pytest_configure() -> None:
    """Heed Ctrl-C, here and in what tests start: whoever runs the tests in the background has it ignored; and let what
    tests start find this Python first.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The fakes are Python: this one, and not one that a version manager's shim looks for, ten times as slowly.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later search for garbage: it is large, and stays."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, and say why."""
    if item.get_closest_marker("gpu") and not has_gpu():
        pytest.skip("there is no NVIDIA GPU here")
    if item.get_closest_marker("nvcc") and not find_tool("nvcc"):
        pytest.skip("there is no nvcc here")
    if item.get_closest_marker("nvcc") and not (shutil.which("g++") or os.environ.get("NVCC_CCBIN")):
        pytest.skip("nvcc needs a C++ compiler, and there is no g++ here")
    if item.get_closest_marker("torch") and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if item.get_closest_marker("browser") and not browser():
        pytest.skip("there is no Chromium here")


def find_tool(name: str) -> str | None:
    """Return the path of a real CUDA tool: on PATH, in the usual place, or from a package of this environment."""
    packaged = [str(path) for path in Path(pytest.__file__).parents[1].glob("nvidia/cu*/bin")]
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin", *packaged]))


@functools.cache
def has_gpu() -> bool:
    """Return whether the driver lists a GPU."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return False
    done = subprocess.run([smi, "-L"], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode == 0 and "GPU 0" in done.stdout


def browser() -> str | None:
    """Return the path of a Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


_SUBPROCESS = {name: getattr(subprocess, name) for name in dir(subprocess) if not name.startswith("__")}
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _guarded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a cache of its own, and let only fakes stand in for the CUDA tools."""
    base = request.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    # A folder for each of thousands of tests takes longer than most of them: it is made only where it is asked for.
    asked = "tmp_path" in request.fixturenames
    cache = request.getfixturevalue("tmp_path") / "cache" if asked else base / f"cache-of-{next(_numbers)}"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("NO_COLOR", "1")
    if any(request.node.get_closest_marker(mark) for mark in ("gpu", "nvcc", "tools")):
        return
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)

    def popen(argv: Sequence[str], *args: Any, **kwargs: Any) -> subprocess.Popen[Any]:
        path = kwargs.get("env")
        found = shutil.which(argv[0], path=(path or os.environ).get("PATH"))
        allowed = found is None or Path(found).is_relative_to(base) or Path(found).is_relative_to(ROOT / "tests")
        if Path(argv[0]).name in TOOLS and not allowed:
            pytest.fail(f"the test started the real {argv[0]}; use the `fakes` fixture, or mark the test", pytrace=True)
        return subprocess.Popen(argv, *args, **kwargs)

    monkeypatch.setattr(process, "subprocess", SimpleNamespace(**{**_SUBPROCESS, "Popen": popen}))


class Fakes:
    """Programs that stand in for real ones, first on PATH; the real CUDA tools are out of sight."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        rest = [part for part in os.environ.get("PATH", "").split(os.pathsep) if part and not _has_tools(Path(part))]
        monkeypatch.setenv("PATH", os.pathsep.join([str(folder), *rest]))

    def add(self, name: str, script: str, *, shell: str = "#!/bin/sh") -> Path:
        """Write an executable of that name and return its path; ``script`` is the body of a shell script."""
        path = self.folder / name
        path.write_text(f"{shell}\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path


def _has_tools(folder: Path) -> bool:
    return any((folder / name).exists() for name in TOOLS)


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """Return a place for fake programs, first on PATH."""
    return Fakes(tmp_path / "fakes", monkeypatch)


@pytest.fixture(scope="session")
def samples() -> Path:
    """Return the folder of captured tool files; skip where it is not."""
    if not SAMPLES.is_dir():
        pytest.skip("the captured tool files are not here (../shared/samples)")
    return SAMPLES


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the top folder of the project."""
    return ROOT
