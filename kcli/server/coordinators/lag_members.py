"""Reads the members of a group and their partitions, for a sample of the lag (`group_lag.py`).

The members of a classic group put their assignment into SyncGroup as bytes, and a client may put any bytes there. So
the bytes and the partitions that a sample reads are limited, and only existing partitions are returned.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from dataclasses import dataclass

from kcli.coordinator.group.classic.requests import DESCRIBE_CLASSIC_GROUP
from kcli.coordinator.group.consumer.requests import DESCRIBE_CONSUMER_GROUP
from kcli.coordinator.group.consumer.state.record import CONSUMER_NAME
from kcli.coordinator.group.requests import Describe
from kcli.errors import CorruptRecordError, ErrorCode
from kcli.lag.group_lag import PARTITION_COST, Member
from kcli.lag.tracker import WINDOWS_MAX
from kcli.metadata.image import MetadataImage
from kcli.model.pace import Pace
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages.consumer_group_describe import DescribedGroup
from kcli.protocol.messages.consumer_group_describe import Member as DescribedConsumer
from kcli.protocol.messages.describe_groups import DescribedGroupMember
from kcli.protocol.messages.list_groups import ListedGroup
from kcli.protocol.records.consumer_protocol import EMBEDDED_MAX_BYTES, assigned_topics
from kcli.server.coordinators.groups import GroupRunner

FREE_BYTES = 2_048
"""If all assignments of a group are at most this long, they are always read. Few groups have longer ones."""
LONG_BYTES_MAX = 2_097_152
"""The most bytes of longer assignments that are read in one sample. 100,000 partitions take about 600,000 bytes."""
ASSIGNED_MAX = WINDOWS_MAX
"""The most pairs of a group and an assigned partition in a report."""

TEXT_MAX_CHARS = 255
"""The longest name of a client in a report. A name may have 32,767 bytes, and it is in the sentence about each
partition of the member."""

_DESCRIBE_VERSION = 6
_CONSUMER_DESCRIBE_VERSION = 1


@dataclass(slots=True)
class Allowance:
    """The assignments that a sample may still read: bytes of long assignments, and partitions."""

    long_bytes: int = LONG_BYTES_MAX
    partitions: int = ASSIGNED_MAX

    def covers(self, assignments: Iterable[bytes]) -> bool:
        """Whether the assignments of a group are read. Takes their bytes from the allowance."""
        size = 0
        for assignment in assignments:
            size += len(assignment)
            if len(assignment) > EMBEDDED_MAX_BYTES:
                return False
        if size <= FREE_BYTES:
            return True
        if size > self.long_bytes:
            return False
        self.long_bytes -= size
        return True


async def read_members(
    runner: GroupRunner, listed: ListedGroup, image: MetadataImage, allowance: Allowance, pace: Pace
) -> tuple[str, list[Member]]:
    """Returns the assignor and the members of a group. Returns no members if the group was deleted meanwhile."""
    if listed.group_type == CONSUMER_NAME:
        protocol, members = await _consumer_members(runner, listed.group_id, allowance, pace)
    else:
        protocol, members = await _classic_members(runner, listed.group_id, image, allowance, pace)
    return short(protocol), members


def short(text: str) -> str:
    """A text that a client has chosen, in its length for a report."""
    return text[:TEXT_MAX_CHARS]


async def _classic_members(
    runner: GroupRunner, group_id: str, image: MetadataImage, allowance: Allowance, pace: Pace
) -> tuple[str, list[Member]]:
    described = runner.look(
        lambda shard, now_ms: shard.ask(DESCRIBE_CLASSIC_GROUP, Describe(group_id, _DESCRIBE_VERSION), now_ms)
    )
    is_read = allowance.covers(member.member_assignment for member in described.members)
    members = []
    for member in described.members:
        await pace(PARTITION_COST)
        assigned: tuple[TopicPartition, ...] = ()
        if is_read:
            assigned = await _assigned(member.member_assignment, image, allowance, pace)
        members.append(_member(member, assigned))
    return described.protocol_data, members


async def _assigned(
    embedded: bytes, image: MetadataImage, allowance: Allowance, pace: Pace
) -> tuple[TopicPartition, ...]:
    """Returns the existing partitions of an assignment. The members of other groups, such as Connect, have no
    partitions, because their bytes are no assignment.
    """
    partitions: dict[TopicPartition, None] = {}
    try:
        for topic in assigned_topics(embedded):
            await pace(PARTITION_COST)
            existing = image.topics.topic(topic.topic)
            if existing is not None:
                for number in topic.partitions:
                    if number in existing.partitions:
                        partitions[TopicPartition(topic.topic, number)] = None
    except CorruptRecordError:
        return ()
    return _allowed(partitions, allowance)


def _allowed(partitions: Collection[TopicPartition], allowance: Allowance) -> tuple[TopicPartition, ...]:
    if len(partitions) > allowance.partitions:
        return ()
    allowance.partitions -= len(partitions)
    return tuple(partitions)


async def _consumer_members(
    runner: GroupRunner, group_id: str, allowance: Allowance, pace: Pace
) -> tuple[str, list[Member]]:
    steps = runner.look(
        lambda shard, now_ms: shard.ask(
            DESCRIBE_CONSUMER_GROUP, Describe(group_id, _CONSUMER_DESCRIBE_VERSION), now_ms
        )
    )
    described = await _result(steps, pace)
    if described.error_code is not ErrorCode.NONE:
        return "", []
    members = []
    for member in described.members:
        await pace(PARTITION_COST)
        assigned = [
            TopicPartition(topic.topic_name, number)
            for topic in member.assignment.topic_partitions
            for number in topic.partitions
        ]
        members.append(_member(member, _allowed(assigned, allowance)))
    return described.assignor_name, members


async def _result(steps: Generator[None, None, DescribedGroup], pace: Pace) -> DescribedGroup:
    """Returns the result of a description that the shard makes in steps."""
    while True:
        await pace(PARTITION_COST)
        try:
            next(steps)
        except StopIteration as end:
            described: DescribedGroup = end.value
            return described


def _member(
    described: DescribedGroupMember | DescribedConsumer, assigned: tuple[TopicPartition, ...]
) -> Member:
    return Member(short(described.member_id), short(described.client_id), described.client_host, assigned)
