"""Stage verify: every variant is right before it counts, at every timed size and every check size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from profiler import frames
from profiler.model import Variant
from profiler.run import Run
from profiler.sizes import size_key
from profiler.worker.protocol import number
from profiler.worker.spec import problem_spec, variant_spec
from profiler.worker_session import Event, WorkerSession

#: Checks before and after timing use other inputs than the timed launches and than each other.
SEED_BEFORE, SEED_AFTER = 1, 2


def check_jobs(run: Run, variants: Iterable[Variant], when: str) -> list[dict[str, Any]]:
    """Return the checks to make: all sizes before timing, the timed sizes after it; skipped sizes left out.

    Size by size, so that few inputs and references are in memory at a time; baselines first, so that one that crashes
    does so in its own check and not in that of a variant that is compared with it.
    """
    problem = run.experiment.problem
    base = int(problem.init.get("seed", 0) or 0)
    timed = list(problem.sizes)
    sizes = [*problem.check_sizes, *timed] if when == "before" else timed
    skipped = run.dir.manifest["skips"]
    jobs: list[dict[str, Any]] = []
    special = problem.check_distributions if when == "before" else ()
    cases = [(dims, 0, "") for dims in sizes]
    # Inputs of other kinds have seeds of their own, so that each check is a row that can be told from the others.
    cases += [(dims, 10 * i, name) for i, name in enumerate(special, start=1) for dims in problem.check_sizes or timed]
    baselines = set(run.experiment.baseline.values())
    ordered = sorted(variants, key=lambda variant: variant.name not in baselines)
    for dims, offset, distribution in cases:
        for variant in ordered:
            key = size_key(dims)
            if key in skipped.get(variant.name, {}):
                continue
            jobs.append(
                {
                    "variant": variant.name,
                    "size": key,
                    "dims": dict(dims),
                    "seed": base + (SEED_BEFORE if when == "before" else SEED_AFTER) + offset,
                    "when": when,
                    "distribution": distribution,
                    "stray": when == "before" and dims in timed and not distribution,
                }
            )
    return jobs


def run_checks(run: Run, session: WorkerSession, variants: list[Variant], when: str, helpers: str | None) -> None:
    """Make the checks, surviving lost workers; write rows into ``checks`` and set statuses."""
    jobs = check_jobs(run, variants, when)
    specs = [variant_spec(run, v) for v in run.variants if v in variants or v.name in run.experiment.baseline.values()]
    specs = [s for s in specs if s["name"] in {v.name for v in run.alive()} | {v.name for v in variants}]
    rows: list[dict[str, Any]] = []
    failures: dict[str, tuple[str, str]] = {}

    def on_event(event: Event) -> None:
        if event["event"] == "check":
            row = check_row(event)
            rows.append(row)
            if row["status"] != "ok":
                worse(failures, row["variant"], _status(row["status"], when), f"{row['size']}: {row['reason']}")
        elif event["event"] == "failed":
            worse(failures, event["variant"], event["status"], event["reason"])

    while jobs:
        command = {
            "cmd": "verify",
            "problem": problem_spec(run.experiment.problem),
            "helpers": helpers,
            "variants": specs,
            "baseline": dict(run.experiment.baseline),
            "jobs": jobs,
        }
        outcome = session.ask(command, on_event, run.settings.timeout_s)
        if outcome.kind == "done":
            break
        lost = outcome.variant or jobs[0]["variant"]
        status = "timeout" if outcome.kind == "timeout" else "crashed"
        worse(failures, lost, status, outcome.reason)
        run.say(f"{lost}: {failures[lost][0]}: {failures[lost][1]}")
        done = {(row["variant"], row["size"], row["seed"]) for row in rows}
        jobs = [j for j in jobs if j["variant"] != lost and (j["variant"], j["size"], j["seed"]) not in done]
        specs = [s for s in specs if s["name"] != lost]
    checked = {v.name for v in variants}
    run.dir.update_frame("checks", rows, replacing={"variant": checked, "when": {when}})
    run.fail(failures)


def verify_stage(run: Run, session: WorkerSession, helpers: str | None) -> None:
    """Check all living variants and write ``verified``."""
    run_checks(run, session, [v for v in run.alive() if v.kind != "command"], "before", helpers)
    state = run.status()
    rows = frames.rows_of(run.dir.frame("variants"))
    checks = run.dir.frame("checks")
    right = {str(name) for name in checks.loc[checks["status"] == "ok", "variant"]}
    for row in rows:
        if row["kind"] == "command":
            row["verified"] = "unverified"
        elif row["name"] in right and state[row["name"]] == "ok":
            row["verified"] = "yes"
        elif state[row["name"]] in ("wrong_result", "crashed", "timeout", "launch_failed"):
            row["verified"] = "no"
    run.dir.write_frame("variants", rows)


def check_row(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of ``checks`` from a worker's event."""
    return {
        "variant": event["variant"],
        "size": event["size"],
        "when": event["when"],
        "seed": event["seed"],
        "status": event["status"],
        "reason": event.get("reason") or "",
        "error": number(event.get("error")),
        "tolerance": number(event.get("tolerance")),
        "baseline_error": number(event.get("baseline_error")),
    }


def worse(failures: dict[str, tuple[str, str]], name: str, status: str, reason: str) -> None:
    """Keep the worst failure of a variant; of equal ones the first."""
    old = failures.get(name)
    if old is None or (old[0] != status and frames.worst_status([old[0], status]) == status):
        failures[name] = (status, reason)


def _status(status: str, when: str) -> str:
    return "wrong_after_timing" if status == "wrong_result" and when == "after" else status
