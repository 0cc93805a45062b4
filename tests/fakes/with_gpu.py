"""``run_experiment`` on a machine that seems to have a GPU: the driver, the worker and the tools are fakes.

``python tests/fakes/with_gpu.py ARGS...``; FAKE_WORKER steers the worker, FAKE_NCU and FAKE_NVCC the tools;
FAKE_NVML puts a management library in place.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from profiler import clocks, gpu, pipeline  # noqa: E402
from profiler.cli import run_experiment  # noqa: E402
from profiler.toolchain import Gpu  # noqa: E402

FAKE_GPU = Gpu(0, "NVIDIA H200", "GPU-fake", (9, 0), "580.159", 150 << 30)


def pretend() -> None:
    """Put the fakes in place."""
    gpu.find_gpus = lambda env=None, nvml=None: ([FAKE_GPU], None)
    if "FAKE_NVML" in os.environ:
        from tests.fakes import nvml

        clocks.load_nvml = lambda: nvml
    pipeline.worker_argv = lambda: [sys.executable, str(HERE / "worker.py")]


if __name__ == "__main__":
    pretend()
    sys.exit(run_experiment.main(sys.argv[1:]))
