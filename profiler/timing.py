"""Stage time: all living variants, interleaved, cold by default; then checked again on other inputs."""

from __future__ import annotations

from typing import Any

from profiler.model import Dims, Variant
from profiler.run import Run
from profiler.sizes import size_key
from profiler.verify import check_row, run_checks, worse
from profiler.worker.protocol import number
from profiler.worker.spec import problem_spec, variant_spec
from profiler.worker_session import Event, WorkerSession


def time_stage(run: Run, session: WorkerSession, helpers: str | None) -> None:
    """Time every size in every process; write ``samples``, checks taken during and after, and the method."""
    measure = run.experiment.measure
    processes = run.settings.processes or measure.processes
    timed: set[str] = set()
    for process in range(processes):
        if process:
            session.close()
        for dims in run.experiment.problem.sizes:
            key = size_key(dims)
            skipped = run.dir.manifest["skips"]
            variants = [v for v in run.alive() if v.kind != "command" and key not in skipped.get(v.name, {})]
            timed |= {v.name for v in variants}
            _time_size(run, session, helpers, dims, variants, process)
    again = [v for v in run.alive() if v.name in timed]
    if again:
        run_checks(run, session, again, "after", helpers)


def _time_size(
    run: Run, session: WorkerSession, helpers: str | None, dims: Dims, variants: list[Variant], process: int
) -> None:
    """Time one size; a variant that fails is left out and the others are timed anew, so that they stay interleaved."""
    measure = run.experiment.measure
    key = size_key(dims)
    remaining = list(variants)
    while remaining:
        samples: list[dict[str, Any]] = []
        checks: list[dict[str, Any]] = []
        methods: dict[str, dict[str, Any]] = {}
        notes: dict[str, Any] = {}
        failed: dict[str, tuple[str, str]] = {}

        def on_event(
            event: Event,
            samples: list[dict[str, Any]] = samples,
            checks: list[dict[str, Any]] = checks,
            methods: dict[str, dict[str, Any]] = methods,
            notes: dict[str, Any] = notes,
            failed: dict[str, tuple[str, str]] = failed,
        ) -> None:
            kind = event["event"]
            if kind == "sample":
                samples.append(_sample_row(event, str(session.facts["gpu"]["uuid"])))
            elif kind == "check":
                checks.append(check_row(event))
                if event["status"] != "ok":
                    worse(failed, event["variant"], event["status"], f"{key}, a timed launch: {event['reason']}")
            elif kind == "method":
                methods[event["variant"]] = {k: v for k, v in event.items() if k not in ("event", "variant", "size")}
            elif kind == "note":
                notes.update({k: v for k, v in event.items() if k != "event"})
            elif kind == "failed":
                worse(failed, event["variant"], event["status"], event["reason"])

        command = {
            "cmd": "time",
            "problem": problem_spec(run.experiment.problem),
            "helpers": helpers,
            "variants": [variant_spec(run, v) for v in remaining],
            "plan": {
                "dims": dict(dims),
                "samples": measure.samples,
                "warmup_ms": measure.warmup_ms,
                "cache": measure.cache,
                "process": process,
                "seed": int(run.experiment.problem.init.get("seed", 0) or 0),
            },
        }
        outcome = session.ask(command, on_event, run.settings.timeout_s)
        lost = outcome.variant or remaining[0].name
        if outcome.kind != "done" and failed.get(lost, ("", ""))[0] in ("", "wrong_after_timing"):
            worse(failed, lost, "timeout" if outcome.kind == "timeout" else "crashed", f"{outcome.reason} at {key}")
        run.fail(failed)
        for name, (status, reason) in failed.items():
            run.say(f"{name}: {status}: {reason}")
        ended_early = outcome.kind != "done" or any(s not in ("wrong_after_timing",) for s, _ in failed.values())
        remaining = [v for v in remaining if v.name not in failed]
        if ended_early:
            continue
        wrong = set(failed)
        names = {v.name for v in variants}
        scope = {"size": {key}, "variant": names}
        run.dir.update_frame(
            "samples",
            [row for row in samples if row["variant"] not in wrong],
            replacing={**scope, "process": {process}},
        )
        run.dir.update_frame(
            "checks", checks, replacing={**scope, "when": {"during"}} if process == 0 else {"when": {""}}
        )
        timing = dict(run.dir.manifest.get("timing", {}))
        timing.update(
            cache=measure.cache,
            warmup_ms=measure.warmup_ms,
            samples=measure.samples,
            order="shuffled, interleaved",
            **notes,
        )
        timing.setdefault("method", {})[key] = methods
        run.note("timing", timing)
        return


def _sample_row(event: Event, gpu: str) -> dict[str, Any]:
    return {
        "variant": event["variant"],
        "size": event["size"],
        "gpu": gpu,
        "process": event["process"],
        "order": event["order"],
        "method": event["method"],
        "cache": event["cache"],
        "launches": event["launches"],
        "time_ns": number(event["time_ns"]),
        "sm_clock_mhz": number(event["sm_clock_mhz"]),
        "temperature_c": number(event["temperature_c"]),
        "power_w": number(event["power_w"]),
        "throttle": event["throttle"],
        "foreign": event["foreign"],
    }
