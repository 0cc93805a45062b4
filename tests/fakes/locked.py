"""Holds the fake card's clock locked in a process of its own, until it is ended: ``locked.py FOLDER HOW``.

HOW is what ends it from inside (``return``, ``error``, ``exit``), or ``wait``, until a signal comes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE)]

import nvml  # noqa: E402
from gpu_less_run import make_run  # noqa: E402

from profiler.clocks import clocks_for  # noqa: E402
from profiler.run import Settings  # noqa: E402
from profiler.toolchain import Gpu  # noqa: E402


def main(folder: Path, how: str) -> None:
    run = make_run(folder, "a")
    run.gpu = Gpu(0, "Fake H200", "GPU-fake", (9, 0), "580", 1)
    run.settings = Settings(lock_clocks=how != "without")
    with clocks_for(run, nvml):
        print("locked", flush=True)
        if how == "error":
            raise RuntimeError("a stage failed")
        if how == "exit":
            sys.exit(7)
        if how == "wait":
            time.sleep(60)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
