"""A fast codec for Fetch, versions 4 to 18. A response is a list of buffers, and record bytes are not copied.

This codec must give the same messages and bytes as the general codec. A property test compares the two codecs. The
records in a response may be any buffer, or a range of a file.
"""

from __future__ import annotations

from struct import Struct, error

from kcli.errors import ProtocolError
from kcli.model.buffers import Buffer, Part
from kcli.model.pace import Pace
from kcli.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)
from kcli.protocol.wire.packing import (
    INT32,
    INT64,
    cause_text,
    pack_count,
    pack_string,
    pack_tags,
    pack_uuid,
    pack_uvarint,
    read_count,
    read_present_string,
    read_string,
    read_tags,
    read_uuid,
)

# Costs in microseconds, because a client chooses the numbers of topics and partitions (kcli.model.pace).
TOPIC_COST = 2
DECODED_PARTITION_COST = 2
ENCODED_PARTITION_COST = 5
PARTITIONS_AT_ONCE = 50
"""Partitions of a topic that are charged together, because a call of the pace is not free."""

FLEXIBLE_FROM = 12
TOPIC_ID_FROM = 13
SESSION_FROM = 7
_LOG_START_OFFSET_FROM = 5
_LEADER_EPOCH_FROM = 9
_RACK_FROM = 11
_REPLICA_STATE_FROM = 15
_NODE_ENDPOINTS_FROM = 16
_DIRECTORY_ID_FROM = 17
_HIGH_WATERMARK_FROM = 18

# max_wait_ms, min_bytes, max_bytes, isolation_level. Up to v14 replica_id comes before them.
_LIMITS = Struct(">iiib")
_TWO_INT32 = Struct(">ii")
_EPOCH_AND_OFFSET = Struct(">iq")
_OFFSET_AND_EPOCH = Struct(">qi")
_TWO_INT64 = Struct(">qq")
_ERROR_AND_SESSION = Struct(">hi")
_PARTITION_V4 = Struct(">ihqq")
_PARTITION_V5 = Struct(">ihqqq")

# One partition of a request: partition, leader epoch, fetch offset, last fetched epoch, log start, max bytes.
_REQUEST_V4 = Struct(">iqi")
_REQUEST_V5 = Struct(">iqqi")
_REQUEST_V9 = Struct(">iiqqi")
_REQUEST_V12 = Struct(">iiqiqi")

_TOPIC_SIZE_MIN = 3
_FORGOTTEN_PARTITION_SIZE_MIN = 4

_NO_REPLICA_STATE = ReplicaState()
# The default values of PartitionData. They are compared by identity first, because nearly every partition has them.
_DEFAULTS = PartitionData()
_NO_DIVERGING_EPOCH = _DEFAULTS.diverging_epoch
_NO_LEADER = _DEFAULTS.current_leader
_NO_SNAPSHOT = _DEFAULTS.snapshot_id


async def decode_fetch_request(version: int, frame: Buffer, at: int, pace: Pace) -> FetchRequest:
    """Decodes the request whose body begins at `at`. Raises ProtocolError if the bytes are not a Fetch request."""
    try:
        return await _decode(version, frame, at, pace)
    except (error, IndexError) as cause:
        raise ProtocolError(f"Fetch v{version} request is malformed: {cause_text(cause)}") from cause


async def _decode(version: int, frame: Buffer, at: int, pace: Pace) -> FetchRequest:
    flexible = version >= FLEXIBLE_FROM
    replica_id = -1
    if version < _REPLICA_STATE_FROM:
        (replica_id,) = INT32.unpack_from(frame, at)
        at += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(frame, at)
    at += _LIMITS.size
    session_id, session_epoch = 0, -1
    if version >= SESSION_FROM:
        session_id, session_epoch = _TWO_INT32.unpack_from(frame, at)
        at += 8
    count, at = read_count(frame, at, flexible, "topics", _TOPIC_SIZE_MIN)
    topics = []
    for _ in range(count):
        await pace(TOPIC_COST)
        topic, at = await _decode_topic(version, flexible, frame, at, pace)
        topics.append(topic)
    forgotten = []
    if version >= SESSION_FROM:
        count, at = read_count(frame, at, flexible, "forgottenTopicsData", _TOPIC_SIZE_MIN)
        for _ in range(count):
            gone, at = await _decode_forgotten(version, flexible, frame, at, pace)
            forgotten.append(gone)
    rack_id = ""
    if version >= _RACK_FROM:
        rack_id, at = read_present_string(frame, at, flexible, "rackId")
    tags = _RequestTags()
    if flexible:
        read_tags(frame, at, tags.read)
    return FetchRequest(
        cluster_id=tags.cluster_id,
        replica_state=tags.replica_state,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=tuple(topics),
        forgotten_topics_data=tuple(forgotten),
        rack_id=rack_id,
        replica_id=replica_id,
    )


class _RequestTags:
    """The tagged fields of a request: tag 0 is the cluster id, tag 1 the replica state (v15+)."""

    __slots__ = ("cluster_id", "replica_state")

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.replica_state = _NO_REPLICA_STATE

    def read(self, tag: int, payload: Buffer) -> None:
        if tag == 0:
            self.cluster_id, _ = read_string(payload, 0, True)
        elif tag == 1:
            (replica_id,) = INT32.unpack_from(payload, 0)
            (replica_epoch,) = INT64.unpack_from(payload, 4)
            self.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)


async def _decode_topic(
    version: int, flexible: bool, frame: Buffer, at: int, pace: Pace
) -> tuple[FetchTopic, int]:
    name, topic_id = "", None
    if version >= TOPIC_ID_FROM:
        topic_id, at = read_uuid(frame, at)
    else:
        name, at = read_present_string(frame, at, flexible, "topic")
    count, at = read_count(frame, at, flexible, "partitions", _REQUEST_V4.size)
    partitions = []
    for i in range(count):
        if not i % PARTITIONS_AT_ONCE:
            await pace(min(count - i, PARTITIONS_AT_ONCE) * DECODED_PARTITION_COST)
        partition, at = _decode_partition(version, frame, at)
        partitions.append(partition)
    if flexible:
        at = read_tags(frame, at)
    return FetchTopic(topic_id=topic_id, topic=name, partitions=tuple(partitions)), at


def _decode_partition(version: int, frame: Buffer, at: int) -> tuple[FetchPartition, int]:
    leader_epoch = last_fetched_epoch = log_start_offset = -1
    if version >= FLEXIBLE_FROM:
        row = _REQUEST_V12.unpack_from(frame, at)
        index, leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, max_bytes = row
        at += _REQUEST_V12.size
        if frame[at]:
            return _decode_tagged_partition(version, row, frame, at)
        at += 1
    elif version >= _LEADER_EPOCH_FROM:
        index, leader_epoch, fetch_offset, log_start_offset, max_bytes = _REQUEST_V9.unpack_from(frame, at)
        at += _REQUEST_V9.size
    elif version >= _LOG_START_OFFSET_FROM:
        index, fetch_offset, log_start_offset, max_bytes = _REQUEST_V5.unpack_from(frame, at)
        at += _REQUEST_V5.size
    else:
        index, fetch_offset, max_bytes = _REQUEST_V4.unpack_from(frame, at)
        at += _REQUEST_V4.size
    partition = FetchPartition(
        partition=index,
        current_leader_epoch=leader_epoch,
        fetch_offset=fetch_offset,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=log_start_offset,
        partition_max_bytes=max_bytes,
    )
    return partition, at


def _decode_tagged_partition(
    version: int, row: tuple[int, ...], frame: Buffer, at: int
) -> tuple[FetchPartition, int]:
    """Decodes a partition with tagged fields, as a follower sends it. Tag 0 is the directory id of the replica (v17+),
    tag 1 its high watermark (v18+)."""
    directory_id, high_watermark = None, FetchPartition().high_watermark

    def read(tag: int, payload: Buffer) -> None:
        nonlocal directory_id, high_watermark
        if tag == 0 and version >= _DIRECTORY_ID_FROM:
            directory_id, _ = read_uuid(payload, 0)
        elif tag == 1 and version >= _HIGH_WATERMARK_FROM:
            (high_watermark,) = INT64.unpack_from(payload, 0)

    at = read_tags(frame, at, read)
    index, leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, max_bytes = row
    partition = FetchPartition(
        partition=index,
        current_leader_epoch=leader_epoch,
        fetch_offset=fetch_offset,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=log_start_offset,
        partition_max_bytes=max_bytes,
        replica_directory_id=directory_id,
        high_watermark=high_watermark,
    )
    return partition, at


async def _decode_forgotten(
    version: int, flexible: bool, frame: Buffer, at: int, pace: Pace
) -> tuple[ForgottenTopic, int]:
    name, topic_id = "", None
    if version >= TOPIC_ID_FROM:
        topic_id, at = read_uuid(frame, at)
    else:
        name, at = read_present_string(frame, at, flexible, "topic")
    count, at = read_count(frame, at, flexible, "partitions", _FORGOTTEN_PARTITION_SIZE_MIN)
    await pace(TOPIC_COST + count // PARTITIONS_AT_ONCE)
    partitions = Struct(f">{count}i").unpack_from(frame, at)
    at += 4 * count
    if flexible:
        at = read_tags(frame, at)
    return ForgottenTopic(topic_id=topic_id, topic=name, partitions=partitions), at


async def encode_fetch_response(
    response: FetchResponse, version: int, correlation_id: int, pace: Pace
) -> list[Part]:
    """Encodes the whole frame as parts that must be sent one after another. The first part begins with the size
    prefix."""
    flexible = version >= FLEXIBLE_FROM
    head = bytearray(8)
    if flexible:
        head += b"\x00"
    head += INT32.pack(response.throttle_time_ms)
    if version >= SESSION_FROM:
        head += _ERROR_AND_SESSION.pack(response.error_code, response.session_id)
    head += pack_count(len(response.responses), flexible)
    parts: list[Part] = [head]
    for topic in response.responses:
        await pace(TOPIC_COST)
        await _encode_topic(parts, topic, version, flexible, pace)
    if flexible:
        endpoints = response.node_endpoints if version >= _NODE_ENDPOINTS_FROM else ()
        _tail(parts).extend(pack_tags([(0, _pack_endpoints(endpoints))] if endpoints else []))
    _TWO_INT32.pack_into(head, 0, sum(map(len, parts)) - 4, correlation_id)
    return parts


def _tail(parts: list[Part]) -> bytearray:
    """The last buffer of the list, to which the next fields are appended. This buffer never contains records."""
    tail = parts[-1]
    assert isinstance(tail, bytearray)
    return tail


async def _encode_topic(
    parts: list[Part], topic: FetchableTopicResponse, version: int, flexible: bool, pace: Pace
) -> None:
    tail = _tail(parts)
    tail += pack_uuid(topic.topic_id) if version >= TOPIC_ID_FROM else pack_string(topic.topic, flexible)
    tail += pack_count(len(topic.partitions), flexible)
    count = len(topic.partitions)
    for i, partition in enumerate(topic.partitions):
        if not i % PARTITIONS_AT_ONCE:
            await pace(min(count - i, PARTITIONS_AT_ONCE) * ENCODED_PARTITION_COST)
        _encode_partition(parts, partition, version, flexible)
    if flexible:
        _tail(parts).append(0)


def _encode_partition(parts: list[Part], partition: PartitionData, version: int, flexible: bool) -> None:
    tail = _tail(parts)
    row = (
        partition.partition_index,
        partition.error_code,
        partition.high_watermark,
        partition.last_stable_offset,
    )
    if version >= _LOG_START_OFFSET_FROM:
        tail += _PARTITION_V5.pack(*row, partition.log_start_offset)
    else:
        tail += _PARTITION_V4.pack(*row)
    tail += _pack_aborted(partition.aborted_transactions, flexible)
    if version >= _RACK_FROM:
        tail += INT32.pack(partition.preferred_read_replica)
    records: Part | None = partition.records
    if records is None:
        tail += b"\x00" if flexible else b"\xff\xff\xff\xff"
    else:
        tail += pack_uvarint(len(records) + 1) if flexible else INT32.pack(len(records))
        if len(records):
            tail = bytearray()
            parts += (records, tail)
    if flexible:
        tail += _pack_partition_tags(partition)


def _pack_aborted(aborted: tuple[AbortedTransaction, ...] | None, flexible: bool) -> bytes:
    if aborted is None:
        return b"\x00" if flexible else b"\xff\xff\xff\xff"
    if not aborted:
        return b"\x01" if flexible else b"\x00\x00\x00\x00"
    end = b"\x00" if flexible else b""
    rows = [_TWO_INT64.pack(entry.producer_id, entry.first_offset) + end for entry in aborted]
    return pack_count(len(rows), flexible) + b"".join(rows)


def _pack_partition_tags(partition: PartitionData) -> bytes:
    fields = []
    diverging, leader, snapshot = partition.diverging_epoch, partition.current_leader, partition.snapshot_id
    if diverging is not _NO_DIVERGING_EPOCH and diverging != _NO_DIVERGING_EPOCH:
        fields.append((0, _EPOCH_AND_OFFSET.pack(diverging.epoch, diverging.end_offset) + b"\x00"))
    if leader is not _NO_LEADER and leader != _NO_LEADER:
        fields.append((1, _TWO_INT32.pack(leader.leader_id, leader.leader_epoch) + b"\x00"))
    if snapshot is not _NO_SNAPSHOT and snapshot != _NO_SNAPSHOT:
        fields.append((2, _OFFSET_AND_EPOCH.pack(snapshot.end_offset, snapshot.epoch) + b"\x00"))
    return pack_tags(fields)


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
