"""What the pipeline tells a worker: plain dicts that JSON can carry. No torch here; the pipeline imports this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from profiler.model import ProblemRef, Variant
from profiler.run import Run, cache_root
from profiler.sizes import size_key

LIBRARY_NAME = "variant.so"


def problem_spec(ref: ProblemRef) -> dict[str, Any]:
    """Return the problem: kind, file, options, init."""
    return {
        "kind": ref.kind,
        "file": str(ref.file) if ref.file else None,
        "options": dict(ref.options),
        "init": dict(ref.init),
    }


def problem_ref(spec: Mapping[str, Any]) -> ProblemRef:
    """Return the problem that :func:`problem_spec` described, on the worker's side of the pipe."""
    file = Path(spec["file"]) if spec["file"] else None
    return ProblemRef(spec["kind"], file, dict(spec["options"]), (), (), dict(spec["init"]))


def variant_spec(run: Run, variant: Variant) -> dict[str, Any]:
    """Return a variant: how to load and call it."""
    spec: dict[str, Any] = {
        "name": variant.name,
        "kind": variant.kind,
        "dtype": variant.dtype,
        "params": dict(variant.params),
        "source": str(variant.source) if variant.source else None,
        "function": variant.function,
        "library": None,
    }
    build = run.builds.get(variant.name)
    if build is not None:
        spec["library"] = str(cache_root() / "builds" / build["key"] / LIBRARY_NAME)
    return spec


def profile_spec(run: Run, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return what the profiled program is told: the pairs (variant, size key) in order; range ``kl.<index>`` is
    the index in ``pairs``.
    """
    listed = list(pairs)
    names = {name for name, _ in listed}
    dims = {size_key(size): dict(size) for size in run.experiment.problem.sizes}
    return {
        "problem": problem_spec(run.experiment.problem),
        "variants": [variant_spec(run, v) for v in run.variants if v.name in names],
        "pairs": [{"variant": name, "size": size, "dims": dims[size]} for name, size in listed],
        "seed": int(run.experiment.problem.init.get("seed", 0) or 0) + 7,
    }
