"""Mistakes in the accessibility of the console's pages and dialogs, found by axe in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "best-practice"]}
NARROW_AND_DARK = {
    "type": "rule",
    "values": ["color-contrast", "scrollable-region-focusable", "target-size"],
}
SERIOUS = ("serious", "critical")
NARROW = {"width": 390, "height": 800}

_RUN = "async ([place, options]) => (await axe.run(place, options)).violations"
_THEME = "(theme) => { document.documentElement.dataset.theme = theme; }"
_TOO_WIDE = (
    "[...document.querySelectorAll('dialog[open]')].some((each) => each.scrollWidth > each.clientWidth)"
)


def problems(page: Page, rules: dict[str, object], place: str = "html") -> list[str]:
    """What axe finds by these rules: one line for each kind of mistake, with its first place."""
    from axe_playwright_python.base import AXE_SCRIPT

    if page.evaluate("window.axe === undefined"):
        page.evaluate(AXE_SCRIPT)
    options = {"resultTypes": ["violations"], "runOnly": rules, "preload": False}
    found = page.evaluate(_RUN, [place, options])
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found if each["impact"] in SERIOUS]


def judge(page: Page) -> None:
    """Looks at the open dialog: in light colours, and in dark colours on a narrow screen. The test may then declare the
    step `dialog …`."""
    title = page.locator("dialog[open] h2").inner_text()
    assert problems(page, RULES, "dialog[open]") == [], title
    size, theme = page.viewport_size, page.evaluate("document.documentElement.dataset.theme")
    page.evaluate(_THEME, "dark")
    page.set_viewport_size(NARROW)
    assert not page.evaluate(_TOO_WIDE), title
    assert problems(page, NARROW_AND_DARK, "dialog[open]") == [], title
    page.set_viewport_size(size)
    page.evaluate(_THEME, theme)
    page.evaluate("(title) => window.judged(title)", title)
