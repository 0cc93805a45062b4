"""What tracing costs: the traced program alone, and the whole of it under Nsight Systems.

    python scripts/trace_overhead.py RUN [--pairs 3]

RUN is a finished run directory of this machine (its builds are still in the cache). Alternately starts the program of
the stage ``trace`` by itself, and as the stage does: under nsys, imported, exported, scrubbed and read into spans.
Exit code: 0 if tracing adds at most 20 % and 5 s, 1 if more, 3 without a GPU or nsys.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from profile_overhead import open_run  # noqa: E402

from profiler import process, trace  # noqa: E402
from profiler.profile import living_pairs  # noqa: E402
from profiler.profile_cache import Pair  # noqa: E402
from profiler.run import Run  # noqa: E402

SHARE, FIXED_S = 1.20, 5.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--pairs", type=int, default=3)
    chosen = parser.parse_args()
    run = open_run(chosen.run, [])
    nsys = run.toolchain.nsys
    if nsys is None:
        print(run.toolchain.why_missing("nsys"))
        return 3
    pairs = living_pairs(run)
    alone, traced = [], []
    for index in range(chosen.pairs):
        alone.append(untraced(run, pairs))
        began = time.monotonic()
        result = trace.with_nsys(run, nsys, pairs, stem="overhead")
        traced.append(time.monotonic() - began)
        if result.spans is None:
            sys.exit(result.trouble.message if result.trouble else "the trace holds nothing")
        print(f"pair {index}: alone {alone[-1]:.2f} s, traced {traced[-1]:.2f} s ({len(result.spans)} spans; "
              f"{result.seconds})", flush=True)  # fmt: skip
    before, after = statistics.median(alone), statistics.median(traced)
    most = SHARE * before + FIXED_S
    print(f"alone {before:.2f} s, traced {after:.2f} s: {after - before:+.2f} s; "
          f"{SHARE:g} times and {FIXED_S:g} s would be {most:.2f} s (medians of {chosen.pairs})")  # fmt: skip
    return 0 if after <= most else 1


def untraced(run: Run, pairs: list[Pair]) -> float:
    """Run the program by itself; return its seconds from nothing to its end."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        spec, timeout = trace.write_spec(run, pairs, folder)
        began = time.monotonic()
        done = process.run([*trace.program_argv(), str(spec)], timeout=timeout, env=trace.bare_environment(run, folder))
        if done.returncode:
            sys.exit(done.output)
        return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
