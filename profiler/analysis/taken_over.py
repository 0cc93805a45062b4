"""Times that a run took over from earlier ones (``--reuse-times``), as its manifest tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def reused_times(manifest: Mapping[str, Any]) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return what a run took over: variant -> size -> ``{"run": .., "created": ..}``."""
    kept = manifest.get("reused_times")
    return kept if isinstance(kept, Mapping) else {}


def reused_from(manifest: Mapping[str, Any], variant: str, size: str) -> str:
    """Return the run that a row's times were measured in, with its date; empty for times of this run."""
    one = reused_times(manifest).get(variant, {}).get(size)
    return "" if one is None else f"{one['run']}, {str(one['created'])[:10]}"


def reused_text(manifest: Mapping[str, Any]) -> str:
    """Return in a sentence which times are not of this run, and what that means; empty when all are."""
    kept = reused_times(manifest)
    runs = sorted({f"{one['run']}" for sizes in kept.values() for one in sizes.values()})
    if not runs:
        return ""
    rows = sum(len(sizes) for sizes in kept.values())
    return (
        f"reused: the times of {rows} row{'s' if rows > 1 else ''} were measured in {', '.join(runs)}; "
        "a ratio of theirs to a time of this run is of two sessions, not of samples taken in turns"
    )
