"""What surrounds the pages in a real browser: menu, keys, colours, clusters, logins, read-only consoles, failures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rigs.console_axe import RULES, judge, problems
from rigs.console_site import Site
from rigs.console_walk import walks

if TYPE_CHECKING:
    from playwright.sync_api import Page

PASSWORD = "a=b,c"

DRAW = """
async () => {
  const { lineGraph } = await import(new URL("parts/graph.js", document.querySelector('script[src$="app.js"]').src));
  const card = document.createElement("div");
  card.className = "card";
  const points = [[0, 0], [60000, 3333], [600000, 100], [660000, 0]];
  card.append(lineGraph({ label: "Lag", series: [{ name: "lag", points }], every: 60000 }));
  document.querySelector("main").replaceChildren(card);
  return card.querySelector("svg").getScreenCTM().a;
}
"""
"""Draws a graph in the content of the page, and returns the size of its texts in relation to the style."""


def log_in(page: Page, password: str = PASSWORD) -> None:
    page.get_by_label("User").fill("alice")
    page.get_by_label("Password").fill(password)
    page.get_by_label("Mechanism").select_option("PLAIN")
    page.get_by_role("button", name="Log in").click()


@walks("button Keys", "button Close", "page messages", "dialog Keys")
def test_the_keyboard_alone_reaches_pages_search_and_dialogs(page: Page) -> None:
    page.goto("#/main/brokers")
    page.get_by_role("link", name="2").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.get_by_role("heading", name="Messages").wait_for()
    page.get_by_role("link", name="orders").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("orders")
    page.get_by_role("link", name="hostile").wait_for(state="detached")
    page.get_by_role("link", name="orders").focus()
    page.keyboard.press("Enter")
    page.get_by_text("50 records. Searched").wait_for()
    page.get_by_role("button", name="Record at offset").first.focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_text("Partition, offset").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Record at offset")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Search in the list").wait_for()
    judge(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()


def test_the_focus_begins_in_the_content_and_can_return_there(page: Page) -> None:
    page.goto("#/main/topics")
    page.get_by_role("link", name="orders").wait_for()
    focus = "document.activeElement.id"
    assert page.evaluate(focus) == "main"
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    page.locator("#main:focus").wait_for()
    assert page.url.endswith("#/main/topics")


@walks("button Menu")
def test_the_menu_opens_on_a_narrow_screen(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("#/main/topics")
    page.get_by_role("link", name="orders").wait_for()
    menu = page.get_by_role("navigation", name="Pages")
    assert not menu.is_visible()
    page.get_by_role("button", name="Menu").click()
    menu.get_by_role("link", name="Brokers").click()
    page.get_by_role("heading", name="Brokers").wait_for()
    menu.wait_for(state="hidden")


def test_the_colours_are_those_of_the_system_until_they_are_chosen(page: Page) -> None:
    theme = "document.documentElement.dataset.theme"
    page.emulate_media(color_scheme="dark")
    page.goto("")
    page.get_by_label("Use light colours").click()
    assert page.evaluate(theme) == "light"
    page.reload()
    page.get_by_label("Use dark colours").wait_for()
    assert page.evaluate(theme) == "light"
    page.get_by_label("Use dark colours").click()
    page.emulate_media(color_scheme="light")
    page.locator("html[data-theme=light]").wait_for()


def test_the_texts_of_a_graph_have_the_size_of_the_style_and_differ(page: Page) -> None:
    page.goto("#/main/quotas")
    page.get_by_role("button", name="Set a quota").wait_for()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert 0.9 < page.evaluate(DRAW) < 1.1
        values = page.locator("svg.graph text[text-anchor=end]").all_text_contents()
        assert values[:5] == ["0", "1,000", "2,000", "3,000", "4,000"]
        times = page.locator("svg.graph text:not([text-anchor=end])").all_text_contents()
        assert times and all(re.fullmatch(r"\d\d:\d\d", text) for text in times), "round minutes"
        assert page.locator("svg.graph path.line").count() == 2, "nine minutes without a sample are a gap"


@walks("GET /session", "POST /session/login", "POST /session/logout", "button Log in", "button Log out")
def test_a_wrong_password_is_refused_and_a_right_one_lasts_until_the_logout(page: Page) -> None:
    page.goto("#/main/topics")
    page.get_by_label("Cluster").select_option("secured")
    page.get_by_role("heading", name="Log in to secured").wait_for()
    log_in(page, "wrong")
    page.get_by_role("alert").filter(has_text=re.compile("Authentication failed|password")).wait_for()
    assert problems(page, RULES) == []
    assert page.get_by_label("Password").input_value() == ""
    log_in(page)
    page.get_by_role("link", name="orders").wait_for()
    page.get_by_text("alice", exact=True).wait_for()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("heading", name="Log in to secured").wait_for()


def test_a_session_that_ends_asks_for_the_password_and_returns_to_the_same_place(
    page: Page, kafka: Site
) -> None:
    page.goto("#/secured/topics/orders")
    log_in(page)
    page.get_by_text("Records, at most").wait_for()
    page.context.clear_cookies()
    page.get_by_role("button", name="Refresh").click()
    page.get_by_role("heading", name="Log in to secured").wait_for()
    log_in(page)
    page.get_by_text("Records, at most").wait_for()


@walks("button Log in as another user")
def test_the_login_of_the_settings_file_serves_only_the_printed_address(page: Page, kafka: Site) -> None:
    page.goto(kafka.given_address)
    page.get_by_text("acts as alice").wait_for()
    page.get_by_role("button", name="Log in as another user").click()
    page.get_by_role("heading", name="Log in to given").wait_for()
    page.context.clear_cookies()
    page.goto(kafka.given_address.partition("?")[0])
    page.get_by_role("heading", name="Log in to given").wait_for()


def test_a_read_only_console_shows_everything_and_offers_no_action(page: Page, kafka: Site) -> None:
    for path, action in (
        ("topics", "New topic"),
        ("topics/orders", "Delete"),
        ("topics/orders/configs", "Edit retention.ms"),
        ("messages/orders", "Send a record"),
        ("groups/billing", "Reset offsets"),
        ("balance", "Balance"),
        ("balance", "Elect preferred leaders"),
        ("security", "Add ACLs"),
        ("security/users", "Set a password"),
        ("quotas", "Set a quota"),
    ):
        page.goto(f"{kafka.read_only_address}#/main/{path}")
        page.get_by_text("read-only").wait_for()
        page.locator("main h1").first.wait_for()
        page.get_by_role("status").filter(has_text=re.compile("row|Searched")).first.wait_for()
        assert page.get_by_role("button", name=action).count() == 0, path


@walks("button Try again")
def test_a_cluster_that_cannot_be_reached_is_reported_until_it_answers(page: Page, kafka: Site) -> None:
    page.goto("#/gone/topics/orders")
    page.get_by_role("alert").filter(has_text="no server of the cluster answers").wait_for()
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("button", name="Try again").wait_for(state="detached")
    page.get_by_role("alert").filter(has_text="no server of the cluster answers").wait_for()
    kafka.run(kafka.bring_back())
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("Records, at most").wait_for()
