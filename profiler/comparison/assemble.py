"""From what is on disk to a whole comparison: runs, kept measurements and profiler files, with their causes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from profiler import foreign
from profiler.analysis.rundata import RunData
from profiler.build_sources import folder_name
from profiler.comparison import ledger
from profiler.comparison.baselines import run_name
from profiler.comparison.causes import demoted_counters, explain_row
from profiler.comparison.diffs import row_diffs
from profiler.comparison.kept import Kept
from profiler.comparison.launches import Launch, compare_launches, match, renamed, worded
from profiler.comparison.merging import LABELS
from profiler.comparison.model import Comparison, Design, RowComparison, Settings
from profiler.comparison.verdict import judge_runs
from profiler.errors import UsageError
from profiler.frames import FRAME_NAMES, rows_of
from profiler.parse.ncu import places_by_name
from profiler.rundir import RunDir

Sources = Mapping[str, str]
#: Rows whose text is not compared: nothing was measured on one side, or nothing differs.
_WITHOUT_DIFF = frozenset({"new", "removed", "skipped"})
_LARGEST_SOURCE = 2_000_000


@dataclass(frozen=True)
class Assembled:
    """A comparison, the two runs that it is of, and the sources of each variant by side and file name."""

    comparison: Comparison
    before: RunData
    after: RunData
    sources: Callable[[str], tuple[Sources, Sources]]


def compare_dirs(
    before: RunDir,
    after: RunDir,
    settings: Settings,
    *,
    design: Design = "stored",
    names: tuple[str, str] | None = None,
    only: Collection[str] = (),
) -> Assembled:
    """Return the comparison of two run directories: verdicts, causes, diffs. What unchanged code shows of the card's
    noise goes into its ledger.
    """
    names = names or (run_name(before), run_name(after))
    old, new = (_only(RunData.load(run, details=True), only) for run in (before, after))
    absent = [name for name in only if old.variant(name) is None and new.variant(name) is None]
    if absent:
        raise UsageError(f"--only {absent[0]}: neither run has such a variant")
    edited = [
        f"{label}: {name}.parquet"
        for label, run in zip(LABELS, (before, after), strict=True)
        for name in run.edited_frames()
    ]
    card = new.manifest.get("gpu") or {}
    judged = judge_runs(
        old, new, names=names, settings=settings, table=ledger.table(card), design=design, edited=edited
    )
    if judged.learned and not judged.comparison.same_run:
        ledger.add(card, judged.learned)

    def sources(variant: str) -> tuple[Sources, Sources]:
        return read_sources(before, variant), read_sources(after, variant)

    comparison = explained(judged.comparison, old, new)
    rows = tuple(_with_diffs(row, old, new, sources) for row in comparison.rows)
    return Assembled(replace(comparison, rows=rows), old, new, sources)


def compare_kept(kept: Kept, settings: Settings, *, only: Collection[str] = ()) -> Assembled:
    """Return the comparison of a side-by-side measurement that is on disk."""
    return compare_dirs(kept.before, kept.after, settings, design=kept.design, names=kept.names, only=only)


def compare_files(before: Path, after: Path, settings: Settings) -> Assembled:
    """Return the comparison of two profiler files: counters of launches that correspond, and no verdict on time."""
    files = [foreign.read(path) for path in (before, after)]
    launches: list[list[Launch]] = []
    loaded: list[RunData] = []
    for file in files:
        places = places_by_name(file.report)
        launches.append(
            [
                Launch(places[i].variant, one.mangled, one.demangled or one.function)
                for i, one in enumerate(file.report.launches)
            ]
        )
        data = foreign.frames_of(file)
        loaded.append(RunData(data.manifest, {name: rows_of(data.frame(name)) for name in FRAME_NAMES}))
    matches = match(*launches)
    names = {
        one.after.variant: one.before.variant for one in matches if one.before is not None and one.after is not None
    }
    old, new = loaded[0], renamed(loaded[1], names)
    comparison = explained(compare_launches(old, new, matches, (before.name, after.name), settings), old, new)
    comparison = replace(comparison, rows=tuple(map(worded, comparison.rows)))
    return Assembled(comparison, old, new, lambda variant: ({}, {}))


def explained(comparison: Comparison, before: RunData, after: RunData) -> Comparison:
    """Return a comparison with counters, causes and labels in its rows."""
    if comparison.same_run:
        return comparison
    same = [row.key for row in comparison.rows if row.identity.code == "same"]
    demoted = demoted_counters(before, after, same)
    return replace(comparison, rows=tuple(explain_row(row, before, after, demoted=demoted) for row in comparison.rows))


def read_sources(run: RunDir, variant: str) -> dict[str, str]:
    """Return the texts of ``sources/<variant>/`` by name; files that cannot be read, or are huge, are left out."""
    folder = run.path / "sources" / folder_name(variant)
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        try:
            if path.is_file() and path.stat().st_size <= _LARGEST_SOURCE:
                found[path.relative_to(folder).as_posix()] = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return found


def _with_diffs(
    row: RowComparison, before: RunData, after: RunData, sources: Callable[[str], tuple[Sources, Sources]]
) -> RowComparison:
    if row.verdict in _WITHOUT_DIFF or row.identity.code == "same":
        return row
    return replace(row, diffs=row_diffs(before, after, row.variant, *sources(row.variant)))


def _only(data: RunData, names: Collection[str]) -> RunData:
    if not names:
        return data
    rows = {
        frame: [
            row for row in listed if frame == "ceilings" or row["name" if frame == "variants" else "variant"] in names
        ]
        for frame, listed in data.rows.items()
    }
    return RunData(data.manifest, rows)
