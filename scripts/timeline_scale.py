#!/usr/bin/env python3
"""How long a large export of Nsight Systems takes to become a page: ``scripts/timeline_scale.py [KERNELS]``.

Generates an export (a call for each kernel, copies and ranges besides), reads, analyses and renders it, and prints the
seconds of each step, the peak of memory and the size of the page. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from profiler.analysis.rundata import RunData  # noqa: E402
from profiler.foreign_nsys import frames_of  # noqa: E402
from profiler.nsys_export import read_export  # noqa: E402
from reports.render import render_foreign  # noqa: E402
from tests.make_nsys import large  # noqa: E402


def measure(source: Path, target: Path) -> dict[str, float]:
    """Read and render an export; return seconds and sizes."""
    at = [time.monotonic()]
    export = read_export(source)
    at.append(time.monotonic())
    data = frames_of(source, export, judged=False)
    render_foreign(RunData(data.manifest, spans=data.spans), target)
    at.append(time.monotonic())
    return {
        "export_MB": round(source.stat().st_size / 1e6, 1),
        "spans": len(data.spans),
        "read_s": round(at[1] - at[0], 2),
        "analyse_and_render_s": round(at[2] - at[1], 2),
        "cpu_s": round(time.process_time(), 2),
        "peak_GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "page_MB": round(target.stat().st_size / 1e6, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="?", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kernel-ladder-") as folder:
        source = Path(folder) / "large.sqlite"
        large(source, arguments.kernels)
        print(json.dumps(measure(source, source.with_suffix(".html")), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
