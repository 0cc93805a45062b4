"""Exports of Nsight Systems on disk: opened read-only, read by column, scrubbed. What rows mean: ``parse/nsys.py``."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from profiler.errors import UsageError
from profiler.parse import nsys
from profiler.parse.nsys import Export, Query

_MAGIC = b"SQLite format 3\0"
_CHUNK = 50_000
_WAIT_S = 2.0  #: for whoever writes the file at this moment


def read_export(path: Path) -> Export:
    """Return what an export holds; ``UsageError`` with one line of reason when it is none, locked or damaged."""
    check(path)
    try:
        with _open(path) as connection:
            schema = _schema(connection)
            wanted = nsys.queries(schema)
            if not any(wanted.get(kind) for kind in ("kernel", "copy", "memset", "graph", "api", "nvtx")):
                raise UsageError(_why_nothing(path, schema))
            columns = {kind: [fetch(connection, query) for query in listed] for kind, listed in wanted.items()}
    except sqlite3.Error as error:
        raise UsageError(f"{path.name} cannot be read: {_reason(error)}", hint=_hint(error)) from error
    except (OverflowError, ValueError, TypeError) as error:
        raise UsageError(f"{path.name} is damaged: a column of numbers holds something else") from error
    return nsys.read(columns)


def head_of(path: Path, count: int) -> bytes:
    """Return the first bytes of a file; ``UsageError`` where it is absent, a folder, unreadable, empty or a pointer."""
    try:
        with path.open("rb") as file:
            head = file.read(count)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder, not a file of Nsight Systems") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    if not head:
        raise UsageError(f"{path.name} is empty")
    if head.startswith(b"version https://git-lfs"):
        raise UsageError(f"{path.name} is a git-LFS pointer, not the file itself; run `git lfs pull`")
    return head


def check(path: Path) -> None:
    """Raise ``UsageError`` for a file that is no SQLite file, or only the beginning of one."""
    head = head_of(path, 100)
    size = path.stat().st_size
    if not head.startswith(_MAGIC):
        what = "text" if b"\0" not in head and head.isascii() else "something else"
        raise UsageError(
            f"{path.name} is {what}, not an SQLite export of Nsight Systems",
            hint="make one with `nsys export --type sqlite FILE.nsys-rep`",
        )
    page = int.from_bytes(head[16:18], "big")
    pages, page = int.from_bytes(head[28:32], "big"), 65536 if page == 1 else page
    if head[24:28] == head[92:96] and pages * page > size:  # the header's count is valid when the two agree
        raise UsageError(f"{path.name} is truncated: {size} of {pages * page} bytes are there")


def fetch(connection: sqlite3.Connection, query: Query) -> dict[str, Any]:
    """Return a query's columns: integers as arrays, texts as lists."""
    cursor = connection.execute(query.sql)
    count = len(query.numbers)
    chunks: list[Any] = []
    texts: list[list[str | None]] = [[] for _ in query.texts]
    while rows := cursor.fetchmany(_CHUNK):
        if not query.texts:
            flat = itertools.chain.from_iterable(rows)
            chunks.append(np.fromiter(flat, np.int64, count * len(rows)).reshape(len(rows), count).T)
            continue
        by_column = list(zip(*rows, strict=True))
        chunks.append(np.array([np.fromiter(values, np.int64, len(rows)) for values in by_column[:count]]))
        for kept, values in zip(texts, by_column[count:], strict=True):
            kept.extend(values)
    table = np.concatenate(chunks, axis=1) if chunks else np.empty((count, 0), np.int64)
    return {**dict(zip(query.numbers, table, strict=True)), **dict(zip(query.texts, texts, strict=True))}


#: Tables that a scrubbed export keeps, as far as they are there. Everything else goes, whatever future tools add.
KEPT_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMCPY2", "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "NVTX_EVENTS",
    "TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_CUDA_STREAM",
)  # fmt: skip
_KEPT_GPU = (
    "id",
    "deviceId",
    "name",
    "cuDevice",
    "smCount",
    "computeMajor",
    "computeMinor",
    "totalMemory",
    "isDiscrete",
)
_TEXT_COLUMNS = ("demangledName", "shortName", "mangledName", "nameId", "textId")


def scrub(source: Path, target: Path) -> None:
    """Write a copy of an export that holds the timeline and the names in it, and nothing of machine or user.

    Kept are ``KEPT_TABLES``, the version fields of the metadata, the GPUs' names and sizes, the session's time, and
    the texts that the kept rows refer to. So all environment variables, process and thread names, host, user, paths,
    command lines, serial numbers, call chains and log messages go.
    """
    check(source)
    target.unlink(missing_ok=True)
    try:
        with _open(source) as connection:
            schema = _schema(connection)
            connection.execute("ATTACH DATABASE ? AS kept", (f"file:{quote(str(target.resolve()))}?mode=rwc",))
            tables = [table for base in KEPT_TABLES for table in nsys.named(schema, base)]
            for table in tables:
                connection.execute(f'CREATE TABLE kept."{table}" AS SELECT * FROM main."{table}"')
            _keep_columns(connection, schema, "TARGET_INFO_GPU", _KEPT_GPU)
            _keep_columns(connection, schema, "TARGET_INFO_CUDA_GPU", _KEPT_GPU)
            _keep_columns(connection, schema, "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
            for table in ("META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE"):
                if {"name", "value"} <= set(schema.get(table, ())):
                    places = ", ".join("?" for _ in nsys.FACTS)
                    wanted = f'SELECT name, value FROM main."{table}" WHERE name IN ({places})'
                    connection.execute(f'CREATE TABLE kept."{table}" AS {wanted}', nsys.FACTS)
            _keep_strings(connection, schema, tables)
            connection.commit()
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise UsageError(f"{source.name} cannot be scrubbed: {_reason(error)}", hint=_hint(error)) from error


def _keep_columns(connection: sqlite3.Connection, schema: nsys.Schema, table: str, wanted: Sequence[str]) -> None:
    kept = ", ".join(f'"{name}"' for name in wanted if name in schema.get(table, ()))
    if kept:
        connection.execute(f'CREATE TABLE kept."{table}" AS SELECT {kept} FROM main."{table}"')


def _keep_strings(connection: sqlite3.Connection, schema: nsys.Schema, tables: Sequence[str]) -> None:
    if "StringIds" not in schema:
        return
    used = [
        f'SELECT "{name}" FROM main."{table}"' for table in tables for name in _TEXT_COLUMNS if name in schema[table]
    ]
    where = f"WHERE id IN ({' UNION '.join(used)})" if used else "WHERE 0"
    connection.execute(f'CREATE TABLE kept."StringIds" AS SELECT id, value FROM main."StringIds" {where}')


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True, timeout=_WAIT_S)
    connection.text_factory = lambda content: content.decode("utf-8", "replace")  # old exports hold invalid UTF-8
    try:
        yield connection
    finally:
        connection.close()


def _schema(connection: sqlite3.Connection) -> dict[str, list[str]]:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
    return {name: [row[1] for row in connection.execute(f'PRAGMA table_info("{_quoted(name)}")')] for name in tables}


def _quoted(name: str) -> str:
    return name.replace('"', '""')


def _why_nothing(path: Path, schema: Mapping[str, Sequence[str]]) -> str:
    if "StringIds" in schema or any(name.startswith("TARGET_INFO") for name in schema):
        return f"{path.name} is an export of Nsight Systems without CUDA or NVTX events: nothing of them was traced"
    return f"{path.name} is an SQLite file, but not an export of Nsight Systems"


def _reason(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text:
        return "another program holds it locked"
    if "malformed" in text or "not a database" in text or "disk I/O" in text:
        return f"it is damaged, or no SQLite file ({text})"
    return text


def _hint(error: sqlite3.Error) -> str:
    return "wait until `nsys export` has ended" if "locked" in str(error) else "export it again from the .nsys-rep"
