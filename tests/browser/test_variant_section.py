"""The page's part on each variant in a real browser: folds, charts drawn when opened, links, narrow, dark, print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from report_browser import NARROW, WIDE, Opened

from profiler.analysis.kernels import kernels, profiled_size
from profiler.analysis.ladder import ladder_rows
from profiler.analysis.leads import leads
from profiler.analysis.occupancy_view import occupancy_view
from profiler.analysis.rundata import RunData
from profiler.analysis.verdicts import verdicts
from profiler.rundir import RunDir
from reports.render import render_run
from reports.sections import variant

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
RECORDED = Path(__file__).resolve().parents[2] / "experiments" / "recorded" / "h200" / "gemm_ladder"
CHART = "#chart-occupancy-{} .plot"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return render_run(RECORDED, tmp_path_factory.mktemp("variants") / "report.html")


@pytest.fixture(scope="module")
def recorded() -> RunData:
    return RunData.load(RunDir.open(RECORDED), details=True)


@pytest.fixture(scope="module")
def best(recorded: RunData) -> str:
    return verdicts(recorded, leads(recorded, ladder_rows(recorded)))[0].row.variant


@pytest.fixture
def ladder(chromium: Browser, report: Path) -> Iterator[Any]:
    pages = []

    def open_page(fragment: str = "", size: dict[str, int] = WIDE, scheme: str = "light") -> Opened:
        page = chromium.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
        pages.append(page)
        return Opened(page, report.as_uri() + fragment)

    yield open_page
    for page in pages:
        page.close()


def drawn(page: Opened, name: str) -> bool:
    return bool(page.js(f"document.querySelector('{CHART.format(name)}').dataset.drawn || ''"))


def test_the_best_rung_is_open_and_only_its_chart_is_drawn(ladder: Any, best: str) -> None:
    page = ladder()
    assert page.js("[...document.querySelectorAll('.variant > details[open]')].map(d => d.id)") == [f"variant-{best}"]
    page.page.locator(f"#variant-{best}-occupancy").scroll_into_view_if_needed()
    page.page.wait_for_selector(CHART.format(best) + "[data-drawn]")
    assert not drawn(page, "naive")
    assert page.said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opening_a_block_draws_its_curve_with_the_kernel_on_it(ladder: Any, scheme: str, recorded: RunData) -> None:
    page = ladder(scheme=scheme)
    page.page.locator("#variant-tile_2d > summary").click()
    page.page.locator("#variant-tile_2d-occupancy").scroll_into_view_if_needed()
    page.page.wait_for_selector(CHART.format("tile_2d") + "[data-drawn]")
    plot = f"document.querySelector('{CHART.format('tile_2d')}')"
    marks = page.js(plot + ".data.filter(t => t.mode === 'markers').map(t => [t.x[0], t.y[0]])")
    curves = occupancy_view(kernels(recorded, "tile_2d", profiled_size(recorded, "tile_2d"))[0]).curves
    wanted = [[c.here / (1024 if c.axis == "shared_bytes" else 1), 100 * c.share] for c in curves]
    assert [value for mark in marks for value in mark] == pytest.approx([v for one in wanted for v in one], rel=1e-3)
    assert page.js(f"document.querySelectorAll('{CHART.format('tile_2d')} .js-line').length") == 3
    assert page.said == []


def test_a_link_to_a_variant_opens_its_block(ladder: Any) -> None:
    page = ladder("#variant-mma_sync")
    assert page.js("document.getElementById('variant-mma_sync').open")
    top = page.js("document.getElementById('variant-mma_sync').getBoundingClientRect().top")
    assert 0 <= top < WIDE["height"]
    named = ladder("#variant=naive")
    assert named.js("document.getElementById('variant-naive').open")


def test_a_row_of_the_comparison_leads_to_its_block(ladder: Any) -> None:
    page = ladder()
    page.page.locator("table.sidebyside a.row-link", has_text="triton_fp32").click()
    page.page.wait_for_timeout(200)
    assert page.js("document.getElementById('variant-triton_fp32').open")
    assert "variant=triton_fp32" in page.hash()


def test_the_comparison_sorts(ladder: Any, recorded: RunData) -> None:
    page = ladder()
    page.page.locator("table.sidebyside thead button", has_text="DRAM").click()
    names = page.js("[...document.querySelectorAll('table.sidebyside tbody tr')].map(r => r.dataset.variant)")
    rows = ladder_rows(recorded)
    times = {row["name"]: row["dram"]["sort"] for row in variant.build(recorded, rows, leads(recorded, rows))["table"]}
    assert names == sorted(times, key=lambda name: times[name])


def test_the_curve_is_read_by_the_keyboard(ladder: Any, best: str) -> None:
    page = ladder()
    page.page.locator(f"#variant-{best}-occupancy").scroll_into_view_if_needed()
    page.page.wait_for_selector(CHART.format(best) + "[data-drawn]")
    page.page.focus(CHART.format(best))
    page.page.keyboard.press("ArrowRight")
    page.page.wait_for_timeout(150)
    said = page.js("document.getElementById('live').textContent")
    assert re.fullmatch(r"this kernel: \d+ registers a thread, [\d.]+ %", said)


@pytest.mark.parametrize("name", ["naive", "cublas_bf16"])
def test_a_narrow_page_does_not_scroll_sideways(ladder: Any, name: str) -> None:
    page = ladder(f"#variant-{name}", size=NARROW)
    page.page.wait_for_selector(CHART.format(name))
    page.page.locator(f"#variant-{name}-occupancy .plot").scroll_into_view_if_needed()
    page.page.wait_for_selector(CHART.format(name) + "[data-drawn]")
    assert page.js("document.documentElement.scrollWidth") <= NARROW["width"]
    domains = page.js(
        f"['yaxis', 'yaxis2', 'yaxis3'].map(a => document.querySelector('{CHART.format(name)}').layout[a].domain)"
    )
    assert domains[0][0] > domains[1][1] > domains[1][0] > domains[2][1]  # one below the other


def test_no_text_is_cut_off_where_the_page_is_wide(ladder: Any) -> None:
    page = ladder()
    page.js("document.querySelectorAll('.variant > details').forEach(d => { d.open = true; })")
    cut = page.js(
        """[...document.querySelectorAll('.part .scroll, .sidebyside')].filter(e => e.scrollWidth > e.clientWidth + 1)
        .map(e => e.getAttribute('aria-label') || e.className)"""
    )
    assert cut == []


def test_paper_holds_every_block_in_two_columns(ladder: Any, tmp_path: Path) -> None:
    page = ladder()
    page.page.emulate_media(media="print")
    assert page.js("getComputedStyle(document.querySelector('.variant .compiled')).display") == "none"
    # All is laid out; painting all of it would take half a minute.
    page.page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True, page_ranges="1-3")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert page.said == []
