"""One partition or broker that cannot be asked does not keep the others from answering."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.config import ClientConfig
from kcli.errors import ErrorCode, KafkaError, TimeoutException
from kcli.model.addresses import Address
from kcli.model.offset_at import OffsetAt
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import describe_log_dirs, list_groups, list_offsets, metadata
from kcli.protocol.wire.api import ApiKey
from kcli.testing.broker_process import free_port
from rigs.scripted_server import ScriptedAnswer, ScriptedServer

T = TypeVar("T")
DEAD = 2


def asked(
    script: dict[ApiKey, ScriptedAnswer], call: Callable[[AdminClient], Awaitable[T]], timeout_ms: int
) -> T:
    """A cluster of broker 1, which is scripted, and broker 2, which is gone. Partitions of t: led by 1, without a
    leader, led by 2, and again by 1."""
    closed = free_port()

    def told(request: metadata.MetadataRequest, version: int) -> metadata.MetadataResponse:
        brokers = tuple(
            metadata.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port)
            for node, port in ((DEAD, closed), (1, server.port))
        )
        partitions = tuple(
            metadata.MetadataResponsePartition(partition_index=number, leader_id=leader)
            for number, leader in enumerate((1, -1, DEAD, 1))
        )
        topics = (
            metadata.MetadataResponseTopic(name="t", partitions=partitions),
            metadata.MetadataResponseTopic(name="closed", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        )
        wanted = {each.name for each in request.topics or ()}
        return metadata.MetadataResponse(
            brokers=brokers, controller_id=1, topics=tuple(topic for topic in topics if topic.name in wanted)
        )

    server = ScriptedServer({ApiKey.METADATA: told} | script)

    async def scenario() -> T:
        config = ClientConfig(
            servers=(Address("127.0.0.1", server.port),),
            default_api_timeout_ms=timeout_ms,
            retry_backoff_ms=1,
            retry_backoff_max_ms=5,
        )
        async with AdminClient(config) as client:
            return await call(client)

    with server:
        return asyncio.run(scenario())


def offsets(request: list_offsets.ListOffsetsRequest, version: int) -> Any:
    return list_offsets.ListOffsetsResponse(
        topics=tuple(
            list_offsets.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    list_offsets.ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=5)
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


@pytest.mark.parametrize(("wait", "timeout_ms"), [(False, 30_000), (True, 300)])
def test_offsets_of_reachable_partitions_come_beside_errors(wait: bool, timeout_ms: int) -> None:
    partitions = [TopicPartition("closed", 0), *(TopicPartition("t", number) for number in range(5))]
    wanted = dict.fromkeys(partitions, int(OffsetSpec.LATEST))
    found = asked(
        {ApiKey.LIST_OFFSETS: offsets},
        lambda client: client.list_offsets(wanted, wait_for_leaders=wait),
        timeout_ms,
    )
    assert {number for (_, number), at in found.items() if isinstance(at, OffsetAt)} == {0, 3}
    refused = found[TopicPartition("closed", 0)]
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    others = [found[TopicPartition("t", number)] for number in (1, 2, 4)]
    if wait:
        assert all(isinstance(error, TimeoutException) for error in others)
    else:
        leaderless, gone, unknown = others
        assert isinstance(leaderless, KafkaError) and leaderless.code is ErrorCode.LEADER_NOT_AVAILABLE
        assert isinstance(gone, KafkaError) and "no connection to 127.0.0.1" in gone.message
        assert isinstance(unknown, KafkaError) and unknown.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_log_directories_of_reachable_brokers_come_beside_errors() -> None:
    result = describe_log_dirs.DescribeLogDirsResult(log_dir="/data")
    found = asked(
        {ApiKey.DESCRIBE_LOG_DIRS: lambda *_: describe_log_dirs.DescribeLogDirsResponse(results=(result,))},
        lambda client: client.describe_log_dirs([1, DEAD]),
        300,
    )
    assert isinstance(found[DEAD], TimeoutException)
    alive = found[1]
    assert not isinstance(alive, KafkaError) and alive[0].path == "/data"


def test_groups_of_reachable_brokers_come_beside_errors(caplog: pytest.LogCaptureFixture) -> None:
    group = list_groups.ListedGroup(group_id="g")
    with caplog.at_level(logging.WARNING):
        found = asked(
            {ApiKey.LIST_GROUPS: lambda *_: list_groups.ListGroupsResponse(groups=(group,))},
            lambda client: client.list_groups(),
            300,
        )
    assert [each.group_id for each in found] == ["g"]
    assert any(f"(id: {DEAD}" in message and "are missing" in message for message in caplog.messages)
