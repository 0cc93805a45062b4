"""Predicted and counted: what the problem says in advance of each variant's counters, beside the counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiler.analysis import formatting
from profiler.analysis.predictions import Prediction
from reports.formatting import slug


def build(found: Sequence[Prediction]) -> dict[str, Any] | None:
    """Return what the template shows; None where nothing was predicted."""
    if not found:
        return None
    counted = [one for one in found if one.holds is not None]
    wrong = [one for one in counted if not one.holds]
    return {"sentence": _sentence(len(found), len(counted), wrong), "rows": [_row(one) for one in found]}


def _sentence(all_of_them: int, counted: int, wrong: Sequence[Prediction]) -> str:
    if not counted:
        return f"{all_of_them} counts were predicted; none was counted here."
    if not wrong:
        return f"All {counted} counts are what the rules of the hardware say in advance."
    names = formatting.listed(dict.fromkeys(formatting.short(one.variant, 40) for one in wrong))
    return f"{len(wrong)} of {counted} counts are not what was predicted: {names}."


def _row(one: Prediction) -> dict[str, Any]:
    return {
        "variant": one.variant,
        "href": f"#variant={slug(one.variant)}",
        "label": one.label,
        "metric": one.metric,
        "predicted": formatting.number(one.predicted, 4),
        "counted": formatting.number(one.counted.value, 4) if one.counted.value is not None else "",
        "why": one.counted.why_text,
        "sort": one.counted.value,
        "predicted_sort": one.predicted,
        "holds": one.holds,
    }
