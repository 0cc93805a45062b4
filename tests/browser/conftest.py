from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import browser
from make_run import FAULTS, RUNGS, SMALL_SIZES, make_run
from report_browser import ARGS, HOSTILE, WIDE, Opened

from reports.render import render_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = browser()
    if path is None:
        pytest.skip("there is no Chromium here")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(ARGS))
        yield started
        started.close()


@pytest.fixture(scope="package")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("reports")
    hostile = [dataclasses.replace(r, name=n) for r, n in zip(RUNGS[:4], HOSTILE, strict=True)]
    sixteen = [dataclasses.replace(r, name=f"{r.name}_{i}" if i else r.name) for i in range(2) for r in RUNGS]
    options: dict[str, dict[str, Any]] = {
        "full": {},
        "sizes": {"sizes": SMALL_SIZES, "processes": 2, "samples": 12},
        "faults": {"faults": FAULTS},
        "static": {"timed": False},
        "replay": {"recorded": True},
        "no_counters": {"counters": False},
        "hostile": {"rungs": [*hostile, *RUNGS[4:]]},
        "close": {"rungs": [dataclasses.replace(RUNGS[3], share=0.9), RUNGS[4]]},
        "sixteen": {"rungs": sixteen, "sizes": SMALL_SIZES},
    }
    return {name: render_run(make_run(base / name, **some).path) for name, some in options.items()}


@pytest.fixture
def opened(chromium: Browser, reports: dict[str, Path]) -> Iterator[Any]:
    pages: list[Page] = []

    def open_page(name: str, fragment: str = "", size: dict[str, int] = WIDE, **context: Any) -> Opened:
        context = {"scheme": "light", **context}
        page = chromium.new_page(viewport=size, color_scheme=context.pop("scheme"), **context)  # type: ignore[arg-type]
        pages.append(page)
        return Opened(page, reports[name].as_uri() + fragment)

    yield open_page
    for page in pages:
        page.close()
