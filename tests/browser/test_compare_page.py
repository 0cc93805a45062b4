"""The page of a comparison in a real browser: silent, offline, drawn, light and dark, narrow, on paper."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from compare_data import planted_comparison, regression
from report_browser import HOSTILE, NARROW, WIDE, Opened

from reports.compare import write_comparison

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("comparisons")
    names = dict(zip(("conflicts", "spills", "narrow", "occupancy"), HOSTILE, strict=True))
    comparison, before, after = planted_comparison(names)
    many = tuple(replace(regression().rows[1], variant=f"v{i:04d}") for i in range(1000))
    return {
        "planted": write_comparison(base / "planted.html", *planted_comparison()),
        "hostile": write_comparison(base / "hostile.html", replace(comparison, notes=HOSTILE), before, after),
        "bare": write_comparison(base / "bare.html", regression()),
        "many": write_comparison(base / "many.html", replace(regression(), rows=many)),
    }


@pytest.fixture
def compared(chromium: Browser, pages: dict[str, Path]) -> Iterator[Any]:
    opened: list[Page] = []

    def open_page(name: str, fragment: str = "", size: dict[str, int] = WIDE, scheme: str = "light") -> Opened:
        page = chromium.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
        opened.append(page)
        return Opened(page, pages[name].as_uri() + fragment)

    yield open_page
    for page in opened:
        page.close()


@pytest.mark.parametrize("name", ["planted", "hostile", "bare", "many"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_says_nothing_and_asks_for_nothing(compared: Any, name: str, scheme: str) -> None:
    page = compared(name, scheme=scheme)
    assert page.said == []
    assert [url for url in page.requests if not url.startswith(("data:", "blob:"))] == [page.page.url]


def test_names_are_text_and_run_nothing(compared: Any) -> None:
    page = compared("hostile")
    assert page.js("window.pwned") is None
    assert HOSTILE[0] in page.js("document.body.innerText")


def test_the_charts_are_drawn(compared: Any) -> None:
    page = compared("planted")
    assert page.js("[...document.querySelectorAll('.plot')].map(p => p.dataset.figure)") == [
        "chart-rows", "chart-why", "chart-roofline",
    ]  # fmt: skip
    assert page.js("document.querySelectorAll('#chart-rows .scatterlayer .point').length") == 10
    assert page.js("document.querySelectorAll('#chart-rows .errorbar').length") >= 10
    assert page.js("document.querySelectorAll('#chart-why .point path').length") >= 4
    assert page.js("document.querySelectorAll('#chart-roofline .annotation-arrow-g').length") >= 4


def test_the_waterfall_follows_its_choice(compared: Any) -> None:
    page = compared("planted")
    ticks = "[...document.querySelectorAll('#chart-why .ytick text')].map(t => t.textContent)"
    first = page.js(ticks)
    assert {"before", "instructions", "after"} <= set(first)
    page.page.locator("#chart-why label", has_text="occupancy").click()
    page.drawn()
    assert page.js(ticks) != first
    assert "chart-why&row=row-occupancy" in page.hash()


def test_a_row_leads_to_its_causes(compared: Any) -> None:
    at_top = """() => {
        const top = document.querySelector('article[data-variant=spills]').getBoundingClientRect().top;
        return top >= 0 && top < 300; }"""
    page = compared("planted")
    page.page.locator("table.ladder .row-link", has_text="spills").click()
    page.page.wait_for_function(at_top, timeout=5000)  # it scrolls there
    assert page.hash() == "#variant=spills"
    compared("planted", "#why-row-spills-m4096-n4096-k4096").page.wait_for_function(at_top, timeout=5000)


def test_the_table_sorts_and_copies(compared: Any) -> None:
    page = compared("planted")
    names = "[...document.querySelectorAll('table.ladder tbody .row-link')].map(a => a.textContent)"
    assert page.js(names)[0] == "gone"
    page.page.locator("table.ladder thead button", has_text="After / before").click()
    assert page.js(names) == ["same", "narrow", "occupancy", "conflicts", "spills", "gone"]
    assert page.js("document.getElementById('copy-table').hidden") is False


@pytest.mark.parametrize("name", ["planted", "hostile"])
def test_a_narrow_page_does_not_scroll_sideways(compared: Any, name: str) -> None:
    page = compared(name, size=NARROW)
    assert page.js("document.documentElement.scrollWidth") <= NARROW["width"]


def test_changed_lines_are_marked_by_more_than_colour(compared: Any) -> None:
    page = compared("planted")
    page.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    for kind, sign in (("gone", "−"), ("come", "+")):
        content = page.js(f"getComputedStyle(document.querySelector('.diff .{kind}'), '::before').content")
        assert sign in content
    widths = page.js("[...document.querySelectorAll('.diff tr.changed')][0].cells[1].clientWidth")
    assert widths > 300


def test_paper_is_light_and_complete(compared: Any) -> None:
    page = compared("planted", scheme="dark")
    page.page.emulate_media(media="print")
    page.js("dispatchEvent(new Event('beforeprint'))")
    page.drawn()
    assert page.js("[...document.querySelectorAll('details:not([open])')].length") == 0
    assert page.js("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert len(page.page.pdf()) > 20_000
    assert page.said == []
