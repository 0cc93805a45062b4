"""What the browser tests share: how Chromium is started, the sizes of its window, and a page that remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

ARGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
)  # fmt: skip
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
HOSTILE = ("</script><script>window.pwned=1</script>", "x" * 2000, "größe<!--😀", "<img src=x onerror=window.pwned=1>")
READY = "() => document.documentElement.dataset.ready"
#: Every chart that has a place on the page; those in closed folds are drawn when they are opened.
DRAWN = """() => [...document.querySelectorAll('.plot')].every(
    p => p.dataset.drawn || !p.getClientRects().length || p.closest('details:not([open])'))"""


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
        page.wait_for_function(READY)
        page.wait_for_function(DRAWN)
        page.wait_for_timeout(100)

    def js(self, script: str, value: Any = None) -> Any:
        return self.page.evaluate(script, value)

    def drawn(self) -> None:
        self.page.wait_for_timeout(250)

    def hash(self) -> str:
        """Return the address's choices as a reader would write them."""
        text: str = self.js("decodeURIComponent(location.hash)")
        return text
