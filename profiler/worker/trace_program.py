"""The program that is traced: launches each (variant, size) some times back to back, as an application would.

``python -m profiler.worker.trace_program SPEC.json [--cupti TRACE.json]``. All launches of pair ``i`` lie in a range
``kl.<i>``, each in a range of its own inside it; one synchronisation ends the range, so that what it asked for has run.
Inputs, warm-up and loading lie before it. A pair that fails leaves a line in ``<SPEC>.status`` and the rest go on.

With ``--cupti`` PyTorch's profiler records the same ranges: the way where there is no Nsight Systems.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import nvtx
import torch

from profiler.ncu_command import DOMAIN, LAUNCH_RANGE, range_name
from profiler.problem_file import problem_class
from profiler.worker.cases import Case, make_inputs
from profiler.worker.checks import make_buffers
from profiler.worker.launchable import load
from profiler.worker.spec import problem_ref

#: A pair is launched for about so long, but so often at least and at most.
_SECONDS, _LEAST, _MOST = 0.25, 3, 50


def main(argv: list[str] | None = None) -> int:
    """Run the pairs of a spec file; return 0 when every pair was launched."""
    parser = argparse.ArgumentParser(prog="python -m profiler.worker.trace_program", description=__doc__)
    parser.add_argument("spec", type=Path)
    parser.add_argument("--cupti", type=Path, help="record with PyTorch's profiler into this file")
    arguments = parser.parse_args(argv)
    spec: dict[str, Any] = json.loads(arguments.spec.read_text(encoding="utf-8"))
    _end_with_parent(float(spec.get("timeout_s", 1800.0)))
    began = time.monotonic()
    if arguments.cupti is None:
        failed = _pairs(spec, arguments.spec, lambda name: nvtx.annotate(message=name, domain=DOMAIN))
    else:
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as recorder:
            failed = _pairs(spec, arguments.spec, torch.profiler.record_function)
        recorder.export_chrome_trace(str(arguments.cupti))
    with _status(arguments.spec).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"seconds": round(time.monotonic() - began, 3), "torch": torch.__version__}) + "\n")
    return 1 if failed else 0


def _pairs(spec: dict[str, Any], spec_path: Path, mark: Callable[[str], AbstractContextManager[Any]]) -> int:
    """Launch every pair; return how many failed. ``mark`` makes a range that the tracer sees, by its name."""
    ref = problem_ref(spec["problem"])
    problem = problem_class(ref)
    options = dict(ref.options)
    variants = {v["name"]: v for v in spec["variants"]}
    cases: dict[tuple[str, str], Case] = {}
    stream = torch.cuda.Stream()
    status: list[str] = []
    failed = 0
    for index, pair in enumerate(spec["pairs"]):
        variant_spec = variants[pair["variant"]]
        contract, dims = variant_spec["dtype"], pair["dims"]
        try:
            key = (contract, pair["size"])
            if key not in cases:
                cases.clear()
                made = make_inputs(problem, dims, contract, options, dict(ref.init), spec["seed"], "cuda")
                cases[key] = Case(made)
            buffers = make_buffers(problem, cases[key], contract, dims, options)
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                bound = load(variant_spec, problem, options).bind(buffers.inputs, buffers.tensors(), dims)
                bound.launch()  # modules load, libraries choose their algorithm, Triton compiles
                torch.cuda.synchronize()
                began = time.perf_counter()
                bound.launch()
                torch.cuda.synchronize()
                once = time.perf_counter() - began
                launches = max(_LEAST, min(_MOST, int(_SECONDS / max(once, 1e-6))))
                buffers.restore()
                torch.cuda.synchronize()
                each = [mark(LAUNCH_RANGE) for _ in range(launches)]  # made before, for making one takes longest
                with mark(range_name(index)):
                    for one in each:
                        with one:
                            bound.launch()
                    torch.cuda.synchronize()
                bound.close()
            status.append(json.dumps({"index": index, "status": "ok", "launches": launches}))
        except Exception as error:  # user code may raise anything; the other pairs go on
            failed += 1
            reason = f"{type(error).__name__}: {error}"
            status.append(json.dumps({"index": index, "status": "failed", "reason": reason}))
        _status(spec_path).write_text("\n".join(status) + "\n", encoding="utf-8")
    return failed


def _status(spec: Path) -> Path:
    return spec.with_suffix(".status")


def _end_with_parent(timeout_s: float) -> None:
    """End this process when the tracer that started it is gone, or time is up: a tracer that is killed may leave its
    program behind, with the GPU in its hands.
    """
    parent, deadline = os.getppid(), time.monotonic() + timeout_s

    def watch() -> None:
        while os.getppid() == parent and time.monotonic() < deadline:
            time.sleep(0.5)
        os._exit(124)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    import sys

    sys.exit(main())
