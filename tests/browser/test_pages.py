"""All pages in a real browser: no script runs from names, nothing is inaccessible, and a dead broker is reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from rigs.console_site import SCRIPT, Site, site
from rigs.console_topics import record

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

INNER_PAGES = (
    "topics/orders",
    "topics/orders/configs",
    "topics/orders/growth",
    "messages/orders",
    "messages/orders/analysis",
    "brokers/1",
    "brokers/1/configs",
    "groups/billing",
    "groups/billing/members",
    "security/users",
)
"""The pages that the menu does not name."""

ALL: dict[str, object] = {"type": "tag", "values": ["wcag2a", "wcag2aa", "best-practice"]}
COLOURS: dict[str, object] = {"type": "rule", "values": ["color-contrast"]}
SERIOUS = ("serious", "critical")


def opened(page: Page, path: str) -> None:
    """Opens a page, and waits until it has loaded."""
    page.goto(f"#/main/{path}")
    page.locator("main h1").first.wait_for()
    page.locator("main .loading:visible").first.wait_for(state="detached")


def menu(page: Page) -> list[str]:
    """The paths of the pages in the menu."""
    page.goto("")
    page.locator("nav.side a").first.wait_for(state="attached")
    links = page.locator("nav.side a").evaluate_all("all => all.map((each) => each.getAttribute('href'))")
    return [each.removeprefix("#/main/") for each in links]


def problems(page: Page, rules: dict[str, object]) -> list[str]:
    """What axe finds by these rules: one line for each kind of mistake, with its first place."""
    from axe_playwright_python.sync_playwright import Axe

    options = {"resultTypes": ["violations"], "runOnly": rules}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found if each["impact"] in SERIOUS]


def test_every_page_is_accessible_in_both_themes(page: Page) -> None:
    found: list[str] = []
    for path in (*menu(page), *INNER_PAGES):
        opened(page, path)
        found += [f"{path}: {each}" for each in problems(page, ALL)]
        page.get_by_label("Use dark colours").click()
        found += [f"{path}, dark: {each}" for each in problems(page, COLOURS)]
        page.get_by_label("Use light colours").click()
    assert not found, "\n".join(found)


def test_every_page_fits_a_narrow_screen(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    wide: list[str] = []
    for path in (*menu(page), *INNER_PAGES):
        opened(page, path)
        if page.evaluate("document.scrollingElement.scrollWidth") > 390:
            wide.append(path)
        if page.locator("main").evaluate("main => main.scrollWidth > main.clientWidth"):
            wide.append(f"{path} (content)")
    assert not wide, wide


def test_scripts_in_names_are_only_texts(page: Page) -> None:
    for path in ("groups", "security", "security/users", "quotas", "messages/hostile?start=earliest"):
        opened(page, path)
        page.get_by_text(SCRIPT).first.wait_for()
        assert page.locator("img[src=x]").count() == 0
    page.goto("#/main/groups")
    page.get_by_role("link", name=SCRIPT).click()
    page.locator("main h1", has_text=SCRIPT).wait_for()
    assert page.locator("img[src=x]").count() == 0


def test_names_in_the_address_are_only_texts(page: Page) -> None:
    encoded = "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"
    for path in (
        f"topics/{encoded}",
        f"messages/{encoded}",
        f"groups/{encoded}",
        f"{encoded}",
        f"brokers/{encoded}",
    ):
        page.goto(f"#/main/{path}")
        page.locator("main h1").first.wait_for()
        page.wait_for_timeout(200)
        assert page.locator("img[src=x]").count() == 0


def test_the_keyboard_reaches_pages_and_search(page: Page) -> None:
    opened(page, "brokers")
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.get_by_role("heading", name="Messages").wait_for()
    page.get_by_role("link", name="orders").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("orders")
    page.get_by_role("link", name="hostile").wait_for(state="detached")
    page.keyboard.press("Escape")
    page.locator("main").focus()
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Search in the list").wait_for()


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as found:
        found.topic("t")
        found.send("t", *(record(n) for n in range(3)))
        yield found


def test_a_broker_that_dies_is_reported_and_its_return_is_noticed(browser: Browser, own_site: Site) -> None:
    page = browser.new_page(base_url=own_site.address)
    page.set_default_timeout(60_000)
    page.goto("#/main/messages/t")
    page.get_by_text("3 records. Searched").wait_for()
    page.get_by_role("button", name="Live").click()
    page.get_by_text("Live: 0 new records seen.").wait_for()
    own_site.run(own_site.close_node())
    page.get_by_role("alert").filter(has_text="Some partitions do not answer").wait_for()
    own_site.run(own_site.open_node())
    own_site.send("t", record(9))
    page.locator("tr.record").filter(has_text="k9").wait_for()
    page.close()
