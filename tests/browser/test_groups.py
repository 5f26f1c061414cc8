"""The pages of consumer groups in a real browser."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from kcli.client.admin.groups import CommittedOffset
from kcli.model.topic_partition import TopicPartition
from rigs.console_axe import judge
from rigs.console_dialogs import act
from rigs.console_site import SCRIPT, Site
from rigs.console_topics import record
from rigs.console_walk import walks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page


def commit(kafka: Site, group: str, topic: str, *offsets: int) -> None:
    commits = {
        TopicPartition(topic, number): CommittedOffset(offset=offset) for number, offset in enumerate(offsets)
    }
    errors = kafka.run(kafka.client.alter_group_offsets(group, commits))
    assert not any(errors.values())


def committed(kafka: Site, group: str) -> dict[int, int]:
    offsets = kafka.run(kafka.client.list_group_offsets(group))
    return {partition.partition: offset.offset for partition, offset in offsets.items()}


@pytest.fixture
def group(kafka: Site) -> str:
    """A group of its own, which has read four of ten records of t-0, and nothing of t-1."""
    name = f"g-{uuid.uuid4().hex[:8]}"
    kafka.topic(f"of-{name}", 2)
    kafka.send(f"of-{name}", *(record(n) for n in range(10)))
    commit(kafka, name, f"of-{name}", 4, 0)
    return name


@walks("GET /groups/*/partitions", "page groups/*/members")
def test_the_list_leads_to_a_group_with_its_lag(page: Page, group: str) -> None:
    page.goto("#/main/groups")
    page.get_by_role("searchbox").fill(group)
    # The console keeps the list of groups for some seconds.
    page.get_by_role("button", name="Refresh").click()
    row = page.get_by_role("row").filter(has_text=group)
    row.get_by_role("cell", name="6", exact=True).wait_for()
    row.get_by_role("link").click()
    page.get_by_role("heading", name=f"Group {group}").wait_for()
    page.get_by_role("row").filter(has_text=f"of-{group}-0").get_by_text("6", exact=True).wait_for()
    page.get_by_role("link", name="Members").click()
    page.get_by_text("The group has no members.").wait_for()


@pytest.fixture
def member(kafka: Site, group: str) -> Iterator[str]:
    """The name of a consumer in the group, which has both partitions."""
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": f"127.0.0.1:{kafka.port}", "group.id": group, "client.id": "reader"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([f"of-{group}"])
    while len(consumer.assignment()) < 2:
        consumer.poll(0.1)
    yield "reader"
    consumer.close()


@walks("GET /groups/*/members", "GET /groups/*/history")
def test_a_group_shows_its_members_and_draws_its_lag(page: Page, group: str, member: str) -> None:
    page.goto(f"#/main/groups/{group}")
    row = page.get_by_role("row").filter(has_text=f"of-{group}-0")
    row.get_by_text("6", exact=True).wait_for()
    row.get_by_role("cell", name=member, exact=True).wait_for()
    page.get_by_role("link", name="Members").click()
    row = page.get_by_role("row").filter(has_text=member)
    row.get_by_role("cell", name="2", exact=True).wait_for()
    row.get_by_role("cell", name="127.0.0.1").wait_for()
    graph = page.get_by_role("region", name="Lag in records").get_by_role("img")
    graph.wait_for()
    assert "Latest values: lag: 6" in str(graph.get_attribute("aria-label"))
    assert graph.locator("path.line").get_attribute("d").count("L") >= 1


@walks("POST /groups/*/reset", "button Reset offsets", "dialog Reset the offsets of *")
def test_offsets_are_reset_after_a_preview_and_an_edit(page: Page, kafka: Site, group: str) -> None:
    page.goto(f"#/main/groups/{group}")
    page.get_by_role("button", name="Reset offsets").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("New position").select_option("latest")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_text("--all-topics --to-latest --execute").wait_for()
    assert committed(kafka, group) == {0: 4, 1: 0}
    offset = dialog.get_by_label(f"New offset of of-{group}-0")
    assert offset.input_value() == "10"
    offset.fill("7")
    offset.press("Tab")
    dialog.get_by_text("--from-file offsets.csv").wait_for()
    judge(page)
    dialog.get_by_role("button", name="Reset", exact=True).click()
    dialog.wait_for(state="detached")
    assert committed(kafka, group) == {0: 7, 1: 0}


@walks("POST /groups/*/delete", "dialog Delete the group *")
def test_a_group_is_deleted_after_its_name_was_typed(page: Page, kafka: Site, group: str) -> None:
    page.goto(f"#/main/groups/{group}")
    page.get_by_role("button", name="Delete", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text(f"--delete --group {group}").wait_for()
    judge(page)
    act = dialog.get_by_role("button", name="Delete", exact=True)
    assert act.is_disabled()
    dialog.get_by_label(f"Type {group} to confirm").fill(group)
    act.click()
    page.get_by_role("heading", name="Groups").wait_for()
    assert group not in {listing.group_id for listing in kafka.run(kafka.client.list_groups())}


@walks("POST /groups/*/delete-offsets", "button Delete offsets", "dialog Delete offsets of *")
def test_the_offsets_of_a_topic_are_deleted(page: Page, kafka: Site, group: str) -> None:
    page.goto(f"#/main/groups/{group}")
    page.get_by_role("button", name="Delete offsets").click()
    assert page.get_by_role("dialog").get_by_label("Topic").input_value() == f"of-{group}"
    assert f"--delete-offsets --group {group} --topic of-{group}" in act(page, "Delete offsets")
    page.get_by_text("The group has no offsets and no partitions.").wait_for()
    assert committed(kafka, group) == {}


def test_groups_are_chosen_by_their_state(page: Page, group: str) -> None:
    page.goto("#/main/groups")
    page.get_by_label("State", exact=True).select_option("Stable")
    page.get_by_text("The cluster has no groups.").wait_for()
    page.get_by_label("State", exact=True).select_option("Empty")
    page.get_by_role("button", name="Refresh").click()
    page.get_by_role("link", name=group).wait_for()


def test_a_group_whose_name_is_a_script_is_text(page: Page, kafka: Site) -> None:
    commit(kafka, SCRIPT, "orders", 1)
    page.goto("#/main/groups")
    page.get_by_role("link", name=SCRIPT).click()
    page.get_by_role("heading", name=f"Group {SCRIPT}").wait_for()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_text("--delete --group").wait_for()
