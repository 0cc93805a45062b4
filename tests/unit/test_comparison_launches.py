"""Launches of two profiler files: which correspond, what is refused, and that no time is ever judged."""

from __future__ import annotations

from typing import Any

import pytest

from profiler.analysis.rundata import RunData
from profiler.comparison import words
from profiler.comparison.gate import exit_code
from profiler.comparison.launches import Launch, compare_launches, match, renamed, worded
from profiler.comparison.model import CounterPair, RowComparison, Settings
from profiler.errors import Exit


def launches(*given: tuple[str, str]) -> list[Launch]:
    """Return launches of (mangled, demangled), named as the frames name them: repeated ones by number."""
    seen: dict[str, int] = {}
    found = []
    for mangled, demangled in given:
        function = demangled.partition("<")[0].partition("(")[0].split(" ")[-1]
        seen[function] = seen.get(function, 0) + 1
        name = function if seen[function] == 1 else f"{function} #{seen[function]}"
        found.append(Launch(name, mangled, demangled))
    return found


def pairs(before: list[Launch], after: list[Launch]) -> list[tuple[str | None, str | None, str]]:
    return [
        (one.before and one.before.demangled, one.after and one.after.demangled, one.how)
        for one in match(before, after)
    ]


def test_by_mangled_name_whatever_the_order() -> None:
    before = launches(("_Z1a", "a()"), ("_Z1b", "b()"))
    assert pairs(before, before[::-1]) == [("a()", "a()", "mangled"), ("b()", "b()", "mangled")]


def test_by_function_and_template_arguments_where_the_mangled_name_moved() -> None:
    """A kernel in an unnamed namespace has its file's hash in its mangled name."""
    before = launches(("_ZN1x1a", "void (anonymous namespace)::tile<(int)8, (bool)0>(float const*)"))
    after = launches(("_ZN1y1a", "void (anonymous namespace)::tile<8, false>(const float *)"))
    assert [one.how for one in match(before, after)] == ["demangled"]


def test_other_template_arguments_are_another_kernel() -> None:
    before, after = launches(("_Z1a8", "void tile<8>(float*)")), launches(("_Z2a16", "void tile<16>(float*)"))
    assert pairs(before, after) == [("void tile<8>(float*)", None, ""), (None, "void tile<16>(float*)", "")]
    rows = compared(before, after).rows
    assert [(row.variant, row.verdict) for row in rows] == [("tile", "removed"), ("tile (after)", "new")]
    assert "it launches tile<16>" in rows[0].words


def test_repeated_launches_correspond_in_turn() -> None:
    before, after = launches(*[("_Z1a", "a()")] * 3), launches(*[("_Z1a", "a()")] * 2)
    found = match(before, after)
    assert [(one.before and one.before.variant, one.after and one.after.variant) for one in found] == [
        ("a", "a"), ("a #2", "a #2"), ("a #3", None)
    ]  # fmt: skip
    assert "it launches this kernel 2 times" in compared(before, after).rows[2].words


def test_a_mangled_match_is_not_given_away_to_a_demangled_one() -> None:
    before = launches(("_Z1x", "a()"), ("_Z1a", "a()"))
    after = launches(("_Z1a", "a()"), ("_Z1y", "a()"))
    assert [(one.how, one.after and one.after.mangled) for one in match(before, after)] == [
        ("demangled", "_Z1y"), ("mangled", "_Z1a")
    ]  # fmt: skip


def test_a_launch_without_a_name_matches_nothing() -> None:
    nameless = [Launch("launch", "", "")]
    assert pairs(nameless, nameless) == [("", None, ""), (None, "", "")]


def file(gpu: dict[str, Any] | None = None, **more: Any) -> RunData:
    facts = {"name": "NVIDIA H200", "compute_capability": "9.0", "sm_count": 132} if gpu is None else gpu
    return RunData({"gpu": facts, "profile": {"cache_control": "all"}, "foreign": {"sha256": "1"}, **more})


def compared(before: list[Launch], after: list[Launch], *files: RunData, allow: tuple[str, ...] = ()) -> Any:
    given = files or (file(), file(foreign={"sha256": "2"}))
    return compare_launches(given[0], given[1], match(before, after), ("a", "b"), Settings(allow=allow))


def test_counters_only_passes_and_says_why_no_time_is_judged() -> None:
    one = launches(("_Z1a", "a()"))
    found = compared(one, one)
    assert [row.verdict for row in found.rows] == ["counters_only"]
    assert found.rows[0].ratio is None
    assert exit_code(found) is Exit.OK


@pytest.mark.parametrize(
    ("gpu", "code", "key"),
    [
        ({"name": "NVIDIA A100", "compute_capability": "8.0", "sm_count": 108}, Exit.NOTHING, "compute_capability"),
        ({"name": "NVIDIA H100 PCIe", "compute_capability": "9.0", "sm_count": 114}, Exit.NOTHING, "sm_count"),
        ({"name": "NVIDIA H200 NVL", "compute_capability": "9.0", "sm_count": 132}, Exit.OK, "gpu"),
        ({}, Exit.OK, "compute_capability"),  # a file need not state it: said, not refused
    ],
)
def test_another_gpu(gpu: dict[str, Any], code: Exit, key: str) -> None:
    one = launches(("_Z1a", "a()"))
    found = compared(one, one, file(), file(gpu))
    assert exit_code(found) is code
    assert key in [mismatch.key for mismatch in found.mismatches]
    keys = ("compute_capability", "sm_count")
    assert exit_code(compared(one, one, file(), file(gpu), allow=keys)) is Exit.OK


def test_another_pass_is_said() -> None:
    one = launches(("_Z1a", "a()"))
    found = compared(one, one, file(), file(profile={"cache_control": "none"}))
    assert [(m.key, m.action) for m in found.mismatches] == [("cache_control", "warn")]
    assert words.also_differs(found) == "Also differs: cache_control: all before, none after."
    assert words.also_differs(compared(one, one)) == ""


def test_a_launch_that_is_gone_and_nothing_at_all_are_broken() -> None:
    one = launches(("_Z1a", "a()"))
    assert exit_code(compared(one, [])) is Exit.BROKEN
    assert exit_code(compared([], one)) is Exit.BROKEN
    assert exit_code(compared([], [])) is Exit.BROKEN


def test_files_that_share_no_kernel_say_so() -> None:
    found = compared(launches(("_Z1a", "a()")), launches(("_Z1b", "b()")))
    assert any("share no kernel" in note for note in found.notes)
    one = launches(("_Z1a", "a()"))
    assert not any("share no kernel" in note for note in compared(one, one).notes)


def test_what_is_refused_is_allowed_by_all_its_keys_at_once() -> None:
    one, a100 = launches(("_Z1a", "a()")), {"name": "NVIDIA A100", "compute_capability": "8.0", "sm_count": 108}
    notices = words.notices(compared(one, one, file(), file(a100)))
    hint = " --allow-mismatch compute_capability --allow-mismatch sm_count compares all the same."
    assert [text.endswith(hint) for text in notices if text.startswith("Incomparable")] == [False, True]
    apart = words.notices(compared(one, launches(("_Z1b", "b()")), file(), file(a100)))
    assert not any("--allow-mismatch" in text for text in apart)  # there is nothing that it would compare


def counted(*pairs: tuple[str, float | None, float | None, str]) -> str:
    """Return the sentence of a row with counters of (label, before, after, class)."""
    made = tuple(CounterPair(label, label, "1", was, now, cls) for label, was, now, cls in pairs)  # type: ignore[arg-type]
    return worded(RowComparison("a", "", "", "counters_only", counters=made)).words


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        ((), "the files have no count in common"),
        ((("duration", 1.0, 2.0, "timing"),), "the files have no count in common"),
        ((("blocks", 8.0, None, "exact"),), "the files have no count in common"),
        (
            (("blocks", 8.0, 8.0, "exact"), ("L2", 100.0, 104.0, "near"), ("duration", 1.0, 2.0, "timing")),
            "2 counts agree: exact ones within 1.0 %, near ones within 5.0 %",
        ),
        (
            (("L2", 100.0, 300.0, "near"), ("sectors", 100.0, 102.0, "exact"), ("spills", 4.0, None, "exact")),
            "2 of 2 counts moved: sectors 100 → 102, L2 100 → 300; 1 in one file only",
        ),
        (  # largest first within a class, up or down alike; from nothing is the most
            (
                ("a", 8.0, 16.0, "exact"), ("b", 8.0, 1.0, "exact"), ("c", 0.0, 1.0, "exact"), ("d", 8.0, 9.0, "exact"),
                ("e", 0.0, 0.0, "exact"),
            ),
            "4 of 5 counts moved: c 0 → 1, b 8 → 1, a 8 → 16, 1 more",
        ),
    ],
)  # fmt: skip
def test_a_row_says_which_counts_moved(pairs: Any, said: str) -> None:
    assert counted(*pairs) == said


def test_new_names_collide_with_no_one() -> None:
    data = RunData({}, {"variants": [{"name": "x"}, {"name": "y"}], "metrics": [{"variant": "x"}, {"variant": "y"}]})
    found = renamed(data, {"x": "y"})
    assert [row["name"] for row in found.rows["variants"]] == ["y", "y (after)"]
    assert [row["variant"] for row in found.rows["metrics"]] == ["y", "y (after)"]
