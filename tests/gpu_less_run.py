"""A run in hand without a GPU: hand-made experiment, a run directory, and a session with the fake worker."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from profiler.model import Experiment, Measure, ProblemRef, ProfileOptions, Variant
from profiler.problems.gemm import Gemm
from profiler.run import Run, Settings
from profiler.rundir import RunDir
from profiler.toolchain import Toolchain
from profiler.worker_session import WorkerSession

FAKE_WORKER = Path(__file__).parent / "fakes" / "worker.py"
SIZE = {"M": 64, "N": 64, "K": 64}
CHECK_SIZE = {"M": 67, "N": 131, "K": 35}


def make_experiment(*names: str) -> Experiment:
    """Return an FP32 GEMM ladder of CUDA variants with these names; the first is the baseline."""
    variants = tuple(Variant(name, "cuda", "fp32", source=Path(f"{name}.cu"), idea=f"idea of {name}") for name in names)
    problem = ProblemRef("gemm", None, {"layout": "nn"}, (SIZE,), (CHECK_SIZE,), {"distribution": "normal", "seed": 0})
    return Experiment(
        path=Path("made.yaml"), text="made", name="made", title="Made", problem=problem, baseline={"fp32": names[0]},
        measure=Measure(samples=3, warmup_ms=1), profile=ProfileOptions(), trace=False, variants=variants,
    )  # fmt: skip


def make_run(folder: Path, *names: str, timeout_s: float = 2.0, said: list[str] | None = None) -> Run:
    """Return a run whose variants are all alive."""
    experiment = make_experiment(*names)
    directory = RunDir.create(
        folder / "run",
        {
            "experiment": {"name": "made", "title": "Made", "file": "made.yaml", "text": "made"},
            "skips": {}, "baseline": {"fp32": names[0]}, "gpu": None, "tools": {}, "versions": {}, "notes": [],
            "arch": "sm_90a", "created": "2026-01-01T00:00:00+00:00", "problem": {"sizes": ["M=64,N=64,K=64"]},
        },
    )  # fmt: skip
    directory.write_frame(
        "variants",
        [
            {
                "name": v.name, "dtype": v.dtype, "kind": v.kind, "status": "ok", "reason": "", "verified": "no",
                "origin": "none", "order": i, "idea": v.idea, "params": "{}", "source_hash": f"hash-{v.name}",
            }
            for i, v in enumerate(experiment.variants)
        ],
    )  # fmt: skip
    say = (said if said is not None else []).append
    return Run(experiment, Gemm, directory, Settings(timeout_s=timeout_s), Toolchain(), None, say)


def fake_session(folder: Path, behaviour: Mapping[str, str]) -> WorkerSession:
    """Return a session with the fake worker."""
    env = {**os.environ, "FAKE_WORKER": json.dumps(dict(behaviour))}
    return WorkerSession([sys.executable, str(FAKE_WORKER)], env, folder / "worker.log")
