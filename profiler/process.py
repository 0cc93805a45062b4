"""The one door for child processes.

Every child gets an argument list (never a shell), its own process group, a timeout, and an entry in the ledger, from
which a run states how much of its wall time was the product's own. On a timeout or an interrupt the whole group ends:
first TERM, then KILL, so that a grandchild never keeps the GPU.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_GRACE_S = 2.0


@dataclass(frozen=True)
class Completed:
    """What a finished child said: exit code (negative: ended by that signal), output as text, and how long it ran."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool = False

    @property
    def output(self) -> str:
        """Standard output and standard error together; tools print their errors on either."""
        return f"{self.stdout}\n{self.stderr}"


@dataclass(frozen=True)
class Interval:
    """One child's life, in seconds of the monotonic clock."""

    label: str
    start: float
    end: float


@dataclass
class Ledger:
    """The intervals of all children of this process; safe to use from several threads."""

    intervals: list[Interval] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, label: str, start: float, end: float) -> None:
        """Record one child's interval."""
        with self._lock:
            self.intervals.append(Interval(label, start, end))

    def union_seconds(self) -> float:
        """Return the length of the union of all intervals, in seconds."""
        total, reach = 0.0, float("-inf")
        for interval in sorted(self.intervals, key=lambda i: i.start):
            start = max(interval.start, reach)
            if interval.end > start:
                total += interval.end - start
                reach = interval.end
        return total


LEDGER = Ledger()
_running: set[int] = set()  # children that some thread is waiting for in `run`
_running_lock = threading.Lock()


class ToolMissing(Exception):
    """The program is not there or cannot be executed."""


_watcher: Callable[[str], None] | None = None


def watch(watcher: Callable[[str], None] | None) -> None:
    """Tell ``watcher`` of every child from now on, in one line each: how it is started, how it ended; None: no more.

    The watcher is called from several threads. The line is what a shell would take, without the environment.
    """
    global _watcher
    _watcher = watcher


def _tell(line: str) -> None:
    if _watcher is not None:
        _watcher(line)


def _tell_start(args: Sequence[str], cwd: Path | None) -> None:
    _tell(f"+ {shlex.join(args)}" + (f"  (in {cwd})" if cwd is not None else ""))


def _tell_end(label: str, returncode: int, seconds: float, *, timed_out: bool = False) -> None:
    ended = "ended after its timeout" if timed_out else describe_exit(returncode)
    _tell(f"  {label}: {ended}, {seconds:.1f} s")


def run(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    label: str = "",
    keep_bytes: int | None = None,
    ledger: Ledger = LEDGER,
) -> Completed:
    """Run a child to its end and return what it said; never raises for its exit code or a timeout.

    Raises ``ToolMissing`` when it cannot be started. ``timeout`` is in seconds. With ``keep_bytes`` only so much of
    the beginning and as much of the end of each stream is kept, however much a child of unknown manners prints, and
    what it leaves running in its group ends with it.
    """
    args = [str(arg) for arg in argv]
    label = label or Path(args[0]).name
    _tell_start(args, cwd)
    started = time.monotonic()
    try:
        child = subprocess.Popen(
            args,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=None if env is None else dict(env),
            start_new_session=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        _tell(f"  {label}: cannot be started: {error.strerror or error}")
        raise ToolMissing(f"{args[0]}: {error.strerror or error}") from error
    with _running_lock:
        _running.add(child.pid)
    timed_out = False
    try:
        if keep_bytes is not None:
            stdout, stderr, timed_out = _bounded(child, timeout, keep_bytes)
        else:
            try:
                stdout, stderr = child.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                timed_out = True
                end_group(child.pid)
                stdout, stderr = _drain(child)
    except BaseException:  # Ctrl-C included: no child outlives the command
        end_group(child.pid)
        child.wait()
        raise
    finally:
        with _running_lock:
            _running.discard(child.pid)
        ledger.add(label, started, time.monotonic())
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
    seconds = time.monotonic() - started
    _tell_end(label, child.returncode, seconds, timed_out=timed_out)
    return Completed(tuple(args), child.returncode, stdout, stderr, seconds, timed_out)


def end_running() -> None:
    """End every child that other threads are waiting for in ``run``; an interrupt reaches the main thread only."""
    with _running_lock:
        pids = list(_running)
    for pid in pids:
        end_group(pid)


class Child:
    """A long-lived child that is spoken to over pipes: lines in on stdin, lines out on a pipe of its own.

    Its standard output and error go to ``log``, so that whatever user code prints cannot disturb the conversation.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        label: str = "",
        ledger: Ledger = LEDGER,
    ) -> None:
        self._started = time.monotonic()
        self._label = label or Path(str(argv[0])).name
        self._ledger = ledger
        self._closed = False
        _tell_start([str(arg) for arg in argv], cwd)
        read_fd, write_fd = os.pipe()
        try:
            with log.open("ab") as sink:
                self._popen = subprocess.Popen(
                    [*(str(arg) for arg in argv), "--reply-fd", str(write_fd)],
                    stdin=subprocess.PIPE,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    cwd=cwd,
                    env=None if env is None else dict(env),
                    start_new_session=True,
                    pass_fds=(write_fd,),
                )
        except OSError as error:
            os.close(read_fd)
            raise ToolMissing(f"{argv[0]}: {error.strerror or error}") from error
        finally:
            os.close(write_fd)
        self.replies: IO[bytes] = os.fdopen(read_fd, "rb", buffering=0)

    @property
    def pid(self) -> int:
        """The child's process id, which is also its group's."""
        return self._popen.pid

    def send(self, line: str) -> None:
        """Write one line to the child; ``BrokenPipeError`` when it is gone."""
        assert self._popen.stdin is not None
        self._popen.stdin.write(line.encode() + b"\n")
        self._popen.stdin.flush()

    def fileno(self) -> int:
        """The descriptor to wait on for replies."""
        return self.replies.fileno()

    def close(self, *, kill: bool = False) -> int:
        """End the child (kindly unless ``kill``) and return its exit code."""
        if not self._closed:
            self._closed = True
            if self._popen.stdin is not None:
                try:
                    self._popen.stdin.close()
                except BrokenPipeError:
                    pass
            if kill:
                end_group(self.pid)
            try:
                self._popen.wait(timeout=10)
            except subprocess.TimeoutExpired:
                end_group(self.pid)
                self._popen.wait()
            self.replies.close()
            ended = time.monotonic()
            self._ledger.add(self._label, self._started, ended)
            _tell_end(self._label, self._popen.returncode, ended - self._started)
        return self._popen.returncode


def end_group(pid: int, *, grace_s: float = _GRACE_S) -> None:
    """End a process group whose leader is our child: TERM, a short wait for the leader, then KILL for what is left."""
    _signal_group(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and not _leader_exited(pid):
        time.sleep(0.02)
    _signal_group(pid, signal.SIGKILL)


def describe_exit(returncode: int) -> str:
    """Return an exit code in words: ``exit code 1`` or ``killed by SIGSEGV``."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"


def tail(text: str, lines: int = 12) -> str:
    """Return the last non-empty lines of a tool's output."""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


def _signal_group(pid: int, sign: signal.Signals) -> None:
    try:
        os.killpg(pid, sign)
    except (ProcessLookupError, PermissionError):
        pass


def _leader_exited(pid: int) -> bool:
    try:  # WNOWAIT leaves the zombie for the owner of the Popen to reap
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _drain(child: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a killed child has said; a daemon that left its group may hold the pipes, and is not waited for."""
    try:
        return child.communicate(timeout=1)
    except subprocess.TimeoutExpired as late:
        child.wait()
        return _text(late.output), _text(late.stderr)


class _Keeper(threading.Thread):
    """Reads a pipe to its end and keeps its beginning and its end."""

    def __init__(self, descriptor: int, most: int) -> None:
        super().__init__(daemon=True)
        self._descriptor, self._most = descriptor, most
        self._head, self._tail = bytearray(), bytearray()
        self._left_out = 0

    def run(self) -> None:
        """Read until nobody holds the other end."""
        with open(self._descriptor, "rb", buffering=0) as pipe:
            while part := pipe.read(1 << 16):
                self._keep(part)

    def _keep(self, part: bytes) -> None:
        room = self._most - len(self._head)
        self._head += part[:room]
        self._tail += part[room:]
        if len(self._tail) > 2 * self._most:
            self._left_out += len(self._tail) - self._most
            del self._tail[: -self._most]

    def text(self) -> str:
        """Return what was kept, with a word on what was not."""
        tail, left_out = bytes(self._tail), self._left_out
        if len(tail) > self._most:
            left_out += len(tail) - self._most
            tail = tail[-self._most :]
        between = f"\n[{left_out} bytes left out]\n" if left_out else ""
        return self._head.decode("utf-8", "replace") + between + tail.decode("utf-8", "replace")


def _bounded(child: subprocess.Popen[str], timeout: float, most: int) -> tuple[str, str, bool]:
    """Wait for a child whose output may have any length; end what it leaves behind in its group."""
    assert child.stdout is not None and child.stderr is not None
    keepers = [_Keeper(os.dup(pipe.fileno()), most) for pipe in (child.stdout, child.stderr)]
    for keeper in keepers:
        keeper.start()
    deadline = time.monotonic() + timeout
    while not (exited := _leader_exited(child.pid)) and time.monotonic() < deadline:
        time.sleep(0.01)
    if exited:
        _signal_group(child.pid, signal.SIGKILL)  # what it left; not reaped yet, it keeps the number from others
    else:
        end_group(child.pid)
    child.wait()
    for keeper in keepers:
        keeper.join(timeout=1)  # a daemon of a session of its own may hold the pipe, and is not waited for
    return keepers[0].text(), keepers[1].text(), not exited


def _text(said: object) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said or "")
