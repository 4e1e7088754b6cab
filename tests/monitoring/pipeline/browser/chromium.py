"""A headless Chromium, driven by Playwright. What a page logs, throws and asks the network for is kept."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage")


def find() -> str | None:
    """The browser's path, where there is one: that of the system, none that Playwright downloads."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


class Tab:
    """One page at a time. `complaints` are errors and warnings of the console, and exceptions; `requests` the addresses
    of all that it asked for.
    """

    page: Page

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def open(self, path: Path | str, width: int, height: int, *, dark: bool, phone: bool = False) -> None:
        """A file or an address, as on a screen of that size; returns when it is loaded. The page before is closed: it
        would go on asking its server.
        """
        for context in self._browser.contexts:
            context.close()
        self.complaints, self.requests = [], []
        self.page = self._browser.new_context(
            viewport={"width": width, "height": height}, is_mobile=phone, color_scheme="dark" if dark else "light"
        ).new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path if isinstance(path, str) else path.resolve().as_uri())

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(message.text)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        return self.page.evaluate(expression)

    def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        wait_until(lambda: self.run(f"!!({condition})"), condition)

    def violations(self, axe: str) -> list[str]:
        """What axe-core, whose script is given, finds amiss."""
        self.run(f"{axe}; 1")
        found = self.run("axe.run(document).then(told => told.violations)")
        return [
            f"{each['id']}: {node['html'][:120]} {node['failureSummary']}" for each in found for node in each["nodes"]
        ]

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """PNG of what is to be seen, or of the whole page."""
        self.page.screenshot(path=path, full_page=whole)


@contextlib.contextmanager
def browser() -> Iterator[Tab]:
    """A browser with an empty profile, for the time of the `with`."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=find(), args=FLAGS)
        yield Tab(found)
        found.close()
