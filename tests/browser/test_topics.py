"""Topics, their settings and the settings of brokers in a real browser: each action with its preview."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import pytest

from rigs.console_dialogs import act
from rigs.console_site import Site
from rigs.console_walk import walks
from rigs.large_cluster import LargeCluster, large_cluster

MIDDLE_ROW = """
() => {
  const box = document.querySelector(".table-scroll").getBoundingClientRect();
  const row = document.elementFromPoint(box.left + 20, (box.top + box.bottom) / 2).closest("tr");
  const isDrawn = row.matches("[aria-rowindex]:not(.waiting)");
  return isDrawn && [Number(row.getAttribute("aria-rowindex")) - 2, row.querySelector("a").textContent];
}
"""
"""The number of the row in the middle of a list, from 0, and its name, after the row was drawn."""

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


FRESH_CONFIGS = re.compile(r"/brokers/1/configs\?.*fresh=1")


@pytest.fixture
def topic(kafka: Site) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    kafka.topic(name, 2)
    return name


def row(page: Page, text: str) -> Locator:
    return page.locator("tbody tr:not(.spacer)").filter(has_text=text)


@walks(
    "POST /topics",
    "button New topic",
    "button Preview",
    "button Refresh",
    "button Close this message",
    "dialog New topic",
)
def test_a_topic_is_created_and_found(page: Page, kafka: Site) -> None:
    name = f"new-{uuid.uuid4().hex[:8]}"
    page.goto("#/main/topics")
    page.get_by_role("button", name="New topic").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("not a name")
    dialog.get_by_role("button", name="Preview").click()
    assert dialog.get_by_label("Name").evaluate("input => !input.validity.valid")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Partitions").fill("4")
    dialog.get_by_label("Replicas").fill("1")
    dialog.get_by_label("Settings").fill("retention.ms=3600000\ncleanup.policy=delete")
    command = act(page, "Create")
    assert f"--topic {name}" in command and "retention.ms=3600000" in command
    page.get_by_role("button", name="Close this message").click()
    page.get_by_role("searchbox").fill(name)
    page.get_by_role("status").filter(has_text="1 row").wait_for()
    page.get_by_role("button", name="Refresh").click()
    row(page, name).get_by_role("cell", name="4", exact=True).wait_for()


def test_the_list_is_filtered_and_sorted(page: Page) -> None:
    page.goto("#/main/topics")
    row(page, "orders").wait_for()
    page.get_by_label("Internal").check()
    row(page, "__consumer_offsets").wait_for()
    page.get_by_role("button", name="Partitions").click()
    assert page.get_by_role("columnheader", name="Partitions").get_attribute("aria-sort") == "descending"
    page.get_by_label("Only with problems").check()
    page.get_by_text("The cluster has no topics that you may see.").wait_for()
    # The address has the list, so it can be sent to others.
    page.reload()
    page.get_by_text("The cluster has no topics that you may see.").wait_for()
    page.get_by_label("Only with problems").uncheck()
    row(page, "__consumer_offsets").wait_for()


def test_5000_topics_are_scrolled_and_only_the_visible_rows_are_in_the_page(page: Page, kafka: Site) -> None:
    names = sorted(LargeCluster().names)
    with large_cluster(len(names), 1) as servers:
        page.goto(f"{kafka.console_of(servers)}#/main/topics")
        page.get_by_role("status").filter(has_text="5,000 rows").wait_for()
        scroll = page.locator(".table-scroll")
        for share in (0, 0.5, 1):
            scroll.evaluate("(each, share) => { each.scrollTop = share * each.scrollHeight; }", share)
            number, name = page.wait_for_function(MIDDLE_ROW).json_value()
            assert name == names[number]
            assert abs(number - share * len(names)) < 20
            assert page.locator("tbody tr[aria-rowindex]").count() < 100
        scroll.get_by_role("link", name=names[-1]).wait_for()


@walks("POST /topics/*/partitions", "button Add partitions", "dialog Add partitions to *")
def test_partitions_are_added(page: Page, topic: str) -> None:
    page.goto(f"#/main/topics/{topic}")
    page.get_by_role("button", name="Add partitions").click()
    page.get_by_label("Partitions after the change").fill("5")
    assert f"--topic {topic} --partitions 5" in act(page, "Add")
    page.get_by_role("status").filter(has_text="5 rows").wait_for()


@walks("POST /topics/*/delete", "button Delete", "dialog Delete a topic")
def test_a_topic_is_deleted_after_its_name_was_typed(page: Page, kafka: Site, topic: str) -> None:
    page.goto(f"#/main/topics/{topic}")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("textbox", name=f"Type {topic} to confirm").fill(topic)
    assert f"--delete --topic {topic}" in act(page, "Delete")
    page.get_by_role("heading", name="Topics").wait_for()
    assert topic not in {listing.name for listing in kafka.run(kafka.client.list_topics())}


@walks("POST /topics/*/configs", "button Edit *", "dialog Change a setting of *")
def test_a_setting_of_a_topic_is_changed_and_returned_to_its_default(page: Page, topic: str) -> None:
    page.goto(f"#/main/topics/{topic}/configs?search=segment.bytes")
    page.get_by_role("button", name="Edit segment.bytes").click()
    page.get_by_role("textbox", name="segment.bytes").fill("5")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("dialog").get_by_role("alert").filter(has_text="segment.bytes").wait_for()
    page.get_by_role("textbox", name="segment.bytes").fill("20000000")
    assert "segment.bytes=20000000" in act(page, "Change")
    row(page, "20000000").get_by_text("dynamic topic").wait_for()
    page.get_by_label("Only changed").check()
    page.get_by_role("button", name="Edit segment.bytes").click()
    page.get_by_label("Return to the default: 1073741824").check()
    assert "--delete-config segment.bytes" in act(page, "Change")
    page.get_by_text("Nothing matches the search.").wait_for()


@walks("POST /brokers/*/configs")
def test_a_setting_of_a_broker_is_changed(page: Page) -> None:
    with page.expect_response(lambda answer: "/brokers/1/configs?" in answer.url) as before:
        page.goto("#/main/brokers/1/configs?search=log.cleaner.threads")
    page.get_by_role("button", name="Edit log.cleaner.threads").click()
    page.get_by_role("textbox", name="log.cleaner.threads").fill("2")
    # The broker applies the change after the first answer, as in Kafka.
    page.route(FRESH_CONFIGS, lambda route: route.fulfill(json=before.value.json()), times=1)
    assert "--entity-type brokers" in act(page, "Change")
    row(page, "dynamic broker").wait_for()
    page.get_by_role("button", name="Edit log.cleaner.threads").click()
    page.get_by_label("Return to the default").check()
    act(page, "Change")
    row(page, "log.cleaner.threads").get_by_text("default").wait_for()
