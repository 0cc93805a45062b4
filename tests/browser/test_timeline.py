"""The timeline in a browser: drawn, zoomed, walked by keys, searched, linked, saved, fluent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from profiler.cli.render_report import main
from tests.make_nsys import NsysFile, large
from tests.report_browser import NARROW, READY

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser
T = "kernelLadderTimeline"
#: How many pixels of the canvas are neither empty nor a line of the grid.
PAINTED = """() => { const c = document.getElementById('timeline-body');
    const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    let n = 0; for (let i = 3; i < d.length; i += 4) if (d[i] > 200) n++; return n; }"""


def small(path: Path) -> Path:
    with NsysFile(path) as export:
        export.version()
        export.gpu()
        export.streams(s7=3)
        for i in range(40):
            at = 100_000 * i
            export.range(f"step {i}", (at, at + 90_000))
            export.launch(f"void gemm_{i % 3}<(int)8>(float *)", (at + 1_000, at + 5_000), (at + 9_000, at + 60_000))
            export.call("cudaStreamSynchronize_v3020", (at + 6_000, at + 62_000))
        export.copy(1, (3_999_000, 3_999_500), (4_000_000, 4_100_000), 1 << 20)
    return path


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = small(tmp_path_factory.mktemp("timeline") / "small.sqlite")
    assert main([str(source), "-q"]) == 0
    return source.with_suffix(".html")


@pytest.fixture
def opened(chromium: Browser, page_file: Path) -> Iterator[Callable[..., Page]]:
    contexts: list[Any] = []
    said: list[str] = []

    def open_(fragment: str = "", **more: Any) -> Page:
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, "accept_downloads": True, **more})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "data:", "blob:")) else said.append(request.url),
        )
        page.goto(page_file.as_uri() + fragment)
        page.wait_for_function(READY)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert said == []  # no complaint, and nothing asked of a network


def view(page: Page) -> tuple[float, float]:
    found = page.evaluate(f"{T}.view()")
    return found["from"], found["to"]


def test_it_is_drawn_and_opens_on_the_devices_work(opened: Callable[..., Page]) -> None:
    page = opened()
    assert page.evaluate(PAINTED) > 5_000
    first, last = view(page)
    assert first <= 9_000
    assert last >= 4_100_000
    assert page.locator("#timeline-body").get_attribute("aria-label").startswith("Timeline of 162 spans")


def test_keys_zoom_walk_and_pick(opened: Callable[..., Page]) -> None:
    page = opened()
    page.locator("#timeline-body").focus()
    before = view(page)
    page.keyboard.press("w")
    after = view(page)
    assert after[1] - after[0] == pytest.approx((before[1] - before[0]) / 1.5)
    page.keyboard.press("0")
    page.keyboard.press("ArrowRight")
    detail = page.locator("#timeline-detail")
    assert "void gemm_0<(int)8>(float *)" in detail.inner_text()
    assert "51 µs at 0.009 ms" in detail.inner_text()
    assert "its call began 8 µs before" in detail.inner_text()
    page.keyboard.press("ArrowRight")
    assert "gemm_1" in detail.inner_text()
    assert "gemm_1" in page.locator("#live").inner_text()
    page.keyboard.press("ArrowDown")
    assert "copy h2d" in detail.inner_text()
    assert "1.049 MB at 10.49 GB/s, pinned memory" in detail.inner_text()
    page.keyboard.press("Enter")
    assert view(page)[1] - view(page)[0] == pytest.approx(220_000)
    page.keyboard.press("Escape")
    assert detail.is_hidden()


def test_the_address_holds_view_and_span_and_brings_them_back(opened: Callable[..., Page]) -> None:
    page = opened("#t=100000-200000&pick=0-109000")
    assert view(page) == (100_000, 200_000)
    assert "gemm_1" in page.locator("#timeline-detail").inner_text()
    page.locator("#timeline-in").click()
    page.wait_for_function("() => location.hash.includes('t=125000-175000')")
    assert "pick=0-109000" in page.evaluate("location.hash")


def test_a_finding_leads_to_its_spans(opened: Callable[..., Page]) -> None:
    page = opened()
    link = page.locator(".proofs a").first
    link.click()
    page.wait_for_function(f"() => {T}.view().to - {T}.view().from < 1e6")
    assert link.inner_text() in page.locator("#timeline-detail").inner_text()
    assert page.locator("#timeline-body").is_visible()


def test_pointer_hover_click_drag_and_wheel(opened: Callable[..., Page]) -> None:
    page = opened("#t=0-1000000")
    body = page.locator("#timeline-body")
    body.scroll_into_view_if_needed()
    box = body.bounding_box()
    assert box is not None
    x = box["x"] + 150 + (box["width"] - 150) * 0.03
    page.mouse.move(x, box["y"] + 36)
    assert "gemm_0\n51 µs at 0.009 ms" in page.locator("#timeline-tip").inner_text()
    page.mouse.click(x, box["y"] + 36)
    assert "gemm_0" in page.locator("#timeline-detail").inner_text()
    body.scroll_into_view_if_needed()
    box = body.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 600, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 60, steps=4)
    page.mouse.up()
    assert view(page)[0] == pytest.approx(1e6 * 100 / (box["width"] - 150), rel=0.02)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function(f"() => {T}.view().to - {T}.view().from < 5e5")
    before = view(page)
    page.mouse.wheel(0, 50)  # without Control the page scrolls
    assert view(page) == before


def test_finding_spans_by_name(opened: Callable[..., Page]) -> None:
    page = opened()
    page.fill("#timeline-find", "GEMM_2")
    assert page.locator("#timeline-found").inner_text() == "13 marks"
    page.press("#timeline-find", "Enter")
    assert "gemm_2" in page.locator("#timeline-detail").inner_text()
    page.press("#timeline-find", "Escape")
    assert page.input_value("#timeline-find") == ""


def test_the_trace_is_saved_for_perfetto(opened: Callable[..., Page]) -> None:
    page = opened()
    with page.expect_download() as waiting:
        page.locator("#timeline-save").click()
    document = json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert len(spans) == 162
    assert next(event for event in spans if event["cat"] == "copy")["args"] == {"bytes": 1 << 20}
    assert min(event["ts"] for event in spans) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_theme(opened: Callable[..., Page], scheme: str) -> None:
    page = opened(color_scheme=scheme)
    pixels = "() => document.getElementById('timeline-body').toDataURL()"
    before = page.evaluate(pixels)
    page.locator("#theme").click()
    page.wait_for_function("(old) => document.getElementById('timeline-body').toDataURL() !== old", arg=before)


def test_a_narrow_page_does_not_scroll_sideways(opened: Callable[..., Page]) -> None:
    page = opened(viewport=NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    assert page.evaluate(PAINTED) > 2_000
    page.set_viewport_size({"width": 1000, "height": 800})
    page.wait_for_function("() => document.getElementById('timeline-body').getBoundingClientRect().width > 900")


def test_without_scripts_the_tables_are_there(opened: Callable[..., Page]) -> None:
    live = opened()
    context = live.context.browser.new_context(java_script_enabled=False)  # type: ignore[union-attr]
    page = context.new_page()
    page.goto(live.url)
    assert page.locator("#timeline-body").is_hidden()
    assert page.locator("#trace-kernels").is_visible()
    context.close()


def test_a_hundred_thousand_spans_stay_fluent(chromium: Browser, tmp_path: Path) -> None:
    large(tmp_path / "x.sqlite", 50_000)
    assert main([str(tmp_path / "x.sqlite"), "-q"]) == 0
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.goto((tmp_path / "x.html").as_uri())
    page.wait_for_function(READY)
    times = page.evaluate(
        f"""() => {{
        const t = {T}, v = t.view(), all = v.to - v.from, middle = (v.from + v.to) / 2;
        return [1, 3, 10, 100, 1000].map((zoom) => {{
            const room = all / zoom, each = [];
            t.look(middle - room / 2, middle + room / 2);
            for (let i = 0; i < 8; i++) {{
                const at = performance.now(); t.drawNow(); each.push(performance.now() - at); }}
            return Math.min(...each); }}); }}"""
    )
    page.close()
    assert max(times) < 60, times  # milliseconds of a frame, the best of eight: other work may share the cores
