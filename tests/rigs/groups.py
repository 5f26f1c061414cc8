"""A broker in this process, and a client that calls its group APIs over a socket."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kcli.errors import ErrorCode
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kcli.protocol.wire.api import API, ApiKey
from rigs import node
from rigs.loops import until
from rigs.wire_client import Client


@contextlib.asynccontextmanager
async def running(directory: Path | str, /, **overrides: str) -> AsyncIterator[Speaker]:
    """A node, and a client of it that can speak every API."""
    settings = {"offsets_topic_num_partitions": "3", "group_coordinator_append_linger_ms": "0"} | overrides
    async with node.running(directory, **settings) as started:
        yield Speaker(started, await node.connect(started), started.port())


class Speaker:
    def __init__(self, node: node.RunningNode, client: Client, port: int) -> None:
        self.node, self.client, self.port = node, client, port

    async def call(self, key: ApiKey, message: Any, version: int | None = None) -> Any:
        version = API[key].max_version if version is None else version
        return await self.client.call(message, key, version)

    async def find(self, group: str = "g") -> Coordinator:
        """Waits until the coordinator exists and its shards are loaded."""
        request = FindCoordinatorRequest(coordinator_keys=(group,))
        found = await self.call(ApiKey.FIND_COORDINATOR, request)
        await until(lambda: not self.node.broker.groups.shards.is_loading)
        return found.coordinators[0]

    async def create(self, name: str, partitions: int = 1) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = await self.call(
            ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=(topic,), timeout_ms=5000)
        )
        assert response.topics[0].error_code is ErrorCode.NONE

    async def join(
        self, version: int | None = None, group: str = "g", member: str = "", **fields: Any
    ) -> JoinGroupResponse:
        protocols = (JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"),)
        request = JoinGroupRequest(
            group_id=group,
            member_id=member,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=protocols,
            **fields,
        )
        return await self.call(ApiKey.JOIN_GROUP, request, version)

    async def member(self, group: str = "g", assignment: bytes = b"mine") -> JoinGroupResponse:
        """Joins and syncs as a member of a stable group, which gives itself `assignment`. Returns the member."""
        first = await self.join(group=group)
        joined = await self.join(group=group, member=first.member_id)
        assert joined.error_code is ErrorCode.NONE
        synced = await self.sync(joined, group=group, assignment=assignment)
        assert synced.assignment == assignment
        return joined

    async def sync(
        self,
        joined: JoinGroupResponse,
        version: int | None = None,
        group: str = "g",
        assignment: bytes = b"mine",
    ) -> SyncGroupResponse:
        own = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)
        request = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(own,),
        )
        return await self.call(ApiKey.SYNC_GROUP, request, version)

    async def commit(
        self, offsets: dict[tuple[str, int], int], version: int | None = None, group: str = "g", **fields: Any
    ) -> list[str]:
        topics = tuple(
            OffsetCommitRequestTopic(
                name=topic,
                partitions=(
                    OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset),
                ),
            )
            for (topic, partition), offset in offsets.items()
        )
        request = OffsetCommitRequest(group_id=group, topics=topics, **fields)
        response = await self.call(ApiKey.OFFSET_COMMIT, request, version)
        return [each.error_code.name for topic in response.topics for each in topic.partitions]

    async def fetch(
        self, version: int | None = None, group: str = "g", topics: list[str] | None = None, **fields: Any
    ) -> tuple[str, dict[tuple[str, int], tuple[int, str]]]:
        """Fetches offsets. Returns the error of the response or group, and by (topic, partition) the offset and the
        error."""
        old = new = None
        if topics is not None:
            old = tuple(OffsetFetchRequestTopic(name=name, partition_indexes=(0,)) for name in topics)
            new = tuple(OffsetFetchRequestTopics(name=name, partition_indexes=(0,)) for name in topics)
        request = OffsetFetchRequest(
            group_id=group,
            topics=old,
            groups=(OffsetFetchRequestGroup(group_id=group, topics=new),),
            **fields,
        )
        response = await self.call(ApiKey.OFFSET_FETCH, request, version)
        found = response.groups[0] if response.groups else response
        return found.error_code.name, {
            (topic.name, each.partition_index): (each.committed_offset, each.error_code.name)
            for topic in found.topics
            for each in topic.partitions
        }
