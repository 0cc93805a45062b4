"""The bank model on textbook cases, and the lessons' places against it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.bank_model import sectors, wavefronts
from profiler.problems.copy import Copy, load_sectors, shared_wavefronts, shared_word

LANES = range(32)


@pytest.mark.parametrize(
    ("words", "width", "expected"),
    [
        ([lane for lane in LANES], 1, 1),
        ([2 * lane for lane in LANES], 1, 2),
        ([32 * lane for lane in LANES], 1, 32),
        ([33 * lane for lane in LANES], 1, 1),
        ([3 * lane for lane in LANES], 1, 1),  # an odd stride meets each bank once
        ([7] * 32, 1, 1),  # one word for all
        ([lane // 2 for lane in LANES], 1, 1),
        ([2 * lane for lane in LANES], 2, 2),
        ([4 * lane for lane in LANES], 2, 4),
        ([4 * lane for lane in LANES], 4, 4),
        ([8 * lane for lane in LANES], 4, 8),
        ([32 * lane for lane in LANES], 4, 32),
    ],
)
def test_textbook_conflicts(words: list[int], width: int, expected: int) -> None:
    assert wavefronts(words, width) == expected


@given(st.lists(st.integers(0, 4095), min_size=32, max_size=32), st.integers(0, 100))
def test_moving_all_lanes_by_whole_rows_changes_nothing(words: list[int], rows: int) -> None:
    count = wavefronts(words)
    assert 1 <= count <= 32
    assert wavefronts([word + 32 * rows for word in words]) == count
    assert wavefronts(list(reversed(words))) == count


def test_a_width_that_no_instruction_has_is_refused() -> None:
    with pytest.raises(ValueError, match="1, 2 or 4"):
        wavefronts([0] * 32, 3)


@pytest.mark.parametrize(("stride", "expected"), [(1, 4), (2, 8), (4, 16), (8, 32), (16, 32), (32, 32)])
def test_sectors_of_strided_floats(stride: int, expected: int) -> None:
    assert sectors([4 * stride * lane for lane in LANES], 4) == expected
    assert load_sectors("STRIDED", stride) == expected


def test_sectors_of_the_other_accesses() -> None:
    found = {name: load_sectors(name, 1) for name in ("CONTIGUOUS", "MISALIGNED", "BROADCAST", "AOS", "SOA", "VECTOR4")}
    assert found == {"CONTIGUOUS": 4, "MISALIGNED": 5, "BROADCAST": 1, "AOS": 16, "SOA": 4, "VECTOR4": 16}
    assert load_sectors("RANDOM", 1) is None


@pytest.mark.parametrize(
    ("pattern", "stride", "width"),
    [("STRIDED", s, w) for w in (1, 2, 4) for s in (1, 2, 4, 8, 16, 32) if s <= 32 // w]
    + [("PADDED", 1, 1), ("SWIZZLED", 1, 1), ("PADDED_ROW", 1, 1)],
)
def test_every_value_of_a_tile_has_a_place_of_its_own(pattern: str, stride: int, width: int) -> None:
    count = 32 // width
    places = {shared_word(pattern, stride, lane, j) for lane in LANES for j in range(count)}
    assert len(places) == 32 * count
    limit = 32 * 33 if pattern.startswith("PADDED") else 32 * count
    assert min(places) == 0
    assert max(places) < limit


def test_a_transposition_reads_what_it_stored_transposed() -> None:
    for store, load in ((("STRIDED", 32), ("STRIDED", 1)), (("PADDED", 1), ("PADDED_ROW", 1))):
        for lane in LANES:
            for j in LANES:
                assert shared_word(*load, lane, j) == shared_word(*store, j, lane)


@pytest.mark.parametrize(
    ("params", "store", "load"),
    [
        ({"STORE": "STRIDED", "STORE_STRIDE": 8}, 8, 8),
        ({"STORE": "STRIDED", "STORE_STRIDE": 32, "LOAD": "STRIDED", "LOAD_STRIDE": 1}, 32, 1),
        ({"STORE": "PADDED"}, 1, 1),
        ({"STORE": "SWIZZLED"}, 1, 1),
        ({"STORE": "PADDED", "LOAD": "PADDED_ROW"}, 1, 1),
        ({"STORE": "STRIDED", "LOAD": "BROADCAST", "ROUNDS": 2}, 1, 1),
        ({"STORE": "STRIDED", "WIDTH": 4, "STORE_STRIDE": 2}, 8, 8),
    ],
)
def test_predictions_of_the_bank_lesson(params: dict[str, object], store: float, load: float) -> None:
    assert Copy.predictions(params) == {"wavefronts_per_shared_store": store, "wavefronts_per_shared_load": load}


def test_the_kernel_computes_the_places_of_the_model() -> None:
    source = (Path(__file__).parents[2] / "kernels/lessons/bank_conflicts.cu").read_text(encoding="utf-8")
    formulas = dict(re.findall(r"if \(Pattern == (\w+)\) return (.+?);", source))
    formulas["PADDED_ROW"] = re.search(r"return (.+?);  // PADDED_ROW", source)[1]  # type: ignore[index]
    assert formulas.keys() == {"STRIDED", "PADDED", "SWIZZLED", "PADDED_ROW"}
    for pattern, text in formulas.items():
        for stride in (1, 4, 32) if pattern == "STRIDED" else (1,):
            scope = {"Stride": stride, "kTile": 32}
            python = compile(text.replace("/", "//"), pattern, "eval")
            for lane in (0, 1, 5, 31):
                for j in (0, 1, 6, 31):
                    assert eval(python, {}, {**scope, "lane": lane, "j": j}) == shared_word(pattern, stride, lane, j)


def test_wide_accesses_cost_their_width_at_least() -> None:
    assert [shared_wavefronts("STRIDED", 1, width) for width in (1, 2, 4)] == [1, 2, 4]
