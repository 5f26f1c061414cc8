"""Key and value records of streams groups (KIP-1071) in `__consumer_offsets`."""

from __future__ import annotations

from typing import Annotated

from kcli.protocol.fields import Int8, Int16, Int32, Int64, UInt16, tag
from kcli.protocol.records.schema import NEVER_FLEXIBLE, record


@record()
class KeyValue:
    key: str = ""
    value: str = ""


@record(17, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class StreamsGroupMetadataKey:
    group_id: str = ""


@record(versions=(0, 0))
class StreamsGroupMetadataValue:
    epoch: Int32 = 0
    metadata_hash: Int64 = 0
    validated_topology_epoch: Annotated[Int32, tag(0)] = -1
    last_assignment_configs: Annotated[tuple[KeyValue, ...] | None, tag(1)] = None
    stored_description_topology_epoch: Annotated[Int32, tag(2)] = -1
    failed_description_topology_epoch: Annotated[Int32, tag(3)] = -1


@record(19, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class StreamsGroupMemberMetadataKey:
    group_id: str = ""
    member_id: str = ""


@record()
class Endpoint:
    host: str = ""
    port: UInt16 = 0


@record(versions=(0, 0))
class StreamsGroupMemberMetadataValue:
    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: Int32 = -1
    topology_epoch: Int32 = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()


@record(20, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: str = ""


@record(versions=(0, 0))
class StreamsGroupTargetAssignmentMetadataValue:
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, tag(0)] = 0


@record(21, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class StreamsGroupTargetAssignmentMemberKey:
    group_id: str = ""
    member_id: str = ""


@record()
class TargetTaskIds:
    subtopology_id: str = ""
    partitions: tuple[Int32, ...] = ()


@record(versions=(0, 0))
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: tuple[TargetTaskIds, ...] = ()
    standby_tasks: tuple[TargetTaskIds, ...] = ()
    warmup_tasks: tuple[TargetTaskIds, ...] = ()


@record(22, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: str = ""
    member_id: str = ""


@record()
class CurrentTaskIds:
    subtopology_id: str = ""
    partitions: tuple[Int32, ...] = ()
    assignment_epochs: Annotated[tuple[Int32, ...] | None, tag(0)] = None


@record(versions=(0, 0))
class StreamsGroupCurrentMemberAssignmentValue:
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    active_tasks: tuple[CurrentTaskIds, ...] = ()
    standby_tasks: tuple[CurrentTaskIds, ...] = ()
    warmup_tasks: tuple[CurrentTaskIds, ...] = ()
    active_tasks_pending_revocation: tuple[CurrentTaskIds, ...] = ()
    standby_tasks_pending_revocation: tuple[CurrentTaskIds, ...] = ()
    warmup_tasks_pending_revocation: tuple[CurrentTaskIds, ...] = ()


@record(23, versions=(0, 0), flexible_since=NEVER_FLEXIBLE)
class StreamsGroupTopologyKey:
    group_id: str = ""


@record()
class InternalTopicInfo:
    name: str = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: tuple[KeyValue, ...] = ()


@record()
class CopartitionGroup:
    """A group of topics that must have the same number of partitions. The topics are given as indexes into the arrays
    of the subtopology."""

    source_topics: tuple[Int16, ...] = ()
    source_topic_regex: tuple[Int16, ...] = ()
    repartition_source_topics: tuple[Int16, ...] = ()


@record()
class Subtopology:
    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[InternalTopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


@record(versions=(0, 0))
class StreamsGroupTopologyValue:
    epoch: Int32 = 0
    subtopologies: tuple[Subtopology, ...] = ()
