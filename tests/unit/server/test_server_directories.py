"""A broker with several log directories: it says where its replicas lie, and lives on when one of them breaks."""

from __future__ import annotations

import asyncio

from until import PATIENCE_S, until

from kcli.config.start_up import node_config
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.broker import Broker
from kcli.server.requests.context import RequestContext


def with_broker(tmp_path, story):
    async def main():
        broker = Broker(
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
        await broker.start()
        try:
            await asyncio.wait_for(story(broker), PATIENCE_S)
        finally:
            await broker.stop()

    asyncio.run(main())


async def create(broker, name, partitions):
    topic = ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    await broker.quorum.create_topics(ct.CreateTopicsRequest(topics=(topic,)))


def told(broker, name):
    """What the metadata says of each partition's directory."""
    partitions = broker.metadata.topics.topic(name).partitions
    return {number: partition.directory(1) for number, partition in partitions.items()}


def real(broker, name):
    """Where each partition's log is."""
    return {number: broker.logs.get(name, number).directory.id for number in told(broker, name)}


def test_the_metadata_names_the_directory_of_each_log(tmp_path):
    async def story(broker):
        await create(broker, "t", 4)
        await until(lambda: told(broker, "t") == real(broker, "t"))
        assert set(told(broker, "t").values()) == {each.id for each in broker.logs.directories}

    with_broker(tmp_path, story)


def test_a_topic_deleted_before_it_was_told_of_is_forgotten(tmp_path):
    async def story(broker):
        request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name="t"),))
        context = RequestContext(broker, 20, 6, 1, None, "PLAINTEXT", "h")
        await asyncio.gather(create(broker, "t", 3), broker.quorum.delete_topics(request, context))
        await until(lambda: not broker.assignments._pending)
        await create(broker, "u", 2)
        await until(lambda: told(broker, "u") == real(broker, "u"))

    with_broker(tmp_path, story)


def test_what_was_not_told_is_told_at_the_next_start(tmp_path):
    places = {}

    async def silent(broker):
        broker.assignments.apply = lambda _delta: None
        await create(broker, "t", 3)
        places.update(real(broker, "t"))
        assert not set(told(broker, "t").values()) & set(places.values())

    async def talking(broker):
        await until(lambda: told(broker, "t") == places)

    with_broker(tmp_path, silent)
    with_broker(tmp_path, talking)


def test_a_broken_directory_costs_its_partitions_their_leader_and_no_others(tmp_path):
    async def story(broker):
        await create(broker, "t", 4)
        await until(lambda: told(broker, "t") == real(broker, "t"))
        good, bad = broker.logs.directories
        places = real(broker, "t")
        bad.failed(OSError("the disk is gone"))
        await until(lambda: bad.id not in broker.metadata.brokers[1].directories)
        partitions = broker.metadata.topics.topic("t").partitions
        for number, partition in partitions.items():
            assert partition.leader == (1 if places[number] == good.id else -1)
        assert not broker.metadata.brokers[1].fenced

    with_broker(tmp_path, story)
