#!/usr/bin/env python3
"""Compare what it takes to turn a .ncu-rep into frames with what NVIDIA's reader alone needs for the same values.

    scripts/reader_overhead.py FILE [--rounds 5] [--json]

The reader alone: a process that loads the file, asks every scalar metric for its value and unit, and builds the table
per source line of executed instructions, samples by stall reason, sectors and wavefronts, with the disassembly behind
it, as the frames have it. Frames: a process that calls profiler.load_ncu_report. Both start afresh each time, in turn;
the ratio is that of the medians. The second pair of figures leaves the disassembly out on both sides.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from profiler import process  # noqa: E402

_READER = """
import sys, ncu_report
path, with_sass = sys.argv[1], sys.argv[2] == "sass"
SECTORS, WAVEFRONTS = "memory_l2_theoretical_sectors_global", "memory_l1_wavefronts_shared"
PER_PC = {"inst_executed", "smsp__pcsamp_sample_count", SECTORS, SECTORS + "_ideal", WAVEFRONTS, WAVEFRONTS + "_ideal"}
scalars, lines, listing = [], {}, {}
for group in ncu_report.load_report(path):
    for number, action in enumerate(group):
        places = {}
        for name in action.metric_names():
            metric = action.metric_by_name(name)
            scalars.append((number, name, metric.value(), metric.unit()))
            stall = name.startswith("smsp__pcsamp_warps_issue_stalled_") and not name.endswith("_not_issued")
            if not (stall or name in PER_PC):
                continue
            ids = metric.correlation_ids()
            for i in range(metric.num_instances()):
                pc, value = ids.value(i), metric.value(i)
                if pc not in places:
                    info = action.source_info(pc)
                    places[pc] = (info.file_name(), info.line()) if info else (None, None)
                    if with_sass:
                        listing[number, pc] = action.sass_by_pc(pc)
                key = (number, places[pc], name)
                lines[key] = lines.get(key, 0) + value
assert scalars
"""
_FRAMES = """
import sys
sys.path.insert(0, sys.argv[2])
import profiler
frames = profiler.load_ncu_report(sys.argv[1], sass=sys.argv[3] == "sass")
assert len(frames.metrics)
"""


def main(argv: list[str]) -> int:
    """Measure, print the medians and the ratio, return 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    result = measure(args.file, args.rounds)
    if args.json:
        print(json.dumps(result))
    else:
        print(f"{args.file.name}: {args.rounds} rounds, medians")
        for label, tail in (("with the disassembly", ""), ("without it", "_without_sass")):
            frames, alone = result[f"frames{tail}_s"], result[f"reader{tail}_s"]
            print(f"  {label:22} frames {frames:.2f} s, reader alone {alone:.2f} s, ratio {result[f'ratio{tail}']:.2f}")
    return 0


def measure(file: Path, rounds: int = 5, quick: bool = False) -> dict[str, float]:
    """Return the median seconds of the frames and of the reader alone, and their ratios; ``quick``: one pair only."""
    programs = {
        "frames": (_FRAMES, (str(ROOT), "sass")),
        "reader": (_READER, ("sass",)),
        "frames_without_sass": (_FRAMES, (str(ROOT), "plain")),
        "reader_without_sass": (_READER, ("plain",)),
    }
    if quick:
        programs = {name: program for name, program in programs.items() if "without" not in name}
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1 if quick else 0, rounds + 1):
            for name, (program, arguments) in programs.items():
                script = Path(folder) / f"{name}.py"
                script.write_text(program, encoding="utf-8")
                started = time.perf_counter()
                done = process.run([sys.executable, str(script), str(file.resolve()), *arguments], timeout=300)
                if done.returncode:
                    raise SystemExit(f"{name} failed: {process.tail(done.stderr, 1)}")
                if number:  # the first round only fills the caches of the file system
                    seconds[name].append(time.perf_counter() - started)
    middle = {name: statistics.median(values) for name, values in seconds.items()}
    result = {f"{name}_s": value for name, value in middle.items()} | {"ratio": middle["frames"] / middle["reader"]}
    if not quick:
        result["ratio_without_sass"] = middle["frames_without_sass"] / middle["reader_without_sass"]
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
