"""Measured ceilings: the kernels of ``ceilings.cu``, timed; bytes and operations follow from the launch parameters.

No torch until something is launched: the table and its arithmetic are read where there is no GPU, too.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from profiler.worker.device import Device

#: One ceiling's share of the time, and the length of one timed block: together the ceilings take about a second.
BUDGET_S = 0.12
BLOCK_S = 0.004
MINIMUM_BLOCKS = 3
#: Bytes of a DRAM buffer where memory allows, and how many times L2 it must be at least.
BUFFER_BYTES = 512 << 20
BUFFER_L2_MULTIPLE = 4
#: L2 is read in a power of two of at most this share of it, so that it always hits, whichever half holds a line.
L2_SHARE = 4
_NOT_SUPPORTED = 801  # cudaErrorNotSupported

Emit = Callable[..., None]


@dataclass(frozen=True)
class Ceiling:
    """One kernel: what it measures, and what one of its threads does in a round (bytes or operations)."""

    name: str
    level_or_pipe: str  #: as the roofline calls it
    unit: str
    symbol: str
    threads: int
    work: int  #: of one thread in one round
    blocks_per_sm: int = 0  #: zero: as many blocks as the buffer has pieces
    rounds: int = 1
    piece: int = 0  #: bytes of the buffer that one thread reads, where the grid follows the buffer
    buffers: int = 0  #: DRAM buffers needed
    minimum_capability: tuple[int, int] = (7, 0)
    only_major: int = 0  #: zero: on this major capability and later ones


@dataclass(frozen=True)
class Launch:
    """The parameters of one launch."""

    blocks: int
    threads: int
    rounds: int
    bytes: int


_LOAD = 16
CEILINGS: tuple[Ceiling, ...] = (
    Ceiling("copy", "dram", "B/s", "kl_copy", 256, 2 * _LOAD, piece=_LOAD, buffers=2),
    Ceiling("read", "dram", "B/s", "kl_read", 256, 8 * _LOAD, piece=8 * _LOAD, buffers=1),
    Ceiling("L2 read", "l2", "B/s", "kl_l2_read", 512, 8 * _LOAD, 2, 250, buffers=1),
    Ceiling("shared read", "shared", "B/s", "kl_shared_read", 1024, 8 * _LOAD, 2, 800),
    Ceiling("FFMA", "ffma", "FLOP/s", "kl_ffma", 512, 2 * 128, 2, 2000),
    Ceiling(
        "mma.sync BF16", "hmma_bf16", "FLOP/s", "kl_mma", 256, 32 * (2 * 16 * 8 * 16) // 32, 2, 2000,
        minimum_capability=(8, 0),
    ),
    Ceiling(
        "mma.sync TF32", "hmma_tf32", "FLOP/s", "kl_mma_tf32", 256, 32 * (2 * 16 * 8 * 8) // 32, 2, 2000,
        minimum_capability=(8, 0),
    ),
    Ceiling(
        "wgmma BF16", "hgmma_bf16", "FLOP/s", "kl_wgmma", 128, 16 * (2 * 64 * 256 * 16) // 128, 2, 400,
        minimum_capability=(9, 0), only_major=9,
    ),
    Ceiling(
        "wgmma TF32", "hgmma_tf32", "FLOP/s", "kl_wgmma_tf32", 128, 16 * (2 * 64 * 256 * 8) // 128, 2, 400,
        minimum_capability=(9, 0), only_major=9,
    ),
)  # fmt: skip


def absent_because(ceiling: Ceiling, capability: tuple[int, int]) -> str:
    """Return why a chip has no such ceiling; empty when it has."""
    if capability < ceiling.minimum_capability or (ceiling.only_major and capability[0] != ceiling.only_major):
        return "this chip has no such instruction"
    return ""


def buffer_bytes(l2_bytes: int, free_bytes: int) -> int:
    """Return the bytes of one DRAM buffer: a power of two, several times L2, a quarter of free memory at most; or 0."""
    least = _power_of_two_up(BUFFER_L2_MULTIPLE * l2_bytes)
    wanted = max(BUFFER_BYTES, least)
    while wanted > least and wanted > free_bytes // 4:
        wanted //= 2
    return wanted if wanted <= free_bytes // 4 else 0


def launch_of(ceiling: Ceiling, multiprocessors: int, l2_bytes: int, buffer: int) -> Launch:
    """Return the launch parameters of a ceiling on a chip, with DRAM buffers of ``buffer`` bytes."""
    if ceiling.piece:
        return Launch(buffer // (ceiling.piece * ceiling.threads), ceiling.threads, 1, buffer)
    window = _power_of_two_up(l2_bytes // L2_SHARE + 1) // 2 if ceiling.buffers else 0
    return Launch(ceiling.blocks_per_sm * multiprocessors, ceiling.threads, ceiling.rounds, window)


def work_of(ceiling: Ceiling, launch: Launch) -> int:
    """Return the bytes or floating-point operations of one launch, exactly."""
    return launch.blocks * launch.threads * launch.rounds * ceiling.work


def measure(library: str, device: Device, capability: tuple[int, int], emit: Emit) -> None:
    """Measure every ceiling that the chip has; emit one ``ceiling`` event each, with its value or why it is absent.

    A CUDA error ends the measurement: it is raised as ``RuntimeError`` for the caller to find out whether the context
    is lost.
    """
    import torch

    kernels = ctypes.CDLL(library, mode=ctypes.RTLD_LOCAL)
    size = buffer_bytes(device.l2_bytes, torch.cuda.mem_get_info()[0])
    with torch.cuda.stream(device.stream):
        # Random bytes: a card moves zeros with less power than a user's data.
        buffers = [torch.empty(size // 4, dtype=torch.int32, device="cuda").random_() for _ in range(2 if size else 0)]
        for ceiling in CEILINGS:
            why = absent_because(ceiling, capability)
            if not why and len(buffers) < ceiling.buffers:
                why = "there is not enough free memory for buffers several times L2"
            if not why:
                emit("begin", variant="", size="", what=f"ceiling {ceiling.name}")
                launch = launch_of(ceiling, device.multiprocessors, device.l2_bytes, size)
                why = _measure_one(ceiling, launch, kernels, device, buffers, emit)
            if why:
                emit("ceiling", name=ceiling.name, level_or_pipe=ceiling.level_or_pipe, value=None, why=why)
    buffers.clear()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


class _Work(ctypes.Structure):
    """``Work`` of ceilings.cu."""

    _fields_ = [
        ("out", ctypes.c_void_p), ("in_", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("sink", ctypes.c_void_p),
        ("blocks", ctypes.c_int), ("threads", ctypes.c_int), ("rounds", ctypes.c_int),
    ]  # fmt: skip


def raw_work(launch: Launch, source: int | None, target: int | None, sink: int) -> ctypes.Structure:
    """Return the kernel's view of a launch: device addresses of what is read, what is written, and the sink."""
    return _Work(target, source, launch.bytes, sink, launch.blocks, launch.threads, launch.rounds)


def _measure_one(
    ceiling: Ceiling, launch: Launch, kernels: Any, device: Device, buffers: list[torch.Tensor], emit: Emit
) -> str:
    """Emit the best rate over short blocks; return why there is none instead."""
    import torch

    sink = torch.zeros(1, dtype=torch.int32, device="cuda")
    pointers = [buffer.data_ptr() for buffer in buffers] + [None, None]
    work = raw_work(launch, pointers[0], pointers[1], sink.data_ptr())
    function = getattr(kernels, ceiling.symbol)
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int

    def block(launches: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        device.stamp(0)
        start.record()
        for _ in range(launches):
            code = function(device.stream.cuda_stream, ctypes.addressof(work))
            if code:
                raise _Refused(code)
        end.record()
        device.stamp(1)
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    try:
        block(1)  # the module is loaded, the pages are mapped
        once = block(1)
        launches = max(1, round(BLOCK_S / once)) if once > 0 else 1
        amount = launches * work_of(ceiling, launch)
        best, clock, blocks = 0.0, None, 0
        deadline = time.monotonic() + BUDGET_S
        while blocks < MINIMUM_BLOCKS or time.monotonic() < deadline:
            seconds = block(launches)
            blocks += 1
            if seconds > 0 and amount / seconds > best:
                best, clock = amount / seconds, device.sm_clock_mhz()
    except _Refused as refused:
        torch.cuda.synchronize()
        return "this chip has no such instruction" if refused.code == _NOT_SUPPORTED else f"CUDA error {refused.code}"
    if best <= 0:
        return "its time was too short to be measured"
    emit(
        "ceiling", name=ceiling.name, level_or_pipe=ceiling.level_or_pipe, value=best, unit=ceiling.unit,
        clock_mhz=clock, blocks=blocks, launches=launches,
    )  # fmt: skip
    return ""


class _Refused(Exception):
    """A launch was refused with a CUDA error code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def _power_of_two_up(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()
