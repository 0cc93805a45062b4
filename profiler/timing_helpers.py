"""The helper kernels of the timing method: built like a variant, into the same cache."""

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
_LIBRARY = "helpers.so"


def helper_library(run: Run) -> str | None:
    """Return the path of the helpers for this GPU, built when needed; None where they cannot be built.

    Without them the worker hides host dispatch behind ``torch.cuda._sleep`` and reads no SM clock, and says so.
    """
    nvcc = run.toolchain.nvcc
    if nvcc is None or run.gpu is None:
        return None
    key = digest(["helpers", hashlib.sha256(SOURCE.read_bytes()).hexdigest(), nvcc.version, run.gpu.arch])
    library = build_folder(key) / _LIBRARY
    if library.is_file():
        return str(library)
    library.parent.mkdir(parents=True, exist_ok=True)
    partial = library.with_name(f".{os.getpid()}.{threading.get_ident()}.partial.so")
    argv = nvcc_argv(
        nvcc.path,
        source=str(SOURCE),
        output=str(partial),
        arch=run.gpu.arch,
        options=BuildOptions(),
        params={},
        include=[],
        ccbin=host_argument(run.toolchain, tool_env(run.toolchain)),
        library=library_folder(nvcc.path),
    )
    done = process.run(argv, timeout=run.settings.timeout_s, env=tool_env(run.toolchain), label="nvcc")
    if done.returncode != 0 or not partial.is_file():
        run.say(
            f"the timing helpers do not build ({process.describe_exit(done.returncode)}); timing goes on without them"
        )
        run.dir.raw("build").mkdir(exist_ok=True)
        run.dir.raw("build/timing-helpers.log").write_text(done.output, encoding="utf-8")
        return None
    partial.replace(library)
    return str(library)
