"""Reassignment and balance in a real browser: a run with its progress, and moves that are throttled and cancelled."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

from kcli.client.admin.configs import AlterConfig
from kcli.client.admin.topics import NewTopic
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigResourceType
from kcli.model.topic_partition import TopicPartition
from rigs.console_axe import judge
from rigs.console_dialogs import act
from rigs.console_site import Site
from rigs.console_topics import record
from rigs.console_walk import walks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

PARTITIONS = 2
BROKER = ConfigResource(ConfigResourceType.BROKER, "2")
RECORDS, RECORD_BYTES = 24, 1_000_000


@pytest.fixture
def topic(kafka: Site) -> Iterator[str]:
    """A topic whose partitions are all on broker 1."""
    name = f"uneven-{uuid.uuid4().hex[:8]}"
    new = NewTopic(name=name, assignments=dict.fromkeys(range(PARTITIONS), (1,)))
    assert not isinstance(kafka.run(kafka.client.create_topics([new]))[name], Exception)
    large = [record(n, value=os.urandom(RECORD_BYTES)) for n in range(RECORDS // 2)]
    for partition in range(PARTITIONS):
        for _ in range(2):  # a batch has a largest size
            kafka.send(name, *large, partition=partition)
    yield name
    kafka.run(kafka.client.delete_topics([name]))


@walks(
    "POST /balance",
    "POST /balance/stop",
    "button Balance",
    "button Stop",
    "button Undo file",
    "dialog Balance the brokers",
    "dialog Stop the run",
    "dialog The way back",
)
def test_a_run_shows_its_plan_and_its_progress_until_it_is_stopped(page: Page, topic: str) -> None:
    page.goto("#/main/balance")
    page.get_by_role("button", name="Balance", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Brokers to empty").fill("9")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_role("alert").filter(has_text="Broker 9 does not run and has no replicas").wait_for()
    dialog.get_by_label("Brokers to empty").fill("")
    dialog.get_by_label("Topics").fill(topic)
    dialog.get_by_label("Throttle in MB per second and broker").fill("1")
    dialog.get_by_role("button", name="Preview").click()
    dialog.get_by_text("Would move 1 replica (24.0 MB) of 1 partition").wait_for()
    dialog.get_by_text("2 → 1").first.wait_for()
    dialog.get_by_text("The first 1 move").click()
    dialog.get_by_role("cell", name="1 → 2").first.wait_for()
    assert f"--balance --topics {topic} --throttle 1000000" in act(page, "Move")
    page.get_by_role("row").filter(has_text=topic).first.wait_for()
    page.get_by_role("region", name="A run is in progress").get_by_role("button", name="Stop").click()
    assert "--delete-config leader.replication.throttled.rate" in act(page, "Stop").replace(
        "follower.replication.throttled.rate,", ""
    )
    run = page.get_by_role("region", name="The last run")
    run.get_by_text("The run was stopped.").wait_for()
    run.get_by_role("button", name="Undo file").click()
    dialog.get_by_text(f'"topic":"{topic}"').wait_for()
    judge(page)
    dialog.get_by_role("button", name="Close").click()
    page.get_by_text("No partition moves.").wait_for()


@walks("POST /leaders/elect", "button Elect preferred leaders", "dialog Elect preferred leaders")
def test_preferred_leaders_are_elected_after_a_preview(page: Page, kafka: Site) -> None:
    name = f"swapped-{uuid.uuid4().hex[:8]}"
    new = NewTopic(name=name, assignments={0: (1, 2)})
    assert not isinstance(kafka.run(kafka.client.create_topics([new]))[name], Exception)
    swapped = {TopicPartition(name, 0): (2, 1)}  # the leader stays, but is not the first replica
    assert not any(kafka.run(kafka.client.alter_reassignments(swapped)).values())
    page.goto("#/main/balance")
    page.get_by_role("button", name="Elect preferred leaders").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("row").filter(has_text=f"{name}-0").get_by_role("cell", name="1 → 2").wait_for()
    assert "--election-type preferred --all-topic-partitions" in act(page, "Elect")
    assert kafka.run(kafka.client.describe_topics([name]))[name].partitions[0].leader == 2
    page.get_by_role("button", name="Elect preferred leaders").click()
    dialog.get_by_text("No leader changes.").wait_for()


@pytest.fixture
def moving(kafka: Site, topic: str) -> Iterator[str]:
    """A topic that moves to broker 2, one byte per second."""
    changes = {
        BROKER: [AlterConfig(name="follower.replication.throttled.rate", value="1")],
        ConfigResource(ConfigResourceType.TOPIC, topic): [
            AlterConfig(name="follower.replication.throttled.replicas", value="*")
        ],
    }
    assert not any(kafka.run(kafka.client.incremental_alter_configs(changes)).values())
    targets = {TopicPartition(topic, number): (2,) for number in range(PARTITIONS)}
    assert not any(kafka.run(kafka.client.alter_reassignments(targets)).values())
    yield topic
    ended = {
        BROKER: [
            AlterConfig(name="follower.replication.throttled.rate", value=None, op=ConfigOperation.DELETE)
        ]
    }
    assert not any(kafka.run(kafka.client.incremental_alter_configs(ended)).values())


@walks(
    "POST /reassignments/throttle",
    "POST /reassignments/cancel",
    "button Cancel",
    "button Cancel all moves",
    "button Throttle",
    "dialog Cancel the move of *",
    "dialog Cancel all moves",
    "dialog Throttle the moves in progress",
)
def test_moves_are_throttled_and_cancelled(page: Page, moving: str) -> None:
    page.goto("#/main/balance")
    moves = page.locator("tbody tr:not(.spacer)")
    moves.filter(has_text=f"{moving}-1").get_by_text("of 22.9 MiB").wait_for()
    moves.filter(has_text=f"{moving}-1").get_by_role("button", name="Cancel").click()
    assert "--cancel --reassignment-json-file moves.json" in act(page, "Cancel moves")
    moves.filter(has_text=f"{moving}-1").wait_for(state="detached")
    page.get_by_role("button", name="Cancel all moves").click()
    page.get_by_role("dialog").get_by_text("1 move would be cancelled.").wait_for()
    judge(page)
    page.get_by_role("dialog").get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Throttle").click()
    page.get_by_label("MB per second and broker").fill("0")
    assert "--delete-config" in act(page, "Set")
    page.get_by_text("No partition moves.").wait_for()
    page.get_by_role("button", name="Cancel all moves").click()
    page.get_by_role("dialog").get_by_role("alert").filter(has_text="no partition moves").wait_for()
