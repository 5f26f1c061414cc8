"""The records that consumer groups write, in the order in which Kafka writes them."""

from __future__ import annotations

from collections.abc import Iterator

from kcli.coordinator.group.consumer.state.assignment import Assignment
from kcli.coordinator.group.consumer.state.group import ConsumerGroup
from kcli.coordinator.group.consumer.state.member import ConsumerMember
from kcli.coordinator.group.consumer.state.record import ConsumerRecord
from kcli.protocol.records import consumer_offsets as co


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> ConsumerRecord:
    value = co.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerRecord(co.ConsumerGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerMember) -> ConsumerRecord:
    key = co.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return ConsumerRecord(key, member.metadata())


def target_record(group_id: str, member_id: str, target: Assignment) -> ConsumerRecord:
    key = co.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    listed = tuple(
        co.TargetTopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
        for topic_id, partitions in target.items()
    )
    return ConsumerRecord(key, co.ConsumerGroupTargetAssignmentMemberValue(topic_partitions=listed))


def assignment_epoch_record(group_id: str, epoch: int) -> ConsumerRecord:
    key = co.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    return ConsumerRecord(key, co.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch))


def current_record(group_id: str, member: ConsumerMember) -> ConsumerRecord:
    key = co.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return ConsumerRecord(key, member.current())


def regex_record(
    group_id: str, regex: str, topic_names: tuple[str, ...], *, version: int, timestamp_ms: int
) -> ConsumerRecord:
    value = co.ConsumerGroupRegularExpressionValue(
        topics=topic_names, version=version, timestamp=timestamp_ms
    )
    return ConsumerRecord(_regex_key(group_id, regex), value)


def regex_tombstone(group_id: str, regex: str) -> ConsumerRecord:
    return ConsumerRecord(_regex_key(group_id, regex), None)


def partition_metadata_tombstone(group_id: str) -> ConsumerRecord:
    return ConsumerRecord(co.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> tuple[ConsumerRecord, ...]:
    """The tombstones of a member: first the tombstone of its assignment, last the tombstone of the member."""
    return (
        ConsumerRecord(
            co.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
        ),
        ConsumerRecord(
            co.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
        ),
        ConsumerRecord(co.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    )


def group_records(group: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """All records of a new group that replaces a group of the other protocol. Such a group has members from the
    beginning."""
    group_id = group.group_id
    members = tuple(group.members.values())
    for member in members:
        yield member_record(group_id, member)
    yield epoch_record(group_id, group.epoch, group.metadata_hash)
    for member in members:
        yield target_record(group_id, member.member_id, group.target_of(member.member_id))
    yield assignment_epoch_record(group_id, group.assignment_epoch)
    for member in members:
        yield current_record(group_id, member)


def group_tombstones(group: ConsumerGroup) -> Iterator[ConsumerRecord]:
    """The tombstones of a group and of its members, targets and other records."""
    group_id = group.group_id
    tombstones = [member_tombstones(group_id, member_id) for member_id in group.members]
    for current, _, _ in tombstones:
        yield current
    for _, target, _ in tombstones:
        yield target
    yield ConsumerRecord(co.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)
    for _, _, member in tombstones:
        yield member
    for regex in tuple(group.regexes):
        yield regex_tombstone(group_id, regex)
    if group.has_partition_metadata:
        yield partition_metadata_tombstone(group_id)
    yield ConsumerRecord(co.ConsumerGroupMetadataKey(group_id=group_id), None)


def _regex_key(group_id: str, regex: str) -> co.ConsumerGroupRegularExpressionKey:
    return co.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
