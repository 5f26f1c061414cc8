"""All pages in a real browser: each shows its content, is accessible, and fits a narrow screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcli.testing.cluster_processes import ClusterProcesses
from rigs.console_axe import NARROW_AND_DARK, RULES, problems
from rigs.console_site import SCRIPT, TRACE, Site, site
from rigs.console_topics import record
from rigs.console_walk import walks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page


def shows(path: str, text: str, mark: pytest.MarkDecorator) -> Any:
    """A page, a text of its content, and its steps."""
    return pytest.param(path, text, marks=mark, id=path.partition("?")[0])


PAGES = (
    shows("overview", "every partition", walks("page overview", "GET /overview", "GET /checkup")),
    shows("brokers", "127.0.0.1:", walks("page brokers", "GET /brokers")),
    shows("brokers/1", "Log directories", walks("page brokers/*", "GET /brokers/*")),
    shows("brokers/1/configs", "log.dirs", walks("page brokers/*/configs", "GET /brokers/*/configs")),
    shows("balance", "No partition moves.", walks("page balance", "GET /balance", "GET /reassignments")),
    shows("topics", "orders", walks("page topics", "GET /topics")),
    shows("topics/orders", "Records, at most", walks("page topics/*", "GET /topics/*", "GET /topics/*/partitions")),
    shows("topics/orders/configs", "retention.ms", walks("page topics/*/configs", "GET /topics/*/configs")),
    shows("topics/orders/consumers", "billing", walks("page topics/*/consumers", "GET /topics/*/consumers")),
    shows("topics/orders/growth", "keeps a sample of the sizes", walks("page topics/*/growth", "GET /topics/*/growth")),
    shows("messages", "Choose the topic", walks("page messages")),
    shows("messages/orders", "50 records. Searched", walks("page messages/*", "GET /topics/*/messages")),
    shows("messages/orders/analysis", "reads every record of the topic once", walks("page messages/*/analysis")),
    shows("transactions", "Only open", walks("page transactions", "GET /transactions")),
    shows("transactions/hanging", "A transaction hangs if", walks("page transactions/hanging")),
    shows("groups", "billing", walks("page groups", "GET /groups")),
    shows("groups/billing", "orders-0", walks("page groups/*", "GET /groups/*", "GET /groups/*/history")),
    shows("groups/billing/members", "has no members.", walks("page groups/*/members", "GET /groups/*/members")),
    shows(f"trace/{TRACE}?topic=traced&partition=0&offset=0", "kafka.Produce", walks("page trace/*", "GET /traces/*")),
    shows("spark", "query", walks("page spark", "GET /spark", "GET /spark/queries")),
    shows("spark/applications", "word-count", walks("page spark/applications", "GET /spark/applications")),
    shows("security", SCRIPT, walks("page security", "GET /acls")),
    shows("security/users", SCRIPT, walks("page security/users", "GET /users")),
    shows("quotas", SCRIPT, walks("page quotas", "GET /quotas")),
)  # fmt: skip


def too_wide(page: Page) -> list[str]:
    """The parts of the page that need a horizontal scroll bar."""
    return [
        name
        for name, element in (
            ("page", "document.scrollingElement"),
            ("content", "document.querySelector('main')"),
        )
        if page.evaluate(f"{element}.scrollWidth > {element}.clientWidth")
    ]


@pytest.mark.parametrize(("path", "text"), PAGES)
def test_a_page_shows_its_content_is_accessible_and_fits(page: Page, path: str, text: str) -> None:
    page.goto(f"#/main/{path}")
    page.locator("main").get_by_text(text).first.wait_for()
    page.locator("main .loading:visible").first.wait_for(state="detached")
    assert problems(page, RULES) == []
    page.get_by_label("Use dark colours").click()
    page.set_viewport_size({"width": 390, "height": 800})
    assert too_wide(page) == []
    assert problems(page, NARROW_AND_DARK) == []


@walks("GET /traffic")
def test_the_overview_shows_traffic_and_findings(page: Page) -> None:
    page.goto("#/main/overview")
    page.get_by_role("region", name="Traffic").get_by_text("Records in, per second").wait_for()
    checkup = page.get_by_role("region", name="Check-up")
    checkup.get_by_text("Evidence and command").first.click()
    checkup.get_by_text("The same on the command line:").first.wait_for()


@walks("button Check again", "button Copy")
def test_the_check_up_runs_again_and_its_command_is_copied(page: Page) -> None:
    page.goto("#/main/overview")
    checkup = page.get_by_role("region", name="Check-up")
    with page.expect_response(lambda answer: "fresh=1" in answer.url):
        checkup.get_by_role("button", name="Check again").click()
    checkup.get_by_text("Evidence and command").first.click()
    checkup.get_by_role("button", name="Copy").first.click()
    page.get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("kcli ")


def test_scripts_in_names_are_only_texts(page: Page) -> None:
    for path in ("groups", "security", "security/users", "quotas", "messages/hostile?start=earliest"):
        page.goto(f"#/main/{path}")
        page.get_by_text(SCRIPT).first.wait_for()
        assert page.locator("img[src=x]").count() == 0


def test_names_in_the_address_are_only_texts(page: Page) -> None:
    for path in ("topics/", "messages/", "groups/", "brokers/", "trace/", "transactions/id/", ""):
        page.goto("#/main/spark")
        page.get_by_role("heading", name="Spark jobs").wait_for()
        page.goto(f"#/main/{path}%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
        page.get_by_role("heading", name="Spark jobs").wait_for(state="detached")
        page.locator("main h1").first.wait_for()
        assert page.locator("img[src=x]").count() == 0


@pytest.fixture
def own_site(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as started:
        started.topic("t")
        started.send("t", *(record(n) for n in range(3)))
        yield started


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


SHOWN_MAX_MS = 40_000
"""The longest time after which a killed broker must be on the pages: its session, two reads of the page, and the time
of a busy machine."""


@walks("GET /contact")
def test_a_killed_broker_is_shown_without_a_touch(page: Page, kafka: Site, tmp_path: Path) -> None:
    overrides = {"broker.session.timeout.ms": "2000"}
    with ClusterProcesses(tmp_path, nodes=3, overrides=overrides) as cluster:
        page.goto(f"{kafka.console_of(cluster.bootstrap)}#/main/overview")
        brokers = page.locator(".tile").filter(has=page.get_by_text("Brokers", exact=True))
        brokers.get_by_role("link", name="3").wait_for()
        victim = max(
            set(cluster.nodes) - {int(brokers.inner_text().split()[-1])}
        )  # not the active controller
        cluster.nodes[victim].kill()
        brokers.get_by_text(f"no heartbeats from {victim}").wait_for(timeout=SHOWN_MAX_MS)
        brokers.get_by_role("link", name="2").click()
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=str(victim), exact=True))
        row.get_by_text("fenced").wait_for()
        row.get_by_role("link").click()
        page.get_by_role("alert").filter(has_text="The broker is fenced").wait_for()
        page.get_by_role("link", name="ACLs, users").click()
        page.get_by_role("heading", name="This cluster has no authorizer").wait_for()
        assert page.get_by_role("button", name="Add ACLs").is_hidden()
        page.get_by_role("link", name="Overview").click()
        page.get_by_text("every partition").or_(page.get_by_text("Show the topics")).wait_for()
        for node in set(cluster.nodes) - {victim}:
            cluster.nodes[node].kill()
        page.get_by_role("alert").filter(has_text="No answer from the cluster").wait_for()
        tile = page.locator(".tile").filter(has=page.get_by_text("State", exact=True))
        tile.get_by_text("No answer").wait_for()
        page.locator(".age").get_by_text("old: ").first.wait_for()
        assert problems(page, RULES) == []
        grey = tile.locator("dd").evaluate("element => getComputedStyle(element).color")
        assert grey == page.locator(".tile dt").first.evaluate("element => getComputedStyle(element).color")
