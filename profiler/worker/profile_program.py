"""The program under Nsight Compute: launches each (variant, size) once inside an NVTX range of its own.

``python -m profiler.worker.profile_program SPEC.json``. The range of pair ``i`` is pushed in the domain
``kernel-ladder`` and named ``kl.<i>`` with ``i`` zero-padded to four digits; warm-up happens before it. A pair that
fails leaves a line in ``<SPEC>.status`` and the rest go on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nvtx
import torch

from profiler.ncu_command import DOMAIN, range_name
from profiler.problem_file import problem_class
from profiler.worker.cases import Case, make_inputs
from profiler.worker.checks import make_buffers
from profiler.worker.launchable import load
from profiler.worker.spec import problem_ref


def main(argv: list[str] | None = None) -> int:
    """Run the pairs of a spec file; return 0 when every pair was launched."""
    spec_path = Path((argv or sys.argv[1:])[0])
    spec: dict[str, Any] = json.loads(spec_path.read_text(encoding="utf-8"))
    ref = problem_ref(spec["problem"])
    problem = problem_class(ref)
    options = dict(ref.options)
    variants = {v["name"]: v for v in spec["variants"]}
    failed = 0
    status: list[str] = []
    cases: dict[tuple[str, str], Case] = {}
    stream = torch.cuda.Stream()
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
                buffers.restore()
                torch.cuda.synchronize()
                with nvtx.annotate(message=range_name(index), domain=DOMAIN):
                    bound.launch()
                    torch.cuda.synchronize()
                bound.close()
            status.append(json.dumps({"index": index, "status": "ok"}))
        except Exception as error:  # user code may raise anything; the other pairs go on
            failed += 1
            status.append(
                json.dumps({"index": index, "status": "failed", "reason": f"{type(error).__name__}: {error}"})
            )
        spec_path.with_suffix(".status").write_text("\n".join(status) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
