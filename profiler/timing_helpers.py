"""The helper kernels of the timing method and of the ceilings: built like a variant, into the same cache."""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

from profiler import process
from profiler.build import build_folder, host_argument, nvcc_argv
from profiler.hashing import digest
from profiler.model import BuildOptions
from profiler.run import Run
from profiler.toolchain import library_folder, tool_env

SOURCE = Path(__file__).resolve().parent / "worker" / "helpers.cu"


def helper_library(run: Run) -> str | None:
    """Return the path of the helpers for this GPU, built when needed; None where they cannot be built.

    Without them the worker hides host dispatch behind ``torch.cuda._sleep`` and reads no SM clock, and says so.
    """
    library, why = build_library(run, SOURCE)
    if why:
        run.say(f"the timing helpers do not build ({why}); timing goes on without them")
    return library


def build_library(run: Run, source: Path) -> tuple[str | None, str]:
    """Return the path of a library of our own for this GPU, from the cache or built; or None and why it failed.

    Both are empty where there is no compiler or no GPU.
    """
    nvcc = run.toolchain.nvcc
    if nvcc is None or run.gpu is None:
        return None, ""
    name = source.stem
    key = digest([name, hashlib.sha256(source.read_bytes()).hexdigest(), nvcc.version, run.gpu.arch])
    library = build_folder(key) / f"{name}.so"
    if library.is_file():
        run.detail(f"{name}: build {key[:12]}: in the cache")
        return str(library), ""
    library.parent.mkdir(parents=True, exist_ok=True)
    partial = library.with_name(f".{os.getpid()}.{threading.get_ident()}.partial.so")
    argv = nvcc_argv(
        nvcc.path,
        source=str(source),
        output=str(partial),
        arch=run.gpu.arch,
        options=BuildOptions(),
        params={},
        include=[],
        ccbin=host_argument(run.toolchain, tool_env(run.toolchain)),
        library=library_folder(nvcc.path),
    )
    try:
        done = process.run(argv, timeout=run.settings.timeout_s, env=tool_env(run.toolchain), label="nvcc")
    except process.ToolMissing as error:
        return None, str(error)
    if done.returncode != 0 or not partial.is_file():
        run.dir.raw(f"build/{name}.log").write_text(done.output, encoding="utf-8")
        return None, process.describe_exit(done.returncode)
    partial.replace(library)
    return str(library), ""
