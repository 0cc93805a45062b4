"""Stage time: all living variants, interleaved, cold by default; sustained blocks where they are wanted; then checked
again on other inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from profiler import frames
from profiler.clocks import remark_on_clocks
from profiler.controls import ceiling_row, controls_for, is_control, row_name
from profiler.model import Dims, Variant
from profiler.problem import InOut
from profiler.reuse import take_over
from profiler.run import Run
from profiler.sizes import size_key
from profiler.verify import check_row, run_checks, worse
from profiler.worker.protocol import number
from profiler.worker.spec import problem_spec, variant_spec
from profiler.worker_session import Event, WorkerSession


@dataclass(frozen=True)
class Taking:
    """How one process takes the samples of one size, as far as the experiment does not say it.

    ``methods``: by variant, as an earlier process has chosen; estimates near the limit would choose another.
    ``shared``: by variant, the one listed before it whose buffers, method and number of samples it takes.
    """

    process: int
    methods: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)


def time_stage(run: Run, session: WorkerSession, helpers: str | None, ceilings: str | None = None) -> None:
    """Time every size in every process; write ``samples``, checks taken during and after, and the method.

    ``ceilings``: the library of the ceiling kernels; with it, a problem bound by memory is timed beside a copy of the
    same bytes, whose rates go into the frame ``ceilings``.
    """
    measure = run.experiment.measure
    processes = run.settings.processes or measure.processes
    sustained = sustained_sizes(run)
    rows = {size_key(dims): _wanted(run, dims) for dims in run.experiment.problem.sizes}
    reused = take_over(run, rows, {size_key(dims) for dims in sustained})
    timed: set[str] = set()
    for process in range(processes):
        if process:
            session.close()
        for dims in run.experiment.problem.sizes:
            variants = _wanted(run, dims, reused)
            timed |= {v.name for v in variants}
            _time_size(run, session, Libraries(helpers, ceilings), dims, variants, process)
        for dims in sustained:
            _sustain_size(run, session, Libraries(helpers), dims, _wanted(run, dims, reused), process)
    remark_on_clocks(run, frames.rows_of(run.dir.frame("samples")))
    again = [v for v in run.alive() if v.name in timed]
    if again:
        run_checks(run, session, again, "after", helpers)


def sustained_sizes(run: Run) -> tuple[Dims, ...]:
    """Return the sizes at which sustained blocks are wanted and possible; remarks on a problem that has none."""
    wanted = run.experiment.measure.sustained
    if not wanted:
        return ()
    if run.problem.tensors(InOut):
        run.remark("No sustained times: in-out tensors would have to be restored inside the block.")
        return ()
    return wanted if isinstance(wanted, tuple) else run.experiment.problem.sizes


@dataclass(frozen=True)
class Libraries:
    """The worker's own kernels: those of the timing method, and those of the ceilings; None where they do not build."""

    helpers: str | None
    ceilings: str | None = None


class Heard:
    """What a worker says while it times one size."""

    def __init__(self, session: WorkerSession, key: str) -> None:
        self._session, self._key = session, key
        self.samples: list[dict[str, Any]] = []
        self.checks: list[dict[str, Any]] = []
        self.methods: dict[str, dict[str, Any]] = {}
        self.notes: dict[str, Any] = {}
        self.failed: dict[str, tuple[str, str]] = {}
        self.unsustained: dict[str, str] = {}
        self.controls: dict[str, list[dict[str, Any]]] = {}
        self.moved: dict[str, int] = {}  #: bytes of one launch of each control

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        kind = event["event"]
        if kind in ("sample", "method") and is_control(event["variant"]):
            if kind == "method":
                self.moved[event["variant"]] = int(event["moved"])
                self.controls.setdefault(event["variant"], [])
            else:
                kept = ("process", "order", "method", "launches", "time_ns", "sm_clock_mhz")
                self.controls.setdefault(event["variant"], []).append({key: event[key] for key in kept})
        elif kind == "sample":
            self.samples.append(_sample_row(event, str(self._session.facts["gpu"]["uuid"])))
        elif kind == "check":
            self.checks.append(check_row(event))
            if event["status"] != "ok":
                reason = f"{self._key}, a timed launch: {event['reason']}"
                worse(self.failed, event["variant"], event["status"], reason)
        elif kind == "method":
            facts = {k: v for k, v in event.items() if k not in ("event", "variant", "size")}
            self.methods[event["variant"]] = facts
        elif kind == "note":
            self.notes.update({k: v for k, v in event.items() if k != "event"})
        elif kind == "failed":
            worse(self.failed, event["variant"], event["status"], event["reason"])
        elif kind == "unsustained":
            self.unsustained[event["variant"]] = event["reason"]


def _wanted(run: Run, dims: Dims, reused: Collection[tuple[str, str]] = ()) -> list[Variant]:
    key, skipped = size_key(dims), run.dir.manifest["skips"]
    wanted = [v for v in run.alive() if v.kind != "command" and key not in skipped.get(v.name, {})]
    return [v for v in wanted if (v.name, key) not in reused]


def _time_size(
    run: Run, session: WorkerSession, libraries: Libraries, dims: Dims, variants: list[Variant], process: int
) -> None:
    """Time one size; a variant that fails is left out and the others are timed anew, so that they stay interleaved."""
    measure, key = run.experiment.measure, size_key(dims)
    heard = time_variants(run, session, libraries, dims, variants, "time", _taking(run, key, process))
    if heard is None:
        return
    scope = {"size": {key}, "variant": {v.name for v in variants}}
    run.dir.update_frame("samples", counting(heard), replacing={**scope, "process": {process}})
    run.dir.update_frame(
        "checks", heard.checks, replacing={**scope, "when": {"during"}} if process == 0 else {"when": {""}}
    )
    timing = dict(run.dir.manifest.get("timing", {}))
    timing.update(
        cache=measure.cache,
        warmup_ms=measure.warmup_ms,
        samples=measure.samples,
        order="shuffled, interleaved",
        processes=max(process + 1, int(timing.get("processes", 0))),
        **heard.notes,
    )
    methods = timing.setdefault("method", {})
    methods[key] = {**methods.get(key, {}), **heard.methods}  # beside those of times that were taken over
    if heard.controls:
        _keep_controls(run, timing, key, heard, process)
    run.note("timing", timing)


def _keep_controls(run: Run, timing: dict[str, Any], key: str, heard: Heard, process: int) -> None:
    """Keep the raw samples of a size's controls in the manifest and their rates, over all processes so far, in the
    frame ``ceilings``.
    """
    kept = timing.setdefault("controls", {})
    before = kept.get(key, {}) if process else {}
    kept[key] = {
        name: {"moved": heard.moved[name], "samples": [*before.get(name, {}).get("samples", []), *samples]}
        for name, samples in heard.controls.items()
    }
    rows = [ceiling_row(name, key, one["moved"], one["samples"]) for name, one in kept[key].items()]
    names = {row_name(name, key) for name in kept[key]}
    run.dir.update_frame("ceilings", [row for row in rows if row is not None], replacing={"name": names})


def _sustain_size(
    run: Run, session: WorkerSession, libraries: Libraries, dims: Dims, variants: list[Variant], process: int
) -> None:
    """Time two blocks of each variant at one size, in ABBA order; without one that fails, the rest are timed anew."""
    key = size_key(dims)
    heard = time_variants(run, session, libraries, dims, variants, "sustained", _taking(run, key, process))
    if heard is None:
        return
    for name, reason in heard.unsustained.items():
        run.remark(f"No sustained time of {name} at {key}: {reason}.")
    names = {v.name for v in variants}
    replacing: dict[str, set[Any]] = {
        "size": {key}, "variant": names, "process": {process}, "method": {"sustained"},
    }  # fmt: skip
    run.dir.update_frame("samples", counting(heard), replacing=replacing)
    run.dir.update_frame("checks", heard.checks, replacing={"when": {""}})  # beside those of the ranked samples


def _taking(run: Run, key: str, process: int) -> Taking:
    chosen = run.dir.manifest.get("timing", {}).get("method", {}).get(key, {}) if process else {}
    return Taking(process, {name: facts["method"] for name, facts in chosen.items()})


def time_variants(
    run: Run,
    session: WorkerSession,
    libraries: Libraries,
    dims: Dims,
    variants: Sequence[Variant],
    command: str,
    taking: Taking,
) -> Heard | None:
    """Return what was heard in the attempt that no variant cut short; None when no variant is left.

    ``command`` is ``time`` or ``sustained``. What fails sets the status of its row.
    """
    measure, key = run.experiment.measure, size_key(dims)
    remaining = list(variants)
    with_controls = command == "time" and libraries.ceilings is not None
    while remaining:
        heard = Heard(session, key)
        message = {
            "cmd": command,
            "problem": problem_spec(run.experiment.problem),
            "helpers": libraries.helpers,
            "variants": [variant_spec(run, v) for v in remaining],
            "plan": {
                "dims": dict(dims),
                "samples": measure.samples,
                "warmup_ms": measure.warmup_ms,
                "cache": measure.cache,
                "process": taking.process,
                "methods": dict(taking.methods),
                "shared": dict(taking.shared),
                "seed": int(run.experiment.problem.init.get("seed", 0) or 0),
                "controls": _controls(run, dims, remaining, libraries.ceilings) if with_controls else [],
            },
        }
        outcome = session.ask(message, heard, run.settings.timeout_s)
        failed = heard.failed
        lost = outcome.variant or remaining[0].name
        if outcome.kind != "done" and failed.get(lost, ("", ""))[0] in ("", "wrong_after_timing"):
            worse(failed, lost, "timeout" if outcome.kind == "timeout" else "crashed", f"{outcome.reason} at {key}")
        refused = {name: failed.pop(name) for name in list(failed) if is_control(name)}
        if refused:  # no variant's fault: the times are taken without it, and there is no share of copy
            with_controls = False
            for name, (_, reason) in refused.items():
                run.remark(f"No control {row_name(name, key)}: {reason}.")
        run.fail(failed)
        for name, (status, reason) in failed.items():
            run.say(f"{name}: {status}: {reason}")
        whole = outcome.kind == "done" and not refused
        if whole and all(status == "wrong_after_timing" for status, _ in failed.values()):
            return heard
        remaining = [v for v in remaining if v.name not in failed]
    return None


def _controls(run: Run, dims: Dims, variants: Sequence[Variant], library: str | None) -> list[dict[str, Any]]:
    wanted = controls_for(run.problem, variants, dims, run.experiment.problem.options)
    return [{"name": one.name, **asdict(one), "library": library} for one in wanted]


def counting(heard: Heard) -> list[dict[str, Any]]:
    """Return the samples of the variants that did not fail."""
    return [row for row in heard.samples if row["variant"] not in heard.failed]


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
