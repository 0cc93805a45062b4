"""Exports of Nsight Systems, 2020 to 2026: which SQL fits a file's schema, and what its rows mean. Pure.

The schema is looked at first: tables were renamed, some carry a suffix (``_V2``), columns were added, and a table
without rows is not exported at all. ``queries`` turns the schema into SQL whose columns are always the same ones;
``read`` turns the columns that came back into the frame ``spans`` and a few facts. No environment variable, path, user
or host of the file is among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from profiler.parse.span_table import (
    DIRECTIONS,
    MEMORIES,
    MISSING,
    STREAM_TYPES,
    Codes,
    Ints,
    Names,
    Part,
    Spans,
    ordinals,
    spans,
)  # fmt: skip

Schema = Mapping[str, Sequence[str]]  #: table -> its columns

#: Columns that are read of each kind of row, with the names that they have had; a column that is absent is missing.
_WANTED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "kernel": (("start",), ("end",), ("deviceId",), ("streamId",), ("contextId",), ("globalPid",), ("correlationId",),
               ("demangledName", "shortName", "mangledName")),
    "copy": (("start",), ("end",), ("deviceId",), ("streamId",), ("contextId",), ("globalPid",), ("correlationId",),
             ("bytes",), ("copyKind",), ("srcKind",), ("dstKind",), ("srcDeviceId",), ("dstDeviceId",)),
    "memset": (("start",), ("end",), ("deviceId",), ("streamId",), ("contextId",), ("globalPid",), ("correlationId",),
               ("bytes",)),
    "graph": (("start",), ("end",), ("deviceId",), ("streamId",), ("contextId",), ("globalPid",), ("correlationId",),
              ("graphId", "originalGraphId")),
    "api": (("start",), ("end",), ("globalTid",), ("correlationId",), ("nameId",), ("eventClass",)),
    "nvtx": (("start",), ("end",), ("globalTid",), ("eventType",), ("textId",)),
}  # fmt: skip
_TABLES: Mapping[str, tuple[str, ...]] = {
    "kernel": ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"),
    "copy": ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMCPY2"),
    "memset": ("CUPTI_ACTIVITY_KIND_MEMSET",),
    "graph": ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",),
    "api": ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"),
    "nvtx": ("NVTX_EVENTS",),
}
_SUFFIX = re.compile(r"(?:_V(\d+))?", re.IGNORECASE)
#: The fields of the metadata that are kept; the tables hold the whole environment besides.
FACTS = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION", "CUDA_GRAPH_TRACE_OPTIONS:MODE")
_PUSH_POP, _START_END = 59, 60
_GLOBAL_PID = ~0xFFFFFF  # the low 24 bits of a global thread id are the thread
_API_VERSION = re.compile(r"_v\d{4,}$")

# nsys's own numbers (ENUM_CUDA_MEMCPY_OPER, ENUM_CUDA_MEM_KIND; CUPTI's stream flags)
_DIRECTION = {1: "h2d", 2: "d2h", 3: "h2d", 4: "d2h", 5: "d2d", 6: "d2d", 7: "d2d", 8: "d2d", 9: "h2h", 10: "p2p",
              11: "managed", 12: "managed", 13: "managed"}  # fmt: skip
_MEMORY = {0: "pageable", 1: "pinned", 4: "managed", 6: "managed"}
_STREAM = {1: "blocking", 2: "non_blocking", 3: "default"}


@dataclass(frozen=True)
class Query:
    """SQL whose first ``len(numbers)`` columns are integers (``MISSING`` for null); the rest are text."""

    sql: str
    numbers: tuple[str, ...]
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Export:
    """What an export holds: the frame ``spans``, facts of the file, and remarks on it."""

    spans: Spans
    facts: Mapping[str, str] = field(default_factory=dict)
    gpus: Mapping[int, str] = field(default_factory=dict)  #: device -> name, as far as the file says
    remarks: tuple[str, ...] = ()
    taken_ns: int | None = None  #: start of the session, nanoseconds since 1970


def queries(schema: Schema) -> dict[str, list[Query]]:
    """Return the SQL that reads a file of this schema, by kind of row; a kind without a table has none."""
    found: dict[str, list[Query]] = {}
    for kind, bases in _TABLES.items():
        found[kind] = [_spans_query(kind, table, schema[table]) for base in bases for table in named(schema, base)]
    if "StringIds" in schema:
        found["strings"] = [Query('SELECT id, value FROM "StringIds"', ("id",), ("value",))]
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE"):
        if {"name", "value"} <= set(schema.get(table, ())):
            keys = ", ".join(f"'{key}'" for key in FACTS)
            found.setdefault("facts", []).append(
                Query(f'SELECT 0, name, value FROM "{table}" WHERE name IN ({keys})', ("zero",), ("name", "value"))
            )
    if "utcEpochNs" in schema.get("TARGET_INFO_SESSION_START_TIME", ()):
        sql = 'SELECT IFNULL(utcEpochNs, 0) FROM "TARGET_INFO_SESSION_START_TIME" LIMIT 1'
        found["taken"] = [Query(sql, ("utc",))]
    found |= _device_queries(schema)
    return found


def named(schema: Schema, base: str) -> list[str]:
    """Return the table of a base name: itself, or its newest ``_V<n>``; at most one, for they hold the same rows."""
    found = {}
    for table in schema:
        match = _SUFFIX.fullmatch(table[len(base) :]) if table.upper().startswith(base) else None
        if match is not None:
            found[int(match[1] or 1)] = table
    return [found[max(found)]] if found else []


def read(columns: Mapping[str, Sequence[Mapping[str, Any]]]) -> Export:
    """Return what the columns say, ``{kind: [{column: values}, ...]}`` of the queries that were run."""
    names = Names()
    strings = {
        number: text
        for part in columns.get("strings", ())
        for number, text in zip(part["id"].tolist(), part["value"], strict=True)
        if text is not None
    }
    processes = _Processes(columns)
    streams = _stream_types(columns)
    parts = [
        *(_kernels(one, names, strings, processes, streams) for one in columns.get("kernel", ())),
        *(_copies(one, names, processes, streams) for one in columns.get("copy", ())),
        *(_memsets(one, names, processes, streams) for one in columns.get("memset", ())),
        *(_graphs(one, names, processes, streams) for one in columns.get("graph", ())),
        *(_api(one, names, strings, processes) for one in columns.get("api", ())),
        *(_nvtx(one, names, strings, processes, _last(columns)) for one in columns.get("nvtx", ())),
    ]
    made = spans(parts, names)
    facts = {
        str(key): str(value)
        for part in columns.get("facts", ())
        for key, value in zip(part["name"], part["value"], strict=True)
        if value
    }
    taken = next((int(part["utc"][0]) for part in columns.get("taken", ()) if len(part["utc"])), 0)
    return Export(made, facts, _gpu_names(columns), (*made.remarks, *_remarks(made, columns)), taken or None)


def _spans_query(kind: str, table: str, has: Sequence[str]) -> Query:
    numbers, picked = [], []
    for options in _WANTED[kind]:
        present = [f'"{name}"' for name in options if name in has]
        numbers.append(options[0])
        picked.append(f"IFNULL({', '.join(present)}, {MISSING})" if present else str(MISSING))
        if len(present) > 1:
            picked[-1] = f"COALESCE({', '.join(present)}, {MISSING})"
    if kind != "nvtx":
        return Query(f'SELECT {", ".join(picked)} FROM "{table}"', tuple(numbers))
    # marks, categories and names of domains are no ranges; of other kinds only what has an end is one
    where = f' WHERE "eventType" IN ({_PUSH_POP}, {_START_END})' if "eventType" in has else ""
    if not where and "end" in has:
        where = ' WHERE "end" IS NOT NULL'
    text = '"text"' if "text" in has else "NULL"
    return Query(f'SELECT {", ".join(picked)}, {text} FROM "{table}"{where}', tuple(numbers), ("text",))


def _device_queries(schema: Schema) -> dict[str, list[Query]]:
    found: dict[str, list[Query]] = {}
    gpu = schema.get("TARGET_INFO_GPU", ())
    number = next((name for name in ("id", "deviceId") if name in gpu), None)
    if number and "name" in gpu:
        cuda = '"computeMajor"' if "computeMajor" in gpu else "1"
        sql = f'SELECT IFNULL("{number}", {MISSING}), IFNULL({cuda}, 0), name FROM "TARGET_INFO_GPU"'
        found["gpu"] = [Query(sql, ("id", "cuda"), ("name",))]
    elif {"deviceId", "name"} <= set(schema.get("TARGET_INFO_CUDA_GPU", ())):
        sql = f'SELECT IFNULL("deviceId", {MISSING}), 1, name FROM "TARGET_INFO_CUDA_GPU"'
        found["gpu"] = [Query(sql, ("id", "cuda"), ("name",))]
    if {"gpuId", "cudaId", "pid"} <= set(schema.get("TARGET_INFO_CUDA_DEVICE", ())):
        sql = 'SELECT IFNULL(gpuId, -1), IFNULL(cudaId, -1), IFNULL(pid, -1) FROM "TARGET_INFO_CUDA_DEVICE"'
        found["device"] = [Query(sql, ("gpu", "cuda", "pid"))]
    if {"streamId", "processId", "contextId", "flag"} <= set(schema.get("TARGET_INFO_CUDA_STREAM", ())):
        sql = (
            "SELECT IFNULL(streamId, -1), IFNULL(processId, -1), IFNULL(contextId, -1), IFNULL(flag, 0) "
            'FROM "TARGET_INFO_CUDA_STREAM"'
        )
        found["stream"] = [Query(sql, ("stream", "pid", "context", "flag"))]
    return found


class _Processes:
    """Small numbers for processes and threads, and which GPU a process means by a device's number."""

    def __init__(self, columns: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        ids = [part["globalPid"] for kind in ("kernel", "copy", "memset", "graph") for part in columns.get(kind, ())]
        threads = [part["globalTid"] for kind in ("api", "nvtx") for part in columns.get(kind, ())]
        ids += [_pid_of(one) for one in threads]
        self._pids, self._tids = _distinct(ids), _distinct(threads)
        self._gpus = {
            (int(pid), int(cuda)): int(gpu)
            for part in columns.get("device", ())
            for gpu, cuda, pid in zip(part["gpu"], part["cuda"], part["pid"], strict=True)
        }

    def process(self, global_pid: Ints) -> Ints:
        """Return processes as 0, 1, ...; all the first one where the file names none."""
        if not len(self._pids):
            return np.zeros(len(global_pid), np.int64)
        return np.where(global_pid == MISSING, 0, np.searchsorted(self._pids, global_pid))

    def thread(self, global_tid: Ints) -> Ints:
        """Return threads as 0, 1, ...; missing where the row names none."""
        return np.where(global_tid == MISSING, MISSING, np.searchsorted(self._tids, global_tid))

    def device(self, device: Ints, global_pid: Ints) -> Ints:
        """Return the GPU that a process calls by this number, where the file says so; else the number itself."""
        found = device.copy()
        for (pid, cuda), gpu in self._gpus.items():
            if gpu != cuda and gpu >= 0:
                found[(device == cuda) & (_number_of(global_pid) == pid)] = gpu
        return found


def _distinct(parts: Sequence[Ints]) -> Ints:
    """The ids that occur, in ascending order."""
    found = np.sort(pd.unique(np.concatenate([np.empty(0, np.int64), *parts])))
    known: Ints = found[found != MISSING]
    return known


def _pid_of(global_tid: Ints) -> Ints:
    return np.where(global_tid == MISSING, MISSING, global_tid & _GLOBAL_PID)


def _number_of(global_pid: Ints) -> Ints:
    return (global_pid >> 24) & 0xFFFFFF


def _stream_types(columns: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[tuple[int, int, int], int]:
    """(process id, context, stream) -> its type."""
    return {
        (int(pid), int(context), int(stream)): STREAM_TYPES.index(_STREAM[int(flag)])
        for part in columns.get("stream", ())
        for stream, pid, context, flag in zip(part["stream"], part["pid"], part["context"], part["flag"], strict=True)
        if int(flag) in _STREAM
    }


def _typed(part: Mapping[str, Any], types: Mapping[tuple[int, int, int], int]) -> Codes:
    """The type of each row's stream. There are few streams, and each row is one of them."""
    keys = pd.DataFrame({"pid": part["globalPid"], "context": part["contextId"], "stream": part["streamId"]})
    numbers = keys.groupby(["pid", "context", "stream"], sort=False).ngroup().to_numpy()
    first = np.unique(numbers, return_index=True)[1]
    pids = _number_of(part["globalPid"][first])
    rows = zip(pids.tolist(), part["contextId"][first].tolist(), part["streamId"][first].tolist(), strict=True)
    return np.array([types.get(row, -1) for row in rows], np.int32)[numbers]


def _on_device(part: Mapping[str, Any], processes: _Processes, types: Mapping[tuple[int, int, int], int]) -> Any:
    return {
        "start": part["start"],
        "end": part["end"],
        "device": processes.device(part["deviceId"], part["globalPid"]),
        "stream": part["streamId"],
        "process": processes.process(part["globalPid"]),
        "correlation": part["correlationId"],
        "stream_type": _typed(part, types),
    }


def _kernels(part: Any, names: Names, strings: Mapping[int, str], processes: _Processes, types: Any) -> Part:
    return Part("kernel", names.of_ids(part["demangledName"], strings, "a kernel without a name"),
                **_on_device(part, processes, types))  # fmt: skip


def _copies(part: Any, names: Names, processes: _Processes, types: Any) -> Part:
    direction = _coded(part["copyKind"], _DIRECTION, DIRECTIONS, "other")
    peers = (part["srcDeviceId"] != MISSING) & (part["dstDeviceId"] != MISSING)
    peers &= (part["srcDeviceId"] != part["dstDeviceId"]) & (direction == DIRECTIONS.index("d2d"))
    direction = np.where(peers, DIRECTIONS.index("p2p"), direction).astype(np.int32)
    to_device, to_host = DIRECTIONS.index("h2d"), DIRECTIONS.index("d2h")
    host = np.where(direction == to_device, part["srcKind"], part["dstKind"])
    memory = _coded(host, _MEMORY, MEMORIES, "unknown")
    memory = np.where((direction == to_device) | (direction == to_host), memory, -1).astype(np.int32)
    text = names.codes(f"copy {one}" for one in DIRECTIONS)
    return Part("copy", text[direction], direction=direction, memory=memory, bytes=part["bytes"],
                **_on_device(part, processes, types))  # fmt: skip


def _memsets(part: Any, names: Names, processes: _Processes, types: Any) -> Part:
    name = np.full(len(part["start"]), names.code("memset"), np.int32)
    return Part("memset", name, bytes=part["bytes"], **_on_device(part, processes, types))


def _graphs(part: Any, names: Names, processes: _Processes, types: Any) -> Part:
    number = ordinals(part["graphId"])
    unique = {int(one): f"CUDA graph {one + 1}" for one in np.unique(number) if one != MISSING}
    return Part("graph", names.of_ids(number, unique, "CUDA graph"), **_on_device(part, processes, types))


def _api(part: Any, names: Names, strings: Mapping[int, str], processes: _Processes) -> Part:
    # Old exports hold each call twice, as the tool's own event too; the classes of CUDA are 0 (runtime) and 1 (driver).
    cuda = np.isin(part["eventClass"], [0, 1])
    keep = cuda if cuda.any() else np.ones(len(cuda), bool)
    plain = {number: _API_VERSION.sub("", text) for number, text in strings.items()}
    return Part(
        "api",
        names.of_ids(part["nameId"][keep], plain, "a call without a name"),
        start=part["start"][keep],
        end=part["end"][keep],
        process=processes.process(_pid_of(part["globalTid"][keep])),
        thread=processes.thread(part["globalTid"][keep]),
        correlation=part["correlationId"][keep],
    )


def _nvtx(part: Any, names: Names, strings: Mapping[int, str], processes: _Processes, last: int) -> Part:
    by_id = names.of_ids(part["textId"], strings)
    inline = names.codes(part["text"])
    code = np.where(inline >= 0, inline, by_id)
    code = np.where(code >= 0, code, names.code("a range without a name")).astype(np.int32)
    return Part(
        "nvtx",
        code,
        start=part["start"],
        end=np.where(part["end"] == MISSING, np.maximum(last, part["start"]), part["end"]),
        process=processes.process(_pid_of(part["globalTid"])),
        thread=processes.thread(part["globalTid"]),
    )


def _coded(values: Ints, words: Mapping[int, str], order: Sequence[str], other: str) -> Codes:
    found = np.full(len(values), order.index(other), np.int32)
    for value, word in words.items():
        found[values == value] = order.index(word)
    return found


def _last(columns: Mapping[str, Sequence[Mapping[str, Any]]]) -> int:
    """The last moment of the trace: where a range that was still open ends."""
    ends = [part["end"].max() for kind in _WANTED for part in columns.get(kind, ()) if len(part["end"])]
    return int(max(ends, default=0))


def _gpu_names(columns: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[int, str]:
    """Device -> name, of those that can run CUDA: lists hold integrated GPUs and render drivers, too."""
    listed = [
        (int(number), str(name))
        for part in columns.get("gpu", ())
        for number, cuda, name in zip(part["id"], part["cuda"], part["name"], strict=True)
        if cuda and name
    ]
    return {place if number == MISSING else number: name for place, (number, name) in enumerate(listed)}


def _remarks(made: Spans, columns: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    found = []
    open_ranges = sum(int((part["end"] == MISSING).sum()) for part in columns.get("nvtx", ()))
    if open_ranges:
        found.append(f"{open_ranges} NVTX {'range was' if open_ranges == 1 else 'ranges were'} still open at the end")
    if made.counts.get("graph"):
        found.append(
            "CUDA graphs were traced as a whole: the kernels in them are not in the file; "
            "trace with --cuda-graph-trace=node to see them"
        )
    if made.counts.get("api") and not (made.counts.get("kernel") or made.counts.get("graph")):
        found.append("the file holds CUDA calls but no kernel: none ran, or the GPU could not be traced")
    return found
