"""The report in a real browser: no console message, no request, charts drawn, keyboard, links, theme, narrow, print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_browser import HOSTILE, NARROW, WIDE, Opened

pytestmark = pytest.mark.browser


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
        "chart-ladder", "chart-sizes", "chart-roofline", "chart-stalls", "chart-why",
    ]  # fmt: skip
    for figure, mark in (("chart-ladder", ".point path"), ("chart-sizes", ".scatterlayer .js-line"),
                         ("chart-roofline", ".scatterlayer .point"), ("chart-stalls", ".point path"),
                         ("chart-why", ".point path")):  # fmt: skip
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
    assert page.js("[...document.querySelectorAll('details.twin')].map(d => d.id)") == [
        "roofline-table",
        "stall-table",
        "why-table",
    ]
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


def test_a_step_is_explained_by_link_by_choice_and_by_key(opened: Any) -> None:
    page = opened("full", "#chart-why&against=before&step=tile_2d")
    ticks = "[...document.querySelectorAll('#chart-why .ytick text')].map(t => t.textContent)"
    title = "document.querySelector('#chart-why .annotation-text').textContent"
    assert page.js(title) == "tile_2d over shared"
    labels = page.js(ticks)
    assert labels[0].startswith("instructions ")
    assert labels[-1] == "speed-up"
    page.page.locator("#chart-why label", has_text="the baseline").click()
    page.drawn()
    assert page.js(title) == "tile_2d over cublas_fp32"
    assert "against=baseline" in page.js("location.hash")
    page.page.focus("#chart-why .plot")
    page.page.keyboard.press("ArrowRight")
    page.page.wait_for_selector("#chart-why .hoverlayer .hovertext")
    assert page.js("document.getElementById('live').textContent").startswith("instructions: ")
    assert page.said == []


def test_a_rung_without_one_before_it_says_so_in_the_chart(opened: Any) -> None:
    page = opened("full", "#chart-why&against=before&step=naive")
    assert "is the first timed rung" in page.js("document.querySelector('#chart-why .annotation-text').textContent")
    assert page.js("document.querySelectorAll('#chart-why .point').length") == 0


def test_a_link_to_a_step_shows_it_and_the_page_leads_on_to_its_chart(opened: Any) -> None:
    page = opened("full", "#why-double_buffer")
    page.page.wait_for_timeout(600)
    top = page.js("document.getElementById('why-double_buffer').getBoundingClientRect().top")
    assert 0 <= top < WIDE["height"]
    page.page.locator("#why-double_buffer details[open] a", has_text="Show in the chart").first.click()
    page.drawn()
    assert page.js("document.querySelector('input[name=chart-why-step]:checked').value") == "double_buffer"


def test_bars_of_lost_time_are_hatched(opened: Any) -> None:
    page = opened("full", "#chart-why&against=before&step=tile_2d")
    fills = page.js("[...document.querySelectorAll('#chart-why .point path')].map(p => p.style.fill)")
    costs = page.js("document.querySelector('#chart-why .plot').data[0].x.filter(x => x < 0).length")
    assert costs > 0
    assert sum("url(" in fill for fill in fills) == costs


def test_the_last_column_is_not_cut_off_where_rows_have_reasons(opened: Any) -> None:
    page = opened("faults")
    assert page.js("document.querySelectorAll('table.ladder td.from').length") == 8
    cut = page.js("(() => { const s = document.querySelector('.scroll'); return s.scrollWidth - s.clientWidth; })()")
    assert cut <= 0


def test_numbers_beside_the_bars_fit_a_narrow_page(opened: Any) -> None:
    page = opened("close", size=NARROW)
    page.page.locator("#chart-ladder").scroll_into_view_if_needed()
    page.drawn()
    rights = page.js(
        "[...document.querySelectorAll('#chart-ladder .annotation-text')].map(t => t.getBoundingClientRect().right)"
    )
    assert len(rights) == 2
    assert max(rights) <= page.js("document.querySelector('#chart-ladder .plot').getBoundingClientRect().right")


def test_facts_keep_their_names_whole_on_a_narrow_page(opened: Any) -> None:
    page = opened("replay", size=NARROW)
    lines = page.js("""() => [...document.querySelectorAll('.facts dt')].map(name => {
        const range = document.createRange();
        range.selectNodeContents(name);
        return range.getClientRects().length; })""")
    assert set(lines) == {1}


def test_on_paper_nothing_is_larger_than_the_number_it_explains(opened: Any) -> None:
    page = opened("full")
    page.page.emulate_media(media="print")
    larger = page.js("""() => {
        const size = (node) => parseFloat(getComputedStyle(node).fontSize);
        return [...document.querySelectorAll('table.ladder td *, table.ladder tbody th .idea')]
            .filter(node => size(node) > size(node.closest('td, th'))).map(node => node.className); }""")
    assert larger == []


#: Pairs of texts of the roofline that cover each other, and texts that leave its drawing.
COLLISIONS = """() => {
    const plot = document.querySelector('#chart-roofline svg.main-svg').getBoundingClientRect();
    const boxes = [...document.querySelectorAll('#chart-roofline .annotation-text')]
        .map(node => [node.textContent, node.getBoundingClientRect()]);
    const outside = (box) => box.left < plot.left - 1 || box.right > plot.right + 1;
    const found = boxes.filter(([, box]) => outside(box)).map(([text]) => text);
    boxes.forEach(([text, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 1 && high > 2) found.push([text, other]); }));
    return found; }"""


@pytest.mark.parametrize("width", [390, 320, 768])
@pytest.mark.parametrize("level", ["dram", "all"])
def test_no_label_of_a_narrow_roofline_covers_another(opened: Any, width: int, level: str) -> None:
    page = opened("sixteen", f"#chart-roofline&level={level}", size={"width": width, "height": 844})
    page.page.locator("#chart-roofline .keys").scroll_into_view_if_needed()
    page.drawn()
    assert page.js("document.querySelectorAll('#chart-roofline .annotation-text').length") > 4
    assert page.js(COLLISIONS) == []


def test_where_names_have_no_room_numbers_stand_for_them(opened: Any) -> None:
    page = opened("full", "#chart-roofline", size=NARROW)
    keys = "#chart-roofline .keys"
    listed = "[...document.querySelectorAll('#chart-roofline .keys ol li')].map(i => `${i.value} ${i.textContent}`)"
    assert page.js(listed) == ["1 naive", "2 shared", "3 tile_2d", "4 double_buffer", "5 cublas_fp32"]
    assert any("DRAM" in text for text in page.page.locator(f"{keys} ul li").all_inner_texts())
    page.page.locator("#chart-roofline label", has_text="bf16").click()
    assert page.js(listed) == ["1 mma_sync", "2 triton", "3 cublas_bf16"]
    page.page.set_viewport_size(WIDE)
    page.drawn()
    assert not page.page.locator(keys).is_visible()
    page.page.set_viewport_size(NARROW)
    page.drawn()
    assert page.page.locator(keys).is_visible()
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    page.drawn()
    assert not page.page.locator(keys).is_visible()
    labels = page.js("[...document.querySelectorAll('#chart-roofline .annotation-text')].map(t => t.textContent)")
    assert {"mma_sync", "triton", "cublas_bf16"} <= set(labels)
