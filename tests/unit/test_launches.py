"""Which launches of a program count: patterns, skip, count, combine; and times that programs print."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.parse.launches import NoSuchLaunch, Wanted, chosen, combined, printed_time_ns, regex_of

NAMES = ["fill(float *)", "tile<(int)8>(float *)", "tile<(int)8>(float *)", "reduce(float *)", "tile<(int)8>(float *)"]


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("tile*", "tile<(int)8>(float *)", True),
        ("*tile*", "void ns::tile<(int)8>(float *)", True),
        ("tile", "tile<(int)8>(float *)", False),
        ("f?ll(float ?)", "fill(float *)", True),
        ("a[0]+(b|c)", "a[0]+(b|c)", True),
        ("a[0]", "a0", False),
        ("a.c", "abc", False),
    ],
)
def test_a_pattern_stands_for_the_whole_name(pattern: str, name: str, matches: bool) -> None:
    assert bool(re.search(regex_of(pattern), name)) is matches


@given(st.text(alphabet="ab<>()[]{}.+^$|\\ ,*?", max_size=12))
def test_a_name_without_wildcards_matches_itself_alone(text: str) -> None:
    literal = text.replace("*", "").replace("?", "")
    assert re.search(regex_of(literal), literal)
    assert not re.search(regex_of(literal), literal + "x")


def test_skip_and_count_take_matching_launches_in_their_order() -> None:
    assert chosen(NAMES, Wanted("tile*", skip=1, count=2, combine="mean")) == [2, 4]
    assert chosen(NAMES, Wanted("tile*")) == [1]
    assert chosen(NAMES, Wanted(None, skip=2, count=3, combine="sum")) == [2, 3, 4]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (
            Wanted("nothing*"),
            "no launch matches 'nothing*'; the program launched tile<(int)8>(float *) (3 times), f",
        ),
        (Wanted("tile*", skip=2, count=2), "matches 3 launches, which after skip: 2 leaves 1, and count is 2"),
        (Wanted(), "launches means one kernel and finds 3"),
        (Wanted("*(float*", count=4, combine="median"), "match means one kernel and finds 3"),
    ],
)
def test_what_is_not_there_or_not_one_kernel_is_refused_with_the_names(wanted: Wanted, words: str) -> None:
    with pytest.raises(NoSuchLaunch) as error:
        chosen(NAMES, wanted)
    assert words in str(error.value)
    assert "reduce(float *)" in str(error.value) or wanted.match == "tile*"


def test_no_launch_at_all_and_many_names() -> None:
    with pytest.raises(NoSuchLaunch, match="the program launched no kernel"):
        chosen([], Wanted())
    with pytest.raises(NoSuchLaunch, match="and 12 more"):
        chosen([f"kernel_{number}" for number in range(20)], Wanted("x"))


@pytest.mark.parametrize(("how", "value"), [("sum", 15.0), ("mean", 5.0), ("median", 3.0), ("min", 2.0), ("max", 10.0)])
def test_durations_become_one(how: str, value: float) -> None:
    assert combined([10.0, 2.0, 3.0], how) == value


@pytest.mark.parametrize(("wanted", "count"), [(Wanted("a", count=5, combine="mean"), 1), (Wanted("a", count=5), 5)])
def test_a_profile_takes_all_of_a_sum_and_one_of_what_is_repeated(wanted: Wanted, count: int) -> None:
    assert wanted.profiled == count


def test_the_last_printed_time_counts() -> None:
    assert printed_time_ns("avg 1.5 ms\navg 2.5 ms\n", r"avg ([0-9.]+) ms", "ms") == 2.5e6
    assert printed_time_ns("t=3e-3", r"t=(\S+)", "s") == 3e6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", "it printed nothing"),
        ("avg 1.2.3 ms", "which is no number"),
        ("avg nan ms", "the time that it printed is nan"),
        ("avg 0 ms", "the time that it printed is 0"),
        ("avg -1 ms", "the time that it printed is -1"),
    ],
)
def test_a_time_that_is_none_says_why(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        printed_time_ns(text, r"avg (\S+) ms", "ms")
