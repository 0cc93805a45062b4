"""Coalescing, bank conflicts and local memory: what is said of them, and what is never said by one witness alone."""

from __future__ import annotations

from typing import Any

import pytest
from variant_data import kernel_of

from profiler.analysis.access import banks, global_access, spills

GOOD_LOADS: dict[str, Any] = {
    "global_load_requests": 1000, "global_load_sectors": 4000, "sectors_per_load_request": 4.0,
    "bytes_used_per_load_sector": 32.0, "global_store_requests": 10, "global_store_sectors": 40,
    "sectors_per_store_request": 4.0, "bytes_used_per_store_sector": 32.0, "global_sectors_excess": 0,
    "global_sectors_sass": 4040,
}  # fmt: skip


def conflicts(excess: float, counter: float, sass: str = "LDS R1, [R2]", **more: Any) -> Any:
    counters = {
        "shared_static": 8192, "shared_dynamic": 0, "shared_wavefronts_excess": excess,
        "shared_wavefronts_sass": 1000, "shared_bank_conflicts": counter, "shared_wavefronts": 1000, **more,
    }  # fmt: skip
    rows = [{"sass": sass, "executed": 10, "shared_wavefronts": 1000, "excess": int(excess), "file": "k.cu", "line": 7}]
    return banks(kernel_of(counters, instructions=rows))


def test_a_broadcast_is_judged_by_the_bytes_it_uses() -> None:
    found = global_access(kernel_of({**GOOD_LOADS, "sectors_per_load_request": 1.0, "global_load_sectors": 1000}))
    assert found.judgement == "good"
    assert found.rows[0].text == "every byte is used"


@pytest.mark.parametrize(
    ("used", "judgement", "words"),
    [(32.0, "good", "every byte"), (29.0, "good", "3.0 of 32"), (20.0, "uncertain", "12 of the 32"),
     (4.0, "look", "28 of the 32")],
)  # fmt: skip
def test_loads_by_bytes_used_per_sector(used: float, judgement: str, words: str) -> None:
    row = global_access(kernel_of({**GOOD_LOADS, "bytes_used_per_load_sector": used})).rows[0]
    assert row.judgement == judgement
    assert words in row.text


def test_wasted_sectors_name_the_lines_that_waste_them() -> None:
    rows = [
        {"sass": "LDG.E R1, [R2]", "file": "a/k.cu", "line": 35, "sectors": 100, "excess_sectors": 87},
        {"sass": "@!P0  LDG.E.CONSTANT R1, [R2]", "file": "a/k.cu", "line": 35, "sectors": 100, "excess_sectors": 80},
        {"sass": "STG.E [R2], R1", "file": "a/k.cu", "line": 38, "sectors": 10, "excess_sectors": 3},
        {"sass": "LDG.E R3, [R4]", "file": "a/k.cu", "line": 40, "sectors": 10, "excess_sectors": 0},
    ]
    found = global_access(kernel_of({**GOOD_LOADS, "bytes_used_per_load_sector": 4.0}, instructions=rows))
    assert found.judgement == "look"
    assert [(one.line, one.excess, one.total) for one in found.offenders] == [(35, 167, 200), (38, 3, 10)]
    assert found.offenders[0].opcodes == ("LDG.E", "LDG.E.CONSTANT")
    assert sum(one.share for one in found.offenders) == pytest.approx(1)


def test_without_line_information_opcodes_stand_for_lines() -> None:
    rows = [{"sass": f"LDGSTS.E.LTC128B [R{i}], [R2]", "sectors": 4, "excess_sectors": 1} for i in range(9)]
    (found,) = global_access(kernel_of(GOOD_LOADS, instructions=rows)).offenders
    assert (found.line, found.opcodes, found.excess) == (None, ("LDGSTS.E.LTC128B",), 9)


def test_asynchronous_copies_are_judged_by_their_excess() -> None:
    found = global_access(
        kernel_of({**GOOD_LOADS, "bytes_used_per_load_sector": "not_applicable", "global_sectors_excess": 40})
    )
    assert found.rows[0].judgement == "unknown"
    assert "asynchronous copies" in found.rows[0].text
    assert found.judgement == "good"
    assert found.text == "Coalesced: 0.99 % of the sectors are beyond what the addresses need."


def test_bulk_copies_are_no_zero() -> None:
    found = global_access(kernel_of({"global_load_requests": 0, "global_store_requests": 0}))
    assert found.judgement == "not applicable"
    assert "TMA" in found.text


def test_missing_counters_say_why() -> None:
    found = global_access(kernel_of({"global_load_requests": "not_supported", "registers": 1}))
    assert found.judgement == "unknown"
    assert "this chip has no such counter" in found.text
    assert found.why_no_lines == "not collected in this run"


@pytest.mark.parametrize(
    ("excess", "counter", "judgement", "words"),
    [
        (0, 0, "good", "No conflicts"),
        (0, 6, "good", "No conflicts"),
        (179, 175, "look", "by both witnesses"),
        (179, 0.1, "uncertain", "no fault that can be told apart"),
        (0, 57, "uncertain", "no access needs more wavefronts than it should"),
    ],
)
def test_no_alarm_by_one_witness(excess: float, counter: float, judgement: str, words: str) -> None:
    found = conflicts(excess, counter)
    assert found.judgement == judgement
    assert words in found.text


def test_the_excess_of_asynchronous_copies_is_named() -> None:
    found = conflicts(101, 0, "@!P0 LDGSTS.E.BYPASS.128 [R1], [R2]")
    assert found.judgement == "uncertain"
    assert found.asynchronous_share == 1
    assert "asynchronous copies or warpgroup products" in found.text
    assert conflicts(179, 175, "LDGSTS.E [R1], [R2]").text.endswith("All of the excess lies on asynchronous copies.")
    assert conflicts(179, 175).asynchronous_share == 0


def test_one_witness_alone_is_uncertain() -> None:
    only_counter = conflicts(0, 175, shared_wavefronts_excess="not_collected", shared_wavefronts_sass="not_collected")
    assert only_counter.judgement == "uncertain"
    assert "alone" in only_counter.text
    only_address = conflicts(0, 0, shared_bank_conflicts="not_supported")
    assert only_address.judgement == "good"
    assert "one witness" in only_address.text


def test_a_kernel_without_shared_memory_has_no_verdict() -> None:
    found = conflicts(0, 0, shared_static=0, shared_wavefronts_sass="not_collected")
    assert found.judgement == "not applicable"


@pytest.mark.parametrize(
    ("binary", "counters", "judgement", "words"),
    [
        ({"ptxas.stack_bytes": 0, "ptxas.spill_store_bytes": 0, "ptxas.spill_load_bytes": 0}, {}, "good", "Nothing"),
        ({"ptxas.stack_bytes": 96, "ptxas.spill_store_bytes": 80, "ptxas.spill_load_bytes": 120}, {}, "look",
         "80 B stored and 120 B loaded"),
        ({"ptxas.stack_bytes": 256, "ptxas.spill_store_bytes": 0, "ptxas.spill_load_bytes": 0}, {}, "look",
         "A frame of 256 B without spills: an array that is indexed at run time"),
        ({}, {"local_load_instructions": 5, "local_store_instructions": 0}, "look", "the binary that would say why"),
        ({}, {"local_load_instructions": 0, "local_store_instructions": 0}, "good", "Nothing"),
        ({}, {"registers": 3}, "unknown", "not collected"),
    ],
)  # fmt: skip
def test_spills_and_frames(binary: dict[str, Any], counters: dict[str, Any], judgement: str, words: str) -> None:
    found = spills(kernel_of(counters or {"registers": 3}, binary))
    assert found.judgement == judgement
    assert words in found.text


def test_a_library_kernel_says_that_its_binary_is_not_here() -> None:
    found = spills(kernel_of({"local_load_instructions": 0, "local_store_instructions": 0}, None, kind="python"))
    assert found.stack.value is None
    assert found.stack.why == "a library's kernel: its binary is not part of this run"


def test_a_negative_count_is_not_believed() -> None:
    found = conflicts(0, -5)
    assert found.counter.value is None
    assert "reads -5" in found.counter.why


def test_a_word_that_a_block_looks_up_is_no_traffic() -> None:
    lookups = {**GOOD_LOADS, "bytes_used_per_load_sector": 4.0}
    found = global_access(kernel_of({**lookups, "l2_sectors": 1_000_000}))
    assert found.judgement == "good"
    assert found.rows[0].text.endswith("but they are only 0.40 % of those in L2")
    assert global_access(kernel_of({**lookups, "l2_sectors": 100_000})).judgement == "look"


def test_conflicts_that_take_few_cycles_are_no_alarm() -> None:
    few = conflicts(179, 175, sm_cycles_active=1000, sm_count=132)
    assert few.judgement == "uncertain"
    assert "They take 0.13 % of the cycles of the shared memory's pipe: little is to be gained." in few.text
    many = conflicts(179, 175, sm_cycles_active=10, sm_count=132)
    assert many.judgement == "look"
    assert "They take 13.3 % of the cycles" in many.text


def test_a_frame_that_is_hardly_touched_is_no_alarm() -> None:
    binary = {"ptxas.stack_bytes": 8, "ptxas.spill_store_bytes": 0, "ptxas.spill_load_bytes": 0}
    ran = {"local_load_instructions": 0, "local_store_instructions": 19_056}
    few = spills(kernel_of({**ran, "instructions": 19_654_700}, binary))
    assert few.judgement == "uncertain"
    assert few.text.startswith("A frame of 8 B without spills")
    assert few.text.endswith("It costs little: 0.097 % of the instructions executed.")
    assert spills(kernel_of({**ran, "instructions": 200_000}, binary)).judgement == "look"
    assert spills(kernel_of({"registers": 1}, binary)).judgement == "look"
