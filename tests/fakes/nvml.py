"""A management library without a card: what is locked and released goes to a file, in order.

``FAKE_NVML`` names that file; ``FAKE_NVML_REFUSES`` holds ``permission``, ``clock`` or ``reset``.
"""

from __future__ import annotations

import os
from pathlib import Path

NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_ID_APP_CLOCK_DEFAULT = 0, 1, 2, 2
NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_NO_PERMISSION, NVML_ERROR_UNKNOWN = 2, 4, 999


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__({2: "Invalid Argument", 4: "Insufficient Permissions", 999: "Unknown Error"}[value])
        self.value = value


def log() -> Path:
    return Path(os.environ["FAKE_NVML"])


def said() -> list[str]:
    return log().read_text().split("\n")[:-1] if log().exists() else []


def _refuses(what: str) -> bool:
    return os.environ.get("FAKE_NVML_REFUSES") == what


def _say(line: str) -> None:
    with log().open("a") as file:
        file.write(line + "\n")


def nvmlInit() -> None:
    pass


def nvmlDeviceGetHandleByUUID(uuid: str) -> str:
    return uuid


def nvmlDeviceGetMaxClockInfo(handle: str, kind: int) -> int:
    return {NVML_CLOCK_SM: 1980, NVML_CLOCK_MEM: 3201}[kind]


def nvmlDeviceGetDefaultApplicationsClock(handle: str, kind: int) -> int:
    return 1755


def nvmlDeviceGetMemoryBusWidth(handle: str) -> int:
    return 6144


def nvmlDeviceGetEnforcedPowerLimit(handle: str) -> int:
    return 700_000


def nvmlDeviceGetEccMode(handle: str) -> list[int]:
    return [1, 1]


def nvmlDeviceGetMigMode(handle: str) -> list[int]:
    raise NVMLError(NVML_ERROR_UNKNOWN)


def nvmlDeviceSetGpuLockedClocks(handle: str, low: int, high: int) -> None:
    if _refuses("permission"):
        raise NVMLError(NVML_ERROR_NO_PERMISSION)
    if _refuses("clock"):
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    _say(f"lock {handle} {low} {high}")


def nvmlDeviceResetGpuLockedClocks(handle: str) -> None:
    if _refuses("reset"):
        raise NVMLError(NVML_ERROR_UNKNOWN)
    _say(f"reset {handle}")
