"""What profiling left that need not be made again: rows per (variant, size), and the metric names of a chip.

A profile is reused when everything it depends on is unchanged: source and binary, problem, size, inputs, what was
collected, the GPU, its driver, and ncu. Files are written beside their place and moved there whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pandas as pd

from profiler import frames, process
from profiler.build_sources import project_files
from profiler.model import Variant
from profiler.ncu_command import chip_name, parse_query_metrics, query_argv
from profiler.run import Run, cache_root
from profiler.toolchain import Tool

#: Rises when the rows made from the same report change.
EXTRACTOR = 1
FRAMES = ("metrics", "stalls", "source", "rules")
_QUERY_TIMEOUT_S = 60.0

Pair = tuple[str, str]  #: variant name, size key
Profile = dict[str, pd.DataFrame]


def keys(run: Run, pairs: Sequence[Pair], collected: Mapping[str, Any]) -> dict[Pair, str]:
    """Return the cache key of each pair. ``collected`` says what is collected and how, plain values."""
    ref = run.experiment.problem
    rows = {str(row["name"]): row for row in frames.rows_of(run.dir.frame("variants"))}
    builds = run.builds
    common = {
        "extractor": EXTRACTOR,
        "frames": frames.SCHEMA_VERSION,
        "collected": dict(collected),
        "gpu": None if run.gpu is None else [run.gpu.name, run.gpu.driver],
        "ncu": None if run.toolchain.ncu is None else run.toolchain.ncu.version,
        "problem": [ref.kind, dict(ref.options), dict(ref.init), _file_hash(ref.file)],
        "arch": run.dir.manifest.get("arch"),
    }
    found = {}
    for name, size in pairs:
        variant, row = run.experiment.variant(name), rows.get(name, {})
        facts = {
            **common,
            "size": size,
            "kind": variant.kind,
            "dtype": variant.dtype,
            "params": dict(variant.params),
            "source": row.get("source_hash"),
            "text": _text_hash(variant),  # a comment moves the lines that the frame `source` names
            "binary": row.get("binary_hash"),
            "build": builds.get(name, {}).get("key"),
            "libraries": [_version("torch"), _version("triton")] if variant.kind in ("python", "triton") else None,
        }
        found[name, size] = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
    return found


def load(key: str, variant: str) -> Profile | None:
    """Return the frames kept under a key, for a variant of whatever name; None when there are none that can be read."""
    folder = _folder() / key
    try:
        kept = {name: frames.read(folder / f"{name}.parquet", name) for name in FRAMES}
    except (OSError, ValueError):
        return None
    if not len(kept["metrics"]):
        return None
    for data in kept.values():
        data["variant"] = variant
    return kept


def store(key: str, profile: Profile) -> None:
    """Keep a pair's frames; a cache that cannot be written is no error."""
    final = _folder() / key
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=final.parent, prefix=".partial-"))
    except OSError:
        return
    try:
        for name in FRAMES:
            frames.write(partial / f"{name}.parquet", name, profile[name])
        shutil.rmtree(final, ignore_errors=True)
        partial.replace(final)
    except OSError:  # the disk is full, or another run has put the same profile there meanwhile
        shutil.rmtree(partial, ignore_errors=True)


def metric_names(ncu: Tool, compute_capability: tuple[int, int] | None) -> set[str] | None:
    """Return the base names that a chip has, asked of ncu once per version and chip; None when it does not say."""
    chip = chip_name(compute_capability)
    label = chip or "-".join(map(str, compute_capability or ("any",)))
    file = cache_root() / "ncu" / f"metrics-{ncu.version}-{label}.json"
    try:
        return set(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        pass
    try:
        done = process.run(query_argv(ncu, chip), timeout=_QUERY_TIMEOUT_S, label="ncu --query-metrics")
    except process.ToolMissing:
        return None
    names = parse_query_metrics(done.stdout)
    if done.timed_out or len(names) < 100:  # an error message, not the thousands that any chip has
        return None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}.{os.getpid()}")
        partial.write_text(json.dumps(sorted(names)), encoding="utf-8")
        partial.replace(file)
    except OSError:
        pass
    return names


def _folder() -> Path:
    return cache_root() / "profiles"


def _text_hash(variant: Variant) -> str | None:
    """The hash of a variant's files to the byte; None when one cannot be read."""
    try:
        texts = [(file.name, hashlib.sha256(file.path.read_bytes()).hexdigest()) for file in project_files(variant)]
    except OSError:
        return None
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _file_hash(path: Path | None) -> str | None:
    try:
        return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
