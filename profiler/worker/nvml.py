"""The card's state during timing: temperature, power, throttle reasons and foreign processes, from NVML at 10 Hz."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any

_PERIOD_S = 0.1
#: Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h). Idle and application clocks are no throttling.
_REASONS: tuple[tuple[int, str], ...] = (
    (0x0000000000000004, "sw_power_cap"),
    (0x0000000000000008, "hw_slowdown"),
    (0x0000000000000010, "sync_boost"),
    (0x0000000000000020, "sw_thermal_slowdown"),
    (0x0000000000000040, "hw_thermal_slowdown"),
    (0x0000000000000080, "hw_power_brake"),
)


@dataclass(frozen=True)
class CardState:
    """The last reading; None where the driver does not say."""

    temperature_c: float | None = None
    power_w: float | None = None
    throttle: str | None = None
    foreign: bool | None = None


def reasons_text(bits: int) -> str:
    """Return throttle reasons in words, comma-separated; empty when there is none."""
    return ",".join(name for bit, name in _REASONS if bits & bit)


class CardWatch:
    """Reads the card's state in a side thread until closed; ``state`` is the last reading."""

    def __init__(self, uuid: str) -> None:
        self.state = CardState()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._handle: Any = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except Exception:  # no library, no driver, another UUID form: the columns stay null
            return
        self._nvml: Any = pynvml
        self._read()
        self._thread = threading.Thread(target=self._loop, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=1)

    def energy_j(self) -> float | None:
        """Return the energy that the card has used since the driver was loaded; None where it does not say."""
        if self._thread is None:
            return None
        value = _value(lambda: self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000.0)
        return None if value is None else float(value)

    def _loop(self) -> None:
        while not self._stop.wait(_PERIOD_S):
            self._read()

    def _read(self) -> None:
        nvml = self._nvml
        self.state = CardState(
            temperature_c=_value(lambda: float(nvml.nvmlDeviceGetTemperature(self._handle, nvml.NVML_TEMPERATURE_GPU))),
            power_w=_value(lambda: nvml.nvmlDeviceGetPowerUsage(self._handle) / 1000.0),
            throttle=_value(lambda: reasons_text(int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle)))),
            foreign=_value(self._foreign),
        )

    def _foreign(self) -> bool:
        pids = {int(p.pid) for p in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)}
        own = os.getpid()
        # In a container the driver may list other pids than ours: then more than one process is one too many.
        return bool(pids - {own}) if own in pids else len(pids) > 1


def _value(read: Any) -> Any:
    try:
        return read()
    except Exception:  # an NVML call that this card or driver does not support
        return None
