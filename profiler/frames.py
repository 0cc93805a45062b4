"""The frames of a run: explicit Arrow schemas, written and read as Parquet.

Long and tidy; a missing value is null and, in ``metrics``, says why. Units are SI in ``metrics`` and part of the column
name elsewhere. A size is the text of :func:`profiler.sizes.size_key`. ``SCHEMA_VERSION`` rises when a column changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA_VERSION = 1


#: Worst first: a variant's status is the worst of its stages and checks.
STATUS_ORDER: tuple[str, ...] = (
    "crashed",
    "timeout",
    "launch_failed",
    "build_failed",
    "wrong_result",
    "wrong_after_timing",
    "profile_failed",
    "not_run",
    "ok",
)
SKIPPED = "skipped"
#: ``sm_clock_mhz`` of a sample whose window (``time_ns`` x ``launches``) is shorter is told too coarsely: global timers
#: tick in up to a microsecond.
CLOCK_WINDOW_NS = 50_000.0

_S, _F, _I, _B = pa.string(), pa.float64(), pa.int64(), pa.bool_()
_C = pa.dictionary(pa.int32(), pa.string())  # a category: a trace has millions of spans and few names

_COLUMNS: dict[str, list[tuple[str, pa.DataType]]] = {
    "variants": [
        ("name", _S), ("dtype", _S), ("kind", _S), ("status", _S), ("reason", _S), ("verified", _S), ("origin", _S),
        ("order", _I), ("idea", _S), ("params", _S), ("source_hash", _S), ("binary_hash", _S),
    ],
    "checks": [
        ("variant", _S), ("size", _S), ("when", _S), ("seed", _I), ("status", _S), ("reason", _S), ("error", _F),
        ("tolerance", _F), ("baseline_error", _F),
    ],
    "samples": [
        ("variant", _S), ("size", _S), ("gpu", _S), ("process", _I), ("order", _I), ("method", _S), ("cache", _S),
        ("launches", _I), ("time_ns", _F), ("sm_clock_mhz", _F), ("temperature_c", _F), ("power_w", _F),
        ("throttle", _S), ("foreign", _B),
    ],
    "metrics": [
        ("variant", _S), ("size", _S), ("launch", _I), ("kernel", _S), ("metric", _S), ("value", _F), ("text", _S),
        ("unit", _S), ("origin", _S), ("why", _S),
    ],
    "stalls": [
        ("variant", _S), ("size", _S), ("launch", _I), ("kernel", _S), ("reason", _S), ("cycles_per_issue", _F),
        ("samples", _I),
    ],
    "source": [
        ("variant", _S), ("size", _S), ("launch", _I), ("kernel", _S), ("file", _S), ("line", _I), ("pc", _I),
        ("sass", _S), ("executed", _I), ("samples", _I), ("samples_by_reason", _S), ("sectors", _I),
        ("excess_sectors", _I), ("shared_wavefronts", _I), ("excess", _I),
    ],
    "rules": [
        ("variant", _S), ("size", _S), ("launch", _I), ("rule", _S), ("title", _S), ("message", _S), ("kind", _S),
        ("speedup", _F),
    ],
    "ceilings": [
        ("name", _S), ("level_or_pipe", _S), ("value", _F), ("unit", _S), ("clock_mhz", _F), ("origin", _S),
    ],
    "findings": [
        ("variant", _S), ("size", _S), ("name", _S), ("evidence", _S), ("lines", _S), ("gain_bound", _F),
        ("advice", _S),
    ],
    "spans": [
        ("variant", _C), ("size", _C), ("kind", _C), ("name", _C), ("start_ns", _I), ("duration_ns", _I),
        ("stream", _I), ("device", _I), ("bytes", _I), ("parent", _C), ("process", _I), ("thread", _I),
        ("correlation", _I), ("direction", _C), ("memory", _C), ("stream_type", _C),
    ],
}  # fmt: skip

FRAME_NAMES: tuple[str, ...] = tuple(_COLUMNS)


def schema(name: str) -> pa.Schema:
    """Return the Arrow schema of a frame, with its version in the metadata."""
    return pa.schema(_COLUMNS[name], metadata={"kernel_ladder.schema": str(SCHEMA_VERSION), "frame": name})


def columns(name: str) -> list[str]:
    """Return the column names of a frame, in order."""
    return [column for column, _ in _COLUMNS[name]]


def table(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table; a missing key is null, an unknown key or a wrong type raises."""
    known = dict(_COLUMNS[name])
    listed = [dict(row) for row in rows]
    for row in listed:
        unknown = row.keys() - known.keys()
        if unknown:
            raise ValueError(f"frame {name}: unknown columns {sorted(unknown)}")
        for key, value in row.items():  # Arrow would cut the fraction off
            if isinstance(value, float) and known[key] == _I and not value.is_integer():
                raise ValueError(f"frame {name}: {key} is an integer, not {value}")
    return pa.Table.from_pylist(listed, schema=schema(name))


def frame(name: str, rows: Iterable[Mapping[str, Any]] = ()) -> pd.DataFrame:
    """Return rows as a DataFrame with the frame's columns; nullable dtypes, so integers stay integers."""
    return _to_pandas(table(name, rows))


def rows_of(data: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows as dicts, missing values as None."""
    names = [str(name) for name in data.columns]
    columns = [_values(data[name]) for name in data.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pd.Series[Any]) -> list[Any]:
    """A column's values as Python has them; by column, for a frame of instructions has tens of thousands of rows."""
    return [None if missing else value for value, missing in zip(column.tolist(), column.isna().tolist(), strict=True)]


def concat(name: str, frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return the frames one below the other, in the frame's own types."""
    kept = [part for part in frames if len(part)]
    if not kept:
        return frame(name)
    return pd.concat(kept, ignore_index=True)


def write(path: Path, name: str, data: pd.DataFrame | Iterable[Mapping[str, Any]]) -> None:
    """Write a frame atomically: a reader sees the old file or the new one, never half of one."""
    if isinstance(data, pd.DataFrame):
        arrow = pa.Table.from_pandas(data[columns(name)], schema=schema(name), preserve_index=False)
        arrow = arrow.replace_schema_metadata(schema(name).metadata)
    else:
        arrow = table(name, data)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    pq.write_table(arrow, partial, compression="zstd")
    partial.replace(path)


def read(path: Path, name: str) -> pd.DataFrame:
    """Return a frame from its file; ``ValueError`` when the file is another frame or of a newer schema."""
    arrow = pq.read_table(path)
    metadata = arrow.schema.metadata or {}
    version = int(metadata.get(b"kernel_ladder.schema", b"0"))
    if metadata.get(b"frame", b"").decode() != name:
        raise ValueError(f"{path.name} is not a {name!r} frame")
    if version > SCHEMA_VERSION:
        raise ValueError(f"{path.name} has schema {version}; this version reads up to {SCHEMA_VERSION}")
    return _to_pandas(arrow)


def worst_status(statuses: Iterable[str]) -> str:
    """Return the worst status by ``STATUS_ORDER``; ``ok`` when there is none."""
    return min(statuses, key=STATUS_ORDER.index, default="ok")


def _to_pandas(arrow: pa.Table) -> pd.DataFrame:
    types: dict[pa.DataType, Any] = {
        pa.string(): pd.StringDtype("python"),
        pa.int64(): pd.Int64Dtype(),
        pa.bool_(): pd.BooleanDtype(),
    }
    data: pd.DataFrame = arrow.to_pandas(types_mapper=types.get)
    return data
