"""The page of a comparison: rows, causes, and what was held against what; sources are in ``compare_sources.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.decomposition import Decomposition
from profiler.analysis.decomposition_words import plain, sentences
from profiler.analysis.roofline import LEVELS, Roofline
from profiler.analysis.rundata import RunData
from profiler.comparison import words
from profiler.comparison.gate import exit_code
from profiler.comparison.model import Cause, Comparison, CounterPair, RowComparison
from profiler.comparison.waterfall import waterfall
from profiler.errors import Exit
from reports.compare_figures import MOST_ROWS, cycles_text
from reports.formatting import size_slug, slug
from reports.sections.compare_sources import sources

_TONES = {
    "regressed": "bad", "broken": "bad", "removed": "bad", "incomparable": "bad", "not_measured": "bad",
    "suspected": "warn", "inconclusive": "warn", "improved": "good", "unchanged": "good",
}  # fmt: skip
_MARKS = {"bad": "✕", "warn": "▲", "good": "●", "quiet": "○"}
#: Rows whose causes, sources and counters stand on the page; the JSON has all of them.
MOST_EXPLAINED = 60
#: Facts of a manifest that are shown side by side: label, then the path to each.
_FACTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("GPU", ("gpu", "name")), ("GPU's identity", ("gpu", "uuid")), ("Multiprocessors", ("gpu", "sm_count")),
    ("Compute capability", ("gpu", "compute_capability")), ("Driver", ("gpu", "driver")),
    ("Highest SM clock, MHz", ("gpu", "clocks", "sm_max_mhz")), ("Compiled for", ("arch",)),
    ("nvcc", ("tools", "nvcc")), ("Host compiler", ("tools", "host_compiler")), ("Nsight Compute", ("tools", "ncu")),
    ("PyTorch", ("versions", "torch")), ("Triton", ("versions", "triton")), ("L2 cache", ("timing", "cache")),
    ("Samples", ("timing", "samples")), ("Processes", ("timing", "processes")),
    ("Warm-up, ms", ("timing", "warmup_ms")),
    ("Profiler's clock control", ("profile", "clock_control")), ("kernel-ladder", ("tool_version",)),
    ("Taken", ("created",)),
)  # fmt: skip
#: Facts that a comparison states itself, where no manifest is at hand, and what the page calls them.
_STATED = {
    "gpu": "GPU", "uuid": "GPU's identity", "driver": "Driver", "tool_version": "kernel-ladder", "created": "Taken",
}  # fmt: skip
Explained = tuple[RowComparison, Decomposition | None]


def row_id(row: RowComparison) -> str:
    """Return the id of a row on the page."""
    return f"row-{slug(row.variant)}-{size_slug(row.size)}"


def explained_rows(comparison: Comparison) -> list[RowComparison]:
    """Return the rows whose causes the page shows: those that moved, and latent regressions."""
    rows = [row for row in words.worst_first(comparison.rows) if words.shows_causes(row) or row.diffs]
    return rows[:MOST_EXPLAINED]


def build(
    comparison: Comparison, explained: Sequence[Explained], before: RunData | None, after: RunData | None
) -> dict[str, Any]:
    """Return what the templates of the page show."""
    rows = words.worst_first(comparison.rows)
    code = exit_code(comparison)
    return {
        "outcome": words.outcome(comparison),
        "counts": [{"text": f"{count} {name}", "tone": _count_tone(name)} for name, count in words.counts(comparison)],
        "latent": len(comparison.latent),
        "tone": "good" if code is Exit.OK else "warn" if code is Exit.SUSPECTED else "bad",
        "kind": words.KIND_TEXT.get(comparison.kind, comparison.kind),
        "notices": words.notices(comparison),
        "rows": [_row(row, {id(one) for one, _ in explained}) for row in rows],
        "several_sizes": len({row.size for row in rows}) > 1,
        "most_rows": MOST_ROWS,
        "timed": sum(row.ratio is not None for row in rows),
        "meanings": [(words.VERDICT_TEXT.get(name, name), words.VERDICT_MEANING[name]) for name in comparison.counts],
        "confidence": f"{100 * (1 - comparison.settings.alpha_flag):g} %",
        "explained": [_explained(row, one) for row, one in explained],
        "more_explained": sum(bool(row.causes) for row in rows) - sum(bool(row.causes) for row, _ in explained),
        "cycles": [_cycles(row, one) for row, one in explained if one is not None and waterfall(one)],
        "facts": _facts(comparison, before, after),
        "mismatches": [
            {"key": one.key, "before": one.before or "unknown", "after": one.after or "unknown", "action": one.action}
            for one in comparison.mismatches
        ],
        "controls": [
            {"name": one.name, "kind": one.kind, "shift": words.signed_percent(one.shift - 1), "steady": one.steady}
            for one in comparison.controls
        ],
        "drift": words.signed_percent(comparison.drift - 1) if comparison.drift is not None else "",
        "thresholds": words.thresholds(comparison.settings),
    }


def dots(lines: Sequence[Roofline]) -> list[dict[str, str]]:
    """Return the table twin of the roofline."""
    labels = {level.key: level.label for level in LEVELS}
    return [
        {
            "name": point.variant,
            "size": formatting.size(line.size),
            "level": labels.get(point.level, point.level),
            "intensity": formatting.number(point.intensity),
            "performance": formatting.si(point.performance, "FLOP/s"),
        }
        for line in lines
        for point in line.points
        if point.intensity is not None and point.performance is not None
    ]


def _tone(verdict: str) -> str:
    return _TONES.get(verdict, "quiet" if verdict in ("new", "skipped", "counters_only") else "bad")


def _count_tone(text: str) -> str:
    return _tone(text.replace(" ", "_"))


def _row(row: RowComparison, explained: set[int]) -> dict[str, Any]:
    tone = "warn" if row.explanation == "latent" else _tone(row.verdict)
    cause = next((one for one in row.causes if not one.neutral), None)
    return {
        "id": row_id(row),
        "name": row.variant,
        "size": formatting.size(row.size),
        "dtype": row.dtype,
        "verdict": words.verdict(row),
        "verdict_key": row.verdict,
        "tone": tone,
        "mark": _MARKS[tone],
        "words": row.words,
        "before": words.time(row.before),
        "before_ns": row.before.value_ns if row.before else "",
        "after": words.time(row.after),
        "after_ns": row.after.value_ns if row.after else "",
        "before_bounds": _bounds(row, "before"),
        "after_bounds": _bounds(row, "after"),
        "change": words.change(row.ratio),
        "ratio": words.ratio(row.ratio),
        "ratio_value": row.ratio.value if row.ratio is not None else "",
        "detectable": words.percent(row.detectable),
        "detectable_value": row.detectable if row.detectable is not None else "",
        "noise": words.noise(row.noise),
        "identity": row.identity.code,
        "identity_words": row.identity.words,
        "cause": cause.words if cause is not None and words.shows_causes(row) else "",
        "link": f"why-{row_id(row)}" if id(row) in explained else "",
    }


def _bounds(row: RowComparison, which: str) -> str:
    times = row.before if which == "before" else row.after
    if times is None or times.low_ns is None or times.high_ns is None:
        return ""
    scale, unit = formatting.time_unit(times.value_ns)
    return f"{formatting.number(times.low_ns / scale, 4)} to {formatting.number(times.high_ns / scale, 4)} {unit}"


def _explained(row: RowComparison, one: Decomposition | None) -> dict[str, Any]:
    label = words.EXPLANATION_TEXT[row.explanation]
    return {
        "id": f"why-{row_id(row)}",
        "name": row.variant,
        "size": formatting.size(row.size),
        "verdict": words.said(row),
        "change": words.change(row.ratio),
        "label": label[:1].upper() + label[1:],
        "tone": {"explained": "good", "unexplained": "warn", "latent": "warn"}.get(row.explanation, "quiet"),
        "causes": [_cause(cause) for cause in row.causes],
        "factors": plain(sentences(one)) if one is not None and one.effects and row.ratio is not None else "",
        "counters": [_counter(pair) for pair in row.counters],
        "sources": sources(row.diffs),
        "notes": row.notes,
        "identity": row.identity.words,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "words": cause.words,
        "share": f"{100 * cause.share:.0f} %" if cause.share is not None else "",
        "width": 100 * cause.share if cause.share is not None else 0.0,
        "basis": cause.basis,
        "near": cause.cls == "near",
        "direction": "" if cause.neutral else "costs" if cause.worse else "saves",
        "metric": cause.metric,
    }


def _counter(pair: CounterPair) -> dict[str, Any]:
    before, after, ratio = words.counter(pair)
    return {
        "label": pair.label,
        "cls": pair.cls,
        "before": before,
        "after": after,
        "ratio": ratio,
        "why": pair.why,
        "moved": pair.before != pair.after,
    }


def _cycles(row: RowComparison, one: Decomposition) -> dict[str, Any]:
    """The table twin of a waterfall."""
    return {
        "name": row.variant,
        "size": formatting.size(row.size),
        "steps": [
            {
                "label": step.label,
                "cycles": cycles_text(step),
                "role": step.role,
                "each": " to ".join(formatting.number(value) for value in step.each) if step.each else "",
                "meaning": step.meaning,
            }
            for step in waterfall(one)
        ],
    }


def _facts(comparison: Comparison, before: RunData | None, after: RunData | None) -> list[dict[str, Any]]:
    """The environments side by side, what differs first."""
    sides = [data.manifest if data is not None else {} for data in (before, after)]
    found = []
    for name, path in _FACTS:
        old, new = (_at(manifest, path) for manifest in sides)
        if old or new:
            found.append(_fact(name, old, new))
    stems = dict.fromkeys(key.partition(".")[2] for key in comparison.facts if "." in key)
    for stem in stems:
        old, new = (str(comparison.facts.get(f"{side}.{stem}") or "") for side in ("before", "after"))
        name = _STATED.get(stem, stem)
        if not any(row["name"] == name for row in found):
            found.append(_fact(name, old, new))
    return sorted(found, key=lambda row: not row["differs"])


def _fact(name: str, old: str, new: str) -> dict[str, Any]:
    differs = old != new and name != "Taken"  # two runs are never of the same moment
    if name == "Taken":
        old, new = (text.replace("T", " ").replace("+00:00", " UTC") for text in (old, new))
    return {"name": name, "before": old or "unknown", "after": new or "unknown", "differs": differs}


def _at(manifest: Mapping[str, Any], path: Sequence[str]) -> str:
    value: Any = manifest
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)
