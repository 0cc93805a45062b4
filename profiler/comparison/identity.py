"""Whether a row is the same code on both sides: machine code, host source, buffers, launches, libraries.

Only what is shown to be the same is ``same``; a part that neither side states is ``unknown``, and so is the whole then.
Identical code cannot be slower: its shift is the environment's, and a control of the comparison.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from profiler.analysis.formatting import listed
from profiler.analysis.rundata import Row, RunData
from profiler.comparison.model import CodeIdentity, Sameness

#: What a launch is, beside the kernel's name: counters that are decided before it runs.
ATTRIBUTES = ("grid", "block", "cluster", "shared_static", "shared_dynamic", "registers")
#: What decides the code that a library runs, by kind of variant.
_LIBRARIES: Mapping[str, tuple[str, ...]] = {
    "python": ("torch", "torch_cuda"),
    "triton": ("triton", "torch"),
    "cuda": ("nvcc",),
}
_PARTS = {"binary": "machine code", "source": "host source", "buffers": "buffers", "launch": "launches",
          "libraries": "libraries"}  # fmt: skip
#: What must be the same, and known to be, for a kind of variant to be the same code.
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "cuda": ("binary", "source", "buffers"),
    "triton": ("source", "buffers", "libraries", "launch"),
    "python": ("source", "buffers", "libraries", "launch"),
}


def code_identity(before: RunData, after: RunData, variant: str, size: str, *, before_name: str = "") -> CodeIdentity:
    """Return whether a variant at a size is the same code in both runs; ``before_name`` where it was renamed."""
    old_name = before_name or variant
    old, new = before.variant(old_name), after.variant(variant)
    if old is None or new is None:
        return CodeIdentity("unknown", words="it is in one run only")
    parts: dict[str, Sameness] = {
        "binary": _same(old["binary_hash"], new["binary_hash"]),
        "source": _same(old["source_hash"], new["source_hash"]),
        "buffers": _same(_buffers(before, old, size), _buffers(after, new, size)),
        "launch": _same(launch_attributes(before, old_name, size), launch_attributes(after, variant, size)),
        "libraries": _same(_libraries(before, old), _libraries(after, new)),
    }
    kind = str(new["kind"] or "")
    linked = _links(before, old_name) or _links(after, variant)
    return CodeIdentity(*_whole(parts, kind, str(old["kind"] or ""), linked=linked))


def launch_attributes(data: RunData, variant: str, size: str) -> str:
    """Return a variant's launches in order as one text: kernel names and what was decided before they ran."""
    found = []
    for launch in data.launches(variant, size):
        values = {name: data.launch_value(variant, size, launch, name).value for name in ATTRIBUTES}
        found.append([launch[1], {name: value for name, value in values.items() if value is not None}])
    return json.dumps(found, sort_keys=True) if found else ""


def _whole(
    parts: Mapping[str, Sameness], kind: str, old_kind: str, *, linked: bool
) -> tuple[Sameness, tuple[tuple[str, Sameness], ...], str]:
    needed = (*_NEEDED.get(kind, ()), *(("libraries", "launch") if linked and kind == "cuda" else ()))
    kept = {name: state for name, state in parts.items() if state != "unknown" or name in needed}
    if kind == "cuda" and not linked:
        kept.pop("libraries", None)
    listed_parts = tuple(kept.items())
    if kind != old_kind:
        return "changed", listed_parts, f"it was a {old_kind or 'variant of unknown kind'}, and is {kind} now"
    changed = [_PARTS[name] for name, state in kept.items() if state == "changed"]
    if changed:
        same = [_PARTS[name] for name in ("binary",) if kept.get(name) == "same"]
        but = f"; the {listed(same)} is the same" if same else ""
        return "changed", listed_parts, f"changed: {listed(changed)}{but}"
    if kind not in _NEEDED:
        return "unknown", listed_parts, "a program of its own: what it runs is not known"
    unknown = [_PARTS[name] for name in needed if kept.get(name, "unknown") == "unknown"]
    if unknown:
        return "unknown", listed_parts, f"not known to be the same: {listed(unknown)}"
    return "same", listed_parts, f"identical {listed(_PARTS[name] for name in kept)}"


def _same(old: Any, new: Any) -> Sameness:
    if not old or not new:
        return "unknown"
    return "same" if old == new else "changed"


def _buffers(data: RunData, row: Row, size: str) -> str:
    """What decides a variant's buffers and their bits: problem, options, inputs, contract, size."""
    problem = data.manifest.get("problem") or {}
    if not problem.get("kind"):
        return ""
    facts = {
        "kind": problem.get("kind"),
        "options": problem.get("options"),
        "init": problem.get("init"),
        "dtype": row["dtype"],
        "size": size,
    }
    return json.dumps(facts, sort_keys=True, default=str)


def _links(data: RunData, variant: str) -> bool:
    """Whether a binary links a library, whose kernels are then not in its hash."""
    command = ((data.manifest.get("builds") or {}).get(variant) or {}).get("command") or ()
    return any(str(part).startswith("-l") and str(part) != "-lineinfo" for part in command)


def _libraries(data: RunData, row: Row) -> str:
    """The versions of what compiles or runs a variant that is no CUDA source; empty when one is not stated."""
    versions = {**(data.manifest.get("tools") or {}), **(data.manifest.get("versions") or {})}
    found = {name: versions.get(name) for name in _LIBRARIES.get(str(row["kind"] or ""), ())}
    return json.dumps(found, sort_keys=True) if found and all(found.values()) else ""
