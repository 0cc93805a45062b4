"""Profiles of programs: each in an ncu process of its own, its launches meant by demangled name, skip and count.

The program is not ours, so no range tells its launches apart. It runs from its beginning under the profiler; what
counts are the launches that its times were taken of (one of those that are only repeated). Its profiles are not kept
for later runs: nothing says what a program depends on.
"""

from __future__ import annotations

from profiler import process
from profiler.build_sources import folder_name
from profiler.errors import LadderError
from profiler.model import Variant
from profiler.ncu_command import Outcome, classify_log, program_argv
from profiler.ncu_reader import read_report, reader_paths
from profiler.parse.folders import without_folders
from profiler.parse.launches import NoSuchLaunch, Wanted, chosen
from profiler.parse.ncu import Place, RawReport, rows_of_report
from profiler.profile import (
    Plan,
    by_pair,
    pairs_at,
    plan_for,
    read_text,
    rows_of_reason,
    to_profile,
    without_names,
    write,
)
from profiler.profile_cache import Pair, Profile
from profiler.programs import KEPT_BYTES, environment, options_of, programs_of, scratch, words, working_folder
from profiler.run import Run
from profiler.sizes import size_key

#: Replay runs each kernel some dozens of times.
_SLOWER = 4.0
#: Outcomes of the stage before this one that hold for programs, too: the reasons that rows give.
_NO_COUNTERS = {
    "not_permitted": "not_permitted", "busy": "not_collected", "unsupported": "not_collected",
    "too_old": "not_collected", "bad_option": "not_collected", "no_ncu": "not_collected", "no_gpu": "not_collected",
}  # fmt: skip


def profile_programs(run: Run) -> None:
    """Profile every living program at every profiled size; a failure is ``profile_failed``, and its time stays."""
    pairs = program_pairs(run)
    ncu, note = run.toolchain.ncu, dict(run.dir.manifest.get("profile") or {})
    if not pairs:
        return
    if run.gpu is None or ncu is None:
        why = run.toolchain.why_missing("ncu") or "ncu was not found" if ncu is None else "there is no GPU here"
        known = note.get("outcome") not in (None, "nothing_to_profile")
        run.note("profile", note if known else {**note, "outcome": "no_ncu", "reason": without_folders(why)})
        write(run, [pair for _, pair in pairs], [], rows_of_reason([pair for _, pair in pairs], "not_collected"))
        return
    if (reason := _NO_COUNTERS.get(str(note.get("outcome")))) is not None:
        write(run, [pair for _, pair in pairs], [], rows_of_reason([pair for _, pair in pairs], reason))
        return
    plan = plan_for(run, ncu)
    profiles: dict[Pair, Profile] = {}
    failed: dict[Pair, str] = {}
    refused: Outcome | None = None
    for number, (variant, pair) in enumerate(pairs):
        if refused is not None:
            continue
        run.say(f"profile: {pair[0]} at {pair[1]}, in a process of its own")
        profile, outcome = _profile(run, plan, variant, pair, number)
        if outcome.kind == "unknown_metric":
            plan = without_names(plan, outcome.names)
            run.say(f"profile: {outcome.message}; profiled without")
            profile, outcome = _profile(run, plan, variant, pair, number)
        if profile is not None:
            profiles[pair] = profile
        elif outcome.final:
            refused = outcome
        else:
            failed[pair] = outcome.message or "ncu profiled nothing"
    all_pairs = [pair for _, pair in pairs]
    rest = [pair for pair in all_pairs if pair not in profiles and pair not in failed]
    empty = rows_of_reason(list(failed), "failed")
    why_rest = "not_permitted" if refused is not None and refused.kind == "permission" else "not_collected"
    write(run, all_pairs, profiles.values(), [*empty, *rows_of_reason(rest, why_rest)])
    if refused is not None and note.get("outcome") in (None, "nothing_to_profile"):
        kind = "not_permitted" if refused.kind == "permission" else refused.kind
        note |= {"outcome": kind, "reason": refused.message, "hint": refused.hint}
        run.say(f"no hardware counters: {refused.message}")
    elif note.get("outcome") in (None, "nothing_to_profile"):
        note |= {"outcome": "ok" if profiles else "other", "ncu_version": ncu.version, "cache_control":
                 plan.options.cache_control, "clock_control": plan.options.clock_control}  # fmt: skip
    note["programs"] = len(profiles)
    if failed:
        told = {f"{name} at {size}": why for (name, size), why in failed.items()}
        note["failed"] = {**note.get("failed", {}), **told}
    run.note("profile", note)
    reasons: dict[str, tuple[str, str]] = {}
    for (name, size), text in failed.items():
        reasons.setdefault(name, ("profile_failed", f"{size}: {text}"))
        run.say(f"{name} at {size}: profile_failed: {text}")
    run.fail(reasons)


def program_pairs(run: Run) -> list[tuple[Variant, Pair]]:
    """Return the programs to profile with their (variant, size key).

    A program that prints its time and names no kernel has none that its time is of, and is not profiled.
    """
    meant = [v for v in programs_of(run) if options_of(v).time == "trace" or options_of(v).launches.get("match")]
    pairs = to_profile(run, pairs_at(run, [v.name for v in meant]))
    return [(run.experiment.variant(name), (name, size)) for name, size in pairs]


def _profile(run: Run, plan: Plan, variant: Variant, pair: Pair, number: int) -> tuple[Profile | None, Outcome]:
    """Return a program's profile at a size, or None and why there is none."""
    dims = next(dims for dims in run.experiment.problem.sizes if size_key(dims) == pair[1])
    wanted = Wanted.of(options_of(variant).launches)
    stem = f"program-{folder_name(variant.name)}-{number}"
    report, log = run.dir.raw(f"{stem}.ncu-rep"), run.dir.raw(f"{stem}.ncu.log")
    for old in (report, log):
        old.unlink(missing_ok=True)
    timeout = _SLOWER * run.settings.timeout_s
    with scratch() as home:
        argv = words(run, variant, options_of(variant).argv, dims)
        try:
            done = process.run(
                program_argv(plan.ncu, argv, report, log, plan.metrics, wanted, plan.options), timeout=timeout,
                env=environment(run, variant, home), cwd=working_folder(run, variant), label="ncu",
                keep_bytes=KEPT_BYTES,
            )  # fmt: skip
        except process.ToolMissing as error:
            return None, Outcome("other", f"ncu cannot be started: {str(error).rpartition(': ')[2]}")
        outcome = classify_log(read_text(log) + done.output, done.returncode)
        if outcome.final:
            return None, outcome
        if done.timed_out:
            return None, Outcome("other", f"ncu did not end within {timeout:.0f} s", "raise --timeout")
        if not report.is_file():
            if outcome.kind in ("ok", "app_failed"):
                outcome = Outcome("other", "ncu ended well but wrote no report", "its log is in raw/")
            return None, _no_launch(outcome, wanted)
        try:
            raw = read_report(report, home, timeout_s=max(120.0, timeout), reader_path=reader_paths(plan.ncu.path))
        except LadderError as error:
            return None, Outcome("other", error.message, error.hint)
    return _rows(plan, raw, wanted, pair)


def _rows(plan: Plan, raw: RawReport, wanted: Wanted, pair: Pair) -> tuple[Profile | None, Outcome]:
    """Return the profile of a report, whose launches are those that were asked for."""
    names = [launch.demangled or launch.function for launch in raw.launches]
    try:  # what was skipped is not in the report
        places = chosen(names, Wanted(wanted.match, 0, wanted.profiled, wanted.combine)) if names else []
    except NoSuchLaunch as error:
        return None, Outcome("other", without_folders(str(error)))
    if not places:
        return None, _no_launch(Outcome("no_kernels"), wanted)
    numbered = {place: Place(*pair, launch) for launch, place in enumerate(places)}
    rows = rows_of_report(raw, numbered, available=plan.available, extra=plan.extra)
    for row in rows.source:
        row["file"] = without_folders(row["file"]) if row["file"] else row["file"]
    return by_pair(rows).get(pair), Outcome("ok")


def _no_launch(outcome: Outcome, wanted: Wanted) -> Outcome:
    if outcome.kind != "no_kernels":
        return outcome
    what = f" that matches {wanted.match!r}" if wanted.match is not None else ""
    after = f" after the first {wanted.skip}" if wanted.skip else ""
    return Outcome("no_kernels", f"ncu saw no launch{what}{after}", "its log is in raw/")
