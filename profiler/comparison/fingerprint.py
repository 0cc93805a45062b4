"""What must be equal for two times to be comparable, what is only said, and what a run does not state. Pure.

A card is its compute capability, its multiprocessors, its L2 and its memory, not its name: one silicon is sold under
several names, and one name on several chips.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from profiler.analysis.rundata import APART, RunData
from profiler.comparison.model import Action, Mismatch

#: Keys whose mismatch forbids a verdict, and what each is.
REFUSED: Mapping[str, str] = {
    "schema": "the schema of the run directory",
    "compute_capability": "the GPU's compute capability",
    "sm_count": "the number of multiprocessors",
    "l2_bytes": "the size of the L2 cache",
    "memory_bytes": "the size of the GPU's memory",
    "mig": "whether the GPU is a slice of one (MIG)",
    "ecc": "whether the memory's error correction is on",
    "arch": "the architecture that the kernel was built for",
    "problem": "the problem and its options",
    "init": "how the inputs are made",
    "dtype": "the numeric contract",
    "cache": "the cache policy of the timing",
    "method": "the timing method",
}
#: Keys whose mismatch is said: it may move times, and the controls show by how much.
WARNED: Mapping[str, str] = {
    "gpu": "the GPU's name",
    "uuid": "the GPU itself: another card of its kind",
    "driver": "the driver",
    "compiler": "the compiler",
    "versions": "versions of the libraries that a row calls",
    "power_limit": "the power limit",
    "clocks": "the state of the clocks",
    "flush": "how the L2 cache is flushed",
}
KEYS: Mapping[str, str] = {**REFUSED, **WARNED}
_ROW_KEYS = ("arch", "compiler", "dtype", "cache", "method", "versions")
UNKNOWN = "unknown"
#: Facts that older runs do not state: a difference is refused, one side's silence is only told.
_YOUNG = ("mig", "ecc")


def mismatches(
    before: RunData, after: RunData, rows: Iterable[tuple[str, str]], allow: Collection[str] = ()
) -> list[Mismatch]:
    """Return what differs between two runs, for all rows or for some; ``rows`` are those that both runs timed.

    A fact that only one run states is a mismatch against ``unknown``. What neither states is silent, except a card that
    neither names at all: that is refused.
    """
    listed = list(rows)
    found: list[Mismatch] = []
    for key, read in _RUN_FACTS.items():
        found += _differ(key, read(before), read(after), allow, ())
    gpu = [_mapping(run.manifest.get("gpu")) for run in (before, after)]
    if not any(side.get(key) for side in gpu for key in ("name", "compute_capability")):
        found.append(Mismatch("compute_capability", UNKNOWN, UNKNOWN, _action("compute_capability", allow)))
    by_row: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for variant, size in listed:
        was, now = _row_facts(before, variant, size), _row_facts(after, variant, size)
        for key in _ROW_KEYS:
            if was[key] != now[key]:
                by_row.setdefault((key, was[key], now[key]), []).append((variant, size))
    for (key, was_text, now_text), concerned in by_row.items():
        everywhere = () if len(concerned) == len(listed) else tuple(concerned)
        found += _differ(key, was_text, now_text, allow, everywhere)
    return found


def unstated(before: RunData, after: RunData) -> tuple[str, ...]:
    """Return the facts of the card and its method that neither run states."""
    return tuple(
        KEYS[key] for key, read in _RUN_FACTS.items() if key != "flush" and not read(before) and not read(after)
    )


def _differ(
    key: str, before: str, after: str, allow: Collection[str], rows: tuple[tuple[str, str], ...]
) -> list[Mismatch]:
    if before == after:
        return []
    action: Action = "warn" if key in _YOUNG and not (before and after) else _action(key, allow)
    return [Mismatch(key, before or UNKNOWN, after or UNKNOWN, action, rows)]


def _action(key: str, allow: Collection[str]) -> Action:
    if key in WARNED:
        return "warn"
    return "allowed" if key in allow else "refuse"


def _gpu(key: str) -> Callable[[RunData], str]:
    return lambda run: _text(_mapping(run.manifest.get("gpu")).get(key))


def _gibibytes(run: RunData) -> str:
    found = _mapping(run.manifest.get("gpu")).get("memory_bytes")
    return f"{found / 2**30:.0f} GiB" if isinstance(found, (int, float)) else ""


def _schema(run: RunData) -> str:
    return _text(run.manifest.get("schema"))


def _problem(run: RunData) -> str:
    problem = _mapping(run.manifest.get("problem"))
    options = {key: problem[key] for key in ("options", "layout") if problem.get(key)}
    kind = str(problem.get("kind") or "")
    return " ".join([kind, *(f"{key}={_text(value)}" for key, value in options.items())]).strip()


def _init(run: RunData) -> str:
    return _text(_mapping(run.manifest.get("problem")).get("init"))


def _clocks(run: RunData) -> str:
    clocks = _mapping(_mapping(run.manifest.get("gpu")).get("clocks"))
    if not clocks:
        return ""
    locked = clocks.get("sm_locked_mhz")
    return f"locked at {locked} MHz" if locked else "free"


def _power_limit(run: RunData) -> str:
    found = _mapping(run.manifest.get("gpu")).get("power_limit_w")
    return f"{found:.0f} W" if isinstance(found, (int, float)) else ""


def _flush(run: RunData) -> str:
    timing = _mapping(run.manifest.get("timing"))
    return _text(timing.get("flush") or timing.get("flush_bytes"))


_RUN_FACTS: Mapping[str, Callable[[RunData], str]] = {
    "schema": _schema,
    "compute_capability": _gpu("compute_capability"),
    "sm_count": _gpu("sm_count"),
    "l2_bytes": _gpu("l2_bytes"),
    "memory_bytes": _gibibytes,
    "mig": _gpu("mig"),
    "ecc": _gpu("ecc"),
    "problem": _problem,
    "init": _init,
    "gpu": _gpu("name"),
    "uuid": _gpu("uuid"),
    "driver": _gpu("driver"),
    "power_limit": _power_limit,
    "clocks": _clocks,
    "flush": _flush,
}


def _row_facts(run: RunData, name: str, size: str) -> dict[str, str]:
    build = _mapping(_mapping(run.manifest.get("builds")).get(name))
    variant = run.variant(name) or {}
    timed = [row for row in run.sample_rows(name, size) if row["method"] not in APART]
    return {
        "arch": str(build.get("arch") or run.manifest.get("arch") or ""),
        "compiler": str(build.get("compiler") or ""),
        "dtype": str(variant.get("dtype") or ""),
        "cache": "+".join(sorted({str(row["cache"]) for row in timed})),
        "method": "+".join(sorted({str(row["method"]) for row in timed})),
        "versions": _versions(run, str(variant.get("kind") or "")),
    }


def _versions(run: RunData, kind: str) -> str:
    """The libraries whose version is part of what a row of this kind runs."""
    wanted = {"python": ("torch", "torch_cuda"), "triton": ("triton", "torch")}.get(kind, ())
    versions = _mapping(run.manifest.get("versions"))
    return ", ".join(f"{name} {versions[name]}" for name in wanted if versions.get(name))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(item)}" for key, item in sorted(value.items()))
    if isinstance(value, bool):
        return "on" if value else "off"
    return "" if value is None else str(value)
