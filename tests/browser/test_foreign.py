"""The page of a report from elsewhere in a real browser: quiet, complete, sortable, readable on a narrow screen."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import SAMPLES

from profiler.cli.render_report import main

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser
FILES = {
    "ladder": "h200/ladder_set_5kernels.ncu-rep",
    "tensor": "ncu/a100_2024.1_tensorcore_1launch.ncu-rep",
    "basic": "ncu/gtx1660ti_2022.4_basic_4launches.ncu-rep",
}
HOSTILE = (
    '"ID","Kernel Name","gpu__time_duration.sum","sm__warps_active.avg.pct_of_peak_sustained_active"\n'
    '"","","us","%"\n"0","void </script><script>window.pwned=1</script><(int)1>()","1.5","133.3"\n'
    f'"1","{"t" * 2000}<(int)1>(float *)","n/a","-4"\n"2","größe<img src=x onerror=window.pwned=1>()","2.5",""\n'
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "hostile.csv").write_text(HOSTILE, encoding="utf-8")
    sources = {"hostile": folder / "hostile.csv"}
    if SAMPLES.is_dir() and importlib.util.find_spec("ncu_report") is not None:
        sources |= {name: SAMPLES / file for name, file in FILES.items()}
    for name, source in sources.items():
        assert main([str(source), "-o", str(folder / f"{name}.html"), "-q"]) == 0
    return {name: folder / f"{name}.html" for name in sources}


def look(chromium: Browser, path: Path, width: int = 1280) -> tuple[Any, list[str]]:
    page = chromium.new_page(viewport={"width": width, "height": 900})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
    page.goto(path.as_uri())
    page.wait_for_timeout(400)
    return page, said


@pytest.mark.parametrize("name", ["hostile", *FILES])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_quiet_and_fits(chromium: Browser, pages: dict[str, Path], name: str, width: int) -> None:
    if name not in pages:
        pytest.skip("the captured tool files, or NVIDIA's reader, are not here")
    page, said = look(chromium, pages[name], width)
    assert said == []
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth + 1")
    assert page.locator("#ladder").inner_text().startswith("Launches")
    assert "Profiled duration" in page.locator("table.ladder").first.inner_text()
    assert page.locator("nav a").all_inner_texts()[0] == "Launches"
    page.close()


def test_odd_values_carry_a_mark_and_missing_ones_a_reason(chromium: Browser, pages: dict[str, Path]) -> None:
    page, _ = look(chromium, pages["hostile"])
    rows = page.locator("table.ladder tbody tr")
    assert rows.count() == 3
    assert "133.3 %" in rows.nth(0).inner_text()
    assert "above 100 %" in str(rows.nth(0).locator(".warn-text").first.get_attribute("title"))
    assert "-4.0 %" in rows.nth(1).inner_text()
    assert rows.nth(1).locator("td.number .missing").first.get_attribute("title")
    page.locator("#kernels summary").click()
    assert "t" * 2000 in page.locator("#kernels").inner_text()
    page.close()


def test_the_launches_sort_by_duration(chromium: Browser, pages: dict[str, Path]) -> None:
    if "ladder" not in pages:
        pytest.skip("the captured tool files, or NVIDIA's reader, are not here")
    page, _ = look(chromium, pages["ladder"])
    page.get_by_role("button", name="Profiled duration").click()
    first = page.locator("table.ladder tbody tr").first.inner_text()
    assert first.startswith(("cublas_fp8", "launch_naive"))
    page.get_by_role("button", name="Profiled duration").click()
    assert page.locator("table.ladder tbody tr").first.inner_text() != first
    page.close()


def test_a_link_to_a_launch_leads_to_its_own_part(chromium: Browser, pages: dict[str, Path]) -> None:
    page, _ = look(chromium, pages["hostile"])
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(n => n.id)")
    assert len(ids) == len(set(ids))
    links = page.evaluate("[...document.querySelectorAll('.variant a.anchor')].map(a => a.getAttribute('href'))")
    parts = "(hash) => document.getElementById(hash.slice(1)).closest('.variant') !== null"
    assert [page.evaluate(parts, link) for link in links] == [True] * len(links)
    page.close()
