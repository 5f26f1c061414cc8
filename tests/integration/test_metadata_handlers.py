"""Metadata and DescribeTopicPartitions by the wire: what a node answers about topics, brokers and partitions."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ErrorCode, InvalidRequestException
from kcli.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.wire.api import ApiKey
from kcli.server.handlers import describe_topic_partitions, metadata
from rigs.handlers import call, create
from rigs.images import unreachable
from rigs.loops import on_a_loop
from rigs.node import RunningNode, running


async def ask(
    node: RunningNode,
    topics: tuple[MetadataRequestTopic, ...] | None,
    version: int,
    *,
    create: bool = False,
    operations: bool = False,
) -> Any:
    """The metadata of these topics; None stands for all topics from version 1 on."""
    request = MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=create,
        include_topic_authorized_operations=operations,
        include_cluster_authorized_operations=operations,
    )
    return await call(node, metadata, request, ApiKey.METADATA, version)


def named(*names: str) -> tuple[MetadataRequestTopic, ...]:
    return tuple(MetadataRequestTopic(name=name) for name in names)


async def page(
    node: RunningNode, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> Any:
    """One page of DescribeTopicPartitions, from the cursor on."""
    request = DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return await call(node, describe_topic_partitions, request, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)


@on_a_loop
async def test_every_version_returns_topics_and_brokers(tmp_path: Path) -> None:
    # Before version 4 a client cannot say that it wants no topic made.
    async with running(tmp_path, auto_create_topics_enable="false") as node:
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


@on_a_loop
async def test_null_means_all_topics_from_version_1_and_an_empty_list_before(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "b")
        await create(node, "a")
        assert [each.name for each in (await ask(node, None, 12)).topics] == ["a", "b"]
        assert (await ask(node, (), 12)).topics == ()
        assert len((await ask(node, (), 0)).topics) == 2


@on_a_loop
async def test_topics_are_found_by_id_from_version_12(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        created = await create(node, "t")
        asked = tuple(
            MetadataRequestTopic(name=None, topic_id=each) for each in (created.topic_id, uuid.UUID(int=999))
        )
        found, missing = (await ask(node, asked, 12)).topics
        assert (found.name, found.error_code) == ("t", ErrorCode.NONE)
        assert (missing.name, missing.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
        with pytest.raises(InvalidRequestException):
            await ask(node, asked, 11)


@pytest.mark.parametrize(("version", "allowed"), [(3, False), (4, True), (13, True)])
@on_a_loop
async def test_missing_topics_are_created_unless_the_client_forbids_it(
    tmp_path: Path, version: int, allowed: bool
) -> None:
    """Before version 4 no client could say that it does not want that."""

    async with running(tmp_path, num_partitions="3") as node:
        first = await ask(node, named("new", "bad/"), version, create=allowed)
        assert [each.error_code.name for each in first.topics] == [
            "UNKNOWN_TOPIC_OR_PARTITION",
            "INVALID_TOPIC_EXCEPTION",
        ]
        while "new" not in node.metadata.topics:  # noqa: ASYNC110  (made in the background)
            await asyncio.sleep(0.005)
        (again,) = (await ask(node, named("new"), version, create=allowed)).topics
        assert (again.error_code, len(again.partitions)) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize(("enabled", "allowed"), [("false", True), ("true", False)])
@on_a_loop
async def test_topics_are_not_created_unless_broker_and_client_agree(
    tmp_path: Path, enabled: str, allowed: bool
) -> None:
    async with running(tmp_path, auto_create_topics_enable=enabled) as node:
        await ask(node, named("new"), 12, create=allowed)
        await asyncio.sleep(0.05)
        assert len(node.metadata.topics) == 0


@on_a_loop
async def test_internal_topics_are_created_with_their_own_settings(tmp_path: Path) -> None:
    async with running(
        tmp_path, offsets_topic_num_partitions="7", offsets_topic_replication_factor="1"
    ) as node:
        await ask(node, named("__consumer_offsets"), 12, create=True)
        while "__consumer_offsets" not in node.metadata.topics:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        (topic,) = (await ask(node, named("__consumer_offsets"), 12)).topics
        assert topic.is_internal and len(topic.partitions) == 7
        assert node.metadata.topic_config("__consumer_offsets")["cleanup.policy"] == "compact"


@on_a_loop
async def test_authorized_operations_are_returned_only_on_request(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "t")
        response = await ask(node, named("t"), 10, operations=True)
        assert response.topics[0].topic_authorized_operations == 0b110111111000
        assert response.cluster_authorized_operations == 0b1111110100000
        response = await ask(node, named("t"), 12)
        assert response.topics[0].topic_authorized_operations == -(1 << 31)


@on_a_loop
async def test_unreachable_partitions_have_the_error_of_the_version(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        node.loader.image = unreachable(node.loader.image)
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


@on_a_loop
async def test_pages_of_partitions_cover_everything_once(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        for name, partitions in (("b", 3), ("a", 2), ("c", 4)):
            await create(node, name, partitions)
        for limit in (1, 2, 3, 5, 9, 10):
            seen: list[tuple[str, int]] = []
            cursor = None
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


@on_a_loop
async def test_partitions_of_named_topics_with_their_elr(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "t")
        known, unknown, illegal = (await page(node, "t", "u", "zz/")).topics
        (partition,) = known.partitions
        assert (partition.leader_id, partition.isr_nodes) == (1, (1,))
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())
        assert unknown.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert illegal.error_code is ErrorCode.INVALID_TOPIC_EXCEPTION


@on_a_loop
async def test_cursors_that_point_nowhere_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await create(node, "t")
        for cursor in (("t", -1), ("u", 0)):
            with pytest.raises(InvalidRequestException):
                await page(node, "t", cursor=cursor)
