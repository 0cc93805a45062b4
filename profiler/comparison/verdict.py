"""Two runs -> a :class:`Comparison`: who is there, what may be compared, what each row's rule says. Pure.

Causes, counters and diffs are filled in afterwards; the exit code is ``gate.exit_code`` of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from profiler.analysis.rundata import RunData
from profiler.comparison import paired, stored
from profiler.comparison.controls import Controls, controls_of
from profiler.comparison.fingerprint import mismatches, unstated
from profiler.comparison.identity import code_identity
from profiler.comparison.measured import Measured, measured
from profiler.comparison.model import Comparison, Design, Kind, Mismatch, RowComparison, Settings
from profiler.comparison.noise import Entry, NoiseTable, default_table
from profiler.comparison.presence import presence, rows_of_both


@dataclass(frozen=True)
class Judged:
    """A comparison, and what its rows of identical code add to the card's noise ledger."""

    comparison: Comparison
    learned: tuple[Entry, ...]


def judge_runs(
    before: RunData,
    after: RunData,
    *,
    names: tuple[str, str],
    settings: Settings | None = None,
    table: NoiseTable | None = None,
    design: Design = "stored",
    edited: Sequence[str] = (),
) -> Judged:
    """Return the comparison of two runs and what it teaches.

    ``design`` says how they were measured: ``stored`` at different times, else side by side, where ``process`` numbers
    the pair on both sides. ``table`` is the card's noise (default: what is assumed of its name); ``edited`` names files
    that no longer are what their run's manifest says: they are compared all the same, and the comparison says so.
    """
    settings = settings or Settings()
    table = table or default_table(str(_gpu(after).get("name") or ""))
    kind: Kind = "stored" if design == "stored" else "side_by_side"
    places = rows_of_both(before, after)
    rows: dict[tuple[str, str], RowComparison] = {}
    for name, size in places:
        verdict, why = presence(before, after, name, size)
        if verdict is not None:
            identity = code_identity(before, after, name, size)
            rows[name, size] = RowComparison(
                name, size, _dtype(before, after, name), verdict, words=why, identity=identity
            )
    timed = [place for place in places if place not in rows]
    found = mismatches(before, after, timed, settings.allow)
    items = [measured(before, after, *place, code_identity(before, after, *place), settings) for place in timed]
    same = before.manifest == after.manifest and before.rows == after.rows
    controls = _controls(before, after, items, settings, table) if design == "stored" and not same else None
    open_items = []
    for item in items:
        stops = [m for m in found if m.action == "refuse" and _concerns(m, item)]
        if stops:
            rows[item.variant, item.size] = item.bare("incomparable", "; ".join(map(str, stops)))
        else:
            open_items.append(item)
    verdicts = _verdicts(open_items, controls, settings, table, design)
    for item, row in zip(open_items, verdicts, strict=True):
        rows[item.variant, item.size] = _same_row(row) if same else row
    comparison = Comparison(
        before=names[0],
        after=names[1],
        kind=kind,
        rows=tuple(rows[place] for place in places),
        mismatches=tuple(found),
        controls=controls.found if controls is not None else (),
        drift=controls.ratio if controls is not None else None,
        settings=settings,
        design=design,
        same_run=same,
        edited=tuple(edited),
        notes=_notes(before, after, same, controls, rows.values()),
        facts=_facts(before, after),
    )
    doubtful = same or edited or any(m.action != "warn" for m in found)
    doubtful = doubtful or any(row.reason == "environment" for row in comparison.rows)
    session = " .. ".join(names)
    learned: list[Entry] = []
    if not doubtful and controls is not None:
        learned = stored.ledger_entries(open_items, controls, table, settings, session)
    elif not doubtful:
        learned = paired.ledger_entries(open_items, settings, design, session)
    return Judged(comparison, tuple(learned))


def _controls(
    before: RunData, after: RunData, items: Sequence[Measured], settings: Settings, table: NoiseTable
) -> Controls:
    steady = [i for i in items if i.identity.code == "same" and i.before.processes and i.after.processes]
    return controls_of(before, after, steady, settings, table)


def _verdicts(
    items: Sequence[Measured], controls: Controls | None, settings: Settings, table: NoiseTable, design: Design
) -> list[RowComparison]:
    if design != "stored":
        return paired.paired_rows(items, settings, table, design)
    return stored.stored_rows(items, controls or Controls((), 0.0, "few", ""), settings, table)


def _same_row(row: RowComparison) -> RowComparison:
    """A run against itself: what was measured is unchanged by definition, what was not stays what it is."""
    if row.ratio is None:
        return row
    return replace(row, verdict="unchanged", reason="", words="the same run on both sides", direction="")


def _concerns(mismatch: Mismatch, item: Measured) -> bool:
    return not mismatch.rows or (item.variant, item.size) in mismatch.rows


def _notes(
    before: RunData,
    after: RunData,
    same: bool,
    controls: Controls | None,
    rows: Iterable[RowComparison],
) -> tuple[str, ...]:
    rows = list(rows)
    found: list[str] = []
    if controls is not None and controls.state != "steady" and not same:
        found.append(controls.words)
    gone = {row.variant: before.variant(row.variant) for row in rows if row.verdict == "removed"}
    fresh = {row.variant: after.variant(row.variant) for row in rows if row.verdict == "new"}
    for old, was in gone.items():
        for new, now in fresh.items():
            if was and now and old != new and was["source_hash"] and was["source_hash"] == now["source_hash"]:
                found.append(f"{new} has the source that {old} had before: was it renamed?")
    silent = unstated(before, after)
    if silent:
        found.append(f"neither run states {', '.join(silent)}")
    return tuple(found)


def _facts(before: RunData, after: RunData) -> dict[str, str]:
    found = {}
    for label, run in (("before", before), ("after", after)):
        gpu = _gpu(run)
        facts = {
            "gpu": gpu.get("name"),
            "uuid": gpu.get("uuid"),
            "driver": gpu.get("driver"),
            "created": run.manifest.get("created"),
            "tool_version": run.manifest.get("tool_version"),
        }
        found.update({f"{label}.{key}": str(value) for key, value in facts.items() if value})
    return found


def _dtype(before: RunData, after: RunData, name: str) -> str:
    return str((after.variant(name) or before.variant(name) or {}).get("dtype") or "")


def _gpu(run: RunData) -> Mapping[str, Any]:
    gpu = run.manifest.get("gpu")
    return gpu if isinstance(gpu, Mapping) else {}
