"""Noise by duration, design and card; the ledger that learns it, pure and on disk."""

from __future__ import annotations

import json
import math
import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profiler.comparison import ledger
from profiler.comparison.noise import (
    CLASSES,
    FEWEST_DF,
    LOWEST_SD,
    Entry,
    Ledger,
    class_index,
    default_table,
    pair_entry,
    session_entries,
)

GPU = {"name": "NVIDIA H200", "uuid": "GPU-1234"}
TABLE = default_table("NVIDIA H200")


def test_classes_of_duration() -> None:
    assert [CLASSES[class_index(ns)][1] for ns in (5e3, 1e4, 5e4, 2e5, 1e9)] == [
        "< 10 us", "10-30 us", "30-100 us", "100 us-1 ms", "> 1 ms",
    ]  # fmt: skip


def test_defaults_are_above_what_was_measured_and_say_where_they_come_from() -> None:
    measured = {5.2e3: 0.028, 17e3: 0.017, 37e3: 0.0033, 176e3: 0.0036, 2.686e6: 0.00015}
    for time_ns, sd in measured.items():
        noise = TABLE.pair_floor(time_ns, "two_process")
        assert noise.sd >= 1.4 * math.sqrt(2) * sd
        assert "H200" in noise.source
        assert noise.df == FEWEST_DF


def test_an_unknown_card_is_noisier() -> None:
    other = default_table("Some GPU").pair_floor(2e5, "two_process")
    assert other.sd == pytest.approx(2 * TABLE.pair_floor(2e5, "two_process").sd)
    assert "unknown card" in other.source


def test_samples_that_scatter_raise_the_floor() -> None:
    noise = TABLE.pair_floor(2e5, "in_process", within=0.05)
    assert noise.sd == pytest.approx(math.sqrt(2) * 0.05)
    assert "its own samples" in noise.source


def test_sessions() -> None:
    one = TABLE.session_floor(2e5, (1, 1), corrected=False)
    assert one.sd == pytest.approx(math.hypot(0.010, math.sqrt(2) * 0.006))
    assert "one process a side" in one.source
    five = TABLE.session_floor(2e5, (5, 5), corrected=False)
    assert 0.010 < five.sd < one.sd
    assert "one process" not in five.source
    assert TABLE.session_floor(2e5, (1, 1), corrected=True).sd < one.sd
    assert TABLE.session_floor(2e5, (5, 5), corrected=False, between=0.05).sd > one.sd


def entries(sd: float, codes: int = 10, each: int = 5, source: str = "two_process", session: str = "s") -> list[Entry]:
    return [Entry(source, 3, f"code {c}", sd**2, each, session) for c in range(codes)]  # type: ignore[arg-type]


def test_a_ledger_replaces_defaults_only_when_it_knows_enough() -> None:
    few = Ledger("H200").with_entries(entries(0.002, codes=7)).table(TABLE)
    assert few == TABLE
    enough = Ledger("H200").with_entries(entries(0.002, codes=8)).table(TABLE)
    noise = enough.pair_floor(2e5, "two_process")
    assert noise.sd == pytest.approx(0.002)
    assert noise.df == 40
    assert "ledger" in noise.source
    assert enough.of(5e6) == TABLE.of(5e6)  # other classes are not touched
    assert enough.pair_floor(2e5, "in_process") == TABLE.pair_floor(2e5, "in_process")


def test_the_noisier_kernels_of_a_class_count() -> None:
    learned = [Entry("two_process", 3, f"code {c}", (0.001 * (c + 1)) ** 2, 10, "s") for c in range(8)]
    assert Ledger("").with_entries(learned).table(TABLE).pair_floor(2e5, "two_process").sd == pytest.approx(0.006)


def test_the_floor_never_falls_to_nothing() -> None:
    learned = Ledger("").with_entries(entries(0.0)).table(TABLE)
    assert learned.pair_floor(2e5, "two_process").sd == pytest.approx(LOWEST_SD)


def test_many_rows_of_one_session_are_not_many_sessions() -> None:
    one = entries(0.002, codes=60, each=1, source="session")
    assert Ledger("").with_entries(one).table(TABLE) == TABLE
    five = [e for s in range(5) for e in entries(0.002, codes=10, each=1, source="session", session=str(s))]
    learned = Ledger("").with_entries(five).table(TABLE)
    assert learned.of(2e5).session_sd == pytest.approx(0.002)
    assert learned.of(2e5).private_sd == TABLE.of(2e5).private_sd


def test_what_processes_account_for_is_taken_out_of_sessions() -> None:
    found = session_entries(2e5, "a", 0.010, 0.006, 0.003**2, "s")
    assert [(e.source, e.mean_square) for e in found] == [
        ("session", pytest.approx(1e-4)), ("private", pytest.approx(1.6e-5)),
    ]  # fmt: skip
    assert session_entries(2e5, "a", math.nan, 0.0, 0.0, "s") == []
    many = [e for s in range(40) for e in session_entries(2e5, "a", 0.010, None, 0.008**2, str(s))]
    assert Ledger("").with_entries(many).table(TABLE).of(2e5).session_sd == pytest.approx(0.006)


def test_the_same_measurement_is_not_counted_twice_and_old_ones_go() -> None:
    once = Ledger("").with_entries(entries(0.002))
    assert once.with_entries(entries(0.002)) == once
    many = once.with_entries(replace(e, key=f"new {i}") for i in range(60) for e in entries(0.004))
    assert len(many.entries) == 10 + 60
    full = Ledger("").with_entries(replace(entries(0.1)[0], key=str(i)) for i in range(Ledger.MOST_ENTRIES + 5))
    assert len(full.entries) == Ledger.MOST_ENTRIES
    assert full.entries[-1].key == str(Ledger.MOST_ENTRIES + 4)


def test_pairs_of_identical_code() -> None:
    found = pair_entry("in_process", 2e5, "a", [0.001, -0.001, math.nan, 0.002])
    assert found is not None
    assert (found.source, found.df) == ("in_process", 3)
    assert found.mean_square == pytest.approx(2e-6)
    assert pair_entry("two_process", 2e5, "a", [math.nan]) is None


def test_learning_from_many_pairs_finds_the_sd() -> None:
    rng = np.random.default_rng(0)
    learned = [pair_entry("two_process", 2e5, str(k), rng.normal(0, 0.004, 10).tolist()) for k in range(40)]
    found = Ledger("").with_entries(e for e in learned if e is not None).table(TABLE)
    assert found.pair_floor(2e5, "two_process").sd == pytest.approx(0.0046, rel=0.1)  # the upper quartile of 40


# --- on disk --------------------------------------------------------------------------------------------------------


@pytest.fixture
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "kernel-ladder" / "noise"


def test_the_ledger_is_kept_and_private(data_home: Path) -> None:
    assert ledger.add(GPU, entries(0.002))
    path = data_home / "GPU-1234.json"
    assert ledger.ledger_path(GPU) == path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ledger.read(path, "").entries == tuple(entries(0.002))
    assert ledger.table(GPU).pair_floor(2e5, "two_process").sd == pytest.approx(0.002)
    assert ledger.add(GPU, entries(0.003, session="t"))
    assert len(ledger.read(path, "").entries) == 20
    assert [p.name for p in data_home.iterdir() if "partial" in p.name] == []


def test_without_a_data_home_it_lies_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert ledger.ledger_path(GPU).is_relative_to(os.environ["XDG_CACHE_HOME"])


@pytest.mark.parametrize("uuid", ["../../etc/passwd", "a/b", "", "."])
def test_no_name_leads_out_of_the_folder(data_home: Path, uuid: str) -> None:
    assert ledger.ledger_path({"uuid": uuid}).parent == data_home


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"schema": 2}', '{"schema": 1, "classes": [], "entries": []}', "\udcff"],
)
def test_a_damaged_ledger_is_an_empty_one(data_home: Path, text: str) -> None:
    data_home.mkdir(parents=True)
    path = data_home / "GPU-1234.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert ledger.table(GPU) == TABLE
    assert ledger.add(GPU, entries(0.002))
    assert len(ledger.read(path, "").entries) == 10


@pytest.mark.parametrize(
    ("key", "value"),
    [("mean_square", -1), ("mean_square", math.nan), ("df", 0), ("source", "x"), ("duration_class", 9), ("df", "x")],
)
def test_an_entry_that_nobody_wrote_is_not_believed(data_home: Path, key: str, value: object) -> None:
    assert ledger.add(GPU, entries(0.002))
    path = ledger.ledger_path(GPU)
    document = json.loads(path.read_text())
    document["entries"][0][key] = value
    path.write_text(json.dumps(document))
    assert ledger.table(GPU) == TABLE


def test_a_ledger_that_cannot_be_written_fails_nothing(data_home: Path) -> None:
    data_home.parent.mkdir(parents=True)
    data_home.write_text("a file where the folder should be")
    assert not ledger.add(GPU, entries(0.002))
    assert ledger.add(GPU, [])
    assert ledger.table(GPU) == TABLE
