"""Runs of one variant typed by hand: counters, metrics of the binary, instructions and rules, as frames hold them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from profiler.analysis.kernels import Kernel, kernels
from profiler.analysis.rundata import RunData

SIZE = "M=4096,N=4096,K=4096"
NAME = "tile"
KERNEL = "void tile<(bool)0>(const float *, float *)"
FP32_BYTES = 3 * 4096 * 4096 * 4


def run_data(
    counters: Mapping[str, float | str] | None = None,
    binary: Mapping[str, float | str] | None = None,
    *,
    params: Mapping[str, Any] | None = None,
    instructions: Sequence[Mapping[str, Any]] = (),
    rules: Sequence[Mapping[str, Any]] = (),
    kernel: str = KERNEL,
    more_kernels: Mapping[str, Mapping[str, float | str]] | None = None,
    size: str = SIZE,
    manifest: Mapping[str, Any] | None = None,
    **variant: Any,
) -> RunData:
    """Return a run of the variant ``tile``; a text instead of a number is the ``why`` of a missing value.

    ``counters`` None: nothing was profiled; ``binary`` None: nothing is known of the binary.
    """
    row = {
        "name": NAME, "dtype": "fp32", "kind": "cuda", "status": "ok", "reason": None, "verified": "yes",
        "origin": "measured", "order": 0, "idea": "", "params": json.dumps(dict(params or {})), "source_hash": "s" * 64,
        "binary_hash": "b" * 64, **variant,
    }  # fmt: skip
    metrics = [_metric(name, value, kernel, 0, size, "ncu") for name, value in (counters or {}).items()]
    listed = [(KERNEL, binary or {}), *(more_kernels or {}).items()]
    for index, (name, values) in enumerate(listed):
        metrics += [_metric(key, value, name, index, "", key.partition(".")[0]) for key, value in values.items()]
    base = {
        "variant": NAME, "size": size, "launch": 0, "kernel": kernel, "file": None, "line": None, "pc": 0, "sass": "",
        "executed": None, "samples": None, "samples_by_reason": None, "sectors": None, "excess_sectors": None,
        "shared_wavefronts": None, "excess": None,
    }  # fmt: skip
    document = {
        "arch": "sm_90a",
        "gpu": {"sm_count": 132},
        "problem": {
            "dims": ["M", "N", "K"], "sizes": [size], "flops": {SIZE: 2 * 4096**3},
            "min_bytes": {"fp32": {SIZE: FP32_BYTES}, "bf16": {SIZE: FP32_BYTES // 2}},
        },
        **(manifest or {}),
    }  # fmt: skip
    rule = {
        "variant": NAME,
        "size": size,
        "launch": 0,
        "rule": "R",
        "title": "",
        "message": "",
        "kind": "",
        "speedup": None,
    }
    return RunData(
        document,
        {
            "variants": [row],
            "metrics": metrics,
            "source": [{**base, **one} for one in instructions],
            "rules": [{**rule, **one} for one in rules],
        },
    )


def kernel_of(*args: Any, **kwargs: Any) -> Kernel:
    """Return the first kernel of such a run."""
    return kernels(run_data(*args, **kwargs), NAME, kwargs.get("size", SIZE))[0]


def _metric(name: str, value: float | str, kernel: str, launch: int, size: str, origin: str) -> dict[str, Any]:
    missing = isinstance(value, str)
    return {
        "variant": NAME, "size": size, "launch": launch, "kernel": kernel, "metric": name,
        "value": None if missing else float(value), "text": None, "unit": "", "origin": origin,
        "why": value if missing else None,
    }  # fmt: skip
