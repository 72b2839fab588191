"""A headless Chromium that is on this machine, or the reason why these tests are skipped. It has no network."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser_path() -> str | None:
    """Return $KGEN_BROWSER or the first Chromium on PATH."""
    return os.environ.get("KGEN_BROWSER") or next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = browser_path()
    if path is None:
        pytest.skip(f"no browser: neither $KGEN_BROWSER nor {', '.join(NAMES)} on PATH")
    with sync_playwright() as playwright:
        # Chromium refuses its sandbox to root, whom containers run as. The page is our own, and has no network.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=path, args=sandbox)
        yield found
        found.close()


class Opened:
    """A page opened in a context of its own; what it logs, and what it asks the network for, is kept."""

    def __init__(self, browser: Browser, file: Path, **context: object) -> None:
        self.context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, **context)  # type: ignore[arg-type]
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.address = file.as_uri()
        self.page.goto(self.address)


@pytest.fixture
def opened(browser: Browser) -> Iterator[object]:
    """Return a function that opens a file; afterwards nothing may have been logged nor loaded."""
    made: list[Opened] = []

    def open_file(file: Path, **context: object) -> Page:
        made.append(Opened(browser, file, **context))
        return made[-1].page

    yield open_file
    for each in made:
        each.context.close()
        assert each.problems == []
        assert [url for url in each.requests if url.partition("#")[0] != each.address] == []
