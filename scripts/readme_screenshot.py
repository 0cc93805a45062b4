"""Takes the README's pictures of the recorded ladder's report: ``python scripts/readme_screenshot.py [FOLDER]``.

The report is rendered from ``experiments/recorded`` and opened in headless Chromium, once light and once dark, 1280
pixels wide and 1600 high. It needs Playwright (the ``checks`` extra) and a Chromium on PATH.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from reports.render import render_run  # noqa: E402

RECORDED = ROOT / "experiments" / "recorded" / "h200" / "gemm_ladder"
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1280, 1600
MOST_BYTES = 400_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def take(report: Path, folder: Path, browser: str) -> list[Path]:
    """Return the pictures of a report, light and dark."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
        for scheme in schemes:
            page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            page.goto(report.as_uri())
            page.wait_for_function("() => document.documentElement.dataset.drawn")
            target = folder / f"report-{scheme}.png"
            page.screenshot(path=target, clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})
            taken.append(target)
            page.close()
        chromium.close()
    return taken


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        print("there is no Chromium here", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        pictures = take(render_run(RECORDED, Path(scratch) / "report.html"), folder, browser)
    for picture in pictures:
        print(f"{picture}  {picture.stat().st_size / 1000:.0f} kB")
    large = [picture.name for picture in pictures if picture.stat().st_size > MOST_BYTES]
    if large:
        print(f"above {MOST_BYTES / 1000:.0f} kB: {', '.join(large)}", file=sys.stderr)
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main())
