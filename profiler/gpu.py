"""The GPUs of this machine, as the driver describes them, and whether its counters may be read."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from profiler.errors import UsageError
from profiler.toolchain import Gpu

Permission = Literal["allowed", "refused", "unknown"]

_PARAMS = Path("/proc/driver/nvidia/params")
_STATUS = Path("/proc/self/status")
_CAP_SYS_ADMIN = 21

#: What opens the counters, for people who may; a rented machine often leaves none of these.
COUNTER_REMEDIES = (
    "let an administrator load the driver with NVreg_RestrictProfilingToAdminUsers=0",
    "start the container with --cap-add=SYS_ADMIN",
    "run as root",
)


def find_gpus(env: Mapping[str, str] | None = None, nvml: Any = None) -> tuple[list[Gpu], str | None]:
    """Return the visible GPUs, and what is wrong where a driver is there but does not answer.

    No driver: no GPU and no problem. ``CUDA_VISIBLE_DEVICES`` is respected; ``index`` counts what is visible, and the
    UUID is the identity.
    """
    env = os.environ if env is None else env
    if nvml is None:
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            return [], None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return _no_driver(nvml, error)
    try:
        driver = _text(nvml.nvmlSystemGetDriverVersion())
        found, problems = [], []
        for position in range(nvml.nvmlDeviceGetCount()):
            try:
                found.append(_describe(nvml, position, driver))
            except nvml.NVMLError as error:
                problems.append(f"GPU {position} does not answer: {error}")
    except nvml.NVMLError as error:
        return [], f"the driver does not answer: {error}"
    finally:
        _shut_down(nvml)
    gpus = visible(found, env.get("CUDA_VISIBLE_DEVICES"))
    return gpus, "; ".join(problems) if problems and not gpus else None


def visible(gpus: list[Gpu], selection: str | None) -> list[Gpu]:
    """Return the GPUs that ``CUDA_VISIBLE_DEVICES`` leaves, in its order, up to the first entry that names none."""
    if selection is None:
        return gpus
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in selection.split(",")):
        named = [gpu for gpu in gpus if _names(entry, gpu)]
        if len(named) != 1 or named[0].uuid in {gpu.uuid for gpu in chosen}:
            break
        chosen.append(named[0])
    return [
        Gpu(index, gpu.name, gpu.uuid, gpu.compute_capability, gpu.driver, gpu.memory_bytes)
        for index, gpu in enumerate(chosen)
    ]


def choose_gpu(gpus: Sequence[Gpu], wanted: str | None) -> Gpu | None:
    """Return the GPU that ``--gpus`` means: ``1`` or ``all`` of a single card, ``device=INDEX``, or a UUID or its
    beginning; without it the first, None where there is none. ``UsageError`` for any other.
    """
    if wanted is None:
        return gpus[0] if gpus else None
    text = wanted.strip()
    listed = "; ".join(f"device={gpu.index} is {gpu.uuid} ({gpu.name})" for gpu in gpus)
    if text == "1" or (text == "all" and len(gpus) < 2):
        return gpus[0] if gpus else None
    if text == "all" or text.isdecimal():
        raise UsageError(
            f"--gpus {wanted}: a run measures on one GPU; several are not supported yet",
            hint=f"name one: {listed}" if len(gpus) > 1 else "--gpus 1, device=INDEX, or a UUID",
        )
    entry = text.removeprefix("device=")
    named = [gpu for gpu in gpus if _names(entry, gpu)]
    if len(named) == 1:
        return named[0]
    what = "names several GPUs" if named else "no such GPU here"
    raise UsageError(f"--gpus {wanted}: {what}", hint=listed or "there is no GPU here; leave --gpus out to replay")


def counter_permission() -> Permission:
    """Return whether this process may read the hardware counters, from the driver's parameters and its own rights."""
    return permission_from(_read(_PARAMS), _read(_STATUS), os.geteuid())


def permission_from(params: str | None, status: str | None, euid: int) -> Permission:
    """Return the permission that follows from the driver's parameters, ``/proc/self/status`` and the user id."""
    restricted = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", params or "", re.M)
    if restricted is None:
        return "unknown"
    if restricted[1] == "0":
        return "allowed"
    effective = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", status or "", re.M)
    if effective is None:
        return "allowed" if euid == 0 else "refused"
    return "allowed" if int(effective[1], 16) >> _CAP_SYS_ADMIN & 1 else "refused"


def _names(entry: str, gpu: Gpu) -> bool:
    if entry.isdecimal():
        return int(entry) == gpu.index
    return len(entry) > 4 and gpu.uuid.startswith(entry)


def _describe(nvml: Any, position: int, driver: str) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(position)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        index=position,
        name=_text(nvml.nvmlDeviceGetName(handle)),
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        compute_capability=(int(major), int(minor)),
        driver=driver,
        memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
    )


def _no_driver(nvml: Any, error: Any) -> tuple[list[Gpu], str | None]:
    code = getattr(error, "value", None)
    if code == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return [], None
    if code == nvml.NVML_ERROR_DRIVER_NOT_LOADED and not _device_present():
        return [], None  # the library of a container image, on a machine without a GPU
    return [], f"the NVIDIA driver is installed but does not work: {error}"


def _device_present() -> bool:
    if Path("/dev/nvidiactl").exists():
        return True
    for vendor in Path("/sys/bus/pci/devices").glob("*/vendor"):
        if (_read(vendor) or "").strip() == "0x10de" and (_read(vendor.with_name("class")) or "").startswith("0x03"):
            return True
    return False


def _shut_down(nvml: Any) -> None:
    try:
        nvml.nvmlShutdown()
    except nvml.NVMLError:
        pass


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
