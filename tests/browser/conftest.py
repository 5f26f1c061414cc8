"""A browser, a node and a console for all tests of a run. Without Chromium or Playwright, the tests are skipped."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rigs.console_site import Site, site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

PATIENCE_MS = 40_000
"""The longest wait for something on a page. A busy machine is slow, and a test that passes does not wait."""

WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 800}


def chromium() -> str | None:
    """The path of Debian's Chromium, or None."""
    return shutil.which("chromium")


def missing() -> str | None:
    """Why no browser can run here, or None."""
    for module in ("playwright", "axe_playwright_python"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    return None if chromium() else "chromium is not installed"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = missing()
    for item in items:
        if reason is not None and "/browser/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True, slots=True)
class Driver:
    """A browser, and the event loop on which Playwright drives it in this thread."""

    browser: Browser
    loop: asyncio.AbstractEventLoop


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # A container has no user namespaces for Chromium's sandbox. The pages are our own.
        found = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield Driver(found, loop)
        asyncio._set_running_loop(loop)
        found.close()


@pytest.fixture
def browser(driver: Driver) -> Iterator[Browser]:
    """The browser. Between the tests, Playwright's loop is not the running loop of this thread, because tests of other
    folders call `asyncio.run`."""
    asyncio._set_running_loop(driver.loop)
    yield driver.browser
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A node with topics, and a console for it."""
    with site(tmp_path_factory.mktemp("node")) as found:
        found.fill()
        yield found


@pytest.fixture
def page(browser: Browser, kafka: Site) -> Iterator[Page]:
    """A page of the console. The test fails if a script reports an error, or the page loads anything from elsewhere."""
    context = browser.new_context(viewport=WIDE, base_url=kafka.address)
    found = context.new_page()
    problems: list[str] = []
    found.on("pageerror", lambda error: problems.append(f"script: {error}"))
    found.on("dialog", lambda dialog: _dismissed(dialog, problems))
    found.on("console", lambda line: _noted(line.type, line.text, problems))
    found.on("request", lambda request: _asked(request.url, kafka.address, problems))
    found.set_default_timeout(PATIENCE_MS)
    yield found
    print(
        found.url, found.locator("body").inner_text(timeout=1000), sep="\n"
    )  # pytest shows it after a failure
    context.close()
    assert not problems, problems


def _dismissed(dialog: Dialog, problems: list[str]) -> None:
    problems.append(f"dialog: {dialog.message}")
    dialog.dismiss()


def _noted(kind: str, text: str, problems: list[str]) -> None:
    # Chromium reports each answer with a status of 400 or more. The pages show these errors to the person.
    if kind == "error" and "the server responded with a status" not in text:
        problems.append(f"console: {text}")


def _asked(url: str, address: str, problems: list[str]) -> None:
    if not url.startswith((address, "data:", "blob:")):
        problems.append(f"request to {url}")
