"""Frames: what is written is what is read, in its types, and what does not fit is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler import frames

VALUES = {
    pa.string(): st.text(max_size=8),
    pa.float64(): st.floats(allow_nan=False),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
    pa.dictionary(pa.int32(), pa.string()): st.text(max_size=8),
}


def rows_for(name: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    fields = {field.name: st.none() | VALUES[field.type] for field in frames.schema(name)}
    return st.lists(st.fixed_dictionaries(fields), max_size=4)


@pytest.mark.parametrize("name", frames.FRAME_NAMES)
def test_round_trip(name: str, tmp_path: Path) -> None:
    @given(rows_for(name))
    @settings(max_examples=15, suppress_health_check=[HealthCheck.differing_executors])
    def check(rows: list[dict[str, Any]]) -> None:
        path = tmp_path / f"{name}.parquet"
        frames.write(path, name, rows)
        data = frames.read(path, name)
        assert frames.rows_of(data) == rows
        frames.write(path, name, data)  # and once more from the DataFrame
        assert frames.rows_of(frames.read(path, name)) == rows
        assert list(data.columns) == frames.columns(name)

    check()


def test_integers_beside_missing_ones_stay_integers() -> None:
    data = frames.frame("samples", [{"order": 2**53 + 1}, {"order": None}])
    assert data["order"].dtype == pd.Int64Dtype()
    assert frames.rows_of(data)[0]["order"] == 2**53 + 1
    assert frames.rows_of(data)[1]["order"] is None


def test_missing_is_missing_and_zero_is_zero() -> None:
    rows = frames.rows_of(frames.frame("metrics", [{"value": None, "why": "not_permitted"}, {"value": 0.0}]))
    assert rows[0]["value"] is None
    assert rows[0]["why"] == "not_permitted"
    assert rows[1]["value"] == 0.0
    assert rows[1]["why"] is None


def test_nan_is_read_as_missing() -> None:
    assert frames.rows_of(frames.frame("samples", [{"time_ns": math.nan}]))[0]["time_ns"] is None


def test_an_empty_frame_has_its_columns() -> None:
    data = frames.frame("variants")
    assert list(data.columns) == frames.columns("variants")
    assert len(data) == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [({"tme_ns": 1.0}, "unknown columns.*tme_ns"), ({"time_ns": "fast"}, "fast"), ({"order": 1.5}, "1.5")],
)
def test_what_does_not_fit_is_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, pa.ArrowException), match=message):
        frames.table("samples", [row])


def test_another_frame_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    frames.write(path, "variants", [{"name": "naive"}])
    with pytest.raises(ValueError, match="not a 'samples' frame"):
        frames.read(path, "samples")


def test_any_other_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(ValueError, match="not a 'samples' frame"):
        frames.read(path, "samples")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    metadata = {"kernel_ladder.schema": str(frames.SCHEMA_VERSION + 1), "frame": "samples"}
    pq.write_table(frames.table("samples", []).replace_schema_metadata(metadata), path)
    with pytest.raises(ValueError, match=f"schema {frames.SCHEMA_VERSION + 1}; this version reads up to"):
        frames.read(path, "samples")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    frames.write(path, "samples", [{"variant": "naive"}])
    with pytest.raises(ValueError, match="unknown columns"):
        frames.write(path, "samples", [{"nonsense": 1}])
    assert frames.rows_of(frames.read(path, "samples"))[0]["variant"] == "naive"
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".partial"] == []


def test_concat_keeps_types_and_order() -> None:
    parts = [frames.frame("samples", [{"order": 1}]), frames.frame("samples"), frames.frame("samples", [{"order": 2}])]
    joined = frames.concat("samples", parts)
    assert [row["order"] for row in frames.rows_of(joined)] == [1, 2]
    assert joined["order"].dtype == pd.Int64Dtype()
    assert list(frames.concat("samples", []).columns) == frames.columns("samples")


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [([], "ok"), (["ok", "ok"], "ok"), (["ok", "profile_failed"], "profile_failed"),
     (["wrong_result", "crashed", "timeout"], "crashed"), (["wrong_after_timing", "wrong_result"], "wrong_result")],
)  # fmt: skip
def test_the_worst_status(statuses: list[str], worst: str) -> None:
    assert frames.worst_status(statuses) == worst
