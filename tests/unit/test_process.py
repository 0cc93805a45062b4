"""profiler/process.py with real, small children: Python and sh."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.process import Child, Ledger, ToolMissing, describe_exit, end_group, run, tail


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie answers to kill, but it no longer runs: its parent, here init, has only not looked yet.
    state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    return state != "Z"


def wait_until_gone(pid: int, seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if not alive(pid):
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


def test_output_exit_code_and_time_come_back() -> None:
    ledger = Ledger()
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=10, label="tool", ledger=ledger)
    assert (done.returncode, done.stdout, done.stderr, done.timed_out) == (3, "out\n", "err\n", False)
    assert done.output == "out\n\nerr\n"
    assert [interval.label for interval in ledger.intervals] == ["tool"]
    assert 0 < ledger.union_seconds() < 10


def test_a_child_gets_no_terminal_and_its_own_environment(tmp_path: Path) -> None:
    done = run(
        ["sh", "-c", "pwd; echo $WORD; cat"], timeout=10, cwd=tmp_path, env={"WORD": "x", "PATH": "/bin:/usr/bin"}
    )
    assert done.stdout == f"{tmp_path}\nx\n"


def test_output_that_is_no_text_is_read_all_the_same() -> None:
    assert run(["printf", r"\377ok"], timeout=10).stdout == "�ok"


@pytest.mark.parametrize("argv", [["no-such-program-here"], ["/etc/passwd"], ["/"]])
def test_a_program_that_cannot_start_is_missing(argv: list[str]) -> None:
    with pytest.raises(ToolMissing, match=argv[0]):
        run(argv, timeout=10)


def test_a_timeout_ends_the_grandchild_too(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"sh -c 'trap \"\" TERM; echo $$ > {note}; while :; do sleep 0.05; done' & echo started; wait"
    started = time.monotonic()
    done = run(["sh", "-c", script], timeout=1)
    assert done.timed_out
    assert done.returncode < 0
    assert done.stdout == "started\n"
    assert time.monotonic() - started < 8
    assert wait_until_gone(int(note.read_text(encoding="utf-8")))


def test_a_timeout_does_not_wait_for_what_left_the_group(tmp_path: Path) -> None:
    """A daemon that keeps the pipe open must not hold the run up."""
    note = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ > {note}; exec sleep 30' & wait"
    started = time.monotonic()
    try:
        done = run(["sh", "-c", f"echo said; {script}"], timeout=1)
        assert done.timed_out
        assert done.returncode < 0
        assert done.stdout == "said\n"
        assert time.monotonic() - started < 8
    finally:
        os.kill(int(note.read_text(encoding="utf-8")), signal.SIGKILL)


def test_an_interrupt_leaves_no_child(tmp_path: Path) -> None:
    note = tmp_path / "pid"

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyboardInterrupt):
            run(["sh", "-c", f"echo $$ > {note}; exec sleep 30"], timeout=20)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert wait_until_gone(int(note.read_text(encoding="utf-8")))


def test_end_group_of_a_group_that_is_gone_is_quiet() -> None:
    started = time.monotonic()
    end_group(2**22 - 3)
    assert time.monotonic() - started < 1


INTERVALS = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 100)).map(lambda pair: (min(pair), max(pair))), max_size=12
)


@given(INTERVALS)
def test_the_union_is_what_a_fine_grid_counts(pairs: list[tuple[float, float]]) -> None:
    ledger = Ledger()
    for start, end in pairs:
        ledger.add("x", start, end)
    edges = sorted({edge for pair in pairs for edge in pair})
    expected = sum(
        high - low for low, high in pairwise(edges) if any(start <= low and high <= end for start, end in pairs)
    )
    assert ledger.union_seconds() == pytest.approx(expected)


def test_the_union_counts_overlap_once_and_leaves_gaps_out() -> None:
    ledger = Ledger()
    for start, end in [(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 1.6)]:
        ledger.add("x", start, end)
    assert ledger.union_seconds() == 4.0
    assert Ledger().union_seconds() == 0.0


ECHO = """
import os, sys
fd = int(sys.argv[sys.argv.index("--reply-fd") + 1])
print("noise on stdout", flush=True)
print("noise on stderr", file=sys.stderr, flush=True)
for line in sys.stdin:
    os.write(fd, f"reply to {line.strip()}\\n".encode())
    if line.strip() == "die":
        os.abort()
sys.exit(7)
"""


def child(tmp_path: Path, ledger: Ledger, script: str = ECHO) -> Child:
    return Child([sys.executable, "-c", script], log=tmp_path / "log", ledger=ledger, label="worker")


def test_a_conversation_with_a_child(tmp_path: Path) -> None:
    ledger = Ledger()
    worker = child(tmp_path, ledger)
    for word in ("one", "two"):
        worker.send(word)
        assert worker.replies.readline() == f"reply to {word}\n".encode()
    assert worker.close() == 7
    assert worker.close() == 7  # once more changes nothing
    assert [interval.label for interval in ledger.intervals] == ["worker"]
    log = (tmp_path / "log").read_text(encoding="utf-8")
    assert "noise on stdout" in log
    assert "noise on stderr" in log


def test_a_child_that_dies_ends_the_conversation(tmp_path: Path) -> None:
    worker = child(tmp_path, Ledger())
    worker.send("die")
    assert worker.replies.readline() == b"reply to die\n"
    assert worker.replies.readline() == b""
    code = worker.close()
    assert describe_exit(code) == "killed by SIGABRT"


def test_a_child_that_hangs_is_killed(tmp_path: Path) -> None:
    worker = child(tmp_path, Ledger(), "import time\nwhile True: time.sleep(1)")
    started = time.monotonic()
    assert worker.close(kill=True) < 0
    assert time.monotonic() - started < 5
    assert not alive(worker.pid) if Path(f"/proc/{worker.pid}").exists() else True


def test_a_child_that_cannot_start_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="no-such-program"):
        Child(["no-such-program"], log=tmp_path / "log", ledger=Ledger())


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit code 0"),
        (2, "exit code 2"),
        (-11, "killed by SIGSEGV"),
        (-9, "killed by SIGKILL"),
        (-99, "killed by signal 99"),
    ],
)
def test_exit_codes_in_words(code: int, text: str) -> None:
    assert describe_exit(code) == text


def test_the_tail_leaves_blank_lines_out() -> None:
    assert tail("a\n\nb\n  \nc\n", 2) == "b\nc"
    assert tail("") == ""


@pytest.mark.parametrize("named", ["ncu", "path"])
def test_an_unmarked_test_cannot_start_a_real_tool(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard of tests/conftest.py; a program outside the folder of the tests' fakes counts as real."""
    with tempfile.TemporaryDirectory() as folder:
        tool = Path(folder) / "ncu"
        tool.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", folder, prepend=os.pathsep)
        with pytest.raises(pytest.fail.Exception, match="the test started the real"):
            run(["ncu" if named == "ncu" else tool, "--version"], timeout=10)


def test_a_fake_tool_may_be_started(fakes: Any) -> None:
    fakes.add("ncu", 'echo "fake $1"')
    assert run(["ncu", "--version"], timeout=10).stdout == "fake --version\n"


def test_of_a_long_output_the_beginning_and_the_end_are_kept() -> None:
    script = "import sys\nfor i in range(300_000): print(i)\nsys.stderr.write('done')"
    done = run([sys.executable, "-c", script], timeout=60, keep_bytes=1000)
    assert done.returncode == 0
    assert done.stdout.startswith("0\n1\n")
    assert done.stdout.rstrip().endswith("299999")
    assert "bytes left out" in done.stdout
    assert len(done.stdout) < 2100
    assert done.stderr == "done"
    left_out = int(re.search(r"\[(\d+) bytes left out\]", done.stdout)[1])  # type: ignore[index]
    assert left_out + 2000 == sum(len(str(i)) + 1 for i in range(300_000))


def test_a_short_output_is_whole_and_a_hang_ends() -> None:
    done = run(["sh", "-c", "echo hello; exit 3"], timeout=10, keep_bytes=1000)
    assert (done.returncode, done.stdout, done.timed_out) == (3, "hello\n", False)
    slow = run(["sh", "-c", "echo begun; sleep 100"], timeout=0.5, keep_bytes=1000)
    assert (slow.stdout, slow.timed_out) == ("begun\n", True)
    assert slow.seconds < 6


def test_what_a_child_leaves_in_its_group_ends_with_it() -> None:
    done = run(["sh", "-c", "sleep 100 & echo $!"], timeout=30, keep_bytes=1000)
    assert done.seconds < 10
    ends = time.monotonic() + 10  # the signal was sent; on a busy machine it takes a while until it is dealt with
    while _lives(int(done.stdout)) and time.monotonic() < ends:
        time.sleep(0.01)
    assert not _lives(int(done.stdout))


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
