"""Key and value records of share groups (KIP-932) in `__consumer_offsets`."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kcli.model.ids import ZERO_ID
from kcli.protocol.fields import Int8, Int32, Int64, tag
from kcli.protocol.records.schema import NEVER_FLEXIBLE, record


@record(10, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ShareGroupMemberMetadataKey:
    group_id: str = ""
    member_id: str = ""


@record(versions=(0, 0))
class ShareGroupMemberMetadataValue:
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()


@record(11, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ShareGroupMetadataKey:
    group_id: str = ""


@record(versions=(0, 0))
class ShareGroupMetadataValue:
    epoch: Int32 = 0
    metadata_hash: Int64 = 0


@record(12, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ShareGroupTargetAssignmentMetadataKey:
    group_id: str = ""


@record(versions=(0, 0))
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, tag(0)] = 0


@record(13, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ShareGroupTargetAssignmentMemberKey:
    group_id: str = ""
    member_id: str = ""


@record()
class ShareTopicPartitions:
    topic_id: UUID = ZERO_ID
    partitions: tuple[Int32, ...] = ()


@record(versions=(0, 0))
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[ShareTopicPartitions, ...] = ()


@record(14, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ShareGroupCurrentMemberAssignmentKey:
    group_id: str = ""
    member_id: str = ""


@record(versions=(0, 0))
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: tuple[ShareTopicPartitions, ...] = ()


@record(15, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class ShareGroupStatePartitionMetadataKey:
    group_id: str = ""


@record()
class TopicPartitionsInfo:
    topic_id: UUID = ZERO_ID
    topic_name: str = ""
    partitions: tuple[Int32, ...] = ()


@record()
class TopicInfo:
    topic_id: UUID = ZERO_ID
    topic_name: str = ""


@record(versions=(0, 0))
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: tuple[TopicPartitionsInfo, ...] = ()
    initialized_topics: tuple[TopicPartitionsInfo, ...] = ()
    deleting_topics: tuple[TopicInfo, ...] = ()
