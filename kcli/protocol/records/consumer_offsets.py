"""The records of `__consumer_offsets`: offsets, classic groups and consumer groups (KIP-848).

The records of share groups and streams groups are in share_groups.py and streams_groups.py. `CONSUMER_OFFSETS` lists
all key classes with their value classes.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kcli.model.ids import NO_TIMESTAMP, ZERO_ID
from kcli.protocol.fields import Int8, Int32, Int64, only, since, tag
from kcli.protocol.records import share_groups as share
from kcli.protocol.records import streams_groups as streams
from kcli.protocol.records.coordinator import CoordinatorRecords
from kcli.protocol.records.schema import NEVER_FLEXIBLE, Json, record


@record(0, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class LegacyOffsetCommitKey:
    group: str = ""
    topic: str = ""
    partition: Int32 = 0


@record(1, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class OffsetCommitKey:
    group: str = ""
    topic: str = ""
    partition: Int32 = 0


@record(versions=(0, 4), flexible_since=4)
class OffsetCommitValue:
    offset: Int64 = 0
    leader_epoch: Annotated[Int32, since(3, ignorable=True)] = -1
    metadata: str = ""
    commit_timestamp: Int64 = 0
    expire_timestamp: Annotated[Int64, only(1)] = -1
    topic_id: Annotated[UUID | None, since(4, ignorable=True), tag(0)] = None


@record(2, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class GroupMetadataKey:
    group: str = ""


@record()
class MemberMetadata:
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3, ignorable=True)] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[Int32, since(1, ignorable=True)] = 0
    session_timeout: Int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


@record(versions=(0, 4), flexible_since=4)
class GroupMetadataValue:
    """A classic group. The subscriptions and assignments of its members are bytes. Their format depends on the group's
    protocol type, such as `consumer`."""

    protocol_type: str = ""
    generation: Int32 = 0
    protocol: str | None = ""
    leader: str | None = ""
    current_state_timestamp: Annotated[Int64, since(2, ignorable=True)] = -1
    members: tuple[MemberMetadata, ...] = ()


@record(3, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ConsumerGroupMetadataKey:
    group_id: str = ""


@record(versions=(0, 0))
class ConsumerGroupMetadataValue:
    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, tag(0)] = 0


@record(4, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ConsumerGroupPartitionMetadataKey:
    group_id: str = ""


@record()
class PartitionMetadata:
    partition: Int32 = 0
    racks: tuple[str, ...] = ()


@record()
class TopicMetadata:
    topic_id: UUID = ZERO_ID
    topic_name: str = ""
    num_partitions: Int32 = 0
    partition_metadata: tuple[PartitionMetadata, ...] = ()


@record(versions=(0, 0))
class ConsumerGroupPartitionMetadataValue:
    """The topics to which a group subscribes, with their numbers of partitions. Kafka 4.1 writes only tombstones of
    this record, because the metadata hash replaced it (KIP-1101)."""

    topics: tuple[TopicMetadata, ...] = ()


@record(5, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ConsumerGroupMemberMetadataKey:
    group_id: str = ""
    member_id: str = ""


@record()
class ClassicProtocol:
    name: str = ""
    metadata: bytes = b""


@record()
class ClassicMemberMetadata:
    session_timeout_ms: Int32 = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


@record(versions=(0, 0))
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None = ""
    # The default in Kafka's schema is an empty struct. So a null is not the default and must be written.
    classic_member_metadata: Annotated[
        ClassicMemberMetadata | None, tag(0, absent=ClassicMemberMetadata())
    ] = None


@record(6, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = ""


@record(versions=(0, 0))
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, tag(0)] = 0


@record(7, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = ""
    member_id: str = ""


@record()
class TargetTopicPartitions:
    topic_id: UUID = ZERO_ID
    partitions: tuple[Int32, ...] = ()


@record(versions=(0, 0))
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TargetTopicPartitions, ...] = ()


@record(8, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = ""
    member_id: str = ""


@record()
class CurrentTopicPartitions:
    topic_id: UUID = ZERO_ID
    partitions: tuple[Int32, ...] = ()
    assignment_epochs: Annotated[tuple[Int32, ...] | None, tag(0)] = None


@record(versions=(0, 0))
class ConsumerGroupCurrentMemberAssignmentValue:
    """The current assignment of a member. `state`: 0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127
    unknown."""

    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: tuple[CurrentTopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[CurrentTopicPartitions, ...] = ()


@record(16, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ConsumerGroupRegularExpressionKey:
    group_id: str = ""
    regular_expression: str = ""


@record(versions=(0, 0))
class ConsumerGroupRegularExpressionValue:
    topics: tuple[str, ...] = ()
    version: Int64 = 0
    timestamp: Int64 = 0


ConsumerOffsetsKey = (
    LegacyOffsetCommitKey
    | OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
    | share.ShareGroupMemberMetadataKey
    | share.ShareGroupMetadataKey
    | share.ShareGroupTargetAssignmentMetadataKey
    | share.ShareGroupTargetAssignmentMemberKey
    | share.ShareGroupCurrentMemberAssignmentKey
    | share.ShareGroupStatePartitionMetadataKey
    | streams.StreamsGroupMetadataKey
    | streams.StreamsGroupMemberMetadataKey
    | streams.StreamsGroupTargetAssignmentMetadataKey
    | streams.StreamsGroupTargetAssignmentMemberKey
    | streams.StreamsGroupCurrentMemberAssignmentKey
    | streams.StreamsGroupTopologyKey
)
ConsumerOffsetsValue = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
    | share.ShareGroupMemberMetadataValue
    | share.ShareGroupMetadataValue
    | share.ShareGroupTargetAssignmentMetadataValue
    | share.ShareGroupTargetAssignmentMemberValue
    | share.ShareGroupCurrentMemberAssignmentValue
    | share.ShareGroupStatePartitionMetadataValue
    | streams.StreamsGroupMetadataValue
    | streams.StreamsGroupMemberMetadataValue
    | streams.StreamsGroupTargetAssignmentMetadataValue
    | streams.StreamsGroupTargetAssignmentMemberValue
    | streams.StreamsGroupCurrentMemberAssignmentValue
    | streams.StreamsGroupTopologyValue
)

CONSUMER_OFFSETS: CoordinatorRecords[ConsumerOffsetsKey, ConsumerOffsetsValue] = CoordinatorRecords(
    {
        LegacyOffsetCommitKey: (OffsetCommitValue, 4),
        OffsetCommitKey: (OffsetCommitValue, 4),
        GroupMetadataKey: (GroupMetadataValue, 3),
        ConsumerGroupMetadataKey: (ConsumerGroupMetadataValue, 0),
        ConsumerGroupPartitionMetadataKey: (ConsumerGroupPartitionMetadataValue, 0),
        ConsumerGroupMemberMetadataKey: (ConsumerGroupMemberMetadataValue, 0),
        ConsumerGroupTargetAssignmentMetadataKey: (ConsumerGroupTargetAssignmentMetadataValue, 0),
        ConsumerGroupTargetAssignmentMemberKey: (ConsumerGroupTargetAssignmentMemberValue, 0),
        ConsumerGroupCurrentMemberAssignmentKey: (ConsumerGroupCurrentMemberAssignmentValue, 0),
        ConsumerGroupRegularExpressionKey: (ConsumerGroupRegularExpressionValue, 0),
        share.ShareGroupMemberMetadataKey: (share.ShareGroupMemberMetadataValue, 0),
        share.ShareGroupMetadataKey: (share.ShareGroupMetadataValue, 0),
        share.ShareGroupTargetAssignmentMetadataKey: (share.ShareGroupTargetAssignmentMetadataValue, 0),
        share.ShareGroupTargetAssignmentMemberKey: (share.ShareGroupTargetAssignmentMemberValue, 0),
        share.ShareGroupCurrentMemberAssignmentKey: (share.ShareGroupCurrentMemberAssignmentValue, 0),
        share.ShareGroupStatePartitionMetadataKey: (share.ShareGroupStatePartitionMetadataValue, 0),
        streams.StreamsGroupMetadataKey: (streams.StreamsGroupMetadataValue, 0),
        streams.StreamsGroupMemberMetadataKey: (streams.StreamsGroupMemberMetadataValue, 0),
        streams.StreamsGroupTargetAssignmentMetadataKey: (
            streams.StreamsGroupTargetAssignmentMetadataValue,
            0,
        ),
        streams.StreamsGroupTargetAssignmentMemberKey: (streams.StreamsGroupTargetAssignmentMemberValue, 0),
        streams.StreamsGroupCurrentMemberAssignmentKey: (streams.StreamsGroupCurrentMemberAssignmentValue, 0),
        streams.StreamsGroupTopologyKey: (streams.StreamsGroupTopologyValue, 0),
    }
)
"""Each key class with its value class and the version of the value that Kafka 4.1 writes."""


def encode_key(key: ConsumerOffsetsKey) -> bytes:
    return CONSUMER_OFFSETS.encode_key(key)


def decode_key(key: bytes) -> ConsumerOffsetsKey:
    """Decodes a key. Raises UnknownRecordTypeError for a type of a newer Kafka, and CorruptRecordError for invalid
    bytes."""
    return CONSUMER_OFFSETS.decode_key(key)


def encode_value(value: ConsumerOffsetsValue, version: int | None = None) -> bytes:
    """Encodes a value, by default in the version that Kafka 4.1 writes."""
    if version is None and isinstance(value, OffsetCommitValue) and value.expire_timestamp != NO_TIMESTAMP:
        version = 1  # only version 1 has an expiry time, which a commit with its own retention needs
    return CONSUMER_OFFSETS.encode_value(value, version)


def decode_value(key: ConsumerOffsetsKey, value: bytes) -> tuple[ConsumerOffsetsValue, int]:
    """Decodes the value of a record with this key. Returns the value and its version."""
    return CONSUMER_OFFSETS.decode_value(key, value)


def key_to_json(key: ConsumerOffsetsKey) -> dict[str, Json]:
    return CONSUMER_OFFSETS.key_to_json(key)


def value_to_json(value: ConsumerOffsetsValue, version: int) -> dict[str, Json]:
    return CONSUMER_OFFSETS.value_to_json(value, version)
