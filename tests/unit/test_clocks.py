"""``--lock-clocks`` on a fake card: released on every way out; and whether the clock held still.

No test here talks to a real driver: the management library is ``tests/fakes/nvml.py``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_less_run import make_run

from profiler.clocks import CardClocks, card_clocks, clock_spreads, clocks_for, remark_on_clocks
from profiler.errors import Exit, LadderError
from profiler.run import Run, Settings
from profiler.toolchain import Gpu
from tests.fakes import nvml

LOCKED = Path(__file__).resolve().parents[1] / "fakes" / "locked.py"
LOCK, RESET = "lock GPU-fake 1755 1755", "reset GPU-fake"


@pytest.fixture(autouse=True)
def _card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml.log"))
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)] == handlers


def a_run(tmp_path: Path, said: list[str] | None = None, *, lock: bool = True, mhz: int | None = None) -> Run:
    run = make_run(tmp_path, "a", said=said)
    run.gpu = Gpu(0, "Fake H200", "GPU-fake", (9, 0), "580", 1)
    run.settings = Settings(lock_clocks=lock, clock_mhz=mhz)
    return run


def marker() -> Path:
    return Path(os.environ["XDG_CACHE_HOME"]) / "kernel-ladder" / "locks" / "GPU-fake.clocks"


def test_the_clock_is_locked_inside_and_released_after(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    with clocks_for(run, nvml):
        assert nvml.said() == [LOCK]
        assert marker().exists()
    assert nvml.said() == [LOCK, RESET]
    assert not marker().exists()
    clocks = run.dir.manifest["gpu"]["clocks"]
    assert clocks == {"sm_max_mhz": 1980, "memory_max_mhz": 3201, "sm_locked_mhz": 1755}
    gpu = run.dir.manifest["gpu"]
    assert (gpu["power_limit_w"], gpu["ecc"]) == (700.0, True)
    assert "mig" not in gpu  # this card does not say


def test_a_named_clock_is_taken(tmp_path: Path) -> None:
    run = a_run(tmp_path, mhz=1410)
    with clocks_for(run, nvml):
        pass
    assert nvml.said()[0] == "lock GPU-fake 1410 1410"
    assert run.dir.manifest["gpu"]["clocks"]["sm_locked_mhz"] == 1410


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, LadderError])
def test_it_is_released_whatever_is_raised(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), clocks_for(a_run(tmp_path), nvml):
        raise error("inside")
    assert nvml.said() == [LOCK, RESET]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_it_is_released_on_a_signal_in_this_process(tmp_path: Path, number: signal.Signals) -> None:
    def end_me() -> None:
        with clocks_for(a_run(tmp_path), nvml):
            os.kill(os.getpid(), number)
            signal.pause()

    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, default)  # nohup has SIGHUP ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            end_me()
    finally:
        signal.signal(number, before)
    assert nvml.said() == [LOCK, RESET]


def test_without_the_flag_nothing_is_touched(tmp_path: Path) -> None:
    run = a_run(tmp_path, lock=False)
    with clocks_for(run, nvml):
        pass
    assert nvml.said() == []
    assert run.dir.manifest["gpu"]["clocks"] == {"sm_max_mhz": 1980, "memory_max_mhz": 3201}


@pytest.mark.parametrize(
    ("refuses", "words"),
    [("permission", "the driver permits it to root only"), ("clock", "the driver refuses 1755 MHz: Invalid Argument")],
)
def test_a_refusal_is_one_clear_line_and_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: str, words: str
) -> None:
    monkeypatch.setenv("FAKE_NVML_REFUSES", refuses)
    with pytest.raises(LadderError, match=words) as caught, clocks_for(a_run(tmp_path), nvml):
        pytest.fail("the stages ran without the lock")
    assert caught.value.code == Exit.USAGE
    assert nvml.said() == []
    assert not marker().exists()


def test_no_management_library_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profiler.clocks.load_nvml", lambda: None)
    with pytest.raises(LadderError, match="NVML"), clocks_for(a_run(tmp_path)):
        pytest.fail("the stages ran without the lock")


def test_a_release_that_fails_is_said_with_the_command_that_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    run = a_run(tmp_path, said)
    with clocks_for(run, nvml):
        monkeypatch.setenv("FAKE_NVML_REFUSES", "reset")
    assert any("nvidia-smi -i GPU-fake -rgc" in line for line in said)
    assert "still locked" in run.dir.manifest["notes"][0]
    assert marker().exists()  # the next run tries again
    monkeypatch.delenv("FAKE_NVML_REFUSES")
    with clocks_for(run, nvml):
        pass
    assert nvml.said()[-1] == RESET
    assert not marker().exists()


def start(folder: Path, how: str) -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, str(LOCKED), str(folder), how], stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.DEVNULL)  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "locked\n"
    child.stdout.close()
    return child


@pytest.mark.parametrize(("how", "code"), [("return", 0), ("error", 1), ("exit", 7)])
def test_a_process_leaves_nothing_locked(tmp_path: Path, how: str, code: int) -> None:
    assert start(tmp_path, how).wait(30) == code
    assert nvml.said() == [LOCK, RESET]
    assert not marker().exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_process_that_is_ended_leaves_nothing_locked(tmp_path: Path, number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here, as under nohup, and so in children")
    child = start(tmp_path, "wait")
    child.send_signal(number)
    assert child.wait(30) != 0
    assert nvml.said() == [LOCK, RESET]
    assert not marker().exists()


def test_what_a_killed_process_left_is_released_by_the_next_run(tmp_path: Path) -> None:
    child = start(tmp_path / "first", "wait")
    child.kill()
    child.wait(30)
    assert nvml.said() == [LOCK]
    said: list[str] = []
    with clocks_for(a_run(tmp_path / "second", said, lock=False), nvml):
        assert nvml.said() == [LOCK, RESET]
    assert any("an earlier run was killed" in line for line in said)
    assert not marker().exists()


def test_what_the_driver_does_not_say_is_missing() -> None:
    assert card_clocks("GPU-fake", nvml) == CardClocks(1980, 1755, 3201, 6144)

    class Silent:
        NVML_CLOCK_SM = NVML_CLOCK_GRAPHICS = NVML_CLOCK_MEM = NVML_CLOCK_ID_APP_CLOCK_DEFAULT = 0
        NVMLError = nvml.NVMLError

        @staticmethod
        def nvmlDeviceGetHandleByUUID(uuid: str) -> str:
            return uuid

    assert card_clocks("GPU-fake", Silent) == CardClocks()


# -- whether the clock held still


def sample(variant: str, mhz: float | None, time_ns: float = 1e6, launches: int = 1, **more: Any) -> dict[str, Any]:
    return {"variant": variant, "size": "M=1", "sm_clock_mhz": mhz, "time_ns": time_ns, "launches": launches,
            "method": "single", **more}  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([sample("a", 1980.0), sample("a", 1890.0)], []),  # 4.5 %
        ([sample("a", 1980.0), sample("a", 1870.0)], [("a", "M=1", 1870.0, 1980.0)]),
        ([sample("a", 1980.0), sample("b", 1500.0)], []),  # between variants is no fault
        ([sample("a", 1980.0), sample("a", None)], []),
        ([sample("a", 1980.0), sample("a", 1500.0, time_ns=5000.0)], []),  # too short to tell a clock by
        ([sample("a", 1980.0), sample("a", 1500.0, time_ns=5000.0, launches=64)], [("a", "M=1", 1500.0, 1980.0)]),
        ([sample("a", 1980.0), sample("a", 1500.0, method="sustained")], []),  # there it is the point
        ([], []),
    ],
)
def test_clocks_that_vary_within_a_variant(rows: list[dict[str, Any]], expected: list[Any]) -> None:
    assert clock_spreads(rows) == expected


def test_the_remark_is_made_once_and_replaced(tmp_path: Path) -> None:
    said: list[str] = []
    run = a_run(tmp_path, said)
    remark_on_clocks(run, [sample("a", 1980.0), sample("a", 1500.0)])
    remark_on_clocks(run, [sample("a", 1980.0), sample("a", 1600.0)])
    assert len(run.dir.manifest["notes"]) == 1
    assert "a at M=1: 1600 to 1980 MHz" in run.dir.manifest["notes"][0]
    assert len(said) == 2
    remark_on_clocks(run, [sample("a", 1980.0)])
    assert run.dir.manifest["notes"] == []
