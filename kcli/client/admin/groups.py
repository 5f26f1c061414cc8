"""Admin calls about groups and their committed offsets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.client.admin.topics import group_partitions
from kcli.client.client import error_of, raise_for
from kcli.client.coordinator import at_coordinator, at_coordinators
from kcli.client.group.protocol import NOT_A_MEMBER, Generation
from kcli.errors import (
    CorruptRecordError,
    ErrorCode,
    GroupIdNotFoundException,
    KafkaError,
    UnsupportedVersionException,
)
from kcli.model.request_values import CONSUMER_PROTOCOL_TYPE
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.wire.api import ApiKey

if TYPE_CHECKING:
    from kcli.client.client import Client, Node
    from kcli.protocol.messages.consumer_group_describe import Assignment
    from kcli.protocol.messages.consumer_group_describe import DescribedGroup as ConsumerGroup
    from kcli.protocol.messages.describe_groups import DescribedGroup as ClassicGroup
    from kcli.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup

_log = logging.getLogger("kcli.client")


CLASSIC, CONSUMER = "Classic", "Consumer"
TOPICS_PER_TURN = 500
"""The topics of an assignment that are decoded between two turns of the event loop. A topic takes about 4 µs."""
CONSUMER_PROTOCOL_TYPES = ("", CONSUMER_PROTOCOL_TYPE)
"""The protocol types of a group that consumers use or may use. A group without members may have none."""
_MOVED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors while the coordinator of a group moves or loads. The coordinator must be looked up again before the next
attempt."""


_NOT_OF_THE_NEW_PROTOCOL = (GroupIdNotFoundException, UnsupportedVersionException)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group. State and type have the names that the broker sends. They are empty if the broker is too old to send
    them.
    """

    group_id: str
    type: str
    protocol: str
    state: str

    @property
    def is_simple(self) -> bool:
        """Whether the group has only offsets and never had members."""
        return not self.protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member of a group. Only members of consumer groups (KIP-848) have an epoch and a target assignment."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    is_upgraded: bool | None = None
    """Whether a member of a consumer group uses the consumer protocol (True) or still the classic protocol (False)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group and its members."""

    group_id: str
    type: str
    state: str
    protocol: str
    assignor: str
    coordinator: Node
    members: tuple[GroupMember, ...]
    epoch: int | None = None
    target_assignment_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The offset that a group committed for a partition."""

    offset: int
    leader_epoch: int | None = None
    metadata: str = ""


async def list_groups(
    client: Client, *, states: Iterable[str] = (), types: Iterable[str] = ()
) -> list[GroupListing]:
    """Returns the groups of all brokers, sorted by id. `states` and `types` select groups. If they are empty, all
    groups are returned.

    If a broker does not answer, a warning is logged. An error is raised only if no broker answers.
    """
    from kcli.protocol.messages.list_groups import ListGroupsRequest

    request = ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))
    at_least = 5 if request.types_filter else 4 if request.states_filter else 0

    async def of(node: Node) -> list[GroupListing] | KafkaError:
        async def attempt() -> list[GroupListing]:
            response = await client.send(request, ApiKey.LIST_GROUPS, to=node.id, at_least=at_least)
            raise_for(response.error_code)
            return [
                GroupListing(
                    group_id=group.group_id,
                    type=group.group_type,
                    protocol=group.protocol_type,
                    state=group.group_state,
                )
                for group in response.groups
            ]

        try:
            return await client.call("listGroups", attempt)
        except KafkaError as error:
            return error

    nodes = await client.call("findAllBrokers", client.nodes)
    parts = await asyncio.gather(*map(of, nodes))
    failed = [(node, part) for node, part in zip(nodes, parts, strict=True) if isinstance(part, KafkaError)]
    if failed and len(failed) == len(nodes):
        raise failed[0][1]
    for node, error in failed:
        _log.warning("The groups of %s are missing: %s", node, error)
    listed = [group for part in parts if not isinstance(part, KafkaError) for group in part]
    return sorted(listed, key=lambda group: group.group_id)


async def describe_groups(
    client: Client, group_ids: Iterable[str]
) -> dict[str, GroupDescription | KafkaError]:
    """Returns the description or the error of each group. A group may be a classic group or a consumer group.

    The error of an unknown group is GroupIdNotFoundException.
    """

    async def ask(node: Node, groups: Sequence[str]) -> dict[str, GroupDescription | KafkaError]:
        descriptions = await _describe_consumer(client, groups, node)
        others = [group for group, said in descriptions.items() if isinstance(said, _NOT_OF_THE_NEW_PROTOCOL)]
        if others:
            for group, said in (await _describe_classic(client, others, node)).items():
                # If both answers report an unknown group, the error of the first answer is kept, as in Kafka's client.
                if not (_is_unknown(said) and _is_unknown(descriptions[group])):
                    descriptions[group] = said
        return descriptions

    return await at_coordinators(client, "describeGroups", group_ids, ask)


async def list_group_offsets(
    client: Client,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, CommittedOffset | KafkaError | None]:
    """Returns the committed offset of each partition, or None for a partition without a committed offset.

    Without `partitions`, returns all committed offsets of the group.
    """
    from kcli.protocol.messages import offset_fetch as messages

    by_topic = None if partitions is None else group_partitions(partitions)

    async def ask(node: Node) -> dict[TopicPartition, CommittedOffset | KafkaError | None]:
        topics = None
        batched = None
        if by_topic is not None:
            topics = tuple(
                messages.OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic.items()
            )
            batched = tuple(
                messages.OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic.items()
            )
        request = messages.OffsetFetchRequest(
            group_id=group_id,
            topics=topics,
            groups=(messages.OffsetFetchRequestGroup(group_id=group_id, topics=batched),),
            require_stable=require_stable,
        )
        response = await client.send(request, ApiKey.OFFSET_FETCH, to=node.id)
        offsets = response.groups[0] if response.groups else response
        raise_for(offsets.error_code)
        return _committed(offsets)

    return await at_coordinator(client, "listConsumerGroupOffsets", group_id, ask)


async def list_all_offsets(
    client: Client, group_ids: Iterable[str]
) -> dict[str, dict[TopicPartition, CommittedOffset | KafkaError | None] | KafkaError]:
    """Returns all committed offsets of each group, or its error."""
    from kcli.protocol.messages import offset_fetch as messages

    async def alone(group_id: str) -> dict[TopicPartition, CommittedOffset | KafkaError | None] | KafkaError:
        try:
            return await list_group_offsets(client, group_id)
        except KafkaError as error:
            return error

    async def ask(
        node: Node, groups: Sequence[str]
    ) -> dict[str, dict[TopicPartition, CommittedOffset | KafkaError | None] | KafkaError]:
        requested = tuple(messages.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups)
        request = messages.OffsetFetchRequest(groups=requested)
        try:
            response = await client.send(request, ApiKey.OFFSET_FETCH, to=node.id, at_least=8)
        except UnsupportedVersionException:  # brokers before Kafka 3.0 support one group per request
            return {group: await alone(group) for group in groups}
        return {group.group_id: error_of(group.error_code) or _committed(group) for group in response.groups}

    return await at_coordinators(client, "listConsumerGroupOffsets", group_ids, ask)


def _committed(
    response: OffsetFetchResponse | OffsetFetchResponseGroup,
) -> dict[TopicPartition, CommittedOffset | KafkaError | None]:
    return {
        TopicPartition(topic.name, partition.partition_index): error_of(partition.error_code)
        or (
            None
            if partition.committed_offset < 0
            else CommittedOffset(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch
                if partition.committed_leader_epoch >= 0
                else None,
                metadata=partition.metadata or "",
            )
        )
        for topic in response.topics
        for partition in topic.partitions
    }


async def alter_group_offsets(
    client: Client,
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    *,
    generation: Generation = NOT_A_MEMBER,
    group_instance_id: str | None = None,
) -> dict[TopicPartition, KafkaError | None]:
    """Commits offsets. Returns the error of each partition, or None.

    Without a `generation`, the group must have no active members. A member commits in its own generation.
    """
    from kcli.protocol.messages import offset_commit as messages

    async def ask(node: Node) -> dict[TopicPartition, KafkaError | None]:
        topics = tuple(
            messages.OffsetCommitRequestTopic(
                name=topic,
                partitions=tuple(
                    messages.OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offsets[TopicPartition(topic, number)].offset,
                        committed_leader_epoch=-1
                        if (epoch := offsets[TopicPartition(topic, number)].leader_epoch) is None
                        else epoch,
                        committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in group_partitions(offsets).items()
        )
        request = messages.OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation.id,
            member_id=generation.member_id,
            group_instance_id=group_instance_id,
            topics=topics,
        )
        response = await client.send(request, ApiKey.OFFSET_COMMIT, to=node.id)
        return _partition_errors(
            (TopicPartition(topic.name, partition.partition_index), partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        )

    return await at_coordinator(client, "alterConsumerGroupOffsets", group_id, ask)


async def delete_group_offsets(
    client: Client, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """Deletes a group's offsets of some partitions. Returns the error of each partition, or None."""
    from kcli.protocol.messages import offset_delete as messages

    by_topic = group_partitions(partitions)

    async def ask(node: Node) -> dict[TopicPartition, KafkaError | None]:
        request = messages.OffsetDeleteRequest(
            group_id=group_id,
            topics=tuple(
                messages.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=tuple(
                        messages.OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                    ),
                )
                for topic, numbers in by_topic.items()
            ),
        )
        response = await client.send(request, ApiKey.OFFSET_DELETE, to=node.id)
        raise_for(response.error_code)
        return _partition_errors(
            (TopicPartition(topic.name, partition.partition_index), partition.error_code)
            for topic in response.topics
            for partition in topic.partitions
        )

    return await at_coordinator(client, "deleteConsumerGroupOffsets", group_id, ask)


async def delete_groups(client: Client, group_ids: Iterable[str]) -> dict[str, KafkaError | None]:
    """Deletes groups. Returns the error of each group, or None."""
    from kcli.protocol.messages.delete_groups import DeleteGroupsRequest

    async def ask(node: Node, groups: Sequence[str]) -> dict[str, KafkaError | None]:
        request = DeleteGroupsRequest(groups_names=tuple(groups))
        response = await client.send(request, ApiKey.DELETE_GROUPS, to=node.id)
        return {result.group_id: error_of(result.error_code) for result in response.results}

    return await at_coordinators(client, "deleteConsumerGroups", group_ids, ask)


async def remove_members(
    client: Client, group_id: str, members: Iterable[GroupMember], *, reason: str = ""
) -> dict[str, KafkaError | None]:
    """Removes members from a classic group. Returns the error of each member id, or None."""
    from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity

    identities = tuple(
        MemberIdentity(
            member_id="" if member.instance_id else member.member_id,
            group_instance_id=member.instance_id,
            reason=reason,
        )
        for member in members
    )

    async def ask(node: Node) -> dict[str, KafkaError | None]:
        request = LeaveGroupRequest(group_id=group_id, members=identities)
        response = await client.send(request, ApiKey.LEAVE_GROUP, to=node.id, at_least=3)
        raise_for(response.error_code)
        return {member.member_id: error_of(member.error_code) for member in response.members}

    return await at_coordinator(client, "leaveGroup", group_id, ask)


def _partition_errors(
    results: Iterable[tuple[TopicPartition, ErrorCode]],
) -> dict[TopicPartition, KafkaError | None]:
    errors: dict[TopicPartition, KafkaError | None] = {}
    for partition, code in results:
        if code in _MOVED:
            raise_for(code)
        errors[partition] = error_of(code)
    return errors


async def _describe_consumer(
    client: Client, group_ids: Sequence[str], node: Node
) -> dict[str, GroupDescription | KafkaError]:
    from kcli.protocol.messages import consumer_group_describe as messages

    request = messages.ConsumerGroupDescribeRequest(group_ids=tuple(group_ids))
    try:
        response = await client.send(request, ApiKey.CONSUMER_GROUP_DESCRIBE, to=node.id)
    except UnsupportedVersionException as error:
        return dict.fromkeys(group_ids, error)
    return {
        group.group_id: error_of(group.error_code, group.error_message) or _of_consumers(group, node)
        for group in response.groups
    }


def _of_consumers(group: ConsumerGroup, node: Node) -> GroupDescription:
    members = tuple(
        GroupMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            host=member.client_host,
            assignment=_partitions(member.assignment),
            target_assignment=_partitions(member.target_assignment),
            epoch=member.member_epoch,
            is_upgraded=None if member.member_type < 0 else member.member_type == 1,
        )
        for member in group.members
    )
    return GroupDescription(
        group_id=group.group_id,
        type=CONSUMER,
        state=group.group_state,
        protocol=CONSUMER_PROTOCOL_TYPE,
        assignor=group.assignor_name,
        coordinator=node,
        members=members,
        epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
    )


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


async def _describe_classic(
    client: Client, group_ids: Sequence[str], node: Node
) -> dict[str, GroupDescription | KafkaError]:
    from kcli.protocol.messages.describe_groups import DescribeGroupsRequest

    request = DescribeGroupsRequest(groups=tuple(group_ids))
    response = await client.send(request, ApiKey.DESCRIBE_GROUPS, to=node.id)
    return {
        group.group_id: error_of(group.error_code, group.error_message) or await _of_classic(group, node)
        for group in response.groups
    }


async def _of_classic(group: ClassicGroup, node: Node) -> GroupDescription:
    is_consumer = group.protocol_type in CONSUMER_PROTOCOL_TYPES
    members = [
        GroupMember(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            host=member.client_host,
            assignment=await _assigned(member.member_assignment) if is_consumer else (),
        )
        for member in group.members
    ]
    return GroupDescription(
        group_id=group.group_id,
        type=CLASSIC,
        state=group.group_state,
        protocol=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=node,
        members=tuple(members),
    )


async def _assigned(embedded: bytes) -> tuple[TopicPartition, ...]:
    """Decodes the assignment of a classic member. A member whose client put other bytes there has no partitions, so
    that these bytes do not hide the rest of the group.

    An assignment may have 80,000 topics. A console serves other users meanwhile.
    """
    from kcli.protocol.records.consumer_protocol import assigned_topics

    partitions: list[TopicPartition] = []
    try:
        for number, topic in enumerate(assigned_topics(embedded), 1):
            partitions += [TopicPartition(topic.topic, partition) for partition in topic.partitions]
            if number % TOPICS_PER_TURN == 0:
                await asyncio.sleep(0)
    except CorruptRecordError:
        return ()
    return tuple(partitions)


def _is_unknown(said: object) -> bool:
    return isinstance(said, GroupIdNotFoundException)
