"""A control on the device: the copy or read kernel of ``ceilings.cu`` over as many bytes as the problem must move."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import torch

from profiler.worker.ceilings import CEILINGS, launch_of, raw_work, work_of
from profiler.worker.checks import Buffers
from profiler.worker.device import Device
from profiler.worker.launchable import Bound, LaunchError, error_text


class ControlKernel:
    """Binds the kernel to buffers of its own: half the bytes each way for a copy, all of them for a read.

    The bytes are rounded up to whole blocks of the kernel; ``moved`` is what one launch moves.
    """

    def __init__(self, wanted: Mapping[str, Any], device: Device) -> None:
        self._device = device
        self._ceiling = next(ceiling for ceiling in CEILINGS if ceiling.name == wanted["kind"])
        step = self._ceiling.piece * self._ceiling.threads
        each = int(wanted["bytes"]) // self._ceiling.buffers
        self._bytes = max(1, -(-each // step)) * step
        self._launch = launch_of(self._ceiling, device.multiprocessors, device.l2_bytes, self._bytes)
        self.moved = work_of(self._ceiling, self._launch)
        library = ctypes.CDLL(wanted["library"], mode=ctypes.RTLD_LOCAL)
        self._function = getattr(library, self._ceiling.symbol)
        self._function.argtypes, self._function.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_int

    def new_set(self) -> tuple[Buffers, Bound]:
        """Return fresh buffers of random bits, as a user's data are, and the kernel bound to them."""
        buffers = [
            torch.empty(self._bytes // 4, dtype=torch.int32, device="cuda").random_()
            for _ in range(self._ceiling.buffers)
        ]
        sink = torch.zeros(1, dtype=torch.int32, device="cuda")
        pointers = [buffer.data_ptr() for buffer in buffers] + [None]
        work = raw_work(self._launch, pointers[0], pointers[1], sink.data_ptr())
        stream, address, function = self._device.stream.cuda_stream, ctypes.addressof(work), self._function

        def launch() -> None:
            code = function(stream, address)
            if code:
                raise LaunchError(f"the control's launch returned {error_text(code)}")

        return Buffers({}, {}), Bound(launch, dict, keep=[buffers, sink, work])

    @property
    def set_bytes(self) -> int:
        """Bytes of one set of buffers."""
        return self._bytes * self._ceiling.buffers
