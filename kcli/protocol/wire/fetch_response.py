"""A fast decoder of Fetch responses, versions 12 to 18, for followers. Records are views of the frame, and not copies.

This decoder must give the same messages as the general codec. A property test compares the two. The records of a
response are valid only until the caller reuses the buffer of the frame.
"""

from __future__ import annotations

import uuid
from struct import Struct, error
from typing import cast

from kcli.errors import ErrorCode, ProtocolError
from kcli.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from kcli.protocol.wire.fetch_codec import TOPIC_ID_FROM
from kcli.protocol.wire.packing import (
    INT32,
    cause_text,
    read_count,
    read_present_string,
    read_string,
    read_tags,
    read_uuid,
    read_uvarint,
)

FIRST_VERSION = 12
"""The first version that this module decodes. Older versions lack the epoch of the last fetched record, so a follower
cannot find out where its log diverges from the leader's."""

_NODE_ENDPOINTS_FROM = 16
_HEAD = Struct(">ihi")
_PARTITION = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_EPOCH_AND_OFFSET = Struct(">iq")
_TWO_INT32 = Struct(">ii")
_OFFSET_AND_EPOCH = Struct(">qi")

_TOPIC_SIZE_MIN = 3
_PARTITION_SIZE_MIN = _PARTITION.size + 7
_ENDPOINT_SIZE_MIN = 11
_FLEXIBLE = True
_CODES = {int(code): code for code in ErrorCode}
"""The error codes by their numbers. A number may be missing here, because a newer leader may send a code that this
release does not know."""


def decode_fetch_response(version: int, frame: memoryview) -> tuple[int, FetchResponse]:
    """Decodes a frame without size prefix to its correlation id and response. Raises ProtocolError for invalid
    bytes."""
    assert version >= FIRST_VERSION, "the layout of older versions is not flexible"
    try:
        (correlation_id,) = INT32.unpack_from(frame, 0)
        return correlation_id, _decode(version, frame, read_tags(frame, INT32.size))
    except (error, IndexError, ValueError) as cause:
        raise ProtocolError(f"Fetch v{version} response is malformed: {cause_text(cause)}") from cause


def _decode(version: int, frame: memoryview, at: int) -> FetchResponse:
    throttle_time_ms, code, session_id = _HEAD.unpack_from(frame, at)
    count, at = read_count(frame, at + _HEAD.size, _FLEXIBLE, "responses", _TOPIC_SIZE_MIN)
    topics = []
    for _ in range(count):
        topic, at = _decode_topic(version, frame, at)
        topics.append(topic)
    endpoints: tuple[NodeEndpoint, ...] = ()

    def read(tag: int, payload: object) -> None:
        nonlocal endpoints
        if tag == 0 and version >= _NODE_ENDPOINTS_FROM:
            endpoints = _decode_endpoints(cast(memoryview, payload))

    read_tags(frame, at, read)
    return FetchResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=_CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR),
        session_id=session_id,
        responses=tuple(topics),
        node_endpoints=endpoints,
    )


def _decode_topic(version: int, frame: memoryview, at: int) -> tuple[FetchableTopicResponse, int]:
    name, topic_id = "", cast("uuid.UUID | None", None)
    if version >= TOPIC_ID_FROM:
        topic_id, at = read_uuid(frame, at)
    else:
        name, at = read_present_string(frame, at, _FLEXIBLE, "topic")
    count, at = read_count(frame, at, _FLEXIBLE, "partitions", _PARTITION_SIZE_MIN)
    partitions = []
    for _ in range(count):
        partition, at = _decode_partition(frame, at)
        partitions.append(partition)
    return FetchableTopicResponse(topic_id=topic_id, topic=name, partitions=tuple(partitions)), read_tags(
        frame, at
    )


def _decode_partition(frame: memoryview, at: int) -> tuple[PartitionData, int]:
    index, code, high_watermark, last_stable_offset, log_start_offset = _PARTITION.unpack_from(frame, at)
    aborted, at = _decode_aborted(frame, at + _PARTITION.size)
    (preferred_read_replica,) = INT32.unpack_from(frame, at)
    size, at = read_uvarint(frame, at + INT32.size)
    size -= 1
    records: memoryview | None = None
    if size >= 0:
        records = frame[at : at + size]
        if len(records) != size:
            raise ProtocolError(f"records of {size} bytes run past the end of the Fetch response")
        at += size
    tags = _PartitionTags()
    at = read_tags(frame, at, tags.read)
    partition = PartitionData(
        partition_index=index,
        error_code=_CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR),
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        diverging_epoch=tags.diverging_epoch,
        current_leader=tags.current_leader,
        snapshot_id=tags.snapshot_id,
        aborted_transactions=aborted,
        preferred_read_replica=preferred_read_replica,
        records=cast("bytes | None", records),  # the log appends any buffer
    )
    return partition, at


def _decode_aborted(frame: memoryview, at: int) -> tuple[tuple[AbortedTransaction, ...] | None, int]:
    if frame[at] == 0:
        return None, at + 1
    count, at = read_count(frame, at, _FLEXIBLE, "abortedTransactions", _ABORTED.size + 1)
    aborted = []
    for _ in range(count):
        producer_id, first_offset = _ABORTED.unpack_from(frame, at)
        aborted.append(AbortedTransaction(producer_id=producer_id, first_offset=first_offset))
        at = read_tags(frame, at + _ABORTED.size)
    return tuple(aborted), at


_DEFAULTS = PartitionData()


class _PartitionTags:
    """The tagged fields of a partition: a divergence (tag 0), the present leader (tag 1), a snapshot (tag 2)."""

    __slots__ = ("current_leader", "diverging_epoch", "snapshot_id")

    def __init__(self) -> None:
        self.diverging_epoch = _DEFAULTS.diverging_epoch
        self.current_leader = _DEFAULTS.current_leader
        self.snapshot_id = _DEFAULTS.snapshot_id

    def read(self, tag: int, payload: object) -> None:
        body = cast(memoryview, payload)
        if tag == 0:
            epoch, end_offset = _EPOCH_AND_OFFSET.unpack_from(body)
            self.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
        elif tag == 1:
            leader_id, leader_epoch = _TWO_INT32.unpack_from(body)
            self.current_leader = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
        elif tag == 2:
            end_offset, epoch = _OFFSET_AND_EPOCH.unpack_from(body)
            self.snapshot_id = SnapshotId(end_offset=end_offset, epoch=epoch)


def _decode_endpoints(body: memoryview) -> tuple[NodeEndpoint, ...]:
    count, at = read_count(body, 0, _FLEXIBLE, "nodeEndpoints", _ENDPOINT_SIZE_MIN)
    endpoints = []
    for _ in range(count):
        (node_id,) = INT32.unpack_from(body, at)
        host, at = read_present_string(body, at + INT32.size, _FLEXIBLE, "host")
        (port,) = INT32.unpack_from(body, at)
        rack, at = read_string(body, at + INT32.size, _FLEXIBLE)
        at = read_tags(body, at)
        endpoints.append(NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack))
    return tuple(endpoints)
