"""A run held against itself, in words and as a document. Pure."""

from __future__ import annotations

from typing import Any

from profiler.analysis import formatting
from profiler.comparison.selfcheck import CONFIDENCE, GOAL, Rate, SelfCheck
from profiler.errors import Exit

_SPLIT = {
    "two_process": "whole processes fall to one side or the other",
    "in_process": "the samples of each process fall to one side or the other",
}


def lines(found: SelfCheck, run: str, code: Exit) -> list[str]:
    """Return what is printed; the last line is the outcome."""
    said = [f"{run} against itself, {found.trials} times: {_SPLIT[found.design]}"]
    if found.rows:
        said += [
            f"flagged    {_rate(found.flagged)} rows",
            f"suspected  {_rate(found.suspected)} rows",
            f"any flag   {_rate(found.any_flag)} comparisons of {found.rows} rows",
        ]
    worst = sorted(found.by_row.items(), key=lambda item: -item[1])[:5]
    said += [f"most often {name} at {formatting.size(size)}: {count} times" for (name, size), count in worst]
    reasons = set(found.left_out.values())
    if len(found.left_out) > 1 and len(reasons) == 1 and not found.rows:
        said.append(f"left out   all {len(found.left_out)} rows: {reasons.pop()}")
    else:
        said += [f"left out   {name} at {formatting.size(size)}: {why}" for (name, size), why in found.left_out.items()]
    if found.rows:
        said.append("note       the trials share samples, so the true interval is wider")
    goal = f"more than {formatting.percent(GOAL)} of unchanged rows are flagged"
    outcome = {
        Exit.OK: f"nothing shows that {goal}",
        Exit.SUSPECTED: f"{goal}: noisier than the rule takes it for",
        Exit.BROKEN: "nothing of this run can be split: it takes 20 samples of a row in one process, all measured",
    }
    return [*said, f"{outcome[code]} (exit {int(code)})"]


def to_json(found: SelfCheck) -> dict[str, Any]:
    """Return the check as a JSON document."""
    return {
        "schema": 1,
        "kind": "self",
        "design": found.design,
        "trials": found.trials,
        "rows": found.rows,
        "confidence": CONFIDENCE,
        "goal": GOAL,
        **{name: _rate_json(getattr(found, name)) for name in ("flagged", "suspected", "any_flag")},
        "by_row": [{"variant": name, "size": size, "flags": count} for (name, size), count in found.by_row.items()],
        "left_out": [{"variant": name, "size": size, "why": why} for (name, size), why in found.left_out.items()],
    }


def _rate(rate: Rate) -> str:
    low, high = rate.bounds
    low_text, value, high_text = (formatting.percent(share, 2) for share in (low, rate.value, high))
    return f"{rate.count} of {rate.of} = {value} [{low_text}, {high_text}]"


def _rate_json(rate: Rate) -> dict[str, Any]:
    low, high = rate.bounds
    return {"count": rate.count, "of": rate.of, "share": rate.value, "low": low, "high": high}
