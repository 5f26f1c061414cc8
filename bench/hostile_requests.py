"""Attacks by single large requests, for bench/hostile.py. Each request is legal, and gets a complete answer.

An attack is a function of the broker's port. It returns when it has its answer. The cluster should have 10,000 topics
`topic-00000` to `topic-09999`, so that the attacks on metadata and configs have their full size.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable

from kcli.protocol.messages import (
    describe_configs,
    describe_groups,
    find_coordinator,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
)
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message

Attack = Callable[[int], Awaitable[None]]


async def metadata_of_unknown_names(port: int) -> None:
    """Metadata of 200,000 names that no topic has."""
    topics = tuple(metadata.MetadataRequestTopic(name=f"unknown-{number}") for number in range(200_000))
    request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    await _ask(port, request, ApiKey.METADATA, 12)


async def metadata_of_names_to_create(port: int) -> None:
    """Metadata of 200,000 names that no topic has, from a client that lets the broker create topics."""
    topics = tuple(metadata.MetadataRequestTopic(name=f"unknown-{number}") for number in range(200_000))
    await _ask(port, metadata.MetadataRequest(topics=topics), ApiKey.METADATA, 12)


async def metadata_of_all_topics(port: int) -> None:
    """100 clients ask for all topics at the same moment."""
    request = metadata.MetadataRequest(topics=None)
    await asyncio.gather(*(_ask(port, request, ApiKey.METADATA, 12) for _ in range(100)))


async def list_offsets_of_many_partitions(port: int) -> None:
    """ListOffsets of 500,000 partitions."""
    partitions = tuple(
        list_offsets.ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(500_000)
    )
    topic = list_offsets.ListOffsetsTopic(name="unknown", partitions=partitions)
    request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,))
    await _ask(port, request, ApiKey.LIST_OFFSETS, 7)


async def configs_of_many_resources(port: int) -> None:
    """DescribeConfigs of one broker and of 20,000 topics."""
    names = [f"topic-{number:05d}" for number in range(20_000)]
    resources = tuple(
        describe_configs.DescribeConfigsResource(resource_type=2, resource_name=name, configuration_keys=None)
        for name in names
    )
    broker = describe_configs.DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=None
    )
    request = describe_configs.DescribeConfigsRequest(
        resources=(broker, *resources), include_synonyms=True, include_documentation=True
    )
    await _ask(port, request, ApiKey.DESCRIBE_CONFIGS, 4)


async def offsets_of_many_partitions(port: int) -> None:
    """OffsetFetch of 500,000 partitions of one group."""
    topic = offset_fetch.OffsetFetchRequestTopics(name="unknown", partition_indexes=tuple(range(500_000)))
    group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=(topic,))
    await _ask(port, offset_fetch.OffsetFetchRequest(groups=(group,)), ApiKey.OFFSET_FETCH, 8)


async def commits_to_many_partitions(port: int) -> None:
    """OffsetCommit to 200,000 partitions that do not exist."""
    partitions = tuple(
        offset_commit.OffsetCommitRequestPartition(partition_index=number, committed_offset=1)
        for number in range(200_000)
    )
    topic = offset_commit.OffsetCommitRequestTopic(name="unknown", partitions=partitions)
    await _ask(
        port, offset_commit.OffsetCommitRequest(group_id="g", topics=(topic,)), ApiKey.OFFSET_COMMIT, 8
    )


async def epochs_of_many_partitions(port: int) -> None:
    """OffsetForLeaderEpoch of 200,000 partitions."""
    partitions = tuple(
        offset_for_leader_epoch.OffsetForLeaderPartition(partition=number) for number in range(200_000)
    )
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="unknown", partitions=partitions)
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=(topic,))
    await _ask(port, request, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4)


async def many_groups(port: int) -> None:
    """DescribeGroups of 100,000 groups."""
    groups = tuple(f"group-{number}" for number in range(100_000))
    await _ask(port, describe_groups.DescribeGroupsRequest(groups=groups), ApiKey.DESCRIBE_GROUPS, 5)


async def coordinators_of_many_groups(port: int) -> None:
    """FindCoordinator of 100,000 groups."""
    keys = tuple(f"group-{number}" for number in range(100_000))
    request = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=keys)
    await _ask(port, request, ApiKey.FIND_COORDINATOR, 4)


ATTACKS: tuple[Attack, ...] = (
    metadata_of_unknown_names,
    metadata_of_names_to_create,
    metadata_of_all_topics,
    list_offsets_of_many_partitions,
    configs_of_many_resources,
    offsets_of_many_partitions,
    commits_to_many_partitions,
    epochs_of_many_partitions,
    many_groups,
    coordinators_of_many_groups,
)


async def _ask(port: int, request: Message, key: ApiKey, version: int) -> None:
    """Sends a request and reads its answer, without decoding it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(codec.encode_request(request, key, version, 1, "hostile"))
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        while size:
            size -= len(await reader.read(min(size, 1 << 20)))
    finally:
        writer.close()
