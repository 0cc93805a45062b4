"""Diffs of sources, flags and parameters: complete where they are short, cut and counted where they are not."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from profiler.analysis.rundata import RunData
from profiler.comparison.diffs import MOST_FILES, row_diffs, source_diffs, unified
from reports.sections.compare_sources import rows

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "  d"]), max_size=14)


def run(flags: list[str], params: dict[str, Any], compiler: str = "nvcc 13.0.88") -> RunData:
    command = ["nvcc", "-O3", *flags, "-o", "variant.so", "k.cu"]
    manifest = {"builds": {"k": {"command": command, "compiler": compiler, "arch": "sm_90a"}}, "experiment": {}}
    variant = {
        "name": "k", "kind": "cuda", "order": 0, "status": "ok", "params": json.dumps(params), "source_hash": "",
        "binary_hash": "",
    }  # fmt: skip
    return RunData(manifest, {"variants": [variant]})


def test_flags_parameters_and_compiler() -> None:
    found = row_diffs(
        run(["-maxrregcount=128"], {"BM": 128, "BK": 8}), run(["-maxrregcount=64"], {"BM": 64, "BK": 8}, "nvcc 13.1"),
        "k", {}, {},
    )  # fmt: skip
    texts = {diff.title: diff.text for diff in found}
    assert texts["flags"].splitlines()[-2:] == ["--maxrregcount=128", "+-maxrregcount=64"]
    assert texts["params"].splitlines()[-2:] == ["-BM=128", "+BM=64"]
    assert texts["compiler"].splitlines()[-2:] == ["-nvcc 13.0.88, sm_90a", "+nvcc 13.1, sm_90a"]


def test_equal_sides_have_no_diff() -> None:
    sources = {"k.cu": "int x;\n", "gemm.h": "struct Args;\n"}
    assert row_diffs(run([], {"A": 1}), run([], {"A": 1}), "k", sources, sources) == ()


def test_a_changed_a_new_a_gone_and_a_renamed_file() -> None:
    changed = source_diffs({"k.cu": "a\nb\nc\n", "h.h": "x\n"}, {"k.cu": "a\nB\nc\n", "h.h": "x\n"})
    assert [(one.title, one.text.splitlines()) for one in changed] == [
        ("k.cu", ["@@ -1,3 +1,3 @@", " a", "-b", "+B", " c"])
    ]
    new = source_diffs({"k.cu": "a\n"}, {"k.cu": "a\n", "n.cuh": "new\n", "m.cuh": "more\n"})
    assert [one.title for one in new] == ["n.cuh", "m.cuh"]
    renamed = source_diffs({"old.cu": "a\nb\n"}, {"new.cu": "a\nc\n"})
    assert [one.title for one in renamed] == ["old.cu -> new.cu"]
    assert source_diffs({"old.cu": "a\n"}, {"new.cu": "a\n"}) == ()


def test_nothing_is_said_where_a_side_kept_no_sources() -> None:
    assert source_diffs({}, {"k.cu": "a\n"}) == ()


def test_a_long_diff_is_cut_and_counted() -> None:
    old, new = [f"old {i}" for i in range(300)], [f"new {i}" for i in range(300)]
    found = unified("k.cu", old, new, most_lines=50)
    assert len(found.text.splitlines()) == 50
    assert found.lines_left_out == 601 - 50


def test_a_huge_rewrite_is_not_compared_line_by_line() -> None:
    found = unified("k.cu", [f"o{i}" for i in range(9000)], [f"n{i}" for i in range(9000)])
    assert "9000 lines became 9000, too many to compare" in found.text
    assert found.lines_left_out == 18000


def test_a_small_change_in_a_huge_file_is_found_at_its_line() -> None:
    lines = [f"line {i}" for i in range(50_000)]
    found = unified("k.cu", lines, [*lines[:40_000], "changed", *lines[40_001:]])
    assert found.text.splitlines()[0] == "@@ -39998,7 +39998,7 @@"
    assert "-line 40000" in found.text
    assert found.lines_left_out == 0


def test_many_files_are_counted() -> None:
    old = {f"{i}.cuh": "a\n" for i in range(20)}
    new = {f"{i}.cuh": "b\n" for i in range(20)}
    found = source_diffs(old, new)
    assert len(found) == MOST_FILES + 1
    assert found[-1].title == f"{20 - MOST_FILES} more files"


@given(LINES, LINES)
def test_the_two_columns_hold_both_texts_between_their_hunks(old: list[str], new: list[str]) -> None:
    if old == new:
        return
    found = rows(unified("k.cu", old, new, context=100).text)
    columns: dict[str, list[str]] = {"left": [], "right": []}
    for line in found:
        for side, number in (("left", "old"), ("right", "new")):
            if line["kind"] != "hunk" and line[number] is not None:
                columns[side].append("".join(piece["text"] for piece in line[side]))
                assert line[number] == len(columns[side])
    assert columns == {"left": old, "right": new}


def test_a_replaced_line_is_marked_where_it_differs() -> None:
    line = rows("@@ -1 +1 @@\n-tile[row][col] = value;\n+tile[row][col ^ row] = value;")[1]
    assert [piece["text"] for piece in line["right"] if piece["changed"]] == [" ^ row"]
    assert not any(piece["changed"] for piece in line["left"])
