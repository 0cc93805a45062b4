"""A timeline as the JSON that Perfetto, chrome://tracing and Speedscope read. Pure: text comes back in pieces.

Chrome's Trace Event Format, times in microseconds. A device is a process whose threads are its streams; ranges and
calls of a thread are threads of its process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import numpy as np

from profiler.analysis.intervals import Ints
from profiler.analysis.timeline import API, COPY, NVTX, Timeline, grouped
from profiler.parse.span_table import DIRECTIONS, KINDS, MEMORIES

_PIECE = 20_000
#: Arrows from a call to what it asked for triple the file; beyond so many they are left out.
MOST_ARROWS = 200_000
_HOST = 1000  #: process numbers of the host begin here, those of devices at 1


def perfetto(line: Timeline, gpus: Mapping[int, str], title: str) -> Iterator[str]:
    """Yield the document piece by piece; spans without a duration are instants."""
    yield '{"displayTimeUnit":"ns","otherData":' + json.dumps({"title": title}) + ',"traceEvents":[\n'
    heads = [json.dumps(event, separators=(",", ":")) for event in _heads(line, gpus)]
    yield ",\n".join(heads)
    names = [json.dumps(name) for name in line.names]
    pid, tid = _places(line)
    for first in range(0, len(line), _PIECE):
        rows = np.arange(first, min(first + _PIECE, len(line)))
        yield ",\n" + ",\n".join(_events(line, rows, names, pid, tid))
    work = np.flatnonzero(line.call >= 0)
    if len(work) <= MOST_ARROWS:
        for first in range(0, len(work), _PIECE):
            yield ",\n" + ",\n".join(_arrows(line, work[first : first + _PIECE], pid, tid))
    yield "\n]}\n"


def _places(line: Timeline) -> tuple[Ints, Ints]:
    """The process and thread of each span in the document."""
    pid = np.where(line.on_device, line.device + 1, _HOST + np.maximum(line.process, 0))
    host = 2 * np.maximum(line.thread, 0) + (line.kind == API)
    return pid, np.where(line.on_device, np.maximum(line.stream, 0), host)


def _heads(line: Timeline, gpus: Mapping[int, str]) -> Iterator[dict[str, object]]:
    pid, tid = _places(line)
    places, number = grouped(pid, tid)
    rows = np.empty(len(places), np.int64)
    rows[number] = np.arange(len(number))  # any span of the thread
    first = {(int(p), int(t)): int(row) for (p, t), row in zip(places.tolist(), rows, strict=True)}
    for process in sorted({p for p, _ in first}):
        device = process - 1
        name = f"process {process - _HOST}" if process >= _HOST else f"GPU {device} {gpus.get(device, '')}".strip()
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
    for (process, thread), row in first.items():
        if process < _HOST:
            name = f"stream {thread}"
        else:
            name = f"thread {int(line.thread[row])} {'ranges' if line.kind[row] == NVTX else 'calls'}"
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}


def _events(line: Timeline, rows: Ints, names: list[str], pid: Ints, tid: Ints) -> Iterator[str]:
    columns = (line.name, line.kind, line.start, line.duration, line.timed, pid, tid)
    listed = (column[rows].tolist() for column in columns)
    for row, (name, kind, start, time, timed, process, thread) in zip(
        rows.tolist(), zip(*listed, strict=True), strict=True
    ):
        text = names[name] if name >= 0 else '"span"'
        head = f'{{"name":{text},"cat":"{KINDS[kind]}","pid":{process},"tid":{thread},"ts":{start / 1e3:.3f}'
        if not timed:
            yield head + ',"ph":"i","s":"t"}'
            continue
        more = _arguments(line, row) if kind == COPY else ""
        yield f'{head},"ph":"X","dur":{time / 1e3:.3f}{more}}}'


def _arguments(line: Timeline, row: int) -> str:
    size, time = int(line.bytes[row]), int(line.duration[row])
    facts: dict[str, object] = {}
    if line.direction[row] >= 0:
        facts["direction"] = DIRECTIONS[line.direction[row]]
    if line.memory[row] >= 0:
        facts["memory"] = MEMORIES[line.memory[row]]
    if size >= 0:
        facts["bytes"] = size
    if size > 0 and time > 0:
        facts["GB/s"] = round(size / time, 3)
    return f',"args":{json.dumps(facts)}' if facts else ""


def _arrows(line: Timeline, rows: Ints, pid: Ints, tid: Ints) -> Iterator[str]:
    for row, call in zip(rows.tolist(), line.call[rows].tolist(), strict=True):
        head = f'{{"name":"launch","cat":"launch","id":{row}'
        yield f'{head},"ph":"s","pid":{pid[call]},"tid":{tid[call]},"ts":{line.start[call] / 1e3:.3f}}}'
        yield f'{head},"ph":"f","bp":"e","pid":{pid[row]},"tid":{tid[row]},"ts":{line.start[row] / 1e3:.3f}}}'
