"""Requests of clients to a broker whose controller is on another machine, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kcli.client.connection import Connection
from kcli.errors import ErrorCode, NetworkException
from kcli.model.addresses import Address
from kcli.model.configs import CLUSTER_DEFAULT, ConfigResource, ConfigResourceType
from kcli.protocol.messages import alter_client_quotas as aq
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import describe_quorum as dq
from kcli.protocol.messages import incremental_alter_configs as ia
from kcli.protocol.messages import init_producer_id as ip
from kcli.protocol.messages import list_partition_reassignments as lr
from kcli.protocol.messages import metadata as md
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey
from kcli.protocol.wire.packing import INT32
from kcli.server.node import Node
from kcli.server.quorum.remote_controller import FORWARDING_LIMIT_S
from simulation.actors.client import eventually
from simulation.runtime.loop import SimLoop, simulate
from simulation.world.cluster import BROKER_PORT, SimCluster

CONTROLLER, FIRST, SECOND = 1, 2, 3
TIMEOUT_S = 100.0

Story = Callable[[SimCluster, Connection], Awaitable[None]]


def on_cluster(story: Story, **overrides: str) -> None:
    """Runs `story(cluster, connection to the first broker)` on a controller and two brokers."""
    keys = {key.replace("_", "."): text for key, text in overrides.items()}

    async def main(_loop: SimLoop) -> None:
        roles = {CONTROLLER: "controller", FIRST: "broker", SECOND: "broker"}
        async with SimCluster(1, roles=roles, overrides=keys) as cluster:
            await cluster.start()
            await story(cluster, await connected(cluster, FIRST))

    simulate(1, main)


async def connected(cluster: SimCluster, broker: int) -> Connection:
    address = Address(cluster.nodes[broker].name, BROKER_PORT)
    return await Connection.open(cluster.network.host("client"), address, "app", TIMEOUT_S)


async def ask(connection: Connection, key: ApiKey, request: object, version: int | None = None) -> Any:
    chosen = connection.version_for(key) if version is None else version
    return await connection.request(request, key, version=chosen, timeout=TIMEOUT_S)


def running(cluster: SimCluster, node_id: int) -> Node:
    node = cluster.nodes[node_id].running
    assert node is not None
    return node


def new_topics(*names: str, replicas: int = 1) -> ct.CreateTopicsRequest:
    topics = tuple(
        ct.CreatableTopic(name=name, num_partitions=2, replication_factor=replicas) for name in names
    )
    return ct.CreateTopicsRequest(topics=topics, timeout_ms=10_000)


@pytest.mark.parametrize("version", range(API[ApiKey.CREATE_TOPICS].min_version, 8))
def test_a_topic_is_created_in_every_version(version: int) -> None:
    async def story(cluster: SimCluster, connection: Connection) -> None:
        created = await ask(connection, ApiKey.CREATE_TOPICS, new_topics("t"), version)
        assert [(each.name, each.error_code) for each in created.topics] == [("t", ErrorCode.NONE)]
        for node_id in (FIRST, SECOND):
            await eventually(
                lambda node_id=node_id: "t" in running(cluster, node_id).metadata.topics,  # type: ignore[misc]
                5,
                "the brokers know the topic",
            )
        refused = await ask(connection, ApiKey.CREATE_TOPICS, new_topics("u", replicas=3), version)
        assert refused.topics[0].error_code is ErrorCode.INVALID_REPLICATION_FACTOR

    on_cluster(story)


def test_requests_that_only_read_are_forwarded_too() -> None:
    async def story(cluster: SimCluster, connection: Connection) -> None:
        listed = await ask(
            connection, ApiKey.LIST_PARTITION_REASSIGNMENTS, lr.ListPartitionReassignmentsRequest()
        )
        assert listed.error_code is ErrorCode.NONE
        partition = dq.RequestPartitionData(partition_index=0)
        quorum = await ask(
            connection,
            ApiKey.DESCRIBE_QUORUM,
            dq.DescribeQuorumRequest(
                topics=(dq.RequestTopicData(topic_name="__cluster_metadata", partitions=(partition,)),)
            ),
        )
        (row,) = quorum.topics[0].partitions
        assert row.leader_id == CONTROLLER
        assert {each.replica_id for each in row.observers} == {FIRST, SECOND}

    on_cluster(story)


def test_without_a_controller_a_request_times_out_in_its_own_shape() -> None:
    async def story(cluster: SimCluster, connection: Connection) -> None:
        cluster.nodes[CONTROLLER].kill()
        began = cluster.loop.time()
        refused = await ask(connection, ApiKey.CREATE_TOPICS, new_topics("t", "u"))
        assert FORWARDING_LIMIT_S <= cluster.loop.time() - began < FORWARDING_LIMIT_S + 1
        assert [(each.name, each.error_code) for each in refused.topics] == [
            ("t", ErrorCode.REQUEST_TIMED_OUT),
            ("u", ErrorCode.REQUEST_TIMED_OUT),
        ]

    on_cluster(story)


def test_a_request_waits_for_a_controller_that_comes_back() -> None:
    async def story(cluster: SimCluster, connection: Connection) -> None:
        cluster.nodes[CONTROLLER].kill()
        asking = asyncio.ensure_future(ask(connection, ApiKey.CREATE_TOPICS, new_topics("t")))
        await asyncio.sleep(20)
        assert not asking.done()
        await cluster.nodes[CONTROLLER].start()
        assert (await asking).topics[0].error_code is ErrorCode.NONE

    on_cluster(story)


def test_the_largest_frame_of_a_client_is_forwarded_too() -> None:
    """An Envelope is larger than the frame in it."""
    limit_bytes = 2000

    def size_bytes(request: ct.CreateTopicsRequest) -> int:
        return len(codec.encode_request(request, ApiKey.CREATE_TOPICS, 4, 1, "app")) - INT32.size

    async def story(cluster: SimCluster, connection: Connection) -> None:
        long_name = "x" * (limit_bytes - size_bytes(new_topics("t", "")))
        request = new_topics("t", long_name)
        assert size_bytes(request) == limit_bytes
        answer = await ask(connection, ApiKey.CREATE_TOPICS, request, 4)
        assert [each.error_code for each in answer.topics] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ]

    on_cluster(story, socket_request_max_bytes=str(limit_bytes))


def test_a_malformed_request_closes_the_connection() -> None:
    async def story(cluster: SimCluster, connection: Connection) -> None:
        frame = codec.encode_request(new_topics("t"), ApiKey.CREATE_TOPICS, 5, 9, "app")
        cut = frame[4:-3]
        assert connection._transport is not None
        connection._transport.write(len(cut).to_bytes(4, "big") + cut)
        await eventually(lambda: connection.is_closed, 10, "the connection is closed")
        with pytest.raises(NetworkException):
            await ask(connection, ApiKey.CREATE_TOPICS, new_topics("t"))

    on_cluster(story)


def test_the_broker_mutes_a_client_that_the_controller_throttles() -> None:
    async def story(cluster: SimCluster, connection: Connection) -> None:
        entity = (aq.RequestEntityData(entity_type="client-id", entity_name="app"),)
        slow = (aq.OpData(key="controller_mutation_rate", value=0.2, remove=False),)
        await ask(
            connection,
            ApiKey.ALTER_CLIENT_QUOTAS,
            aq.AlterClientQuotasRequest(entries=(aq.RequestEntryData(entity=entity, ops=slow),)),
        )
        await ask(connection, ApiKey.CREATE_TOPICS, new_topics("a", "b"))
        throttled = await ask(connection, ApiKey.CREATE_TOPICS, new_topics("c"))
        assert throttled.throttle_time_ms > 0
        began = cluster.loop.time()
        await ask(connection, ApiKey.METADATA, md.MetadataRequest(topics=()))
        waited_s = cluster.loop.time() - began
        assert throttled.throttle_time_ms / 1000 - 1 < waited_s < throttled.throttle_time_ms / 1000 + 1

    on_cluster(story)


def resource(kind: ConfigResourceType, name: str, key: str, value: str) -> ia.AlterConfigsResource:
    configs = (ia.AlterableConfig(name=key, config_operation=0, value=value),)
    return ia.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def test_a_broker_checks_its_own_configs_and_sends_on_the_others() -> None:
    async def story(cluster: SimCluster, connection: Connection) -> None:
        await ask(connection, ApiKey.CREATE_TOPICS, new_topics("t"))
        broker, topic = ConfigResourceType.BROKER, ConfigResourceType.TOPIC
        request = ia.IncrementalAlterConfigsRequest(
            resources=(
                resource(topic, "t", "retention.ms", "5"),
                resource(broker, str(FIRST), "log.cleaner.threads", "2"),
                resource(broker, str(SECOND), "log.cleaner.threads", "2"),
                resource(broker, "", "message.max.bytes", "4242"),
                resource(ConfigResourceType.BROKER_LOGGER, str(FIRST), "kcli.server.KafkaApis", "WARN"),
            )
        )
        answer = await ask(connection, ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
        codes = [each.error_code for each in answer.responses]
        assert codes == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.NONE,
            ErrorCode.NONE,
        ]
        image = running(cluster, CONTROLLER).metadata
        assert image.topic_config("t") == {"retention.ms": "5"}
        assert image.config(ConfigResource(broker, str(FIRST))) == {"log.cleaner.threads": "2"}
        assert image.config(CLUSTER_DEFAULT)["message.max.bytes"] == "4242"
        await eventually(
            lambda: running(cluster, SECOND).dynamic_config.current.integer("message.max.bytes") == 4242,
            5,
            "the other broker takes the new value",
        )

    on_cluster(story)


def test_missing_topics_are_created_and_producer_ids_are_unique() -> None:
    async def story(cluster: SimCluster, connection: Connection) -> None:
        asked = md.MetadataRequest(
            topics=(md.MetadataRequestTopic(name="made"),), allow_auto_topic_creation=True
        )
        await ask(connection, ApiKey.METADATA, asked)
        await eventually(lambda: "made" in running(cluster, FIRST).metadata.topics, 5, "the topic is created")
        ids = set()
        for broker in (FIRST, SECOND, FIRST):
            other = await connected(cluster, broker)
            given = await ask(other, ApiKey.INIT_PRODUCER_ID, ip.InitProducerIdRequest(transactional_id=None))
            assert given.error_code is ErrorCode.NONE
            ids.add(given.producer_id)
        assert len(ids) == 3

    on_cluster(story)


def test_a_broker_lists_only_the_versions_that_its_controller_supports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(cluster: SimCluster, connection: Connection) -> None:
        await ask(connection, ApiKey.CREATE_TOPICS, new_topics("t"))
        broker = running(cluster, FIRST).broker
        assert broker is not None
        known = dict(broker.channel.remote.versions)
        assert known[ApiKey.ENVELOPE] == (0, 0)
        known[ApiKey.CREATE_TOPICS] = (2, 5)
        del known[ApiKey.ELECT_LEADERS]
        monkeypatch.setattr(broker.channel.remote, "versions", known)
        listed = (await connected(cluster, FIRST)).versions
        assert listed[ApiKey.CREATE_TOPICS] == (2, 5)
        assert ApiKey.ELECT_LEADERS not in listed
        assert listed[ApiKey.FETCH] == (4, 18), "the broker serves Fetch itself"

    on_cluster(story)


def test_a_clean_stop_is_a_controlled_shutdown_and_a_restart_proves_it() -> None:
    async def story(cluster: SimCluster, connection: Connection) -> None:
        await ask(connection, ApiKey.CREATE_TOPICS, new_topics("t"))
        epoch = running(cluster, CONTROLLER).metadata.brokers[SECOND].epoch
        await cluster.nodes[SECOND].stop()
        image = running(cluster, CONTROLLER).metadata
        assert image.brokers[SECOND].fenced
        topic = image.topics.topic("t")
        assert topic is not None
        assert {each.leader for each in topic.partitions.values()} == {FIRST, -1}
        await cluster.nodes[SECOND].start()
        assert running(cluster, SECOND).logs.previous_broker_epoch == epoch
        again = running(cluster, CONTROLLER).metadata.topics.topic("t")
        assert again is not None
        assert {each.leader for each in again.partitions.values()} == {FIRST, SECOND}

    on_cluster(story)
