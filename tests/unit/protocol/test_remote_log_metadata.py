from __future__ import annotations

from uuid import UUID

import pytest

from kcli.errors import CorruptRecordError
from kcli.protocol.records.remote_log_metadata import (
    RemoteLogRecord,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpoch,
    TopicIdPartition,
    decode_remote_log_record,
    describe,
    encode_remote_log_record,
)

PARTITION = TopicIdPartition(name="t", id=UUID(int=1), partition=2)
SEGMENT = RemoteLogSegmentId(topic_id_partition=PARTITION, id=UUID(int=2))


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (
            RemoteLogSegmentMetadataRecord(
                remote_log_segment_id=SEGMENT,
                end_offset=9,
                segment_leader_epochs=(SegmentLeaderEpoch(leader_epoch=1, offset=4), SegmentLeaderEpoch()),
                custom_metadata=b"abc",
            ),
            (
                "RemoteLogSegmentMetadata{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition="
                "AAAAAAAAAAAAAAAAAAAAAQ:t-2, id=AAAAAAAAAAAAAAAAAAAAAg}, startOffset=0, endOffset=9, brokerId=0, "
                "maxTimestampMs=0, eventTimestampMs=0, segmentLeaderEpochs={0=0, 1=4}, segmentSizeInBytes=0, "
                "customMetadata=Optional[CustomMetadata{3 bytes}], state=COPY_SEGMENT_STARTED, txnIdxEmpty=false}"
            ),
        ),
        (
            RemoteLogSegmentMetadataUpdateRecord(
                remote_log_segment_id=SEGMENT, broker_id=1, event_timestamp_ms=5, remote_log_segment_state=3
            ),
            (
                "RemoteLogSegmentMetadataUpdate{remoteLogSegmentId=RemoteLogSegmentId{topicIdPartition="
                "AAAAAAAAAAAAAAAAAAAAAQ:t-2, id=AAAAAAAAAAAAAAAAAAAAAg}, customMetadata=Optional.empty, "
                "state=DELETE_SEGMENT_FINISHED, eventTimestampMs=5, brokerId=1}"
            ),
        ),
        (
            RemotePartitionDeleteMetadataRecord(
                topic_id_partition=PARTITION, remote_partition_delete_state=1
            ),
            (
                "RemotePartitionDeleteMetadata{topicPartition=AAAAAAAAAAAAAAAAAAAAAQ:t-2, "
                "state=DELETE_PARTITION_STARTED, eventTimestampMs=0, brokerId=0}"
            ),
        ),
        (
            RemoteLogSegmentMetadataSnapshotRecord(segment_id=UUID(int=2)),
            (
                "RemoteLogSegmentMetadataSnapshot{segmentId=AAAAAAAAAAAAAAAAAAAAAg, startOffset=0, endOffset=0, "
                "maxTimestampMs=0, segmentLeaderEpochs={}, segmentSizeInBytes=0, customMetadata=Optional.empty, "
                "state=COPY_SEGMENT_STARTED}"
            ),
        ),
    ],
)
def test_records_come_back_and_are_shown_as_java_shows_them(record: RemoteLogRecord, text: str) -> None:
    assert decode_remote_log_record(encode_remote_log_record(record)) == (record, 0)
    assert describe(record) == text


def test_unknown_types_are_corrupt() -> None:
    with pytest.raises(CorruptRecordError, match="Unknown metadata id 9"):
        decode_remote_log_record(b"\x01\x09\x00\x00")
