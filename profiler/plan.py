"""Stage plan: the run directory with every variant as a row, before anything is built."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from profiler import __version__, arithmetic, frames
from profiler.errors import UsageError
from profiler.hashing import source_hash
from profiler.model import Experiment, Variant
from profiler.problem import Problem
from profiler.problem_file import problem_class
from profiler.run import Settings, params_text
from profiler.rundir import RunDir
from profiler.sizes import size_key
from profiler.toolchain import Gpu, Tool, Toolchain

DEFAULT_ARCH = "sm_90a"


def make_run(
    experiment: Experiment,
    settings: Settings,
    toolchain: Toolchain,
    gpu: Gpu | None,
    runs_dir: Path,
    *,
    recorded_arch: str | None,
    command: list[str],
    now: datetime | None = None,
    path: Path | None = None,
) -> RunDir:
    """Return a new run directory with its manifest, the experiment's text and the frame ``variants``: at ``path``, or
    ``<experiment>/<UTC time>-<hash>`` in the runs directory.
    """
    unknown = [name for name in settings.only if name not in {v.name for v in experiment.variants}]
    if unknown:
        raise UsageError(
            f"--only {unknown[0]}: no such variant in {experiment.path.name}",
            hint="it has " + ", ".join(v.name for v in experiment.variants),
        )
    problem = problem_class(experiment.problem)
    created = now or datetime.now(UTC)
    arch = arch_of(experiment, gpu, recorded_arch)
    if path is None:
        path = runs_dir / experiment.name / run_id(created, experiment.text, arch)
    skipped = skips(experiment, arch)
    manifest = {
        "tool_version": __version__,
        "created": created.isoformat(timespec="seconds"),
        "command": [without_folder(word) for word in command],
        "experiment": {
            "name": experiment.name,
            "title": experiment.title,
            "file": experiment.path.name,
            "text": experiment.text,
        },
        "problem": _own_problem_facts(experiment, problem),
        "baseline": dict(experiment.baseline),
        "arch": arch,
        "gpu": gpu_facts(gpu),
        "tools": tool_facts(toolchain),
        "versions": {"python": platform.python_version()},
        "skips": skipped,
        "notes": [],
    }
    run = RunDir.create(path, manifest)
    rows = [variant_row(v, i, experiment, arch, skipped) for i, v in enumerate(selected(experiment, settings))]
    run.write_frame("variants", rows)
    return run


def run_id(created: datetime, *parts: str) -> str:
    """Return the name of a run's folder: its time in UTC and a hash that tells runs of one second apart."""
    digest = hashlib.sha256("\0".join([*parts, created.isoformat()]).encode()).hexdigest()[:8]
    return f"{created:%Y%m%dT%H%M%SZ}-{digest}"


def without_folder(word: str) -> str:
    """Return a word of a command line without the folders of an absolute path, also in ``--flag=/path``."""
    flag, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    return f"{flag}{equals}{Path(value).name if value.startswith('/') else value}"


def selected(experiment: Experiment, settings: Settings) -> list[Variant]:
    """Return the variants of a run: all, or those named by ``--only`` (baselines are not added)."""
    return [v for v in experiment.variants if not settings.only or v.name in settings.only]


def variant_row(
    variant: Variant, order: int, experiment: Experiment, arch: str, all_skips: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return the row of the frame ``variants`` that a variant starts with; ``all_skips`` are those of :func:`skips`."""
    skipped = all_skips.get(variant.name, {})
    every = bool(experiment.size_keys) and all(key in skipped for key in experiment.size_keys)
    status, reason = "ok", ""
    if every:
        status, reason = frames.SKIPPED, next(iter(skipped.values()))
    return {
        "name": variant.name,
        "dtype": variant.dtype,
        "kind": variant.kind,
        "status": status,
        "reason": reason,
        "verified": "unverified" if variant.kind == "command" else "no",
        "origin": "none",
        "order": order,
        "idea": variant.idea,
        "params": params_text(variant),
        "source_hash": source_hash(variant, experiment.problem, arch),
        "binary_hash": None,
    }


def skips(experiment: Experiment, arch: str) -> dict[str, dict[str, str]]:
    """Return, per variant, the sizes whose ``requires`` do not hold and which one fails, in words."""
    found: dict[str, dict[str, str]] = {}
    for variant in experiment.variants:
        for dims in (*experiment.problem.sizes, *experiment.problem.check_sizes):
            values = arithmetic.values(dims, variant.params, arch)
            for text in variant.requires:
                expression = arithmetic.parse(text, set(values))
                try:
                    failed = "" if expression.holds(values) else expression.failed_text(values)
                except arithmetic.EvaluationError as error:
                    failed = f"{text}: {error}"
                if failed:
                    found.setdefault(variant.name, {})[size_key(dims)] = failed
                    break
    return found


def arch_of(experiment: Experiment, gpu: Gpu | None, recorded: str | None) -> str:
    """Return the architecture to build for: the one that all CUDA variants name, else the device's, else the
    recording's, else ``sm_90a``.
    """
    cuda = [v for v in experiment.variants if v.kind == "cuda"] or experiment.variants
    named = {v.build.arch for v in cuda}
    if len(named) == 1 and "auto" not in named:
        return named.pop()
    return gpu.arch if gpu else (recorded or DEFAULT_ARCH)


def _own_problem_facts(experiment: Experiment, problem: type[Problem]) -> dict[str, Any]:
    try:
        return problem_facts(experiment, problem)
    except Exception as error:
        if experiment.problem.file is None:
            raise
        said = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"{experiment.problem.kind}: its flops or min_bytes cannot be computed: {said}",
            hint="both take dims and return whole numbers (flops may return None)",
        ) from error


def problem_facts(experiment: Experiment, problem: type[Problem]) -> dict[str, Any]:
    """Return what the manifest keeps of the problem; counts are exact integers."""
    ref = experiment.problem
    contracts = sorted({v.dtype for v in experiment.variants if v.dtype in problem.dtypes})
    return {
        "kind": ref.kind,
        "options": dict(ref.options),
        "init": dict(ref.init),
        "dims": list(problem.dims),
        "sizes": [size_key(s) for s in ref.sizes],
        "check_sizes": [size_key(s) for s in ref.check_sizes],
        "flops": {size_key(s): problem.flops(s) for s in ref.sizes},
        "min_bytes": {
            contract: {size_key(s): problem.min_bytes(s, contract, ref.options) for s in ref.sizes}
            for contract in contracts
        },
    }


def gpu_facts(gpu: Gpu | None) -> dict[str, Any] | None:
    """Return what the manifest keeps of a GPU; the worker adds multiprocessors and L2."""
    if gpu is None:
        return None
    facts = asdict(gpu)
    facts["compute_capability"] = f"{gpu.compute_capability[0]}.{gpu.compute_capability[1]}"
    facts["arch"] = gpu.arch
    return facts


def tool_facts(toolchain: Toolchain) -> dict[str, str | None]:
    """Return the versions of the tools that were found; paths stay out of the manifest."""
    tools: dict[str, Tool | None] = {
        "nvcc": toolchain.nvcc,
        "host_compiler": toolchain.host_compiler,
        "cuobjdump": toolchain.cuobjdump,
        "nvdisasm": toolchain.nvdisasm,
        "ncu": toolchain.ncu,
        "nsys": toolchain.nsys,
    }
    return {name: tool.version if tool else None for name, tool in tools.items()}
