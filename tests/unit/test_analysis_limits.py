"""Tile arithmetic against binary and counters: the field's formulas, names of parameters, and what a mismatch means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from variant_data import SIZE, kernel_of

from profiler.analysis.limits import NO_PRODUCT, NO_TILE, LimitRow, limit_rows, tile_of
from profiler.analysis.rundata import Value
from profiler.analysis.sass_mix import instruction_mix

TILE = {"BM": 128, "BN": 128, "BK": 16, "TM": 8, "TN": 8}
COUNTERS = {
    "registers": 128, "shared_static": 16384, "shared_dynamic": 0, "block": 256, "grid": 1024, "waves": 1024 / 264,
    "sm_count": 132, "global_load_sectors": 2 * 4096**3 / 128 * 4 / 32,
}  # fmt: skip
BINARY = {
    "ptxas.registers": 128, "ptxas.shared_bytes": 16384, "sass.max_threads": 256, "sass.instructions": 1300,
    "sass.class.fp32": 1024, "sass.opcode.FFMA": 1024, "sass.class.shared": 160, "sass.opcode.LDS": 160,
    "sass.width.LDS.32": 128, "sass.width.LDS.128": 32,
}  # fmt: skip


def rows(
    params: Mapping[str, Any], counters: Mapping[str, Any] | None = COUNTERS, binary: Mapping[str, Any] | None = BINARY,
    dtype: str = "fp32", resident: float | None = 2,
) -> dict[str, LimitRow]:  # fmt: skip
    kernel = kernel_of(counters, binary, params=params)
    tile, why = tile_of(params, SIZE)
    found = limit_rows(kernel, dtype, tile, why, Value(resident), instruction_mix(kernel))
    return {row.key: row for row in found}


def test_a_tile_that_is_what_it_says_agrees_in_every_row() -> None:
    found = rows(TILE)
    assert {key: row.verdict for key, row in found.items()} == dict.fromkeys(
        ("registers", "shared", "threads", "grid", "waves", "reuse", "fma_per_load"), "agrees"
    )
    assert (found["registers"].tile.low, found["registers"].tile.high) == (90, 116)
    assert found["shared"].tile.low == (128 * 16 + 16 * 128) * 4
    assert found["threads"].tile.low == 256
    assert found["grid"].tile.low == 1024
    assert found["waves"].tile.low == pytest.approx(3.8788, abs=1e-4)
    assert found["reuse"].tile.low == found["reuse"].counter.value == 128
    assert found["fma_per_load"].tile.low == found["fma_per_load"].binary.value == 4
    assert "The last of 4 waves fills 88 % of the GPU: at most 3.1 %" in found["waves"].note


@pytest.mark.parametrize(
    ("dtype", "params", "shared"),
    [
        ("bf16", {"BM": 128, "BN": 128, "BK": 8, "STAGES": 2}, 8 * 1024),
        ("fp16", {"BM": 256, "BN": 256, "BK": 32, "STAGES": 2}, 64 * 1024),
        ("bf16", {"BM": 128, "BN": 256, "BK": 32, "STAGES": 4}, 96 * 1024),
        ("fp32", {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16, "num_stages": 3}, 24 * 1024),
        ("fp64", {"TILE": 16}, 4096),
    ],
)
def test_shared_memory_is_stages_times_both_tiles(dtype: str, params: dict[str, int], shared: int) -> None:
    assert rows(params, dtype=dtype)["shared"].tile.low == shared


@pytest.mark.parametrize(
    ("params", "threads"),
    [
        ({"BM": 64, "BN": 64, "BK": 8, "TM": 8}, 512),  # a column of results per thread
        ({"TILE": 32}, 1024),
        ({"BM": 128, "BN": 256, "BK": 32, "WM": 64, "WN": 64}, 256),
        ({"BM": 128, "BN": 128, "BK": 16, "WM": 64, "WN": 64, "TM": 8, "TN": 16}, 128),
        ({"BM": 128, "BN": 128, "BK": 16}, None),
    ],
)
def test_threads_come_from_thread_tiles_or_warp_tiles(params: dict[str, int], threads: int | None) -> None:
    tile, why = tile_of(params, SIZE)
    assert why == ""
    assert tile is not None
    assert tile.threads == threads
    if threads is None:
        assert rows(params)["threads"].tile.why == "it needs TM and TN, or WM and WN"


@pytest.mark.parametrize(
    ("params", "size", "why"),
    [
        ({}, SIZE, NO_TILE), ({"BM": 128}, SIZE, NO_TILE), ({"BM": "128", "BN": True}, SIZE, NO_TILE),
        ({"BM": 0, "BN": -4}, SIZE, NO_TILE), (TILE, "T=64,H=4096", NO_PRODUCT), (TILE, "nonsense", NO_PRODUCT),
    ],
)  # fmt: skip
def test_without_a_tile_the_reason_is_said(params: dict[str, Any], size: str, why: str) -> None:
    assert tile_of(params, size) == (None, why)


def test_without_a_tile_the_counters_still_stand() -> None:
    found = rows({})
    assert found["registers"].tile.why == NO_TILE
    assert found["registers"].counter.value == 128
    assert found["registers"].verdict == ""


@pytest.mark.parametrize(
    ("key", "changed", "words"),
    [
        ("registers", {"registers": 40}, "not the one that was profiled"),
        ("shared", {"shared_static": 81920}, "another array"),
        ("shared", {"shared_static": 8192}, "one of them is not staged"),
        ("shared", {"shared_static": 0}, "named, not staged"),
        ("threads", {"block": 384}, "warps that only load"),
        ("threads", {"block": 64}, "several thread tiles"),
        ("grid", {"grid": 4096}, "K is split"),
        ("grid", {"grid": 132}, "persistent"),
        ("reuse", {"global_load_sectors": 1e9}, "sectors half used"),
        ("reuse", {"global_load_sectors": 2e7}, "share loads"),
        ("waves", {"waves": 7.76}, "follows from the blocks"),
    ],
)
def test_a_mismatch_is_flagged_and_explained(key: str, changed: dict[str, float], words: str) -> None:
    found = rows(TILE, {**COUNTERS, **changed})
    assert found[key].verdict == "differs"
    assert words in found[key].note


def test_registers_beyond_the_tile_and_short_of_it_are_told_apart() -> None:
    def note(registers: int) -> str:
        return rows(TILE, {**COUNTERS, "registers": registers}, {**BINARY, "ptxas.registers": registers})[
            "registers"
        ].note

    assert "spilled, indexed at run time, or kept in shared memory" in note(40)
    assert "addresses, unrolled loops" in note(200)
    assert note(110) == ""


def test_registers_that_cost_no_warp_are_no_mismatch() -> None:
    found = rows({"TILE": 32}, {**COUNTERS, "registers": 32}, {**BINARY, "ptxas.registers": 32})["registers"]
    assert found.tile.high == 25
    assert found.verdict == "agrees"


def test_padding_is_no_mismatch_and_dynamic_memory_is_named() -> None:
    found = rows(TILE, {**COUNTERS, "shared_static": 0, "shared_dynamic": 17408}, {**BINARY, "ptxas.shared_bytes": 0})[
        "shared"
    ]
    assert found.verdict == "agrees"
    assert (
        found.note
        == "1024 B more: padding, or barriers. 17408 B are given at the launch, which the binary cannot know."
    )


@pytest.mark.parametrize(
    ("waves", "words"),
    [(1.0, "One full wave"), (0.15, "fills 15 %"), (4.0, "no tail"), (62.06, "fills 6 % of the GPU: at most 1.5 %")],
)
def test_the_tail_is_what_the_last_wave_leaves_idle(waves: float, words: str) -> None:
    assert words in rows({}, {"waves": waves})["waves"].note


def test_bulk_copies_are_not_read_as_endless_reuse() -> None:
    found = rows(TILE, {**COUNTERS, "global_load_sectors": 0})["reuse"]
    assert found.counter.value is None
    assert "TMA" in found.counter.why
    assert found.verdict == ""


def test_bulk_copies_of_one_operand_are_not_read_as_shared_loads() -> None:
    found = rows(TILE, {**COUNTERS, "global_load_sectors": 2e7, "tma_load_instructions": 65536})["reuse"]
    assert (found.counter.value, found.verdict, found.note) == (None, "", "")
    assert "a part of the loads are bulk copies (TMA)" in found.counter.why


def test_what_was_not_measured_says_so_and_is_never_zero() -> None:
    found = rows(TILE, {"registers": "not_supported"}, None)
    assert found["registers"].counter.why_text == "this chip has no such counter"
    assert found["grid"].counter.why_text == "not collected in this run"
    assert all(row.counter.value is None for row in found.values())
    assert all(row.verdict == "" for row in found.values())


def test_tensor_kernels_have_no_row_of_scalar_multiply_adds() -> None:
    tensor = {"ptxas.registers": 230, "sass.class.tensor": 64, "sass.opcode.HMMA": 64, "sass.instructions": 64}
    assert "fma_per_load" not in rows({"BM": 128, "BN": 256, "BK": 32, "WM": 64, "WN": 64}, COUNTERS, tensor, "bf16")
