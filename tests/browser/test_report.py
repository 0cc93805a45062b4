"""The report in a real browser: no console message, no request, charts drawn, keyboard, links, theme, narrow, print."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import browser
from make_run import FAULTS, RUNGS, SMALL_SIZES, make_run

from reports.render import render_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
ARGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
HOSTILE = ("</script><script>window.pwned=1</script>", "x" * 2000, "größe<!--😀", "<img src=x onerror=window.pwned=1>")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = browser()
    if path is None:
        pytest.skip("there is no Chromium here")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(ARGS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("reports")
    hostile = [dataclasses.replace(r, name=n) for r, n in zip(RUNGS[:4], HOSTILE, strict=True)]
    options: dict[str, dict[str, Any]] = {
        "full": {},
        "sizes": {"sizes": SMALL_SIZES, "processes": 2, "samples": 12},
        "faults": {"faults": FAULTS},
        "static": {"timed": False},
        "no_counters": {"counters": False},
        "hostile": {"rungs": [*hostile, *RUNGS[4:]]},
    }
    return {name: render_run(make_run(base / name, **some).path) for name, some in options.items()}


class Opened:
    """A page that remembers what it said and what it asked for."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.said: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(url)
        page.wait_for_function("() => [...document.querySelectorAll('.plot')].every(p => p.dataset.drawn)")
        page.wait_for_timeout(100)

    def js(self, script: str) -> Any:
        return self.page.evaluate(script)

    def drawn(self) -> None:
        self.page.wait_for_timeout(250)


@pytest.fixture
def opened(chromium: Browser, reports: dict[str, Path]) -> Iterator[Any]:
    pages: list[Page] = []

    def open_page(name: str, fragment: str = "", size: dict[str, int] = WIDE, scheme: str = "light") -> Opened:
        page = chromium.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
        pages.append(page)
        return Opened(page, reports[name].as_uri() + fragment)

    yield open_page
    for page in pages:
        page.close()


@pytest.mark.parametrize("name", ["full", "sizes", "faults", "static", "no_counters", "hostile"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_says_nothing_and_asks_for_nothing(opened: Any, name: str, scheme: str) -> None:
    page = opened(name, scheme=scheme)
    assert page.said == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert sum(url.startswith("file:") for url in page.requests) == 1


def test_names_are_text_and_run_nothing(opened: Any) -> None:
    page = opened("hostile")
    assert page.js("window.pwned") is None
    assert HOSTILE[0] in page.js("document.body.innerText")


def test_charts_are_drawn(opened: Any) -> None:
    page = opened("sizes")
    assert page.js("[...document.querySelectorAll('.plot')].map(p => p.dataset.figure)") == [
        "chart-ladder", "chart-sizes", "chart-roofline", "chart-stalls",
    ]  # fmt: skip
    for figure, mark in (("chart-ladder", ".point path"), ("chart-sizes", ".scatterlayer .js-line"),
                         ("chart-roofline", ".scatterlayer .point"), ("chart-stalls", ".point path")):  # fmt: skip
        assert page.js(f"document.querySelectorAll('#{figure} {mark}').length") > 4
    labels = page.js("[...document.querySelectorAll('#chart-roofline .annotation-text')].map(t => t.textContent)")
    assert {"naive", "shared", "tile_2d", "double_buffer", "cublas_fp32"} <= set(labels)
    assert page.js("document.querySelectorAll('#chart-roofline .annotation-arrow-g').length") >= 3


def test_dots_lie_below_their_roof(opened: Any) -> None:
    page = opened("full")
    above = page.js("""() => {
        const plot = document.querySelector('#chart-roofline .plot');
        const roof = Math.max(...plot.data.filter(t => t.mode === 'lines').flatMap(t => t.y));
        return plot.data.filter(t => t.mode === 'markers').flatMap(t => t.y).filter(y => y > roof).length; }""")
    assert above == 0


def test_the_theme_follows_the_system_and_the_button(opened: Any) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    font = "document.querySelector('#chart-ladder .xtick text').style.fill"
    light, dark = opened("full"), opened("full", scheme="dark")
    assert light.js(paper) != dark.js(paper)
    assert light.js(font) != dark.js(font)
    light.page.click("#theme")
    light.drawn()
    assert light.js(paper) == dark.js(paper)
    assert light.js(font) == dark.js(font)
    light.page.click("#theme")
    light.drawn()
    assert light.js(font) != dark.js(font)
    assert light.said == []


def names(page: Opened) -> list[str]:
    found: list[str] = page.js("[...document.querySelectorAll('table.ladder tbody .row-link')].map(a => a.textContent)")
    return found


def test_the_table_sorts_within_contracts_by_click_and_by_key(opened: Any) -> None:
    page = opened("full")
    first = names(page)
    button = page.page.locator("table.ladder thead button", has_text="Time")
    button.click()
    assert names(page) == [
        "cublas_fp32", "double_buffer", "tile_2d", "shared", "naive", "cublas_bf16", "triton", "mma_sync",
    ]  # fmt: skip
    assert page.js("document.querySelectorAll('th[aria-sort=ascending]').length") == 1
    page.page.keyboard.press("Enter")
    assert names(page)[:2] == ["naive", "shared"]
    assert page.js("document.getElementById('live').textContent") == "Sorted by Time, descending"
    page.page.keyboard.press("Space")
    assert names(page) == first


def test_rows_without_a_time_sort_last_both_ways(opened: Any) -> None:
    page = opened("faults")
    button = page.page.locator("table.ladder thead button", has_text="Time")
    for _ in range(2):
        button.click()
        assert set(names(page)[3:5]) == {"shared", "tile_2d"}


def test_arrow_keys_walk_the_marks_and_read_them_out(opened: Any) -> None:
    page = opened("full")
    page.page.focus("#chart-roofline .plot")
    page.page.keyboard.press("ArrowRight")
    said = page.js("document.getElementById('live').textContent")
    assert said.startswith("naive, bytes at DRAM")
    assert "of the DRAM roof" in said
    page.page.wait_for_selector("#chart-roofline .hoverlayer .hovertext")
    page.page.keyboard.press("ArrowRight")
    assert page.js("document.getElementById('live').textContent").startswith("shared, ")


def test_everything_that_acts_can_be_reached_by_tab(opened: Any) -> None:
    page = opened("full")
    reached = set()
    for _ in range(140):
        page.page.keyboard.press("Tab")
        reached.add(
            page.js("""() => { const e = document.activeElement;
            return e.id || (e.closest('.plot') ? e.dataset.figure : '') || e.className || e.name || e.tagName; }""")
        )
    assert {"theme", "sort", "copy-table", "chart-ladder", "chart-roofline", "chart-stalls"} <= reached
    assert "chart-roofline-level" in reached


def test_choosing_a_level_changes_the_chart_and_the_address(opened: Any) -> None:
    page = opened("full")
    before = page.js("document.querySelector('#chart-roofline .plot').layout.xaxis.range[0]")
    page.page.locator("#chart-roofline label", has_text="L2").click()
    page.drawn()
    assert page.js("document.querySelector('#chart-roofline .plot').layout.xaxis.range[0]") != before
    assert page.js("location.hash") == "#chart-roofline&contract=fp32&level=l2"


def test_links_lead_to_sections_rows_choices_and_into_closed_details(opened: Any) -> None:
    visible = (
        "(() => {{ const r = document.getElementById('{}').getBoundingClientRect(); "
        "return r.top < innerHeight && r.bottom > 0; }})()"
    )
    assert opened("full", "#stalls").js(visible.format("stalls"))
    assert opened("full", "#variant-mma_sync").js(visible.format("variant-mma_sync"))
    page = opened("full", "#chart-roofline&contract=bf16&level=shared")
    page.page.wait_for_timeout(900)
    assert page.js("document.querySelector('input[name=chart-roofline-level]:checked').value") == "shared"
    texts = page.js("[...document.querySelectorAll('#chart-roofline .annotation-text')].map(t => t.textContent)")
    assert "mma_sync" in texts
    assert "naive" not in texts
    page = opened("full", "#metric-warp_latency")
    page.page.wait_for_timeout(900)
    assert page.js("document.getElementById('metrics').open")
    assert page.js(visible.format("metric-warp_latency"))


def test_a_link_with_nonsense_does_no_harm(opened: Any) -> None:
    assert opened("full", "#chart-roofline&level=%E0%A4%A&contract=<b>").said == []


@pytest.mark.parametrize("name", ["full", "sizes", "faults", "static", "hostile"])
def test_a_narrow_page_does_not_scroll_sideways(opened: Any, name: str) -> None:
    page = opened(name, size=NARROW)
    assert page.js("document.documentElement.scrollWidth") <= NARROW["width"]
    assert (
        page.js(
            "Math.max(0, ...[...document.querySelectorAll('svg.main-svg')].map(s => s.getBoundingClientRect().right))"
        )
        <= 390
    )


def test_every_chart_has_its_numbers_in_a_table(opened: Any) -> None:
    page = opened("full")
    assert page.js("[...document.querySelectorAll('details.twin')].map(d => d.id)") == ["roofline-table", "stall-table"]
    cells = page.js("document.querySelectorAll('#roofline-table tbody tr').length")
    assert cells >= 8 * 4
    assert page.js("document.querySelectorAll('table.ladder tbody tr:not(.group)').length") == 8


def test_print_is_light_and_without_controls(opened: Any, tmp_path: Path) -> None:
    page = opened("full", scheme="dark")
    page.page.emulate_media(media="print")
    assert page.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for selector in (".sections", ".controls", "#theme"):
        assert page.js(f"getComputedStyle(document.querySelector('{selector}')).display") == "none"
    page.page.emulate_media(media="screen")
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    page.drawn()
    assert page.js("document.documentElement.dataset.theme") == "light"
    page.js("window.dispatchEvent(new Event('afterprint'))")
    assert page.js("document.documentElement.dataset.theme") is None
    page.page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_the_ladder_copies_as_markdown(opened: Any) -> None:
    page = opened("full")
    page.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.page.click("#copy-table")
    lines = page.js("window.copied").splitlines()
    assert lines[0] == "**Ladder at 4096³**"
    assert lines[2].startswith("| Variant | Status | Time | Rate |")
    assert lines[4].startswith("| naive | ● ok | ")
    assert len(lines) == 12
