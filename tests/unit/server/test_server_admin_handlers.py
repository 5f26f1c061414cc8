"""Topics, configs and metadata by the wire: a whole broker in process, its handlers called as dispatch calls them."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from dataclasses import replace

import pytest
from until import PATIENCE_S

from kcli.config.start_up import node_config
from kcli.errors import (
    BrokerIdNotRegisteredException,
    ErrorCode,
    InvalidRequestException,
    MismatchedEndpointTypeException,
    PolicyViolationException,
    UnsupportedEndpointTypeException,
    UnsupportedVersionException,
)
from kcli.metadata.image import BrokerRegistration, Endpoint, PartitionImage, TopicImage, Topics
from kcli.protocol.messages import alter_configs as ac
from kcli.protocol.messages import create_partitions as cp
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.messages import describe_cluster as dcl
from kcli.protocol.messages import describe_configs as dc
from kcli.protocol.messages import describe_quorum as dq
from kcli.protocol.messages import describe_topic_partitions as dtp
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.protocol.messages import list_config_resources as lcr
from kcli.protocol.messages import metadata as md
from kcli.protocol.messages import unregister_broker as ub
from kcli.protocol.messages import update_features as uf
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import decode_response, encode_response
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.handlers import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_quorum,
    describe_topic_partitions,
    incremental_alter_configs,
    list_config_resources,
    metadata,
    unregister_broker,
    update_features,
)
from kcli.server.node import Node
from kcli.server.requests.context import RequestContext

SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture
def run(tmp_path):
    """Runs a story with a broker; `overrides` are broker configs."""

    def run_story(story, **overrides):
        async def main():
            properties = {
                "process.roles": "broker,controller",
                "node.id": "1",
                "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": "127.0.0.1:1",
                "log.dirs": str(tmp_path / "data"),
                "log.index.size.max.bytes": "65536",
                "metadata.max.idle.interval.ms": "0",
            }
            node = Node(
                node_config({**properties, **overrides}),
                clock=SystemClock(),
                disk=SystemDisk(),
                network=SystemNetwork(),
                rng=SystemRng(3),
            )
            await node.start()
            try:
                await asyncio.wait_for(story(node), PATIENCE_S)
            finally:
                await node.stop()

        asyncio.run(main())

    return run_story


async def call(node, handler, request, key, version, *, listener="PLAINTEXT"):
    """The response as a client of this version would read it."""
    context = RequestContext(node.ports, key, version, 7, "test", listener, "127.0.0.1")
    answer = handler.handle(context, request)
    if inspect.isawaitable(answer):
        answer = await answer
    frame = encode_response(answer, key, version, 7)
    return decode_response(key, version, bytes(frame)[4:])[1]


async def create(node, name, partitions=1, **configs):
    topic = ct.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=tuple(ct.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
    request = ct.CreateTopicsRequest(topics=(topic,))
    (result,) = (await call(node, create_topics, request, ApiKey.CREATE_TOPICS, 7)).topics
    assert result.error_code is ErrorCode.NONE
    return result


# Topics.


def test_topics_live_from_creation_to_deletion(run):
    async def story(node):
        created = await create(node, "t", 2, **{"retention.ms": "9"})
        assert len(created.configs) == 33
        assert node.broker.replicas.get("t", 1).leader_epoch == 0
        request = cp.CreatePartitionsRequest(
            topics=(cp.CreatePartitionsTopic(name="t", count=3, assignments=None),)
        )
        response = await call(node, create_partitions, request, ApiKey.CREATE_PARTITIONS, 3)
        assert response.results[0].error_code is ErrorCode.NONE
        assert node.broker.replicas.get("t", 2)
        request = dt.DeleteTopicsRequest(topics=(dt.DeleteTopicState(name="t"),))
        response = await call(node, delete_topics, request, ApiKey.DELETE_TOPICS, 6)
        assert response.responses[0].topic_id == created.topic_id
        assert "t" not in node.metadata.topics

    run(story)


def test_every_version_creates(run):
    async def story(node):
        for version in range(2, 8):
            name = f"t{version}"
            topic = ct.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
            request = ct.CreateTopicsRequest(topics=(topic, replace(topic, name="")))
            response = await call(node, create_topics, request, ApiKey.CREATE_TOPICS, version)
            assert [(each.name, each.error_code.name) for each in response.topics] == [
                (name, "NONE"),
                ("", "INVALID_TOPIC_EXCEPTION"),
            ]
            assert response.topics[0].error_message is None
            assert response.topics[0].num_partitions == (2 if version >= 5 else -1)

    run(story)


def test_refused_as_a_whole_is_told_topic_by_topic(run):
    async def story(node):
        error = PolicyViolationException("too much")
        context = RequestContext(node.ports, ApiKey.CREATE_TOPICS, 7, 1, None, "PLAINTEXT", "h")
        request = ct.CreateTopicsRequest(topics=(ct.CreatableTopic(name="t"),))
        answer = create_topics.error_response(context, request, error)
        assert [(each.name, each.error_code, each.error_message) for each in answer.topics] == [
            ("t", ErrorCode.POLICY_VIOLATION, "too much")
        ]
        request = dt.DeleteTopicsRequest(topic_names=("t",))
        context = RequestContext(node.ports, ApiKey.DELETE_TOPICS, 5, 1, None, "PLAINTEXT", "h")
        assert delete_topics.error_response(context, request, error).responses[0].name == "t"
        request = cp.CreatePartitionsRequest(topics=(cp.CreatePartitionsTopic(name="t"),))
        assert create_partitions.error_response(context, request, error).results[0].name == "t"

    run(story)


# Configs.


async def describe(node, kind, name, *, keys=None, version=4, synonyms=True, documentation=False):
    request = dc.DescribeConfigsRequest(
        resources=(
            dc.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys),
        ),
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    (result,) = (await call(node, describe_configs, request, ApiKey.DESCRIBE_CONFIGS, version)).results
    return result


async def set_configs(node, kind, name, *operations):
    resource = ic.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            ic.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in operations
        ),
    )
    request = ic.IncrementalAlterConfigsRequest(resources=(resource,))
    answer = await call(node, incremental_alter_configs, request, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
    return answer.responses[0].error_code.name, answer.responses[0].error_message


def test_a_topics_configs_come_in_kafkas_order_with_their_origin(run):
    async def story(node):
        configs = {"max.message.bytes": "200000", "retention.ms": "3600000", "cleanup.policy": "compact"}
        await create(node, "gamma", 2, **configs)
        result = await describe(node, 2, "gamma", documentation=True)
        assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
        shown = [entry for entry in result.configs if entry.config_source != 5]
        # As `kafka-topics --describe` of Kafka 4.1 prints them.
        assert ",".join(f"{entry.name}={entry.value}" for entry in shown) == (
            "min.insync.replicas=1,cleanup.policy=compact,retention.ms=3600000,max.message.bytes=200000,"
            "segment.index.bytes=65536"
        )
        by_name = {entry.name: entry for entry in result.configs}
        index = by_name["segment.index.bytes"]
        assert [(each.name, each.value, each.source) for each in index.synonyms] == [
            ("log.index.size.max.bytes", "65536", 4),
            ("log.index.size.max.bytes", "10485760", 5),
        ]
        assert by_name["segment.ms"].synonyms == ()
        assert by_name["cleanup.policy"].documentation and by_name["cleanup.policy"].config_type == 7

    run(story)


def test_only_the_keys_asked_for(run):
    async def story(node):
        await create(node, "t")
        result = await describe(node, 2, "t", keys=("segment.ms", "nope"), synonyms=False)
        assert [(entry.name, entry.synonyms) for entry in result.configs] == [("segment.ms", ())]

    run(story)


def test_each_topic_of_a_request_is_told_its_own(run):
    async def story(node):
        await create(node, "a")
        await create(node, "b", **{"segment.ms": "5"})
        await create(node, "c")
        asked = [
            ("a", ("segment.ms",)),
            ("b", ("segment.ms",)),
            ("c", ("segment.ms",)),
            ("c", ("segment.bytes",)),
        ]
        request = dc.DescribeConfigsRequest(
            resources=tuple(
                dc.DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=keys)
                for name, keys in asked
            )
        )
        answer = await call(node, describe_configs, request, ApiKey.DESCRIBE_CONFIGS, 4)
        assert [
            (
                result.resource_name,
                [(entry.name, entry.value, entry.config_source) for entry in result.configs],
            )
            for result in answer.results
        ] == [
            ("a", [("segment.ms", "604800000", 5)]),
            ("b", [("segment.ms", "5", 1)]),
            ("c", [("segment.ms", "604800000", 5)]),
            ("c", [("segment.bytes", "1073741824", 5)]),
        ]

    run(story)


def test_configs_of_every_kind_of_resource(run):
    async def story(node):
        assert await set_configs(node, 4, "", ("log.retention.ms", SET, "77")) == ("NONE", None)
        assert await set_configs(node, 4, "1", ("log.cleaner.backoff.ms", SET, "400")) == ("NONE", None)
        assert await set_configs(node, 32, "g", ("share.auto.offset.reset", SET, "earliest")) == (
            "NONE",
            None,
        )
        assert await set_configs(node, 16, "m", ("interval.ms", SET, "500")) == ("NONE", None)
        defaults = await describe(node, 4, "")
        assert sorted((entry.name, entry.value) for entry in defaults.configs) == [
            ("log.retention.ms", "77"),
            ("min.insync.replicas", "1"),
        ]
        own = {entry.name: entry for entry in (await describe(node, 4, "1")).configs}
        assert (own["log.cleaner.backoff.ms"].value, own["log.cleaner.backoff.ms"].config_source) == (
            "400",
            2,
        )
        assert (own["log.retention.ms"].value, own["log.retention.ms"].config_source) == ("77", 3)
        assert own["node.id"].read_only and not own["log.cleaner.backoff.ms"].read_only
        group = {entry.name: entry for entry in (await describe(node, 32, "g")).configs}
        assert (group["share.auto.offset.reset"].value, group["share.auto.offset.reset"].config_source) == (
            "earliest",
            8,
        )
        metrics = {entry.name: entry for entry in (await describe(node, 16, "m")).configs}
        assert (metrics["interval.ms"].value, metrics["interval.ms"].config_source) == ("500", 7)
        assert node.dynamic_config.current.integer("log.cleaner.backoff.ms") == 400

    run(story)


def test_describing_what_is_not_there(run):
    async def story(node):
        unknown = await describe(node, 2, "nope")
        assert (unknown.error_code, unknown.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        for kind, name, code in (
            (2, "a/b", "INVALID_TOPIC_EXCEPTION"),
            (4, "9", "INVALID_REQUEST"),
            (4, "x", "INVALID_REQUEST"),
            (8, "", "INVALID_REQUEST"),
            (16, "", "INVALID_REQUEST"),
            (32, "", "INVALID_REQUEST"),
            (99, "", "INVALID_REQUEST"),
        ):
            assert (await describe(node, kind, name)).error_code.name == code

    run(story)


def test_changes_that_the_broker_itself_refuses(run):
    async def story(node):
        await create(node, "t")
        for kind, name, operations, message in (
            (4, "9", [("num.io.threads", SET, "9")], "Unexpected broker id, expected 1, but received 9"),
            (4, "x", [("num.io.threads", SET, "9")], "Node id must be an integer, but it is: x"),
            (4, "1", [("node.id", SET, "5")], "Cannot update these configs dynamically: Set(node.id)"),
            (
                4,
                "1",
                [("num.io.threads", SET, "0")],
                "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
            ),
            (2, "t", [("segment.ms", SET, None)], "Null value not supported for : segment.ms"),
            (
                2,
                "t",
                [("segment.ms", SET, "70000"), ("segment.ms", DELETE, None)],
                "Error due to duplicate config keys",
            ),
            (2, "t", [("segment.ms", 9, "70000")], "Unknown config operation 9 for segment.ms"),
            (99, "t", [("segment.ms", SET, "70000")], "Unknown resource type 99"),
        ):
            assert await set_configs(node, kind, name, *operations) == ("INVALID_REQUEST", message)
        code, message = await set_configs(node, 8, "1", ("kafka.server", SET, "DEBUG"))
        assert (code, message) == ("INVALID_CONFIG", "Logger kafka.server does not exist!")
        code, _ = await set_configs(node, 8, "2", ("root", SET, "DEBUG"))
        assert code == "INVALID_REQUEST"

    run(story)


def test_good_and_bad_resources_keep_their_places(run):
    async def story(node):
        await create(node, "t")
        config = ic.AlterableConfig(name="segment.ms", config_operation=SET, value="70000")
        names = [(2, "nope"), (4, "9"), (2, "t"), (2, "twice"), (2, "twice")]
        request = ic.IncrementalAlterConfigsRequest(
            resources=tuple(
                ic.AlterConfigsResource(resource_type=kind, resource_name=name, configs=(config,))
                for kind, name in names
            )
        )
        answer = await call(node, incremental_alter_configs, request, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1)
        assert [(each.resource_name, each.error_code.name) for each in answer.responses] == [
            ("nope", "UNKNOWN_TOPIC_OR_PARTITION"),
            ("9", "INVALID_REQUEST"),
            ("t", "NONE"),
            ("twice", "INVALID_REQUEST"),
            ("twice", "INVALID_REQUEST"),
        ]
        assert node.broker.replicas.get("t", 0).log.config.segment_ms == 70000

    run(story)


def test_the_old_way_replaces(run):
    async def story(node):
        for version in range(3):
            await replaces(node, version)

    async def replaces(node, version):
        await create(node, f"t{version}", 1, **{"segment.ms": "70000"})
        config = ac.AlterableConfig(name="retention.ms", value="5")
        request = ac.AlterConfigsRequest(
            resources=(
                ac.AlterConfigsResource(resource_type=2, resource_name=f"t{version}", configs=(config,)),
                ac.AlterConfigsResource(resource_type=8, resource_name="1", configs=()),
            )
        )
        answer = await call(node, alter_configs, request, ApiKey.ALTER_CONFIGS, version)
        assert [each.error_code.name for each in answer.responses] == ["NONE", "INVALID_REQUEST"]
        assert node.metadata.topic_config(f"t{version}") == {"retention.ms": "5"}

    run(story)


# Metadata.


async def ask(node, topics, version, *, create=False, listener="PLAINTEXT", operations=False):
    request = md.MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=create,
        include_topic_authorized_operations=operations,
        include_cluster_authorized_operations=operations,
    )
    return await call(node, metadata, request, ApiKey.METADATA, version, listener=listener)


def named(*names):
    return tuple(md.MetadataRequestTopic(name=name) for name in names)


def test_every_version_tells_of_topics_and_brokers(run):
    async def story(node):
        created = await create(node, "t", 2)
        for version in range(14):
            response = await ask(node, named("t", "nope"), version)
            (told,) = response.brokers
            assert (told.node_id, told.host) == (1, "127.0.0.1")
            assert told.port == node.sockets.listeners["PLAINTEXT"].port
            found, missing = response.topics
            assert (missing.name, missing.error_code.name) == ("nope", "UNKNOWN_TOPIC_OR_PARTITION")
            assert [(each.partition_index, each.leader_id, each.error_code) for each in found.partitions] == [
                (0, 1, ErrorCode.NONE),
                (1, 1, ErrorCode.NONE),
            ]
            assert found.topic_id == (created.topic_id if version >= 10 else None)
            assert response.cluster_id == (node.metadata.cluster_id if version >= 2 else None)
            assert response.controller_id == (1 if version >= 1 else -1)

    # Before version 4 a client cannot say that it wants no topic made.
    run(story, **{"auto.create.topics.enable": "false"})


def test_all_topics_and_none(run):
    async def story(node):
        await create(node, "b")
        await create(node, "a")
        assert [each.name for each in (await ask(node, None, 12)).topics] == ["a", "b"]
        assert (await ask(node, (), 12)).topics == ()
        assert len((await ask(node, (), 0)).topics) == 2

    run(story)


def test_topics_by_id(run):
    async def story(node):
        created = await create(node, "t")
        asked = tuple(
            md.MetadataRequestTopic(name=None, topic_id=each)
            for each in (created.topic_id, uuid.UUID(int=999))
        )
        found, missing = (await ask(node, asked, 12)).topics
        assert (found.name, found.error_code) == ("t", ErrorCode.NONE)
        assert (missing.name, missing.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
        with pytest.raises(InvalidRequestException):
            await ask(node, asked, 11)

    run(story)


@pytest.mark.parametrize(("version", "allowed"), [(3, False), (4, True), (13, True)])
def test_topics_are_made_on_the_way(run, version, allowed):
    """Before version 4 no client could say that it does not want that."""

    async def story(node):
        first = await ask(node, named("new", "bad/"), version, create=allowed)
        assert [each.error_code.name for each in first.topics] == [
            "UNKNOWN_TOPIC_OR_PARTITION",
            "INVALID_TOPIC_EXCEPTION",
        ]
        while "new" not in node.metadata.topics:  # noqa: ASYNC110  (made in the background)
            await asyncio.sleep(0.005)
        (again,) = (await ask(node, named("new"), version, create=allowed)).topics
        assert (again.error_code, len(again.partitions)) == (ErrorCode.NONE, 3)

    run(story, **{"num.partitions": "3"})


@pytest.mark.parametrize(("enabled", "allowed"), [("false", True), ("true", False)])
def test_topics_are_not_made_unless_both_sides_agree(run, enabled, allowed):
    async def story(node):
        await ask(node, named("new"), 12, create=allowed)
        await asyncio.sleep(0.05)
        assert len(node.metadata.topics) == 0

    run(story, **{"auto.create.topics.enable": enabled})


def test_internal_topics_are_made_with_their_own_settings(run):
    async def story(node):
        await ask(node, named("__consumer_offsets"), 12, create=True)
        while "__consumer_offsets" not in node.metadata.topics:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        (topic,) = (await ask(node, named("__consumer_offsets"), 12)).topics
        assert topic.is_internal and len(topic.partitions) == 7
        assert node.metadata.topic_config("__consumer_offsets")["cleanup.policy"] == "compact"

    run(story, **{"offsets.topic.num.partitions": "7", "offsets.topic.replication.factor": "1"})


def test_operations_are_told_when_asked_for(run):
    async def story(node):
        await create(node, "t")
        response = await ask(node, named("t"), 10, operations=True)
        assert response.topics[0].topic_authorized_operations == 0b110111111000
        assert response.cluster_authorized_operations == 0b1111110100000
        response = await ask(node, named("t"), 12)
        assert response.topics[0].topic_authorized_operations == -(1 << 31)

    run(story)


def _unreachable(image):
    """Partitions that a client here cannot use: no leader; a leader without this listener; a dead replica."""
    other = BrokerRegistration(
        2, 9, uuid.UUID(int=7), {"OTHER": Endpoint("OTHER", "h", 1, 0)}, {}, fenced=False
    )
    dead = replace(other, id=3, fenced=True, endpoints=image.brokers[1].endpoints)
    directories = (uuid.UUID(int=1),) * 2

    def partition(leader, replicas, isr):
        return PartitionImage(replicas, isr, leader, 5, 6, directories)

    topic = TopicImage(
        "x",
        uuid.UUID(int=1234),
        {0: partition(-1, (1, 3), ()), 1: partition(2, (2, 1), (2, 1)), 2: partition(1, (1, 3), (1, 3))},
    )
    return replace(
        image,
        brokers={**image.brokers, 2: other, 3: dead},
        topics=Topics({topic.topic_id: topic}, {"x": topic.topic_id}),
    )


def test_partitions_out_of_reach(run):
    async def story(node):
        node.loader.image = _unreachable(node.loader.image)
        for version in (0, 5, 6, 13):
            response = await ask(node, named("x"), version)
            assert [node.node_id for node in response.brokers] == [1]
            no_leader, elsewhere, degraded = response.topics[0].partitions
            assert (no_leader.error_code.name, no_leader.leader_id) == ("LEADER_NOT_AVAILABLE", -1)
            expected = "LISTENER_NOT_FOUND" if version >= 6 else "LEADER_NOT_AVAILABLE"
            assert (elsewhere.error_code.name, elsewhere.leader_id) == (expected, -1)
            if version == 0:
                assert (degraded.error_code.name, degraded.replica_nodes) == ("REPLICA_NOT_AVAILABLE", (1,))
            else:
                assert (degraded.error_code.name, degraded.replica_nodes) == ("NONE", (1, 3))
                assert degraded.offline_replicas == (3,)

    run(story)


# DescribeTopicPartitions.


async def page(node, *names, limit=2000, cursor=None):
    request = dtp.DescribeTopicPartitionsRequest(
        topics=tuple(dtp.TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=None if cursor is None else dtp.RequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return await call(node, describe_topic_partitions, request, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)


def test_pages_of_partitions_cover_everything_once(run):
    async def story(node):
        for name, partitions in (("b", 3), ("a", 2), ("c", 4)):
            await create(node, name, partitions)
        for limit in (1, 2, 3, 5, 9, 10):
            seen, cursor = [], None
            while True:
                answer = await page(node, limit=limit, cursor=cursor)
                got = [
                    (topic.name, each.partition_index) for topic in answer.topics for each in topic.partitions
                ]
                assert 0 < len(got) <= limit
                seen += got
                if answer.next_cursor is None:
                    break
                cursor = answer.next_cursor.topic_name, answer.next_cursor.partition_index
            assert seen == [
                (name, nth) for name, count in (("a", 2), ("b", 3), ("c", 4)) for nth in range(count)
            ]

    run(story)


def test_partitions_of_named_topics_with_their_elr(run):
    async def story(node):
        await create(node, "t")
        known, unknown, illegal = (await page(node, "t", "u", "zz/")).topics
        (partition,) = known.partitions
        assert (partition.leader_id, partition.isr_nodes) == (1, (1,))
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())
        assert unknown.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert illegal.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION

    run(story)


def test_cursors_that_point_nowhere(run):
    async def story(node):
        await create(node, "t")
        for cursor in (("t", -1), ("u", 0)):
            with pytest.raises(InvalidRequestException):
                await page(node, "t", cursor=cursor)

    run(story)


# DescribeCluster.


async def cluster(node, version, *, listener="PLAINTEXT", kind=1, fenced=False, operations=False):
    request = dcl.DescribeClusterRequest(
        endpoint_type=kind,
        include_fenced_brokers=fenced,
        include_cluster_authorized_operations=operations,
    )
    return await call(node, describe_cluster, request, ApiKey.DESCRIBE_CLUSTER, version, listener=listener)


def test_the_cluster_is_its_brokers(run):
    async def story(node):
        for version in range(3):
            response = await cluster(node, version, operations=True)
            assert (response.cluster_id, response.controller_id) == (node.metadata.cluster_id, 1)
            assert [(node.broker_id, node.host) for node in response.brokers] == [(1, "127.0.0.1")]
            assert response.cluster_authorized_operations == 0b1111110100000

    run(story)


def test_fenced_brokers_are_told_of_on_request(run):
    async def story(node):
        node.loader.image = _unreachable(node.loader.image)
        assert [node.broker_id for node in (await cluster(node, 2)).brokers] == [1]
        nodes = (await cluster(node, 2, fenced=True)).brokers
        assert [(node.broker_id, node.is_fenced) for node in nodes] == [(1, False), (3, True)]

    run(story)


def test_a_controller_listener_tells_of_controllers(run):
    async def story(node):
        response = await cluster(node, 1, listener="CONTROLLER", kind=2)
        (told,) = response.brokers
        assert (told.broker_id, told.port) == (1, node.sockets.listeners["CONTROLLER"].port)
        assert (response.endpoint_type, response.controller_id) == (2, 1)

    run(story)


def test_the_wrong_kind_of_endpoint(run):
    async def story(node):
        with pytest.raises(
            MismatchedEndpointTypeException,
            match="sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ):
            await cluster(node, 1, kind=2)
        with pytest.raises(UnsupportedEndpointTypeException):
            await cluster(node, 1, kind=7)
        with pytest.raises(InvalidRequestException):
            await cluster(node, 0, listener="CONTROLLER")

    run(story)


# The rest of the cluster.


def test_every_kind_of_config_resource_is_listed(run):
    async def story(node):
        await create(node, "t")
        await set_configs(node, 32, "g", ("share.auto.offset.reset", SET, "earliest"))
        await set_configs(node, 16, "m", ("interval.ms", SET, "500"))

        async def listed(version, *kinds):
            request = lcr.ListConfigResourcesRequest(resource_types=kinds)
            answer = await call(node, list_config_resources, request, ApiKey.LIST_CONFIG_RESOURCES, version)
            return [(each.resource_type, each.resource_name) for each in answer.config_resources]

        everything = [(32, "g"), (16, "m"), (8, "1"), (4, "1"), (2, "t")]
        assert await listed(1) == everything
        assert await listed(1, 2, 32) == [(32, "g"), (2, "t")]
        assert await listed(0) == [(16, "m")]
        with pytest.raises(UnsupportedVersionException):
            await listed(1, 99)

    run(story)


def test_the_quorum_is_described(run):
    async def story(node):
        def request(topic, *partitions):
            return dq.DescribeQuorumRequest(
                topics=(
                    dq.RequestTopicData(
                        topic_name=topic,
                        partitions=tuple(
                            dq.RequestPartitionData(partition_index=each) for each in partitions
                        ),
                    ),
                )
            )

        for version in range(3):
            answer = await call(
                node, describe_quorum, request("__cluster_metadata", 0), ApiKey.DESCRIBE_QUORUM, version
            )
            (partition,) = answer.topics[0].partitions
            assert (partition.leader_id, partition.leader_epoch) == (1, 1)
            (voter,) = partition.current_voters
            assert partition.high_watermark == voter.log_end_offset == node.controller.log.end_offset
            assert voter.replica_directory_id == (node.controller.log.directory_id if version == 2 else None)
        (told,) = answer.nodes
        assert (told.node_id, told.listeners[0].name) == (1, "CONTROLLER")
        answer = await call(node, describe_quorum, request("t", 0), ApiKey.DESCRIBE_QUORUM, 2)
        assert answer.topics[0].partitions[0].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        with pytest.raises(InvalidRequestException):
            await call(node, describe_quorum, request("__cluster_metadata", 0, 1), ApiKey.DESCRIBE_QUORUM, 2)

    run(story)


def test_features_are_updated_in_every_version(run):
    async def story(node):
        for version in range(3):
            update = uf.FeatureUpdateKey(feature="group.version", max_version_level=99)
            request = uf.UpdateFeaturesRequest(feature_updates=(update,))
            answer = await call(node, update_features, request, ApiKey.UPDATE_FEATURES, version)
            assert answer.error_code is ErrorCode.INVALID_UPDATE_VERSION
            update = uf.FeatureUpdateKey(feature="share.version", max_version_level=1)
            request = uf.UpdateFeaturesRequest(feature_updates=(update,))
            answer = await call(node, update_features, request, ApiKey.UPDATE_FEATURES, version)
            assert answer.error_code is ErrorCode.NONE
        assert node.metadata.features["share.version"] == 1
        assert node.ports.features().finalized["share.version"] == 1
        assert node.ports.features().finalized["kraft.version"] == 1, "which is no part of the image"

    run(story)


def test_a_broker_that_is_not_there_cannot_be_unregistered(run):
    async def story(node):
        request = ub.UnregisterBrokerRequest(broker_id=77)
        with pytest.raises(BrokerIdNotRegisteredException, match="Broker ID 77 is not currently registered"):
            await call(node, unregister_broker, request, ApiKey.UNREGISTER_BROKER, 0)

    run(story)
