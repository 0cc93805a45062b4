"""What should not have moved between two runs: the ceiling kernels and the rows of identical code. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from profiler.analysis import formatting
from profiler.analysis.rundata import Row, RunData
from profiler.comparison.measured import Measured, clock_alone
from profiler.comparison.model import Control, Settings
from profiler.comparison.noise import NoiseTable

#: A row of identical code that is noisier than this says nothing of a common shift.
_TOO_NOISY = 0.02
#: One control in so many may disagree.
_TOLERATED = 5

State = Literal["steady", "few", "disagree"]


@dataclass(frozen=True)
class Controls:
    """The controls, their median shift, and whether it may be used."""

    found: tuple[Control, ...]
    drift: float  #: log; 0 unless the controls are steady
    state: State
    words: str

    @property
    def ratio(self) -> float | None:
        """The shift as a ratio; None where the controls do not tell one."""
        return math.exp(self.drift) if self.state == "steady" else None


def controls_of(
    before: RunData, after: RunData, identical: Sequence[Measured], settings: Settings, table: NoiseTable
) -> Controls:
    """Return the controls of two stored runs; ``identical`` are the rows whose code is the same."""
    found: list[tuple[str, Literal["ceiling", "identical"], float, float]] = [
        (name, "ceiling", shift, settings.controls_agree) for name, shift in ceiling_shifts(before, after)
    ]
    for item in identical:
        if abs(item.log_ratio) > math.log1p(settings.controls_agree) and clock_alone(item, item.log_ratio):
            continue  # at the power cap: its clock is its own
        floor = table.session_floor(
            item.time_ns,
            (len(item.before.processes), len(item.after.processes)),
            corrected=True,
            within=item.within,
        )
        if floor.sd <= _TOO_NOISY:
            tolerance = max(settings.controls_agree, 3 * floor.sd)
            found.append((f"{item.variant} at {formatting.size(item.size)}", "identical", item.log_ratio, tolerance))
    middle = float(np.median([shift for _, _, shift, _ in found])) if found else 0.0
    listed = tuple(
        Control(name, kind, math.exp(shift), abs(shift - middle) <= math.log1p(tolerance))
        for name, kind, shift, tolerance in found
    )
    unsteady = [control for control in listed if not control.steady]
    if len(unsteady) > len(listed) // _TOLERATED:
        names = ", ".join(f"{c.name} x{c.shift:.3f}" for c in unsteady[:3])
        return Controls(
            listed,
            0.0,
            "disagree",
            f"controls moved apart by more than {formatting.percent(settings.controls_agree)}: {names}",
        )
    if len(listed) - len(unsteady) < settings.controls_needed:
        count = len(listed) - len(unsteady)
        return Controls(
            listed,
            0.0,
            "few",
            f"{count} steady controls; a firm verdict on stored runs takes {settings.controls_needed}",
        )
    return Controls(listed, middle, "steady", "")


def ceiling_shifts(before: RunData, after: RunData) -> list[tuple[str, float]]:
    """Return (name, log time ratio) of each ceiling that both runs measured; a rate that fell is a time that rose.

    Tensor pipes run at the power cap, where the clock is what the kernel leaves of it: theirs is the ratio of cycles.
    """
    rates = [
        {str(row["name"]): _rate(row) for row in run.rows.get("ceilings", ()) if row["origin"] == "measured"}
        for run in (before, after)
    ]
    rates = [{name: rate for name, rate in found.items() if math.isfinite(rate) and rate > 0} for found in rates]
    return [(name, math.log(rates[0][name] / rates[1][name])) for name in rates[0] if name in rates[1]]


def _rate(row: Row) -> float:
    rate = float(row["value"] or 0.0)
    clock = row.get("clock_mhz") if "mma" in str(row.get("level_or_pipe") or "") else None
    return rate / clock if clock else rate
