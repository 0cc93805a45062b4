"""The page as a tool: links to a view, filters, keys, hover texts, pictures, paper, speed, shared assets, the list."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from make_run import FAULTS, make_run
from report_browser import NARROW, READY, WIDE, Opened

from reports.render import render_run
from reports.runs_index import write_index

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

SIZE = "M=2048,N=2048,K=2048"
ROWS = "[...document.querySelectorAll('table.ladder tr[data-variant]')].filter(r => r.getClientRects().length)"
NAMES = f"{ROWS}.map(r => r.dataset.variant)"
CURRENT = "[...new Set([...document.querySelectorAll('.current')].map(n => n.dataset.variant))]"
BOX = "document.querySelector(s).getBoundingClientRect()"
IN_VIEW = f"(s) => {{ const r = {BOX}; return r.top < innerHeight && r.bottom > 0; }}"


def pick(page: Opened, name: str, value: str) -> None:
    """Choose a filter as a reader does: by its label."""
    page.page.locator(f'#filters label:has(input[name="{name}"][value="{value}"])').click()


@pytest.mark.parametrize(("fragment", "most_ms"), [("", 1000), ("#roofline", 1500), ("#chart-stalls", 1500)])
def test_sixteen_variants_are_ready_within_a_second(
    chromium: Browser, reports: dict[str, Path], fragment: str, most_ms: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """From navigation to every handler in place and each chart in view drawn.

    What is judged is the time that the page's own thread computed: on a busy machine the clock on the wall also counts
    everybody else. Median of 3, in a fresh context each, so that nothing compiled is kept. A link to a chart starts
    plotly as well, whose own start alone takes 0.4 s.
    """
    busy, wall, drawn = [], [], []
    for _ in range(3):
        context = chromium.new_context(viewport=WIDE)  # type: ignore[arg-type]
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(reports["sixteen"].as_uri() + fragment, wait_until="commit")
        page.wait_for_function(READY)
        metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        busy.append(1000 * metrics["TaskDuration"])
        wall.append(int(page.evaluate("document.documentElement.dataset.ready")))
        page.wait_for_function("() => document.documentElement.dataset.drawn")
        drawn.append(int(page.evaluate("document.documentElement.dataset.drawn")))
        context.close()
    with capsys.disabled():
        print(
            f"\n16 variants{fragment}: ready after {median(busy):.0f} ms of computing, {median(wall)} ms on the wall; "
            f"all charts {median(drawn)} ms on the wall"
        )
    assert median(busy) < most_ms


def test_ready_is_marked_and_charts_out_of_sight_come_later(opened: Any) -> None:
    page = opened("sixteen")
    assert page.js("performance.getEntriesByName('ready').length") == 1
    ready = float(page.js("document.documentElement.dataset.ready"))
    assert 0 < ready <= float(page.js("document.documentElement.dataset.drawn"))
    heights = page.js("[...document.querySelectorAll('.plot')].map(p => p.offsetHeight)")
    page.js("window.dispatchEvent(new Event('resize'))")
    assert page.js("[...document.querySelectorAll('.plot')].map(p => p.offsetHeight)") == heights


def test_the_height_of_a_chart_is_there_before_it_is_drawn(chromium: Browser, reports: dict[str, Path]) -> None:
    page = chromium.new_page(viewport=WIDE)  # type: ignore[arg-type]
    page.add_init_script("window.requestIdleCallback = () => {};")
    page.goto(reports["full"].as_uri())
    page.wait_for_function(READY)
    below = page.evaluate(
        "[...document.querySelectorAll('.plot')].filter(p => !p.dataset.drawn && p.getClientRects().length)"
        ".map(p => [p.dataset.figure, p.offsetHeight])"
    )
    assert "chart-stalls" in dict(below)
    assert min(height for _, height in below) > 100
    page.locator("#chart-stalls").scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('#chart-stalls .plot').dataset.drawn")
    assert page.evaluate("document.querySelector('#chart-stalls .plot').offsetHeight") == dict(below)["chart-stalls"]
    page.close()


def test_a_link_to_a_variant_opens_and_marks_it(opened: Any) -> None:
    page = opened("full", "#variant=mma_sync")
    assert page.js(CURRENT) == ["mma_sync"]
    assert page.js("document.querySelector('tr.current').getAttribute('aria-current')") == "true"
    block = '.variant[data-variant="mma_sync"]'
    assert page.js(f"document.querySelector('{block} > details').open")
    assert page.js(IN_VIEW, block)


def test_a_link_with_a_size_and_a_contract_sets_table_and_charts(opened: Any) -> None:
    page = opened("sizes", f"#variant=mma_sync&size={SIZE}&contract=bf16")
    assert page.js(NAMES) == ["mma_sync", "triton", "cublas_bf16"]
    chosen = "[...document.querySelectorAll('input[type=radio]:checked')].map(i => [i.name, i.value])"
    choices = dict(page.js(chosen))
    assert choices["chart-ladder-size"] == choices["chart-roofline-size"] == choices["chart-stalls-size"] == SIZE
    assert choices["chart-ladder-contract"] == choices["chart-roofline-contract"] == "bf16"


def test_a_link_to_a_variant_shows_it_whatever_the_filters_say(opened: Any) -> None:
    page = opened("full", "#variant=naive&contract=bf16&text=nothing")
    assert "naive" in page.js(NAMES)
    assert page.js(CURRENT) == ["naive"]


@pytest.mark.parametrize(
    "fragment", ["#variant=none", "#variant=%E0%A4%A&size=<b>", "#=&&=x&variant", "#sort=-nothing"]
)
def test_a_link_that_fits_nothing_shows_everything(opened: Any, fragment: str) -> None:
    page = opened("full", fragment)
    assert page.said == []
    assert len(page.js(NAMES)) == 8
    assert page.js(CURRENT) == []


def test_a_view_can_be_mailed(opened: Any) -> None:
    page = opened("sizes")
    pick(page, "contract", "fp32")
    pick(page, "size", SIZE)
    page.page.locator("#filters .tick").click()
    page.page.locator("table.ladder:visible thead button", has_text="Time").click()
    page.page.locator("#chart-stalls label", has_text="share").click()
    page.drawn()
    again = opened("sizes", page.js("location.hash"))
    for what in (
        NAMES,
        "[...document.querySelectorAll('input:checked')].map(i => i.name + i.value)",
        "document.querySelector('th[aria-sort=ascending]').textContent",
    ):
        assert again.js(what) == page.js(what)
    assert page.js(NAMES) == ["double_buffer", "tile_2d", "shared", "naive"]


def test_filters_say_what_is_left_and_undo_themselves(opened: Any) -> None:
    page = opened("faults")
    page.page.fill("#filters input[type=search]", "TILE shared")
    assert page.js(NAMES) == ["shared"]
    assert page.js("document.getElementById('filter-count').textContent") == "1 of 8 variants"
    assert page.hash() == "#text=TILE shared"
    page.page.keyboard.press("Escape")
    pick(page, "status", "wrong result")
    assert page.js(NAMES) == ["shared"]
    assert (
        page.js(
            "[...document.querySelectorAll('.variant[data-variant]')].filter(b => b.getClientRects().length).length"
        )
        == 1
    )
    page.page.fill("#filters input[type=search]", "no such rung")
    assert page.js(NAMES) == []
    page.page.locator("#filter-none button").click()
    assert len(page.js(NAMES)) == 8
    assert page.js("location.hash") == ""


def test_a_rung_that_is_filtered_away_is_no_longer_in_hand(opened: Any) -> None:
    page = opened("full", "#variant=naive")
    pick(page, "contract", "bf16")
    assert page.js(CURRENT) == []
    assert page.hash() == "#contract=bf16"


def test_a_mere_place_keeps_the_choices(opened: Any) -> None:
    page = opened("full", "#contract=bf16")
    page.page.locator(".sections a", has_text="Stalls").click()
    page.drawn()
    assert page.js(NAMES) == ["mma_sync", "triton", "cublas_bf16"]
    assert page.hash() == "#stalls&ladder.contract=bf16"


def test_keys_move_the_rung_and_open_it(opened: Any) -> None:
    page = opened("full")
    keys = page.page.keyboard
    for key in "jjk":
        keys.press(key)
    assert page.js(CURRENT) == ["naive"]
    keys.press("k")
    assert page.hash() == "#variant=naive"
    assert page.js("document.activeElement.textContent") == "naive"
    keys.press("Enter")
    block = '.variant[data-variant="naive"]'
    assert page.js(f"document.activeElement === document.querySelector('{block}')")
    assert page.js(f"document.querySelector('{block} > details').open")
    keys.press("j")
    assert page.js("document.activeElement.dataset.variant") == "shared"


def test_keys_are_letters_where_one_writes(opened: Any) -> None:
    page = opened("full")
    page.page.keyboard.press("/")
    page.page.keyboard.type("j?k/")
    assert page.js("document.querySelector('#filters input[type=search]').value") == "j?k/"
    assert page.js(CURRENT) == []
    assert not page.js("document.getElementById('keys').open")


def test_help_opens_by_key_and_by_button(opened: Any) -> None:
    page = opened("full")
    page.page.keyboard.press("?")
    assert page.js("document.getElementById('keys').open")
    page.page.keyboard.press("j")
    page.page.keyboard.press("Escape")
    assert not page.js("document.getElementById('keys').open")
    assert page.js(CURRENT) == []
    page.page.click("#help")
    assert page.js("document.getElementById('keys').open")


HINT = "(() => { const h = document.getElementById('hint'); return h.hidden ? '' : h.textContent; })()"


def test_a_column_head_explains_itself_by_pointer_and_by_focus(opened: Any) -> None:
    page = opened("full")
    head = page.page.locator("table.ladder thead button", has_text="Of baseline")
    head.hover()
    page.page.wait_for_function("() => !document.getElementById('hint').hidden")
    assert page.js(HINT).startswith("Time of the baseline over this time")
    assert head.get_attribute("aria-describedby") == "hint"
    page.page.keyboard.press("Escape")
    assert page.js(HINT) == ""
    assert head.get_attribute("title").startswith("Time of the baseline")
    page.page.mouse.move(2, 2)
    page.page.locator("table.ladder thead button", has_text="Rate").focus()
    page.page.keyboard.press("Tab")
    assert page.js("document.activeElement.textContent") == "Of baseline"
    assert page.js(HINT).startswith("Time of the baseline")
    page.page.keyboard.press("Tab")
    assert page.js(HINT).startswith("The roof that the variant is nearest to")


def test_every_column_head_and_stall_reason_has_a_sentence(opened: Any) -> None:
    page = opened("full")
    heads = page.js("[...document.querySelectorAll('table.ladder thead button')].map(b => b.title)")
    assert len(heads) >= 10
    assert all(len(text) > 20 and text.endswith(".") for text in heads)
    assert page.js("document.querySelectorAll('#stall-table tbody th[scope=row] .term').length") >= 10


def test_a_tap_shows_a_hover_text_and_the_next_one_hides_it(opened: Any) -> None:
    page = opened("full", size=NARROW, has_touch=True)
    page.page.locator("tr[data-variant=tile_2d] td[data-label=Time]").tap()
    assert "samples" in page.js(HINT)
    box = page.js(
        "(() => { const r = document.getElementById('hint').getBoundingClientRect(); return [r.left, r.right]; })()"
    )
    assert box[0] >= 0
    assert box[1] <= NARROW["width"]
    page.page.locator("h1").tap()
    assert page.js(HINT) == ""


def test_each_chart_saves_a_picture_with_title_and_legend(opened: Any, tmp_path: Path) -> None:
    page = opened("full")
    figures = page.js(
        "[...document.querySelectorAll('button.export')].filter(b => b.getClientRects().length)"
        ".map(b => b.dataset.figure)"
    )
    assert {"chart-ladder", "chart-roofline", "chart-stalls"} <= set(figures)
    for figure in figures:
        with page.page.expect_download() as download:
            page.page.locator(f'button.export[data-figure="{figure}"]').click()
        target = tmp_path / f"{figure}.png"
        download.value.save_as(target)
        assert download.value.suggested_filename == f"{figure}.png"
        data = target.read_bytes()
        assert data.startswith(b"\x89PNG")
        assert struct.unpack(">I", data[16:20])[0] == 2400
        assert len(data) > 20_000
    assert page.said == []


def test_the_ladder_copies_as_numbers(opened: Any) -> None:
    page = opened("full", "#contract=bf16")
    page.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.page.click("#copy-tsv")
    lines = [line.split("\t") for line in page.js("window.copied").splitlines()]
    assert lines[0][:4] == ["Variant", "Status", "Time [ns]", "Rate [FLOP/s]"]
    assert [line[0] for line in lines[1:]] == ["mma_sync", "triton", "cublas_bf16"]
    assert float(lines[1][2]) > 100_000
    assert {len(line) for line in lines} == {len(lines[0])}


def test_a_twin_table_copies_too(opened: Any) -> None:
    page = opened("full")
    page.js("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    page.page.locator("#roofline-table summary").click()
    page.page.locator("#roofline-table button", has_text="Copy as Markdown").first.click()
    assert page.js("window.copied").startswith("| Variant | Contract | Level | ")


def test_paper_shows_everything_and_gives_it_back(opened: Any, tmp_path: Path) -> None:
    page = opened("full", scheme="dark")
    closed = page.js("document.querySelectorAll('details:not([open])').length")
    assert closed > 2
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    assert page.js("document.querySelectorAll('details:not([open])').length") == 0
    assert page.js("[...document.querySelectorAll('.plot')].every(p => p.data)")
    wide = "Math.max(...[...document.querySelectorAll('.plot .main-svg')].map(s => s.getBoundingClientRect().width))"
    assert page.js(wide) <= 1000
    page.js("window.dispatchEvent(new Event('afterprint'))")
    assert page.js("document.querySelectorAll('details:not([open])').length") == closed
    target = tmp_path / "report.pdf"
    page.page.pdf(path=target, prefer_css_page_size=True)
    assert target.stat().st_size > 50_000
    page.page.emulate_media(media="print")
    for selector in (".filters", ".tools", ".export", "#help", "#hint", ".sections"):
        assert page.js(f"getComputedStyle(document.querySelector('{selector}')).display") == "none"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("with blank #1") / "runs"
    (folder / "gemm_ladder").mkdir(parents=True)
    for name, options in (("20261129T200000Z-aaaa", {}), ("20261130T200000Z-bbbb", {"faults": FAULTS})):
        render_run(make_run(folder / "gemm_ladder" / name, **options).path, None, folder / "assets")
    (folder / "gemm_ladder" / "20261128T200000Z-dddd").mkdir()
    (folder / "gemm_ladder" / "20261128T200000Z-dddd" / "manifest.json").write_text("{", encoding="utf-8")
    write_index(folder)
    return folder


def test_pages_with_shared_assets_work_from_the_disk(chromium: Browser, shared: Path) -> None:
    assets = list((shared / "assets").iterdir())
    assert len(assets) == 1
    for report in sorted(shared.glob("*/*/report.html")):
        assert report.stat().st_size < 1_000_000
        page = Opened(chromium.new_page(viewport=WIDE), report.as_uri())  # type: ignore[arg-type]
        assert page.said == []
        assert {Path(url).name for url in page.requests} == {
            "report.html", "report.css", "report.js", "plotly-cartesian.min.js",
        }  # fmt: skip
        assert page.js("document.querySelectorAll('#chart-ladder .point path').length") > 4
        assert page.js("getComputedStyle(document.querySelector('.unshared')).display") == "none"
        page.page.close()


def test_a_page_that_lost_its_shared_assets_says_so(chromium: Browser, shared: Path, tmp_path: Path) -> None:
    alone = tmp_path / "report.html"
    shutil.copy(next(shared.glob("*/*/report.html")), alone)
    page = chromium.new_page()
    page.goto(alone.as_uri())
    assert "are not there" in page.inner_text(".unshared")
    assert page.locator("table.ladder tbody tr").count() > 4
    page.close()


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_list_of_runs_leads_to_each_report(chromium: Browser, shared: Path, size: dict[str, int]) -> None:
    page = chromium.new_page(viewport=size)  # type: ignore[arg-type]
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto((shared / "index.html").as_uri())
    texts = page.locator("table.runs tbody tr").all_inner_texts()
    assert ["bbbb" in texts[0], "aaaa" in texts[1], "dddd" in texts[2]] == [True] * 3
    assert "unreadable" in texts[2]
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    page.locator("table.runs a").first.click()
    page.wait_for_function(READY)
    assert page.url.endswith("bbbb/report.html")
    assert said == []
    page.close()
