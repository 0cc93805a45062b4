"""What the worker does with each command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profiler.problem import Problem
from profiler.problem_file import problem_class
from profiler.worker import ceilings, clockwork, sustained
from profiler.worker.cases import Cases
from profiler.worker.checks import run_check
from profiler.worker.device import Device, hello, is_context_lost
from profiler.worker.launchable import AbsentSymbol, CudaVariant, PythonVariant, load
from profiler.worker.nvml import CardWatch
from profiler.worker.protocol import Replies
from profiler.worker.spec import problem_ref


class Server:
    """Holds the device, the problem, loaded variants and cases between commands."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies
        self._facts = hello()
        self._device: Device | None = None
        self._problem: type[Problem] | None = None
        self._options: dict[str, str] = {}
        self._cases: Cases | None = None
        self._loaded: dict[str, CudaVariant | PythonVariant] = {}

    def serve(self, command: Mapping[str, Any]) -> bool:
        """Serve one command; False when the context is lost and the worker must end."""
        what = command["cmd"]
        if what == "hello":
            self._replies.send("hello", **self._facts)
            return True
        serving = {"verify": self._verify, "ceilings": self._ceilings}.get(what, self._time)
        if what != "ceilings":
            self._open(command)
        healthy = serving(command)
        self._replies.send("done", healthy=healthy)
        return healthy

    def _open(self, command: Mapping[str, Any]) -> None:
        self._open_device(command)
        if self._problem is None:
            spec = command["problem"]
            self._problem = problem_class(problem_ref(spec))
            self._options = dict(spec["options"])
            self._cases = Cases(self._problem, self._options, spec["init"])

    def _open_device(self, command: Mapping[str, Any]) -> Device:
        if self._device is None:
            self._device = Device(command.get("helpers"))
        return self._device

    def _ceilings(self, command: Mapping[str, Any]) -> bool:
        """Measure the ceilings; whatever goes wrong ends them, and nothing else unless the context is lost."""
        device = self._open_device(command)
        capability = (int(device.properties.major), int(device.properties.minor))
        try:
            ceilings.measure(command["library"], device, capability, self._replies.send)
        except (RuntimeError, OSError) as error:
            lines = str(error).strip().splitlines()
            self._replies.send("unmeasured", reason=lines[0] if lines else type(error).__name__)
            return not is_context_lost()
        return True

    def _variant(self, spec: Mapping[str, Any]) -> CudaVariant | PythonVariant | None:
        """Return a loaded variant, or None after a ``failed`` event."""
        assert self._problem is not None
        name = spec["name"]
        if name not in self._loaded:
            self._replies.send("begin", variant=name, size="", what="load")
            try:
                self._loaded[name] = load(spec, self._problem, self._options)
            except AbsentSymbol as error:
                self._replies.send("failed", variant=name, status="build_failed", reason=str(error), fatal=False)
                return None
            except Exception as error:  # user code runs at import; whatever it raises is its own
                self._replies.send(
                    "failed",
                    variant=name,
                    status="launch_failed",
                    reason=f"cannot be loaded: {type(error).__name__}: {error}",
                    fatal=False,
                )
                return None
        return self._loaded[name]

    def _verify(self, command: Mapping[str, Any]) -> bool:
        assert self._problem is not None
        assert self._cases is not None
        assert self._device is not None
        specs = {spec["name"]: spec for spec in command["variants"]}
        given_up: set[str] = set()
        for job in command["jobs"]:
            name = job["variant"]
            if name in given_up:
                continue
            variant = self._variant(specs[name])
            if variant is None:
                given_up.add(name)
                continue
            baseline_name = command["baseline"].get(specs[name]["dtype"])
            baseline = None
            if baseline_name in specs and baseline_name not in given_up:
                baseline = self._variant(specs[baseline_name])
            self._replies.send("begin", variant=name, size=job["size"], what=f"check ({job['when']})")
            try:
                row = run_check(
                    specs[name], variant, self._problem, self._cases, job, self._options, self._device, baseline
                )
            except Exception as error:  # a Python variant may raise anything
                row = {
                    "variant": name, "size": job["size"], "when": job["when"], "seed": job["seed"],
                    "status": "launch_failed", "reason": f"{type(error).__name__}: {error}",
                }  # fmt: skip
            lost = row["status"] == "crashed" or (row["status"] != "ok" and is_context_lost())
            if lost:
                row["status"] = "crashed"
            self._replies.send("check", **row)
            if lost:
                return False
        return True

    def _time(self, command: Mapping[str, Any]) -> bool:
        assert self._problem is not None
        assert self._cases is not None
        assert self._device is not None
        if command["cmd"] == "time":  # checks and other sizes have other cases
            self._cases.clear()
        variants = [(spec, self._variant(spec)) for spec in command["variants"]]
        ready = [(spec, variant) for spec, variant in variants if variant is not None]
        self._replies.send(
            "note",
            blocking=self._device.blocking,
            flush_bytes=self._device._flush_buffer.numel() * 4,
            l2_bytes=self._device.l2_bytes,
        )
        watch = CardWatch(self._facts["gpu"]["uuid"])
        plan = clockwork.Plan(**command["plan"])
        contenders: list[clockwork.Contender] = []
        timed = sustained.sustain_size if command["cmd"] == "sustained" else clockwork.time_size
        try:
            contenders = timed(
                plan, ready, self._problem, self._cases, self._options, self._device, watch, self._replies.send
            )
        except clockwork.Failed as failed:
            fatal = failed.fatal or is_context_lost()
            self._replies.send(
                "failed",
                variant=failed.name,
                status="crashed" if fatal else failed.status,
                reason=failed.reason,
                fatal=fatal,
            )
            return not fatal
        finally:
            watch.close()
            clockwork.close(contenders)
        return True
