"""A fast codec for Produce, versions 3 to 13. The records of a request are slices of the frame, not copies.

This codec must give the same messages and bytes as the general codec. A property test compares the two codecs. The
records of a decoded request are memoryviews of the frame, and the log changes offsets in the frame itself. A caller
must not keep these memoryviews after it has handled the request.
"""

from __future__ import annotations

import uuid
from struct import Struct, error
from typing import cast

from kcli.errors import ErrorCode, ProtocolError
from kcli.model.buffers import Buffer
from kcli.model.pace import Pace
from kcli.protocol.messages.produce import (
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kcli.protocol.wire.packing import (
    INT32,
    cause_text,
    pack_count,
    pack_string,
    pack_tags,
    pack_uuid,
    read_count,
    read_present_string,
    read_string,
    read_tags,
    read_uuid,
    read_uvarint,
)

# Costs in microseconds, because a client chooses the numbers of topics and partitions (kcli.model.pace).
TOPIC_COST = 5
PARTITION_COST = 2
PARTITIONS_AT_ONCE = 50
"""Partitions of a topic that are charged together, because a call of the pace is not free."""

FLEXIBLE_FROM = 9
TOPIC_ID_FROM = 13
_LOG_START_OFFSET_FROM = 5
_RECORD_ERRORS_FROM = 8
_LEADER_HINT_FROM = 10

_ACKS_TIMEOUT = Struct(">hi")
_PARTITION_V2 = Struct(">ihqq")
_PARTITION_V5 = Struct(">ihqqq")
# A partition without errors from v8 on. Its last fields are empty: the record errors, the message, and from v9 on the
# tags.
_PARTITION_V8_OK = Struct(">ihqqqih")
_PARTITION_V9_OK = Struct(">ihqqqBBB")
_FRAME_HEAD = Struct(">ii")
_NO_LEADER = PartitionProduceResponse().current_leader

# The smallest sizes of a partition (index, null records) and of a topic (name, empty array), without tags.
_PARTITION_SIZE_MIN = 5
_TOPIC_SIZE_MIN = 3


async def decode_produce_request(version: int, frame: Buffer, at: int, pace: Pace) -> ProduceRequest:
    """Decodes the request whose body begins at `at`. Raises ProtocolError if the bytes are not a Produce request."""
    try:
        flexible = version >= FLEXIBLE_FROM
        transactional_id, acks, timeout_ms, count, at = _decode_head(flexible, frame, at)
        topics = []
        for _ in range(count):
            name, topic_id, count, at = _decode_topic_head(version, flexible, frame, at)
            partitions: list[PartitionProduceData] = []
            for begin in range(0, count or 1, PARTITIONS_AT_ONCE):
                here = min(count - begin, PARTITIONS_AT_ONCE)
                await pace(TOPIC_COST + here * PARTITION_COST)
                some, at = _decode_partitions(flexible, frame, at, here)
                partitions += some
            if flexible:
                at = read_tags(frame, at)
            topics.append(TopicProduceData(topic_id=topic_id, name=name, partition_data=tuple(partitions)))
        if flexible:
            at = read_tags(frame, at)
        return ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=tuple(topics)
        )
    except (error, IndexError) as cause:
        raise ProtocolError(f"Produce v{version} request is malformed: {cause_text(cause)}") from cause


def _decode_head(flexible: bool, frame: Buffer, at: int) -> tuple[str | None, int, int, int, int]:
    """Reads all fields before the topics: the transactional id, acks, the timeout, the number of topics, and the
    position after them."""
    transactional_id, at = read_string(frame, at, flexible)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, at)
    count, at = read_count(frame, at + _ACKS_TIMEOUT.size, flexible, "topicData", _TOPIC_SIZE_MIN)
    return transactional_id, acks, timeout_ms, count, at


def _decode_topic_head(
    version: int, flexible: bool, frame: Buffer, at: int
) -> tuple[str, uuid.UUID | None, int, int]:
    """Reads the name and the id of a topic, the number of its partitions, and the position after them."""
    name, topic_id = "", None
    if version >= TOPIC_ID_FROM:
        topic_id, at = read_uuid(frame, at)
    else:
        name, at = read_present_string(frame, at, flexible, "name")
    count, at = read_count(frame, at, flexible, "partitionData", _PARTITION_SIZE_MIN)
    return name, topic_id, count, at


def _decode_partitions(
    flexible: bool, frame: Buffer, at: int, count: int
) -> tuple[list[PartitionProduceData], int]:
    partitions = []
    for _ in range(count):
        (index,) = INT32.unpack_from(frame, at)
        at += 4
        if flexible:
            size, at = read_uvarint(frame, at)
            size -= 1
        else:
            (size,) = INT32.unpack_from(frame, at)
            at += 4
        records: Buffer | None = None
        if size >= 0:
            records = frame[at : at + size]
            if len(records) != size:
                raise ProtocolError(f"records of {size} bytes at byte {at} run past the end of the request")
            at += size
        if flexible:
            at = read_tags(frame, at)
        partitions.append(PartitionProduceData(index=index, records=cast("bytes | None", records)))
    return partitions, at


async def encode_produce_response(
    response: ProduceResponse, version: int, correlation_id: int, pace: Pace
) -> bytes:
    """Encodes the whole frame, size prefix included."""
    flexible = version >= FLEXIBLE_FROM
    parts = [b"\x00" if flexible else b"", pack_count(len(response.responses), flexible)]
    for topic in response.responses:
        parts.append(
            pack_uuid(topic.topic_id) if version >= TOPIC_ID_FROM else pack_string(topic.name, flexible)
        )
        partitions = topic.partition_responses
        parts.append(pack_count(len(partitions), flexible))
        for begin in range(0, len(partitions) or 1, PARTITIONS_AT_ONCE):
            here = partitions[begin : begin + PARTITIONS_AT_ONCE]
            await pace(TOPIC_COST + len(here) * PARTITION_COST)
            parts += [_encode_partition(partition, version, flexible) for partition in here]
        if flexible:
            parts.append(b"\x00")
    parts.append(INT32.pack(response.throttle_time_ms))
    if flexible:
        endpoints = response.node_endpoints if version >= _LEADER_HINT_FROM else ()
        parts.append(pack_tags([(0, _pack_endpoints(endpoints))] if endpoints else []))
    body = b"".join(parts)
    return _FRAME_HEAD.pack(len(body) + 4, correlation_id) + body


def _encode_partition(partition: PartitionProduceResponse, version: int, flexible: bool) -> bytes:
    row = (partition.index, partition.error_code, partition.base_offset, partition.log_append_time_ms)
    if version < _LOG_START_OFFSET_FROM:
        return _PARTITION_V2.pack(*row)
    if version < _RECORD_ERRORS_FROM:
        return _PARTITION_V5.pack(*row, partition.log_start_offset)
    if (
        partition.error_code is ErrorCode.NONE
        and not partition.record_errors
        and partition.error_message is None
    ):
        if not flexible:
            return _PARTITION_V8_OK.pack(*row, partition.log_start_offset, 0, -1)
        if partition.current_leader is _NO_LEADER or partition.current_leader == _NO_LEADER:
            return _PARTITION_V9_OK.pack(*row, partition.log_start_offset, 1, 0, 0)
    parts = [
        _PARTITION_V5.pack(*row, partition.log_start_offset),
        pack_count(len(partition.record_errors), flexible),
    ]
    for record_error in partition.record_errors:
        parts.append(INT32.pack(record_error.batch_index))
        parts.append(pack_string(record_error.batch_index_error_message, flexible))
        if flexible:
            parts.append(b"\x00")
    parts.append(pack_string(partition.error_message, flexible))
    if flexible:
        leader = partition.current_leader
        known = version >= _LEADER_HINT_FROM and leader != _NO_LEADER
        parts.append(
            pack_tags(
                [(0, _FRAME_HEAD.pack(leader.leader_id, leader.leader_epoch) + b"\x00")] if known else []
            )
        )
    return b"".join(parts)


def _pack_endpoints(endpoints: tuple[NodeEndpoint, ...]) -> bytes:
    parts = [pack_count(len(endpoints), True)]
    for node in endpoints:
        parts += (
            INT32.pack(node.node_id),
            pack_string(node.host, True),
            INT32.pack(node.port),
            pack_string(node.rack, True),
            b"\x00",
        )
    return b"".join(parts)
