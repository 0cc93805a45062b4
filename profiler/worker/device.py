"""The device under the worker: the helper kernels of the timing method, the flush buffer, and the facts of a hello."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

#: The flush reads at least this many times the L2 size.
FLUSH_L2_MULTIPLE = 4
#: A blocked stream is released by the host; if the host never comes (a launch that synchronises), it gives up.
BLOCK_LIMIT_NS = 200_000_000


class Device:
    """The current CUDA device, a stream of the worker's own, and the helpers bound to it."""

    def __init__(self, helpers: str | None) -> None:
        self.properties = torch.cuda.get_device_properties(0)
        self.multiprocessors: int = self.properties.multi_processor_count
        self.l2_bytes: int = self.properties.L2_cache_size
        self.stream = torch.cuda.Stream()
        # For looks at memory while `stream` is held. One for good: torch hands its 32 streams out in turn, so that the
        # 32nd of them that is asked for is `stream` again.
        self.side = torch.cuda.Stream()
        flush_bytes = max(FLUSH_L2_MULTIPLE * self.l2_bytes, 128 << 20)
        self._flush_buffer = torch.zeros(flush_bytes // 4, dtype=torch.int32, device="cuda")
        self._sink = torch.zeros(1, dtype=torch.int32, device="cuda")
        self._flag = torch.zeros(1, dtype=torch.int32).pin_memory()
        self._timed_out = torch.zeros(1, dtype=torch.int32).pin_memory()
        # The same memory without torch's indexing, which costs microseconds of every sample.
        self._flag_word, self._timed_out_word = self._flag.numpy(), self._timed_out.numpy()
        self._stamps = torch.zeros((2, self.multiprocessors, 2), dtype=torch.int64, device="cuda")
        self._library = ctypes.CDLL(helpers, mode=ctypes.RTLD_LOCAL) if helpers else None
        if self._library is not None:
            pointer, size = ctypes.c_void_p, ctypes.c_size_t
            self._library.kl_block.argtypes = [pointer, pointer, ctypes.c_uint64, pointer]
            self._library.kl_flush.argtypes = [pointer, pointer, size, pointer, ctypes.c_int]
            self._library.kl_stamp.argtypes = [pointer, pointer, ctypes.c_int]
        torch.cuda.synchronize()

    @property
    def blocking(self) -> str:
        """How host dispatch is hidden, for the record."""
        return "spin kernel released by the host" if self._library else "torch.cuda._sleep"

    def flush(self) -> None:
        """Enqueue the read of a clean buffer several times the size of L2."""
        if self._library is None:
            torch.sum(self._flush_buffer, dim=0, keepdim=True)
            return
        self._call(
            self._library.kl_flush(
                self.stream.cuda_stream,
                self._flush_buffer.data_ptr(),
                self._flush_buffer.numel() * 4,
                self._sink.data_ptr(),
                2 * self.multiprocessors,
            )
        )

    def block(self) -> None:
        """Enqueue a kernel that holds the stream until :meth:`release`."""
        if self._library is None:
            torch.cuda._sleep(400_000)
            return
        self._flag_word[0] = 0
        self._timed_out_word[0] = 0
        self._call(
            self._library.kl_block(
                self.stream.cuda_stream, self._flag.data_ptr(), BLOCK_LIMIT_NS, self._timed_out.data_ptr()
            )
        )

    def release(self) -> None:
        """Let the blocked stream go on."""
        self._flag_word[0] = 1

    def block_gave_up(self) -> bool:
        """Whether the last block ended by its time limit: something between block and release synchronised."""
        return bool(self._timed_out_word[0])

    def stamp(self, which: int) -> None:
        """Enqueue a stamp of cycle counters and global timers (0 before, 1 after the window)."""
        if self._library is not None:
            out = self._stamps.data_ptr() + which * self.multiprocessors * 16
            self._call(self._library.kl_stamp(self.stream.cuda_stream, out, self.multiprocessors))

    def sm_clock_mhz(self) -> float | None:
        """Return the SM clock between the two stamps (synchronise first); the median over multiprocessors."""
        return None if self._library is None else clock_of(self._stamps.cpu().numpy())

    def _call(self, code: int) -> None:
        if code:
            raise RuntimeError(f"a helper kernel failed with CUDA error {code}")


def clock_of(stamps: npt.NDArray[np.int64]) -> float | None:
    """Return the SM clock in MHz, cycles / ns x 1000, from stamps of (before and after, multiprocessor, cycles and ns).

    The median over the multiprocessors that ran a stamp both times, of an even number the lower one; None where none
    did.
    """
    cycles, ns = (stamps[1] - stamps[0]).T
    usable = (stamps[0, :, 1] > 0) & (ns > 0) & (cycles > 0)
    rates = np.sort(cycles[usable] / ns[usable])
    return float(rates[(len(rates) - 1) // 2]) * 1000.0 if len(rates) else None


def versions() -> dict[str, str | None]:
    """Return the versions of what this process works with; the GPU is not touched."""
    found: dict[str, str | None] = {
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
    }
    try:
        import triton

        found["triton"] = triton.__version__
    except ImportError:
        found["triton"] = None
    return found


def hello() -> dict[str, Any]:
    """Return the facts of this process: device, versions."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": {
            "name": properties.name,
            "uuid": f"GPU-{properties.uuid}",
            "sm_count": properties.multi_processor_count,
            "l2_bytes": properties.L2_cache_size,
            "memory_bytes": properties.total_memory,
            "compute_capability": f"{properties.major}.{properties.minor}",
        },
        "versions": versions(),
    }


def is_context_lost() -> bool:
    """Whether the CUDA context is poisoned (a sticky error): a trivial operation fails."""
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").add_(1)
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
