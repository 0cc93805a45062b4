"""Two sides measured side by side on this card: built from their own copies, verified, timed in interleaved pairs.

Pairs of processes run in the order A B B A A B ..., so that a drift of the card falls on both sides alike; or both
sides are loaded into one process, where they work on the same buffers and take turns launch by launch. A pair is the
unit that replicates. Rows that are decided drop out; rows in which a change shows are confirmed by fresh pairs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from profiler import frames
from profiler.build import build_layouts, write_files
from profiler.build_sources import folder_name
from profiler.clocks import clocks_for
from profiler.comparison.escalation import Step
from profiler.comparison.merging import LABELS, Key, Merged, plain, sided
from profiler.comparison.model import CONFIRMATION_BASE, Design
from profiler.model import Dims, Variant
from profiler.pipeline import gpu_lock, remember_device
from profiler.run import Run
from profiler.sizes import size_key
from profiler.static import static_stage
from profiler.timing import Libraries, Taking, counting, time_variants
from profiler.verify import run_checks
from profiler.worker_session import WorkerSession

#: Samples of a variant and size in one process.
SAMPLES: Mapping[Design, int] = {"two_process": 50, "in_process": 100}
_NOTHING: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
#: From this many cores on two workers start ahead: importing takes longer than short kernels do.
MANY_CORES = 8
#: From (row, its samples before, its samples after) to what it needs next.
Decide = Callable[[Key, Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], Step]


@dataclass(frozen=True)
class Pair:
    """One pair that was measured."""

    number: int  #: the ``process`` of its samples; from :data:`CONFIRMATION_BASE` on of the second stage
    first: str  #: the side that went first; empty where both shared a process
    rows: int


@dataclass
class SideBySide:
    """What was measured side by side, by merged names."""

    design: Design
    samples: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    methods: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)  #: by size and plain name
    notes: dict[str, Any] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)


def build_sides(run: Run, merged: Merged, hashes: Mapping[str, str]) -> None:
    """Build both sides from their copies and analyse the binaries; ``hashes`` are the runs' own, by merged name."""
    for name, files in merged.layouts.items():
        write_files(run.dir.path / "sources" / folder_name(name), files.contents)
    rows = frames.rows_of(run.dir.frame("variants"))
    for row in rows:
        row["source_hash"] = hashes.get(row["name"], row["source_hash"])
    run.dir.write_frame("variants", rows)
    run.fail({name: ("not_run", why) for name, why in merged.unreadable.items()})
    alive = {variant.name for variant in run.alive()}
    build_layouts(run, {name: files for name, files in merged.layouts.items() if name in alive})
    static_stage(run)


def measure_sides(
    run: Run,
    merged: Merged,
    design: Design,
    decide: Decide,
    workers: Callable[[], WorkerSession],
    helpers: Callable[[], str | None],
    after_pair: Callable[[SideBySide], None] = lambda found: None,
) -> SideBySide:
    """Verify both sides and measure them until every row is decided; statuses and checks are in ``run``.

    ``after_pair`` is given what there is after each pair.
    Raises ``WorkerUnusable`` where no worker can work here.
    """
    assert run.gpu is not None
    found = SideBySide(design)
    with gpu_lock(run, run.gpu.uuid), clocks_for(run), Fresh(workers) as fresh:
        library = helpers()
        session = fresh.take(more=True)
        remember_device(run, session.start())
        groups = identical_groups(run)
        run.say(f"verify: {len(groups)} kernels of {len(run.alive())}")
        verify(run, session, groups, "before", library)
        _measure_all(run, merged, found, decide, fresh, library, after_pair)
        verify(run, fresh.take(more=False), groups, "after", library)
    return found


class Fresh:
    """Workers one after another, each a new process; the next ones import while the present one measures."""

    def __init__(self, make: Callable[[], WorkerSession], ahead: int | None = None) -> None:
        self._make = make
        self._present: WorkerSession | None = None
        self._waiting: list[WorkerSession] = []
        self._ahead = ahead or (2 if (os.cpu_count() or 1) >= MANY_CORES else 1)

    def __enter__(self) -> Fresh:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for session in self._waiting:  # killed: they may still be importing
            session.close(kill=True)
        if self._present is not None:
            self._present.close(kill=kind is not None)

    def take(self, *, more: bool) -> WorkerSession:
        """Return a worker that nothing has been asked of; with ``more``, others start behind it."""
        if self._present is not None:
            self._present.close()
        self._present = self._waiting.pop(0) if self._waiting else self._make()
        self._present.spawn()
        while more and len(self._waiting) < self._ahead:
            self._waiting.append(self._make())
            self._waiting[-1].spawn()
        return self._present


def identical_groups(run: Run) -> list[list[Variant]]:
    """Return the living variants, those that are one and the same code together: each is verified once."""
    builds, skipped = run.builds, run.dir.manifest["skips"]
    groups: dict[Any, list[Variant]] = {}
    for variant in run.alive():
        build = builds.get(variant.name)
        code = build["key"] if build is not None else (str(variant.source), variant.function, str(variant.params))
        skips = tuple(sorted(skipped.get(variant.name, {})))
        groups.setdefault((variant.kind, variant.dtype, code, skips), []).append(variant)
    return list(groups.values())


def verify(
    run: Run, session: WorkerSession, groups: Iterable[Sequence[Variant]], when: str, helpers: str | None
) -> None:
    """Check one of each group; what it says is said of all of them."""
    alive = {variant.name for variant in run.alive()}
    living = [[v for v in group if v.name in alive] for group in groups]
    living = [group for group in living if group]
    run_checks(run, session, [group[0] for group in living], when, helpers)
    state = {row["name"]: (row["status"], row["reason"]) for row in frames.rows_of(run.dir.frame("variants"))}
    run.fail({v.name: state[g[0].name] for g in living for v in g[1:] if state[g[0].name][0] != "ok"})
    checks = frames.rows_of(run.dir.frame("checks"))
    lead = {v.name: group[0].name for group in living for v in group[1:]}
    copied = [
        {**row, "variant": name}
        for name, first in lead.items()
        for row in checks
        if row["variant"] == first and row["when"] == when
    ]
    run.dir.update_frame("checks", copied, replacing={"variant": set(lead), "when": {when}})
    right = {row["variant"] for row in frames.rows_of(run.dir.frame("checks")) if row["status"] == "ok"}
    rows = frames.rows_of(run.dir.frame("variants"))
    for row in rows:
        row["verified"] = "yes" if row["status"] == "ok" and row["name"] in right else row["verified"]
        if row["status"] in ("wrong_result", "crashed", "timeout", "launch_failed"):
            row["verified"] = "no"
    run.dir.write_frame("variants", rows)


def rows_of(run: Run, merged: Merged) -> list[Key]:
    """Return the rows that both sides can be measured in."""
    alive = {variant.name for variant in run.alive()}
    skipped = run.dir.manifest["skips"]
    return [
        (name, size_key(dims))
        for dims in run.experiment.problem.sizes
        for name in merged.names
        if all(
            (full := sided(label, name)) in alive and size_key(dims) not in skipped.get(full, {}) for label in LABELS
        )
    ]


def same_code(run: Run, merged: Merged) -> set[Key]:
    """Return the rows whose two sides are one machine code, in one library, called with the same parameters."""
    builds, variants = run.builds, {variant.name: variant for variant in run.variants}
    codes = {row["name"]: row["binary_hash"] for row in frames.rows_of(run.dir.frame("variants"))}
    found = set()
    for name, size in rows_of(run, merged):
        sides = [sided(label, name) for label in LABELS]
        facts = [(codes.get(one), (builds.get(one) or {}).get("key"), variants[one].params) for one in sides]
        if facts[0] == facts[1] and facts[0][0] and facts[0][1]:
            found.add((name, size))
    return found


def _measure_all(
    run: Run,
    merged: Merged,
    found: SideBySide,
    decide: Decide,
    fresh: Fresh,
    helpers: str | None,
    after_pair: Callable[[SideBySide], None],
) -> None:
    """Take pairs until no row needs another; a row that was asked for and brought no sample is not asked for again."""
    taken = {1: 0, 2: 0}
    asked: dict[Key, int] = {}  # how many samples a row had when it was last measured
    decided: dict[Key, tuple[int, Step]] = {}  # the same, when it was last decided: without new ones it stays so
    while True:
        have = _samples(found)
        rows = rows_of(run, merged)
        count = {row: sum(map(len, have.get(row, _NOTHING))) for row in rows}
        new = [row for row in rows if row not in decided or decided[row][0] != count[row]]
        decided |= {row: (count[row], decide(row, *have.get(row, _NOTHING))) for row in new}
        steps = {row: decided[row][1] for row in rows}
        open_steps = {row: step for row, step in steps.items() if not step.done and asked.get(row) != count[row]}
        if not open_steps:
            break
        stage = min(step.stage for step in open_steps.values())  # every search ends before the first confirmation
        wanted = {row: step.pairs for row, step in open_steps.items() if step.stage == stage}
        asked |= {row: count[row] for row in wanted}
        for index in range(max(wanted.values())):
            living = set(rows_of(run, merged))
            rows = [row for row, pairs in wanted.items() if pairs > index and row in living]
            if not rows:
                break
            run.say(f"{'confirming: ' if stage == 2 else ''}pair {taken[stage] + 1}, {len(rows)} rows")
            number = taken[stage] + (CONFIRMATION_BASE if stage == 2 else 0)
            taken[stage] += 1
            _measure_pair(run, merged, found, number, rows, fresh, helpers)
            after_pair(found)


def _samples(found: SideBySide) -> dict[Key, tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Return the samples of each row, before and after."""
    rows: dict[Key, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {}
    for sample in found.samples:
        label, _, name = str(sample["variant"]).partition(":")
        rows.setdefault((name, str(sample["size"])), ([], []))[LABELS.index(label)].append(sample)
    return rows


def _measure_pair(
    run: Run, merged: Merged, found: SideBySide, number: int, rows: Sequence[Key], fresh: Fresh, helpers: str | None
) -> None:
    if found.design == "in_process":
        _measure_process(run, found, number, rows, LABELS, merged.shared, fresh.take(more=True), helpers)
        found.pairs.append(Pair(number, "", len(rows)))
        return
    order = LABELS if number % 2 == 0 else LABELS[::-1]
    for label in order:
        _measure_process(run, found, number, rows, (label,), {}, fresh.take(more=True), helpers)
    found.pairs.append(Pair(number, order[0], len(rows)))


def _measure_process(
    run: Run,
    found: SideBySide,
    number: int,
    rows: Sequence[Key],
    labels: Sequence[str],
    shared: Mapping[str, str],
    session: WorkerSession,
    helpers: str | None,
) -> None:
    for dims in run.experiment.problem.sizes:
        variants = _variants(run, dims, rows, labels)
        if not variants:
            continue
        known = found.methods.setdefault(size_key(dims), {})
        methods = {v.name: known[plain(v.name)]["method"] for v in variants if plain(v.name) in known}
        heard = time_variants(run, session, Libraries(helpers), dims, variants, "time", Taking(number, methods, shared))
        if heard is None:
            continue
        found.samples += counting(heard)
        found.checks += heard.checks
        found.notes.update(heard.notes)
        for name, facts in heard.methods.items():
            known.setdefault(plain(name), facts)


def _variants(run: Run, dims: Dims, rows: Sequence[Key], labels: Sequence[str]) -> list[Variant]:
    key = size_key(dims)
    names = {sided(label, name) for name, size in rows if size == key for label in labels}
    return [variant for variant in run.alive() if variant.name in names] if names else []
