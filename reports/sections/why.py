"""Section 4: why a rung is faster than the one before it, and what separates it from its baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.decomposition import (
    EVENT,
    FACTORS,
    KERNELS,
    KINDS,
    REST,
    UNEXPLAINED,
    Effect,
    Kind,
    Part,
    Side,
    remarks,
)
from profiler.analysis.decomposition_words import Piece, Sentence, gain, sentences
from profiler.analysis.ladder import LadderRow
from profiler.analysis.rundata import RunData
from profiler.analysis.stalls import FAMILIES, Reason
from profiler.analysis.steps import Step
from profiler.metrics import metric
from reports.formatting import size_slug, slug
from reports.why_figure import AGAINST, value_text, why_figure

#: A factor that moves the time by less than this is shown without a tint.
_QUIET = math.log(1.01)
#: The tint is full where a factor moves the time by this much.
_FULL = math.log(8)
_INTERVAL = (
    "Latency over warps: the cycles between two issues of a scheduler. It is the two factors before it, together."
)


def build(data: RunData, steps: Sequence[Step], sides: Sequence[Side], rows: Sequence[LadderRow]) -> dict[str, Any]:
    """Return what the template of section 4 shows."""
    profile = data.manifest.get("profile") or {}
    size = data.main_size
    explained = [step for step in steps if step.decomposition.effects]
    here = [step for step in steps if step.decomposition.after.size == size]
    best = _fastest(rows, size)
    return {
        "figure": why_figure(steps if explained else (), data.sizes, _first(here, best), size),
        "why": _why(data, steps, str(profile.get("reason") or "")),
        "hint": str(profile.get("hint") or "") if not explained else "",
        "size": formatting.size(size),
        "matrices": [
            matrix for kind in AGAINST if (matrix := _matrix([s for s in here if s.against == kind], kind))["rows"]
        ],
        "articles": [
            _article(name, [step for step in here if step.variant == name], name in best)
            for name in dict.fromkeys(step.variant for step in here)
        ],
        "sizes": [
            table
            for one in sorted(data.sizes, key=lambda s: s != size)
            if (table := _table(one, explained, sides))["sides"] or table["steps"]
        ],
        "meanings": [
            {"label": kind.label, "meaning": kind.meaning, "metric": kind.metric}
            for kind in {**KINDS, **_kinds(explained)}.values()
        ],
    }


def _why(data: RunData, steps: Sequence[Step], reason: str) -> str:
    if data.foreign:
        return "the launches of a file are no rungs; the table takes the profiled time of each apart"
    if not steps:
        timed = any(data.samples(str(row["name"]), size) for row in data.variants for size in data.sizes)
        return "there is only one timed variant in each contract" if timed else "nothing was timed"
    return reason or steps[0].decomposition.why


def _fastest(rows: Sequence[LadderRow], size: str) -> list[str]:
    """The fastest rung of each contract."""
    timed = [row for row in rows if row.size == size and row.time is not None and not row.is_baseline]
    return [
        min((row for row in timed if row.dtype == dtype), key=lambda r: r.time.value if r.time else math.inf).variant
        for dtype in dict.fromkeys(row.dtype for row in timed)
    ]


def _first(steps: Sequence[Step], best: Sequence[str]) -> str:
    """The step that the chart opens with: the fastest rung that has one over the rung before it."""
    names = [s.variant for s in steps if s.against == "before" and s.decomposition.effects]
    return next((name for name in best if name in names), names[-1] if names else "")


def _columns(steps: Sequence[Step]) -> list[Kind]:
    present = _kinds(steps)
    return [present[kind.key] for kind in (*FACTORS, UNEXPLAINED, REST, KERNELS, EVENT) if kind.key in present]


def _kinds(steps: Sequence[Step]) -> dict[str, Kind]:
    """The factors by key, as the first step that has one means it: the clock is that of timed launches, or a pass's."""
    found: dict[str, Kind] = {}
    for step in steps:
        for effect in step.decomposition.effects:
            found.setdefault(effect.kind.key, effect.kind)
    return found


def _matrix(steps: Sequence[Step], kind: str) -> dict[str, Any]:
    """Steps down, factors across: the overview of the ladder."""
    columns = _columns(steps)
    heads = [{"label": kind.label, "meaning": kind.meaning} for kind in columns]
    both = next((i + 1 for i, kind in enumerate(columns) if kind.key == "warps" and columns[i - 1].key == "latency"), 0)
    if both:  # what latency and warps make together stands beside them: each alone says little
        heads.insert(both, {"label": "issue interval", "meaning": _INTERVAL})
    return {
        "id": f"why-over-{kind}",
        "title": "Over the rung before" if kind == "before" else "Against the baseline",
        "columns": heads,
        "rows": [
            {
                "name": step.variant,
                "id": f"why-{slug(step.variant)}",
                "over": step.decomposition.before.variant,
                "contract": step.dtype,
                "other": step.other_contract,
                "speedup": _speedup(step),
                "bounds": formatting.interval(step.interval.low, step.interval.high),
                "why": step.decomposition.why,
                "cells": [
                    *(_cell(step, column) for column in columns[:both]),
                    *([_both(step)] if both else []),
                    *(_cell(step, column) for column in columns[both:]),
                ],
            }
            for step in steps
        ],
    }


def _both(step: Step) -> dict[str, Any]:
    cycles = step.decomposition.issue_cycles
    if cycles is None:
        return {"text": "", "why": step.decomposition.why or "latency or warps: not collected"}
    log_gain = math.log(cycles[0] / cycles[1])
    values = f"{formatting.number(cycles[0])} to {formatting.number(cycles[1])} cycles"
    return _tinted(cycles[1] / cycles[0], log_gain, f"{values}, {gain(log_gain)}. {_INTERVAL}", " both")


def _cell(step: Step, kind: Kind) -> dict[str, Any]:
    effect = step.decomposition.effect(kind.key)
    if effect is None:
        return {"text": "", "why": step.decomposition.why or f"{kind.label}: not collected, or one kernel only"}
    return _tinted(effect.ratio, effect.log_gain, _title(effect))


def _tinted(ratio: float, log_gain: float, title: str, more: str = "") -> dict[str, Any]:
    quiet = abs(log_gain) < _QUIET
    return {
        "text": formatting.ratio(ratio),
        "under": "" if quiet else gain(log_gain),
        "tone": ("" if quiet else "saves" if log_gain > 0 else "costs") + more,
        "heat": round(min(1.0, abs(log_gain) / _FULL), 3),
        "title": title,
    }


def _title(effect: Effect) -> str:
    values = _values(effect)
    return f"{values}, {gain(effect.log_gain)}. {effect.kind.meaning}" if values else effect.kind.meaning


def _values(effect: Effect) -> str:
    if effect.before is None or effect.after is None:
        return ""
    return " to ".join(value_text(effect.kind.key, value, 5) for value in (effect.before, effect.after))


def _speedup(step: Step) -> str:
    """The speed-up with as many decimals as its interval has, so that one below 1 never reads as 1.00×."""
    found = step.decomposition.speedup
    return formatting.ratio(found, step.interval.low, step.interval.high) if found else ""


def _article(name: str, steps: Sequence[Step], best: bool) -> dict[str, Any]:
    return {
        "name": name,
        "id": f"why-{slug(name)}",
        "steps": [
            {
                "against": step.against,
                "label": f"{AGAINST[step.against]}, {formatting.short(step.decomposition.before.variant, 60)}",
                "other": step.other_contract,
                "speedup": _speedup(step),
                "sentences": [_pieces(sentence) for sentence in sentences(step.decomposition, step.interval)],
                "remarks": step.decomposition.remarks,
                "open": step.against == "before" or best or len(steps) == 1,
                "chart": bool(step.decomposition.effects),
            }
            for step in steps
        ],
    }


def _pieces(sentence: Sentence) -> list[dict[str, str]]:
    """Words with their hover texts; neighbours without one are joined."""
    found: list[dict[str, str]] = []
    for piece in sentence:
        title = _hover(piece)
        if found and not title and not found[-1]["title"]:
            found[-1]["text"] += piece.text
        else:
            found.append({"text": piece.text, "title": title})
    return [{**piece, "text": piece["text"].replace(" %", "\u00a0%")} for piece in found]


def _hover(piece: Piece) -> str:
    meaning = metric(piece.metric).meaning if piece.metric else ""
    return ". ".join(part for part in (piece.title, meaning) if part)


def _table(size: str, steps: Sequence[Step], sides: Sequence[Side]) -> dict[str, Any]:
    """The exact numbers of one size: factors of each variant, factors of each step, the latency by reason."""
    here = [step for step in steps if step.decomposition.after.size == size]
    columns = _columns(here)
    return {
        "id": f"why-at-{size_slug(size)}",
        "label": formatting.size(size),
        "factors": [{"label": kind.label, "meaning": kind.meaning} for kind in FACTORS],
        "sides": [_side(side) for side in sides if side.size == size],
        "columns": [{"label": kind.label, "meaning": kind.meaning} for kind in columns],
        "steps": [_exact(step, columns) for step in here],
        "reasons": [
            {"title": AGAINST[kind], **reasons}
            for kind in AGAINST
            if (reasons := _reasons([step for step in here if step.against == kind]))["rows"]
        ],
    }


def _side(side: Side) -> dict[str, Any]:
    identity = side.identity
    assert identity is not None
    product, off = identity.product_s, identity.off
    duration, event = identity.duration_s, side.event_s
    lacking = formatting.listed(missing.metric for missing in side.missing)
    return {
        "variant": side.variant,
        "kernel": identity.launch[1],
        "kernels": side.kernels,
        "cells": [
            {"text": value_text(kind.key, value.value, 5), "why": ""}
            if (value := identity.values[kind.key]).value is not None
            else {"text": "", "why": value.why_text}
            for kind in FACTORS
        ],
        "product": formatting.time_ns(product * 1e9, 5) if product is not None else "",
        "product_why": f"there is no {lacking}" if lacking else "",
        "duration": formatting.time_ns(duration.value * 1e9, 5) if duration.value is not None else "",
        "duration_why": duration.why_text,
        "off": f"{off * 100:+.2f} %".replace("-0.00", "0.00").replace("+0.00", "0.00") if off is not None else "",
        "holds": identity.holds,
        "event": formatting.time_ns(event.value * 1e9, 5) if event.value is not None else "",
        "event_why": event.why_text,
        "remarks": remarks(side),
    }


def _exact(step: Step, columns: Sequence[Kind]) -> dict[str, Any]:
    one = step.decomposition
    effects = {effect.kind.key: effect for effect in one.effects}
    product = math.exp(sum(effect.log_gain for effect in one.effects))
    return {
        "name": one.after.variant,
        "over": one.before.variant,
        "speedup": formatting.number(one.speedup, 5) if one.speedup else "",
        "product": formatting.number(product, 5),
        "cells": [
            {"text": formatting.number(effects[kind.key].gain, 5), "title": _values(effects[kind.key])}
            if kind.key in effects
            else {"text": "", "title": "not collected, or one kernel only"}
            for kind in columns
        ],
    }


def _reasons(steps: Sequence[Step]) -> dict[str, Any]:
    """Stall reasons down, steps across: what each reason does to the latency; a column multiplies to its factor."""
    split = [(step, effect) for step in steps if (effect := step.decomposition.effect("latency")) and effect.parts]
    found: dict[str, Reason] = {}
    for _, effect in split:
        for part in effect.parts:
            found.setdefault(part.reason.name, part.reason)
    ordered = sorted(found.values(), key=lambda reason: (reason.name == "", FAMILIES.index(reason.family)))
    columns = [{part.reason.name: part for part in effect.parts} for _, effect in split]
    return {
        "columns": [{"name": step.variant, "over": step.decomposition.before.variant} for step, _ in split],
        "totals": [formatting.number(effect.gain, 5) for _, effect in split],
        "rows": [
            {
                "label": reason.label,
                "meaning": reason.meaning,
                "cells": [_part(column.get(reason.name)) for column in columns],
            }
            for reason in ordered
        ],
    }


def _part(part: Part | None) -> dict[str, str]:
    if part is None:
        return {"text": "", "title": "on neither side"}
    cycles = f"{formatting.number(part.before, 4)} to {formatting.number(part.after, 4)} cycles per instruction"
    return {"text": formatting.number(part.gain, 5), "title": cycles}
