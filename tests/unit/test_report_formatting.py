from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.analysis import formatting
from reports.formatting import plotly_text, short, slug


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1.00"), (51.13, "51.1"), (999.9, "1000"), (3.34e-7, "3.34e-7"), (0.00123, "0.00123")],
)
def test_number(value: float, text: str) -> None:
    assert formatting.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(51.13e12, "51.1 TFLOP/s"), (1.069e15, "1.07 PFLOP/s"), (999.99e9, "1.00 TFLOP/s"), (12.0, "12.0 FLOP/s")],
)
def test_si(value: float, text: str) -> None:
    assert formatting.si(value, "FLOP/s") == text


@pytest.mark.parametrize(
    ("value", "text"), [(2_686_000, "2.686 ms"), (176_000, "176.0 µs"), (32, "32.00 ns"), (2e9, "2.000 s")]
)
def test_time(value: float, text: str) -> None:
    assert formatting.time_ns(value) == text


@pytest.mark.parametrize(("share", "text"), [(0.81, "81 %"), (0.003, "0.3 %"), (0.0, "0 %"), (1.0, "100 %")])
def test_percent(share: float, text: str) -> None:
    assert formatting.percent(share) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0.85, 0.87, "[0.85, 0.87]"),
        (0.8443, 0.8467, "[0.844, 0.847]"),
        (0.1199, 0.1201, "[0.1199, 0.1201]"),
        (None, None, ""),
    ],
)
def test_interval(low: float | None, high: float | None, text: str) -> None:
    assert formatting.interval(low, high) == text


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("M=4096,N=4096,K=4096", "4096³"),
        ("M=64,N=128,K=32", "M 64 · N 128 · K 32"),
        ("n=1048576", "n 1048576"),
        ("odd", "odd"),
    ],
)
def test_size(key: str, text: str) -> None:
    assert formatting.size(key) == text


def test_short_keeps_both_ends() -> None:
    text = short("gemm_" + "x" * 100 + "_stage3", 20)
    assert len(text) == 20
    assert text.startswith("gemm_")
    assert text.endswith("stage3"[-6:])


@given(st.lists(st.text(max_size=60), unique=True, max_size=30))
def test_slugs_are_ids_and_differ(names: list[str]) -> None:
    slugs = [slug(name) for name in names]
    assert len(set(slugs)) == len(names)
    assert all(s and set(s) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_") for s in slugs)


@given(st.text())
def test_plotly_text_leaves_no_tag(text: str) -> None:
    assert "<" not in plotly_text(text)


def test_lists_read_as_sentences() -> None:
    assert [formatting.listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
