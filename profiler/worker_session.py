"""The pipeline's side of a worker: starts it, speaks to it, finds out which variant it was lost to, starts another."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.process import Child, describe_exit
from profiler.worker.protocol import CONTEXT_LOST

Event = Mapping[str, Any]
#: Importing torch and making a context takes seconds; on a cold disk, many.
START_TIMEOUT_S = 180.0


class WorkerUnusable(Exception):
    """The worker cannot work here at all (no torch, a broken GPU): the reason in one line."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended: ``done``, ``lost`` (the worker died or lost its context) or ``timeout``."""

    kind: str
    variant: str = ""  #: the one to blame when it is not ``done``
    what: str = ""  #: what was being done
    reason: str = ""


class WorkerSession:
    """One worker at a time; a lost one is replaced on the next command."""

    def __init__(self, argv: list[str], env: Mapping[str, str], log: Path) -> None:
        self._argv = argv
        self._env = dict(env)
        self._log = log
        self._child: Child | None = None
        self._greeted = False
        self._pending = b""
        self.facts: dict[str, Any] = {}
        self.started = 0
        self.waited_s = 0.0  #: for the first answer of every worker

    def __enter__(self) -> WorkerSession:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close(kill=kind is not None or not self._greeted)  # one that was never spoken to may still be importing

    def close(self, *, kill: bool = False) -> int | None:
        """End the worker; return its exit code."""
        if self._child is None:
            return None
        code = self._child.close(kill=kill)
        self._child = None
        self._greeted = False
        self._pending = b""
        return code

    def spawn(self) -> None:
        """Start a worker's process unless one is there, without waiting for it.

        It imports what it needs and does not touch the GPU before it is spoken to, so this needs no lock.
        """
        if self._child is None:
            self._child = Child(self._argv, log=self._log, env=self._env, label="worker")
            self.started += 1

    def start(self) -> dict[str, Any]:
        """Start a worker unless one is there; return its hello; raises ``WorkerUnusable``."""
        if self._greeted:
            return self.facts
        self.spawn()
        answers: list[Event] = []
        began = time.monotonic()
        outcome = self._converse({"cmd": "hello"}, answers.append, START_TIMEOUT_S, last="hello")
        self.waited_s += time.monotonic() - began
        if outcome.kind != "done":
            self.close(kill=True)
            raise WorkerUnusable(f"the worker did not start: {outcome.reason}")
        if answers and answers[-1]["event"] == "fatal":
            self.close(kill=True)
            raise WorkerUnusable(str(answers[-1]["reason"]))
        self.facts = dict(answers[-1])
        self._greeted = True
        return self.facts

    def ask(self, command: Mapping[str, Any], on_event: Callable[[Event], None], timeout_s: float) -> Outcome:
        """Send a command and hand every event on until it is done or the worker is lost.

        ``timeout_s`` is the longest silence: every event starts it anew.
        """
        self.start()
        outcome = self._converse(command, on_event, timeout_s, last="done")
        if outcome.kind != "done":
            self.close(kill=True)
        return outcome

    def _converse(
        self, command: Mapping[str, Any], on_event: Callable[[Event], None], timeout_s: float, *, last: str
    ) -> Outcome:
        assert self._child is not None
        blamed: Event = {}
        try:
            self._child.send(json.dumps(command))
        except (BrokenPipeError, OSError):
            pass  # it is gone; what it said before that is still to be read
        deadline = time.monotonic() + timeout_s
        while True:
            line = self._line(deadline)
            if line is None:
                return Outcome(
                    "timeout",
                    str(blamed.get("variant", "")),
                    str(blamed.get("what", "")),
                    f"no answer for {timeout_s:g} s ({blamed.get('what', 'start')})",
                )
            if not line:
                return self._lost(blamed)
            event: Event = json.loads(line)
            deadline = time.monotonic() + timeout_s
            kind = event["event"]
            if kind == "begin":
                blamed = event
            if kind == "fatal":
                if last != "hello":  # no variant is to blame: a new worker would fail in the same way
                    self.close(kill=True)
                    raise WorkerUnusable(str(event["reason"]))
                on_event(event)
                return Outcome("done")
            if kind != last or last == "hello":
                on_event(event)
            if kind == last:
                if event.get("healthy", True):
                    return Outcome("done")
                self.close(kill=True)  # its context is lost; what it has said still counts
                return Outcome("lost", str(blamed.get("variant", "")), str(blamed.get("what", "")), "context lost")

    def _lost(self, blamed: Event) -> Outcome:
        code = self.close() if self._child is not None else 0
        reason = "the CUDA context was lost" if code == CONTEXT_LOST else f"the worker was {_ended(code or 0)}"
        what = str(blamed.get("what", ""))
        return Outcome("lost", str(blamed.get("variant", "")), what, f"{reason} ({what or 'start'})")

    def _line(self, deadline: float) -> bytes | None:
        """Return the next line; ``b""`` at the end of the stream, None when the deadline has passed."""
        assert self._child is not None
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            ready, _, _ = select.select([self._child.fileno()], [], [], left)
            if not ready:
                return None
            chunk = os.read(self._child.fileno(), 1 << 16)
            if not chunk:
                return b""
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line


def worker_argv() -> list[str]:
    """Return the argument list of a worker; with ``-P`` nothing in the current folder shadows a module of ours."""
    return [sys.executable, "-P", "-m", "profiler.worker.main"]


def worker_env(gpu: str, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a worker: one visible GPU, and the project importable.

    Modules are loaded eagerly: a lazy load while the stream is held would deadlock.
    """
    root = str(Path(__file__).resolve().parent.parent)
    paths = [root, *([base["PYTHONPATH"]] if base.get("PYTHONPATH") else [])]
    return {
        **base,
        "CUDA_VISIBLE_DEVICES": gpu,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_MODULE_LOADING": "EAGER",
        "PYTHONPATH": os.pathsep.join(paths),
    }


def _ended(code: int) -> str:
    text = describe_exit(code)
    return text if code < 0 else f"ended with {text}"
