"""The card's clocks: what they may be, the SM clock locked while the device stages run, and whether it held still.

A lock outlives the process that set it, for every user of the card. It is therefore released on every way out: return,
error, Ctrl-C, SIGTERM, SIGHUP, interpreter exit; and where the process was killed outright, by the next run on that
card, which finds the marker that was left.
"""

from __future__ import annotations

import atexit
import importlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.errors import LadderError
from profiler.frames import CLOCK_WINDOW_NS
from profiler.run import Run, cache_root

#: More than this between the lowest and the highest clock of a variant's samples, as a share of the highest, is said.
SPREAD = 0.05
_REMARK = "The SM clock varied"


@dataclass(frozen=True)
class CardClocks:
    """What the driver says of a card's clocks; None where it does not."""

    sm_max_mhz: int | None = None
    sm_default_mhz: int | None = None
    memory_max_mhz: int | None = None
    bus_bits: int | None = None


def load_nvml() -> Any:
    """Return the driver's management library, initialised; None where there is none that works."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # no library, no driver, a driver of another version
        return None
    return nvml


def card_clocks(uuid: str, nvml: Any = None) -> CardClocks:
    """Return the clocks of a card."""
    nvml = nvml or load_nvml()
    if nvml is None:
        return CardClocks()
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError:
        return CardClocks()

    def ask(function: str, *args: Any) -> int | None:
        try:
            return int(getattr(nvml, function)(handle, *args))
        except (nvml.NVMLError, AttributeError):
            return None

    return CardClocks(
        ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        ask("nvmlDeviceGetDefaultApplicationsClock", nvml.NVML_CLOCK_GRAPHICS)
        or ask("nvmlDeviceGetClock", nvml.NVML_CLOCK_GRAPHICS, nvml.NVML_CLOCK_ID_APP_CLOCK_DEFAULT),
        ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
        ask("nvmlDeviceGetMemoryBusWidth"),
    )


def card_state(uuid: str, nvml: Any = None) -> dict[str, Any]:
    """Return what else moves times from one session to the next, as the manifest keeps it: ``power_limit_w``, ``ecc``
    and ``mig`` (on or not); what the driver does not say is left out.
    """
    nvml = nvml or load_nvml()
    if nvml is None:
        return {}
    questions: dict[str, Callable[[Any], Any]] = {
        "power_limit_w": lambda handle: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000.0,
        "ecc": lambda handle: bool(nvml.nvmlDeviceGetEccMode(handle)[0]),
        "mig": lambda handle: bool(nvml.nvmlDeviceGetMigMode(handle)[0]),
    }
    found: dict[str, Any] = {}
    for name, ask in questions.items():
        try:
            found[name] = ask(nvml.nvmlDeviceGetHandleByUUID(uuid))
        except (nvml.NVMLError, AttributeError):
            continue
    return found


@contextmanager
def clocks_for(run: Run, nvml: Any = None) -> Iterator[None]:
    """Keep the card's clocks in the manifest and, with ``--lock-clocks``, hold its SM clock; ``LadderError`` when the
    driver does not permit that. To be entered under the card's lock.
    """
    assert run.gpu is not None
    uuid = run.gpu.uuid
    marker = _marker(uuid)
    if not run.settings.lock_clocks:
        if marker.exists():
            _release_left_behind(run, uuid, marker, nvml or load_nvml())
        _note(run, card_clocks(uuid, nvml), None, card_state(uuid, nvml))
        yield
        return
    nvml = nvml or load_nvml()
    if nvml is None:
        raise LadderError("--lock-clocks needs the driver's management library (NVML), which does not answer")
    clocks = card_clocks(uuid, nvml)
    mhz = run.settings.clock_mhz or clocks.sm_default_mhz
    if mhz is None:
        raise LadderError("--lock-clocks: this card names no default clock", hint="name one with --clock-mhz")
    lock = ClockLock(nvml, uuid, marker)
    atexit.register(lock.release)
    previous = _end_on_signals()
    try:
        lock.hold(mhz)
        run.say(f"the SM clock is locked at {mhz} MHz until the measurements end")
        _note(run, clocks, mhz, card_state(uuid, nvml))
        yield
    finally:
        problem = lock.release()
        if problem:
            run.say(problem)
            run.remark(problem)
        for number, handler in previous.items():
            signal.signal(number, handler)
        atexit.unregister(lock.release)


class ClockLock:
    """The SM clock of one card, held at one value until released; releasing twice does no harm."""

    def __init__(self, nvml: Any, uuid: str, marker: Path) -> None:
        self._nvml, self._uuid, self._marker = nvml, uuid, marker
        self._held = False

    def hold(self, mhz: int) -> None:
        """Lock the clock; ``LadderError`` when the driver refuses, and then nothing is locked."""
        nvml = self._nvml
        self._marker.write_text(f"{mhz}\n", encoding="ascii")
        self._held = True  # before the call: an interrupt that arrives with its return finds something to release
        try:
            nvml.nvmlDeviceSetGpuLockedClocks(nvml.nvmlDeviceGetHandleByUUID(self._uuid), mhz, mhz)
        except nvml.NVMLError as error:
            self._held = False
            self._marker.unlink(missing_ok=True)
            permitted = getattr(error, "value", None) != nvml.NVML_ERROR_NO_PERMISSION
            why = f"the driver refuses {mhz} MHz: {error}" if permitted else "the driver permits it to root only"
            hint = "choose another --clock-mhz, or leave --lock-clocks out" if permitted else (
                "run as root, or leave --lock-clocks out: samples are interleaved, so ratios hold without it"
            )  # fmt: skip
            raise LadderError(f"--lock-clocks: the SM clock cannot be locked; {why}", hint=hint) from error

    def release(self) -> str:
        """Let the clock go; return what to tell the user when that fails, else an empty text."""
        if not self._held:
            return ""
        problem = release(self._nvml, self._uuid)
        if not problem:
            self._held = False
            self._marker.unlink(missing_ok=True)
        return problem


def release(nvml: Any, uuid: str) -> str:
    """Release a card's SM clock; return why that failed and what to do, else an empty text."""
    try:
        nvml.nvmlDeviceResetGpuLockedClocks(nvml.nvmlDeviceGetHandleByUUID(uuid))
    except nvml.NVMLError as error:
        return f"The SM clock is still locked ({error}); release it with: nvidia-smi -i {uuid} -rgc"
    return ""


def clock_spreads(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, float, float]]:
    """Return (variant, size, lowest, highest clock in MHz) where a variant's ranked samples differ by more than 5 %.

    Samples in windows too short to tell a clock by are left out.
    """
    clocks: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        window = (row["time_ns"] or 0.0) * (row["launches"] or 1)
        if row["method"] != "sustained" and row["sm_clock_mhz"] and window >= CLOCK_WINDOW_NS:
            clocks.setdefault((str(row["variant"]), str(row["size"])), []).append(float(row["sm_clock_mhz"]))
    return [
        (*key, min(values), max(values)) for key, values in clocks.items() if 1 - min(values) / max(values) > SPREAD
    ]


def remark_on_clocks(run: Run, rows: Iterable[Mapping[str, Any]]) -> None:
    """Remark in the manifest when the clock did not hold still within a variant's samples."""
    spreads = clock_spreads(rows)
    kept = [note for note in run.dir.manifest["notes"] if not str(note).startswith(_REMARK)]
    if len(kept) != len(run.dir.manifest["notes"]):
        run.note("notes", kept)
    if spreads:
        listed = "; ".join(f"{name} at {size}: {low:.0f} to {high:.0f} MHz" for name, size, low, high in spreads[:4])
        more = f"; and {len(spreads) - 4} more" if len(spreads) > 4 else ""
        line = f"{_REMARK} by more than 5 % within the samples of one variant ({listed}{more}). Ratios hold; for times "
        run.remark(line + "that compare across runs, lock it with --lock-clocks.")
        run.say(f"note: the SM clock varied by more than 5 % within the samples of {spreads[0][0]}")


def _note(run: Run, clocks: CardClocks, locked_mhz: int | None, state: Mapping[str, Any]) -> None:
    facts = {"sm_max_mhz": clocks.sm_max_mhz, "memory_max_mhz": clocks.memory_max_mhz, "sm_locked_mhz": locked_mhz}
    known = {name: value for name, value in facts.items() if value is not None}
    if known or state:
        run.note("gpu", {**(run.dir.manifest["gpu"] or {}), **state, **({"clocks": known} if known else {})})


def _marker(uuid: str) -> Path:
    folder = cache_root() / "locks"
    folder.mkdir(exist_ok=True)
    return folder / f"{uuid}.clocks"


def _release_left_behind(run: Run, uuid: str, marker: Path, nvml: Any) -> None:
    problem = release(nvml, uuid) if nvml is not None else "The SM clock may still be locked: NVML does not answer."
    if problem:
        run.say(problem)
        run.remark(problem)
        return
    marker.unlink(missing_ok=True)
    run.say("an earlier run was killed and had left the SM clock locked; it is released")


def _end_on_signals() -> dict[int, Any]:
    """Make SIGTERM and SIGHUP unwind the stack; return the handlers to put back. Handlers belong to the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    heeded = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]  # nohup
    return {number: signal.signal(number, _interrupt) for number in heeded}


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
