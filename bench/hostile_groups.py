"""Attacks by members of consumer groups, for bench/hostile.py: bytes, offsets and expressions that a client makes up.

An attack is a function of the broker's port. It returns when the broker has had time for the work that follows from the
requests, such as a sample of the lag. The broker needs a metrics endpoint, because only then it takes samples.
"""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Awaitable, Callable
from itertools import product
from string import ascii_letters

from kcli.errors import ErrorCode
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message

Attack = Callable[[int], Awaitable[None]]

SAMPLES_SECONDS = 25.0
"""The time of two samples of the lag."""
_RETRIES, _PAUSE_SECONDS = 100, 0.2
_TOPIC, _PARTITIONS = "hostile", 10
_LEADS_BACK = struct.pack(">hihih", 0, 2**31 - 1, 0, 0, -6)
_NOT_READY = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class _Client:
    """A connection that sends one request after another, and repeats a request until the coordinator is ready."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def call(self, request: Message, key: ApiKey, version: int) -> Message:
        for _ in range(_RETRIES):
            self._writer.write(codec.encode_request(request, key, version, 1, "hostile"))
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            response = codec.decode_response(key, version, await self._reader.readexactly(size))[1]
            if getattr(response, "error_code", ErrorCode.NONE) not in _NOT_READY:
                return response
            await asyncio.sleep(_PAUSE_SECONDS)
        raise TimeoutError("the coordinator is not ready")

    async def member(self, group: str, assignment: bytes) -> None:
        member_id = ""
        while True:
            request = JoinGroupRequest(
                group_id=group,
                member_id=member_id,
                session_timeout_ms=300_000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\0\0"),),
            )
            joined = await self.call(request, ApiKey.JOIN_GROUP, 5)
            member_id = joined.member_id
            if joined.error_code is ErrorCode.NONE:
                break
        own = SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
        await self.call(
            SyncGroupRequest(
                group_id=group,
                generation_id=joined.generation_id,
                member_id=member_id,
                assignments=(own,),
            ),
            ApiKey.SYNC_GROUP,
            3,
        )


async def _connect(port: int) -> _Client:
    """Connects a client. The first client of a broker lets it create the topic of the coordinator."""
    client = _Client(*await asyncio.open_connection("127.0.0.1", port))
    await client.call(FindCoordinatorRequest(coordinator_keys=("hostile",)), ApiKey.FIND_COORDINATOR, 4)
    return client


async def assignment_that_leads_back(port: int) -> None:
    """An assignment of 14 bytes whose decoding would never end."""
    await (await _connect(port)).member("leads-back", _LEADS_BACK)
    await asyncio.sleep(SAMPLES_SECONDS)


async def assignments_of_invented_topics(port: int) -> None:
    """10 assignments of 1 MB, each of 80,000 topics that do not exist."""
    names = ["".join(letters).encode() for letters in product(ascii_letters, repeat=3)][:80_000]
    topics = b"".join(struct.pack(">h3sii", 3, name, 1, 0) for name in names)
    assignment = struct.pack(">hi", 0, len(names)) + topics + b"\xff" * 4
    for number in range(10):
        await (await _connect(port)).member(f"invented-{number}", assignment)
    await asyncio.sleep(SAMPLES_SECONDS)


async def odd_offsets_of_many_groups(port: int) -> None:
    """2,000 groups that commit the offsets -2^63 and 2^63 - 1."""
    client = await _connect(port)
    for number in range(2_000):
        partitions = tuple(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index, offset in enumerate((-(2**63), 2**63 - 1))
        )
        topic = OffsetCommitRequestTopic(name=_TOPIC, partitions=partitions)
        await client.call(
            OffsetCommitRequest(group_id=f"odd-{number}", topics=(topic,)), ApiKey.OFFSET_COMMIT, 8
        )
    await asyncio.sleep(SAMPLES_SECONDS)


async def expressions_of_many_members(port: int) -> None:
    """8 KIP-848 groups with 100 regular expressions each."""

    async def group(number: int) -> None:
        client = await _connect(port)
        for member in range(100):
            regex = f"(.*[a-z].{{12}}){{2}}q{{0,{member}}}z"
            request = _joining(f"regex-{number}", topic_regex=regex)
            await client.call(request, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)

    await asyncio.gather(*(group(number) for number in range(8)))
    await asyncio.sleep(SAMPLES_SECONDS)


async def costly_expressions(port: int) -> None:
    """3,000 different regular expressions that take long to compile or are refused."""
    client = await _connect(port)
    for number in range(3_000):
        classes = r"(?i:\PL)" * (number % 8)
        regex = f"{classes}{number}" + "a{1000}" * (number % 60)
        await client.call(_joining("costly", topic_regex=regex), ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)


async def joins_over_many_partitions(port: int) -> None:
    """60 members join a KIP-848 group that reads all topics."""
    client = await _connect(port)
    names = (_TOPIC, *(f"t{number}" for number in range(500)))
    for number in range(60):
        request = _joining("many-partitions", topic_names=names[number % 3 :])
        await client.call(request, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)


def _joining(
    group: str, *, topic_names: tuple[str, ...] | None = None, topic_regex: str | None = None
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=str(uuid.uuid4()),
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=topic_names,
        subscribed_topic_regex=topic_regex,
        topic_partitions=(),
    )


ATTACKS: tuple[Attack, ...] = (
    assignment_that_leads_back,
    assignments_of_invented_topics,
    odd_offsets_of_many_groups,
    expressions_of_many_members,
    costly_expressions,
    joins_over_many_partitions,
)
