"""Exports of Nsight Systems, made row by row for tests: any schema, any oddity; and large ones for measuring."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PID = 4242 << 24
TID = PID | 7
KERNEL = (
    "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName", "shortName",
    "gridX", "blockX", "graphNodeId",
)  # fmt: skip
COPY = (
    "start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "bytes", "copyKind", "srcKind",
    "dstKind",
)  # fmt: skip
API = ("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "returnValue")
NVTX = ("start", "end", "eventType", "text", "globalTid", "textId", "domainId")
META = ("name", "value")
H2D, D2H = 1, 2
PAGEABLE, PINNED, DEVICE = 0, 1, 2


class NsysFile:
    """An export under construction; ``with NsysFile(path) as export:`` writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.unlink(missing_ok=True)
        self.db = sqlite3.connect(path)
        self.strings: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        self.correlation = 0

    def __enter__(self) -> NsysFile:
        return self

    def __exit__(self, *error: object) -> None:
        if self.strings and "StringIds" not in self.tables:
            self.rows("StringIds", ("id", "value"), [(number, text) for text, number in self.strings.items()])
        self.db.commit()
        self.db.close()

    def rows(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        if table not in self.tables:
            self.tables[table] = tuple(columns)
            self.db.execute(f'CREATE TABLE "{table}" ({", ".join(f"{chr(34)}{name}{chr(34)}" for name in columns)})')
        self.db.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})', rows)

    def text(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings) + 1)

    def launch(
        self, name: str, called: tuple[int, int], ran: tuple[int, int | None], *, stream: int = 7, device: int = 0,
        thread: int = TID, api: str = "cudaLaunchKernel_v7000",
    ) -> None:  # fmt: skip
        """A kernel and the call that asked for it."""
        self.correlation += 1
        self.call(api, called, thread, self.correlation)
        row = (
            ran[0],
            ran[1],
            device,
            1,
            stream,
            self.correlation,
            thread & ~0xFFFFFF,
            self.text(name),
            self.text(name),
        )
        self.rows("CUPTI_ACTIVITY_KIND_KERNEL", KERNEL, [(*row, 1, 256, None)])

    def copy(
        self, kind: int, called: tuple[int, int], ran: tuple[int, int], size: int, *, memory: int = PINNED,
        stream: int = 7, device: int = 0, api: str = "cudaMemcpyAsync_v3020",
    ) -> None:  # fmt: skip
        self.correlation += 1
        self.call(api, called, TID, self.correlation)
        source, target = (memory, DEVICE) if kind == H2D else (DEVICE, memory)
        row = (*ran, device, 1, stream, self.correlation, PID, size, kind, source, target)
        self.rows("CUPTI_ACTIVITY_KIND_MEMCPY", COPY, [row])

    def call(self, name: str, when: tuple[int, int], thread: int = TID, correlation: int = 0) -> None:
        self.rows("CUPTI_ACTIVITY_KIND_RUNTIME", API, [(*when, 0, thread, correlation, self.text(name), 0)])

    def range(self, name: str, when: tuple[int, int | None], *, thread: int = TID, table: str = "NVTX_EVENTS",
              by_id: bool = False, kind: int = 59) -> None:  # fmt: skip
        text, number = (None, self.text(name)) if by_id else (name, None)
        self.rows(table, NVTX, [(*when, kind, text, thread, number, 0)])

    def streams(self, **flags: int) -> None:
        """Types of streams: ``s7=3`` says that stream 7 is the default one."""
        rows = [(int(name[1:]), PID >> 24, 1, 0, flag) for name, flag in flags.items()]
        self.rows("TARGET_INFO_CUDA_STREAM", ("streamId", "processId", "contextId", "priority", "flag"), rows)

    def gpu(self, name: str = "NVIDIA H200", number: int = 0) -> None:
        columns = ("id", "name", "busLocation", "cuDevice", "smCount", "computeMajor", "computeMinor")
        self.rows("TARGET_INFO_GPU", columns, [(number, name, "0000:00:06.0", number, 132, 9, 0)])

    def version(self, product: str = "2025.3.2.0", schema: str = "3.20.3", table: str = "META_DATA_EXPORT") -> None:
        self.rows(table, META, [("EXPORT_PRODUCT_VERSION", product), ("EXPORT_SCHEMA_VERSION", schema)])


def large(path: Path, kernels: int, *, seed: int = 0, names: int = 40, streams: int = 4) -> None:
    """Write an export of so many kernels, a call each, with a copy and a range every hundred; they take 2 to 100 us."""
    rng = np.random.default_rng(seed)
    called = np.cumsum(rng.integers(3_000, 9_000, kernels))
    call_end = called + rng.integers(1_500, 3_000, kernels)
    stream = rng.integers(0, streams, kernels) + 7
    start = call_end + rng.integers(1_000, 8_000, kernels)
    end = start + rng.integers(2_000, 6_000, kernels) + 94_000 * (rng.random(kernels) < 0.01).astype(np.int64)
    number = np.arange(1, kernels + 1)
    with NsysFile(path) as export:
        export.version()
        export.gpu()
        export.streams(s7=3, **{f"s{7 + one}": 2 for one in range(1, streams)})
        texts = [export.text(f"void layer_{one}<(int){one}>(const float *, float *, int)") for one in range(names)]
        name = np.array(texts)[rng.integers(0, names, kernels)]
        launch = export.text("cudaLaunchKernel_v7000")
        full = {key: np.full(kernels, value) for key, value in {"pid": PID, "tid": TID, "zero": 0, "one": 1}.items()}
        columns = (start, end, full["zero"], full["one"], stream, number, full["pid"], name, name, full["one"],
                   full["one"], full["zero"])  # fmt: skip
        export.rows("CUPTI_ACTIVITY_KIND_KERNEL", KERNEL, zip(*(c.tolist() for c in columns), strict=True))
        columns = (called, call_end, full["zero"], full["tid"], number, np.full(kernels, launch), full["zero"])
        export.rows("CUPTI_ACTIVITY_KIND_RUNTIME", API, zip(*(c.tolist() for c in columns), strict=True))
        for first in range(0, kernels, 100):
            export.range(f"step {first // 100}", (int(called[first]), int(call_end[min(first + 99, kernels - 1)])))
            at = int(end[first])
            export.copy(H2D, (at - 2_000, at - 500), (at, at + 40_000), 1 << 20, stream=20)
