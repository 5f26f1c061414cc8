"""A broker with several log directories: it says where its replicas lie, and lives on when one of them breaks."""

from __future__ import annotations

import asyncio

from until import PATIENCE_S, until

from kcli.config.start_up import node_config
from kcli.controller.api import CREATE_TOPICS, DELETE_TOPICS
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.node import Node


def with_broker(tmp_path, story):
    async def main():
        node = Node(
            node_config(
                {
                    "process.roles": "broker,controller",
                    "node.id": "1",
                    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                    "controller.listener.names": "CONTROLLER",
                    "controller.quorum.bootstrap.servers": "127.0.0.1:1",
                    "log.dirs": f"{tmp_path}/a,{tmp_path}/b",
                    "log.index.size.max.bytes": "65536",
                    "broker.heartbeat.interval.ms": "20",
                }
            ),
            clock=SystemClock(),
            disk=SystemDisk(),
            network=SystemNetwork(),
            rng=SystemRng(),
        )
        await node.start()
        try:
            await asyncio.wait_for(story(node), PATIENCE_S)
        finally:
            await node.stop()

    asyncio.run(main())


async def create(node, name, partitions):
    topic = ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    await node.controller.send(CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,)))


def told(node, name):
    """What the metadata says of each partition's directory."""
    partitions = node.metadata.topics.topic(name).partitions
    return {number: partition.directory(1) for number, partition in partitions.items()}


def real(node, name):
    """Where each partition's log is."""
    return {number: node.logs.get(name, number).directory.id for number in told(node, name)}


def test_the_metadata_names_the_directory_of_each_log(tmp_path):
    async def story(node):
        await create(node, "t", 4)
        await until(lambda: told(node, "t") == real(node, "t"))
        assert set(told(node, "t").values()) == {each.id for each in node.logs.directories}

    with_broker(tmp_path, story)


def test_a_topic_deleted_before_it_was_told_of_is_forgotten(tmp_path):
    async def story(node):
        request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name="t"),))
        await asyncio.gather(create(node, "t", 3), node.controller.send(DELETE_TOPICS, request))
        await until(lambda: not node.broker.assignments._pending)
        await create(node, "u", 2)
        await until(lambda: told(node, "u") == real(node, "u"))

    with_broker(tmp_path, story)


def test_what_was_not_told_is_told_at_the_next_start(tmp_path):
    places = {}

    async def silent(node):
        node.broker.assignments.apply = lambda _delta: None
        await create(node, "t", 3)
        places.update(real(node, "t"))
        assert not set(told(node, "t").values()) & set(places.values())

    async def talking(node):
        await until(lambda: told(node, "t") == places)

    with_broker(tmp_path, silent)
    with_broker(tmp_path, talking)


def test_a_broken_directory_costs_its_partitions_their_leader_and_no_others(tmp_path):
    async def story(node):
        await create(node, "t", 4)
        await until(lambda: told(node, "t") == real(node, "t"))
        good, bad = node.logs.directories
        places = real(node, "t")
        bad.failed(OSError("the disk is gone"))
        await until(lambda: bad.id not in node.metadata.brokers[1].directories)
        partitions = node.metadata.topics.topic("t").partitions
        for number, partition in partitions.items():
            assert partition.leader == (1 if places[number] == good.id else -1)
        assert not node.metadata.brokers[1].fenced

    with_broker(tmp_path, story)
