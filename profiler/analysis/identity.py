"""What a variant is: its source, parameters, flags and compiler, the hashes that tell it from others, its checks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import yaml

from profiler.analysis.kernels import parameters
from profiler.analysis.rundata import Row, RunData

_SOURCES = ("cuda", "triton", "python", "command")
_HASH_LENGTH = 12
#: Of the command, what the other lines of the identity say already.
_SAID = ("-D", "-I", "-o")
_WITH_VALUE = frozenset({"-Xptxas", "-Xcompiler", "-cudart", "-ccbin"})


@dataclass(frozen=True)
class CheckLine:
    """The worst check of a variant at one size: the one nearest to, or beyond, its tolerance."""

    size: str
    status: str
    error: float | None
    tolerance: float | None
    baseline_error: float | None
    checks: int
    why_no_baseline: str = ""


@dataclass(frozen=True)
class Identity:
    """A variant by what it was made from. Empty texts: not known."""

    source: str
    kind: str
    call: str
    params: Mapping[str, Any]
    requires: tuple[str, ...]
    compiler: str
    flags: str
    command: str
    source_hash: str
    binary_hash: str
    why_no_build: str
    checks: tuple[CheckLine, ...]


def identity(data: RunData, row: Row, stated: Mapping[str, Any]) -> Identity:
    """Return what is known of a variant; ``stated`` is what the experiment file says of it, see :func:`declared`."""
    name, kind = str(row["name"]), str(row["kind"] or "")
    build = (data.manifest.get("builds") or {}).get(name) or {}
    argv = [str(part) for part in build.get("command") or ()]
    return Identity(
        source=_source(stated, kind, argv),
        kind=kind,
        call=str(stated.get("call") or ""),
        params=parameters(row),
        requires=tuple(str(one) for one in stated.get("requires") or () if isinstance(one, str)),
        compiler=_compiler(data, kind, build),
        flags=shlex.join(_flags(argv)),
        command=shlex.join(argv),
        source_hash=str(row["source_hash"] or "")[:_HASH_LENGTH],
        binary_hash=str(row["binary_hash"] or "")[:_HASH_LENGTH],
        why_no_build="" if argv else _why_no_build(row, kind),
        checks=tuple(_checks(data, name)),
    )


def declared(data: RunData) -> Mapping[str, Mapping[str, Any]]:
    """Return the variants as the experiment file states them, by name; empty when the run keeps no readable file."""
    text = str((data.manifest.get("experiment") or {}).get("text") or "")
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return {}
    listed = found.get("variants") if isinstance(found, dict) else None
    rows = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return {str(one.get("name")): one for one in rows}


def _source(stated: Mapping[str, Any], kind: str, argv: list[str]) -> str:
    for key in _SOURCES:
        value = stated.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return shlex.join(str(part) for part in value)
    return argv[-1] if kind == "cuda" and argv else ""


def _compiler(data: RunData, kind: str, build: Mapping[str, Any]) -> str:
    if build.get("compiler"):
        arch = f", {build['arch']}" if build.get("arch") else ""
        return f"{build['compiler']}{arch}"
    versions = data.manifest.get("versions") or {}
    package = {"triton": "triton", "python": "torch"}.get(kind, "")
    return f"{package} {versions[package]}" if versions.get(package) else ""


def _flags(argv: list[str]) -> list[str]:
    """The flags that say how it was compiled: no program, no macros, no folders, no files."""
    kept: list[str] = []
    for before, part in pairwise(argv):
        if before in _WITH_VALUE or (part.startswith("-") and not part.startswith(_SAID)):
            kept.append(part)
    return kept


def _why_no_build(row: Row, kind: str) -> str:
    if row["status"] == "build_failed":
        return "it failed"
    return {
        "python": "a Python function: nothing is compiled for it here",
        "triton": "Triton compiles it when it is called",
        "command": "a program of its own",
    }.get(kind, "this run did not build it")


def _checks(data: RunData, name: str) -> list[CheckLine]:
    by_size: dict[str, list[Row]] = {}
    for row in data.checks(name):
        by_size.setdefault(str(row["size"] or ""), []).append(row)

    def severity(row: Row) -> tuple[bool, float]:
        share = row["error"] / row["tolerance"] if row["error"] is not None and row["tolerance"] else 0.0
        return row["status"] not in ("ok", "skipped"), share

    lines = []
    for size, rows in by_size.items():
        worst = max(rows, key=severity)
        error, why = _baseline_error(data, name, worst)
        lines.append(
            CheckLine(size, str(worst["status"] or ""), worst["error"], worst["tolerance"], error, len(rows), why)
        )
    return lines


def _baseline_error(data: RunData, name: str, check: Row) -> tuple[float | None, str]:
    """The baseline's error on the inputs of a check, which a check of timed launches leaves to the baseline's own."""
    if name in data.baselines:
        return None, "it is the baseline"
    if check["baseline_error"] is not None:
        return float(check["baseline_error"]), ""
    row = data.variant(name)
    baseline = data.baseline(str(row["dtype"])) if row is not None else None
    if baseline is None:
        return None, "the contract has no baseline"
    same = ("size", "when", "seed")
    for other in data.checks(baseline):
        if other["error"] is not None and all(other.get(key) == check.get(key) for key in same):
            return float(other["error"]), ""
    return None, "the baseline was not checked with these inputs"
