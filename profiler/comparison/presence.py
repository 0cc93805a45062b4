"""What each run has of a row: measured, absent, skipped, failed; and what that makes of the row. Pure."""

from __future__ import annotations

from typing import Literal

from profiler.analysis.rundata import RunData
from profiler.analysis.taken_over import reused_from
from profiler.comparison.model import Verdict
from profiler.frames import SKIPPED

Had = Literal["measured", "absent", "skipped", "failed", "not_measured"]


def rows_of_both(before: RunData, after: RunData) -> list[tuple[str, str]]:
    """Return (variant, size) of everything that either run has, in the order of AFTER."""
    order: dict[tuple[str, str], None] = {}
    for run in (after, before):
        for variant in run.variants:
            for size in run.sizes:
                order[(str(variant["name"]), size)] = None
    return list(order)


def presence(before: RunData, after: RunData, name: str, size: str) -> tuple[Verdict | None, str]:
    """Return None when both sides have times of their own; otherwise the row's verdict and why."""
    was, now = had(before, name, size), had(after, name, size)
    if now[0] == was[0] == "measured":
        return None, ""
    if now[0] == was[0] == "skipped":
        return "skipped", now[1]
    if now[0] == was[0] == "absent":  # a size that one run has, of a variant that the other has
        return "skipped", "neither run has this variant at this size"
    if now[0] == "absent" or (now[0] == "skipped" and was[0] == "measured"):
        return ("removed", now[1]) if was[0] != "skipped" else ("skipped", f"before: {was[1]}; after: {now[1]}")
    if now[0] == "failed":
        return ("broken", now[1]) if was[0] == "measured" else ("not_measured", f"{now[1]}; before: {was[1] or was[0]}")
    if was[0] == "absent":
        return ("new", was[1]) if now[0] in ("measured", "skipped") else ("not_measured", f"after: {now[1]}")
    if now[0] == "measured" and was[0] in ("failed", "skipped"):
        return "new", f"no time before: {was[1]}"
    if was == now:
        return "not_measured", f"before and after: {was[1]}"
    sides = [f"{label}: {side[1]}" for label, side in (("before", was), ("after", now)) if side[0] != "measured"]
    return "not_measured", "; ".join(sides)


def had(run: RunData, name: str, size: str) -> tuple[Had, str]:
    """Return what a run has of a variant at a size, and why when that is no time of its own."""
    variant = run.variant(name)
    if variant is None:
        return "absent", "the run has no such variant"
    if size not in run.sizes:
        return "absent", "the run has no such size"
    status, reason = str(variant["status"] or "not_run"), str(variant["reason"] or "")
    text = f"{status} ({reason})" if reason else status
    if status == SKIPPED:
        return "skipped", text
    if status == "not_run":
        return "not_measured", text
    if not run.timed(name):
        return "failed", text
    if variant["origin"] != "measured":
        return "not_measured", f"the times are {variant['origin'] or 'of unknown origin'}, not measured in this run"
    if variant["kind"] == "command":
        return "skipped", "a program of its own has no event times, which alone are compared"
    if not run.samples(name, size):
        skipped = [check for check in run.checks(name) if check["size"] == size and check["status"] == SKIPPED]
        return (
            ("skipped", str(skipped[0]["reason"] or SKIPPED)) if skipped else ("not_measured", "no times at this size")
        )
    if taken := reused_from(run.manifest, name, size):
        return "not_measured", f"the times were taken over from {taken}, not measured in this run"
    return "measured", ""
