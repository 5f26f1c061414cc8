"""A browser, a node and a console for all tests of a run. Without Chromium or Playwright, the tests are skipped."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from rigs.console_site import Site, large_site
from rigs.console_walk import LISTENER, Walk

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Request

PATIENCE_MS = 40_000
"""The longest wait for something on a page. A busy machine is slow, and a test that passes does not wait."""

FAILED = pytest.StashKey[bool]()
"""Whether a test has failed already, so that its missing steps say nothing more."""

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
        chromium_browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)
        yield Driver(chromium_browser, loop)
        asyncio._set_running_loop(loop)
        chromium_browser.close()


@pytest.fixture
def browser(driver: Driver) -> Iterator[Browser]:
    """The browser. Between the tests, Playwright's loop is not the running loop of this thread, because tests of other
    folders call `asyncio.run`."""
    asyncio._set_running_loop(driver.loop)
    yield driver.browser
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two brokers with topics, and the consoles for them."""
    with large_site(tmp_path_factory.mktemp("nodes")) as large:
        yield large


@pytest.fixture
def context(browser: Browser, kafka: Site, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """A browser without cookies. The test fails if a script reports an error, if a page loads anything from elsewhere,
    or if a step is missing that the test declares with the marker `walks`."""
    browser_context = browser.new_context(
        viewport=WIDE,
        base_url=kafka.address,
        color_scheme="light",
        permissions=["clipboard-read", "clipboard-write"],
    )
    walk = Walk()
    problems: list[str] = []
    browser_context.expose_function("pressed", walk.pressed)
    browser_context.expose_function("judged", walk.judged)
    browser_context.add_init_script(LISTENER)
    browser_context.on("page", lambda page: _watch(page, walk, problems))
    browser_context.set_default_timeout(PATIENCE_MS)
    yield browser_context
    has_failed = request.node.stash.get(FAILED, False)
    for page in browser_context.pages if has_failed else ():
        # pytest shows this after a failure.
        print(page.url, page.locator("body").inner_text(timeout=1000), sep="\n")
    browser_context.close()
    assert not problems, problems
    steps = [step for mark in request.node.iter_markers("walks") for step in mark.args]
    if not has_failed:
        assert not walk.missing(steps), walk.missing(steps)


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A page of the console."""
    return context.new_page()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


def _watch(page: Page, walk: Walk, problems: list[str]) -> None:
    page.on("pageerror", lambda error: problems.append(f"script: {error}"))
    page.on("dialog", lambda dialog: _dismissed(dialog, problems))
    page.on("console", lambda line: _noted(line.type, line.text, problems))
    page.on("framenavigated", lambda frame: walk.went(frame.url))
    page.on("request", lambda request: _asked(request, walk, problems))
    page.on("download", lambda download: walk.asked("GET", download.url, None))


def _dismissed(dialog: Dialog, problems: list[str]) -> None:
    problems.append(f"dialog: {dialog.message}")
    dialog.dismiss()


def _noted(kind: str, text: str, problems: list[str]) -> None:
    # Chromium reports each answer with a status of 400 or more. The pages show these errors to the person.
    if kind == "error" and "the server responded with a status" not in text:
        problems.append(f"console: {text}")


def _asked(request: Request, walk: Walk, problems: list[str]) -> None:
    if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
        problems.append(f"request to {request.url}")
    walk.asked(request.method, request.url, request.post_data)
