"""A broker with several log directories: it says where its replicas lie, and lives on when one of them breaks."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kcli.controller.api import DELETE_TOPICS
from kcli.protocol.messages import delete_topics as dt
from rigs.directories import create, real, registered, with_two_directories
from rigs.loops import until
from rigs.node import RunningNode


def test_the_metadata_names_the_directory_of_each_log(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        await create(node, "t", 4)
        await until(lambda: registered(node, "t") == real(node, "t"))
        assert set(registered(node, "t").values()) == {each.id for each in node.logs.directories}

    with_two_directories(tmp_path, story)


def test_a_topic_deleted_before_its_registration_is_forgotten(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name="t"),), timeout_ms=5000)
        await asyncio.gather(create(node, "t", 3), node.controller.send(DELETE_TOPICS, request))
        await until(lambda: not node.broker.assignments._pending)
        await create(node, "u", 2)
        await until(lambda: registered(node, "u") == real(node, "u"))

    with_two_directories(tmp_path, story)


def test_missing_registrations_are_sent_at_the_next_start(tmp_path: Path) -> None:
    places = {}

    async def silent(node: RunningNode) -> None:
        node.broker.assignments.apply = lambda delta: None
        await create(node, "t", 3)
        places.update(real(node, "t"))
        assert not set(registered(node, "t").values()) & set(places.values())

    async def talking(node: RunningNode) -> None:
        await until(lambda: registered(node, "t") == places)

    with_two_directories(tmp_path, silent)
    with_two_directories(tmp_path, talking)


def test_a_broken_directory_costs_its_partitions_their_leader_and_no_others(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        await create(node, "t", 4)
        await until(lambda: registered(node, "t") == real(node, "t"))
        good, bad = node.logs.directories
        places = real(node, "t")
        bad.failed(OSError("the disk is gone"))
        await until(lambda: bad.id not in node.metadata.brokers[1].directories)
        partitions = node.metadata.topics.topic("t").partitions
        for number, partition in partitions.items():
            assert partition.leader == (1 if places[number] == good.id else -1)
        assert not node.metadata.brokers[1].fenced

    with_two_directories(tmp_path, story)
