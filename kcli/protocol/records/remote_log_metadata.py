"""Reads the records of `__remote_log_metadata`, the topic of tiered storage (KIP-405), and formats them as Java
does."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kcli.model.ids import ZERO_ID
from kcli.model.uuids import uuid_to_text
from kcli.protocol.fields import Int8, Int32, Int64, tag
from kcli.protocol.records.framing import decode_framed, encode_framed
from kcli.protocol.records.schema import record, schema_of

_SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


@record()
class TopicIdPartition:
    name: str = ""
    id: UUID = ZERO_ID
    partition: Int32 = 0


@record()
class RemoteLogSegmentId:
    topic_id_partition: TopicIdPartition = TopicIdPartition()
    id: UUID = ZERO_ID


@record()
class SegmentLeaderEpoch:
    leader_epoch: Int32 = 0
    offset: Int64 = 0


@record(0, versions=(0, 0))
class RemoteLogSegmentMetadataRecord:
    remote_log_segment_id: RemoteLogSegmentId = RemoteLogSegmentId()
    start_offset: Int64 = 0
    end_offset: Int64 = 0
    broker_id: Int32 = 0
    max_timestamp_ms: Int64 = 0
    event_timestamp_ms: Int64 = 0
    segment_leader_epochs: tuple[SegmentLeaderEpoch, ...] = ()
    segment_size_in_bytes: Int32 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: Int8 = 0
    txn_index_empty: Annotated[bool, tag(0)] = False


@record(1, versions=(0, 0))
class RemoteLogSegmentMetadataUpdateRecord:
    remote_log_segment_id: RemoteLogSegmentId = RemoteLogSegmentId()
    broker_id: Int32 = 0
    event_timestamp_ms: Int64 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: Int8 = 0


@record(2, versions=(0, 0))
class RemotePartitionDeleteMetadataRecord:
    topic_id_partition: TopicIdPartition = TopicIdPartition()
    broker_id: Int32 = 0
    event_timestamp_ms: Int64 = 0
    remote_partition_delete_state: Int8 = 0


@record(3, versions=(0, 0))
class RemoteLogSegmentMetadataSnapshotRecord:
    segment_id: UUID = ZERO_ID
    start_offset: Int64 = 0
    end_offset: Int64 = 0
    broker_id: Int32 = 0
    max_timestamp_ms: Int64 = 0
    event_timestamp_ms: Int64 = 0
    segment_leader_epochs: tuple[SegmentLeaderEpoch, ...] = ()
    segment_size_in_bytes: Int32 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: Int8 = 0
    txn_index_empty: Annotated[bool, tag(0)] = False


RemoteLogRecord = (
    RemoteLogSegmentMetadataRecord
    | RemoteLogSegmentMetadataUpdateRecord
    | RemotePartitionDeleteMetadataRecord
    | RemoteLogSegmentMetadataSnapshotRecord
)

_TYPES: dict[int, type[RemoteLogRecord]] = {schema_of(cls).key: cls for cls in RemoteLogRecord.__args__}


def encode_remote_log_record(record: RemoteLogRecord, version: int = 0) -> bytes:
    return encode_framed(record, version)


def decode_remote_log_record(value: bytes) -> tuple[RemoteLogRecord, int]:
    """Decodes a record. Returns the record and its version. Raises CorruptRecordError for invalid bytes and unknown
    types."""
    return decode_framed(_TYPES, value)


def describe(record: RemoteLogRecord) -> str:
    """Formats a record as `toString` of Kafka's Java class does."""
    match record:
        case RemoteLogSegmentMetadataRecord():
            return _object(
                "RemoteLogSegmentMetadata",
                remoteLogSegmentId=_segment_id(record.remote_log_segment_id),
                startOffset=record.start_offset,
                endOffset=record.end_offset,
                brokerId=record.broker_id,
                maxTimestampMs=record.max_timestamp_ms,
                eventTimestampMs=record.event_timestamp_ms,
                segmentLeaderEpochs=_epochs(record.segment_leader_epochs),
                segmentSizeInBytes=record.segment_size_in_bytes,
                customMetadata=_custom(record.custom_metadata),
                state=_state(_SEGMENT_STATES, record.remote_log_segment_state),
                txnIdxEmpty="true" if record.txn_index_empty else "false",
            )
        case RemoteLogSegmentMetadataUpdateRecord():
            return _object(
                "RemoteLogSegmentMetadataUpdate",
                remoteLogSegmentId=_segment_id(record.remote_log_segment_id),
                customMetadata=_custom(record.custom_metadata),
                state=_state(_SEGMENT_STATES, record.remote_log_segment_state),
                eventTimestampMs=record.event_timestamp_ms,
                brokerId=record.broker_id,
            )
        case RemotePartitionDeleteMetadataRecord():
            return _object(
                "RemotePartitionDeleteMetadata",
                topicPartition=_partition(record.topic_id_partition),
                state=_state(_PARTITION_STATES, record.remote_partition_delete_state),
                eventTimestampMs=record.event_timestamp_ms,
                brokerId=record.broker_id,
            )
        case RemoteLogSegmentMetadataSnapshotRecord():
            return _object(
                "RemoteLogSegmentMetadataSnapshot",
                segmentId=uuid_to_text(record.segment_id),
                startOffset=record.start_offset,
                endOffset=record.end_offset,
                maxTimestampMs=record.max_timestamp_ms,
                segmentLeaderEpochs=_epochs(record.segment_leader_epochs),
                segmentSizeInBytes=record.segment_size_in_bytes,
                customMetadata=_custom(record.custom_metadata),
                state=_state(_SEGMENT_STATES, record.remote_log_segment_state),
            )


def _object(name: str, **fields: str | int) -> str:
    return name + "{" + ", ".join(f"{field}={value}" for field, value in fields.items()) + "}"


def _partition(partition: TopicIdPartition) -> str:
    return f"{uuid_to_text(partition.id)}:{partition.name}-{partition.partition}"


def _segment_id(segment: RemoteLogSegmentId) -> str:
    return _object(
        "RemoteLogSegmentId",
        topicIdPartition=_partition(segment.topic_id_partition),
        id=uuid_to_text(segment.id),
    )


def _epochs(epochs: tuple[SegmentLeaderEpoch, ...]) -> str:
    ordered = sorted((epoch.leader_epoch, epoch.offset) for epoch in epochs)
    return "{" + ", ".join(f"{epoch}={offset}" for epoch, offset in ordered) + "}"


def _custom(metadata: bytes | None) -> str:
    return "Optional.empty" if metadata is None else f"Optional[CustomMetadata{{{len(metadata)} bytes}}]"


def _state(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else "null"
