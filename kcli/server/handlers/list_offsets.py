"""ListOffsets (key 2, versions 1-10): the start and end of a partition, and the offset for a timestamp.

A timestamp of 0 or more asks for the offset of the first record with this or a later timestamp. A negative timestamp
has a special meaning:

- -1: the offset up to which a consumer may read;
- -2: the log start offset;
- -3: the record with the largest timestamp (KIP-734);
- -4: the first offset on the broker's own disk (KIP-405);
- -5: the end of tiered storage (KIP-1005), which does not exist here.

If there is no such offset, the response has -1 and no error.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.errors import (
    CorruptRecordError,
    CorruptRecordException,
    ErrorCode,
    InvalidRequestException,
    KafkaError,
    KafkaStorageException,
    LeaderNotAvailableException,
    OffsetNotAvailableException,
    StorageError,
    UnsupportedVersionException,
)
from kcli.model.pace import Pace, nested
from kcli.model.request_values import READ_COMMITTED, OffsetSpec
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.server.handlers.shared.hosted_partitions import HostedPartition, leader_of
from kcli.server.partitions.replicas import Replicas
from kcli.server.requests.access import DESCRIBE_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.storage.log.index import TimestampOffset
from kcli.storage.log.lookup import Search

_FIRST_VERSION: dict[int, int] = {
    OffsetSpec.LATEST: 0,
    OffsetSpec.EARLIEST: 0,
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
}
_OFFSET_NOT_AVAILABLE_FROM = 5
_NOTHING = -1
CONSUMER = -1
DEBUGGING_REPLICA = -2
"""The replica id in requests of debugging tools. Any replica answers such a request, not only the leader."""


GROUP_COST = 1
"""The cost to list a partition of the request under the name of its topic. It takes 0.2 µs."""
PARTITION_COST = 20
SEARCH_COST = 500
"""The cost of the first step of a search for a timestamp. It takes 30 µs if the batches are small, but it reads all
records of one batch. A batch of 500 records takes 0.7 ms."""


@dataclass(frozen=True, slots=True)
class Ports:
    replicas: Replicas


Context = RequestContext[Ports]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for one partition. All fields are -1 if there is no such offset."""

    offset: int = _NOTHING
    timestamp: int = _NOTHING
    leader_epoch: int = _NOTHING


async def handle(context: Context, request: ListOffsetsRequest) -> ListOffsetsResponse:
    allowed = await context.allowed(DESCRIBE_TOPIC, (topic.name for topic in request.topics))
    by_topic, repeated = await _by_topic(request, context.pace)
    topics = []
    for name, parts in by_topic.items():
        rows = []
        for index, part in parts.items():
            await context.pace(PARTITION_COST)
            if name in allowed:
                rows.append(await _answer(context, request, name, part, (name, index) in repeated))
            else:
                rows.append(_failed(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        topics.append(ListOffsetsTopicResponse(name=name, partitions=tuple(rows)))
    return ListOffsetsResponse(topics=tuple(topics))


async def error_response(
    context: Context, request: ListOffsetsRequest, error: KafkaError
) -> ListOffsetsResponse:
    topics = await nested(
        context.pace,
        REFUSAL_COST,
        request.topics,
        lambda topic: topic.partitions,
        lambda _, part: _failed(part.partition_index, error.code),
        lambda topic, parts: ListOffsetsTopicResponse(name=topic.name, partitions=parts),
    )
    return ListOffsetsResponse(topics=topics)


async def _by_topic(
    request: ListOffsetsRequest, pace: Pace
) -> tuple[dict[str, dict[int, ListOffsetsPartition]], set[tuple[str, int]]]:
    """The partitions of the request by topic name and partition, and those that occur more than once. As in Kafka, such
    a topic or partition has one answer."""
    by_topic: dict[str, dict[int, ListOffsetsPartition]] = {}
    repeated: set[tuple[str, int]] = set()
    for topic in request.topics:
        await pace(GROUP_COST)
        parts = by_topic.setdefault(topic.name, {})
        for part in topic.partitions:
            await pace(GROUP_COST)
            if part.partition_index in parts:
                repeated.add((topic.name, part.partition_index))
            parts[part.partition_index] = part
    return by_topic, repeated


async def _answer(
    context: Context,
    request: ListOffsetsRequest,
    topic: str,
    part: ListOffsetsPartition,
    is_repeated: bool,
) -> ListOffsetsPartitionResponse:
    index = part.partition_index
    try:
        if is_repeated:
            raise InvalidRequestException(f"{topic}-{index} is asked for more than once")
        _check_version(part.timestamp, context.api_version)
        source = context.ports.replicas.hosted(topic, index)
        if request.replica_id == DEBUGGING_REPLICA:
            source.check_epoch(part.current_leader_epoch)
        else:
            source = leader_of(source, part.current_leader_epoch)
        answer = await _find(context, source, part.timestamp, request)
    except KafkaError as error:
        return _failed(index, error.code)
    except StorageError as error:
        wrong = CorruptRecordException if isinstance(error, CorruptRecordError) else KafkaStorageException
        return _failed(index, wrong.code)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        offset=answer.offset,
        timestamp=answer.timestamp,
        leader_epoch=answer.leader_epoch,
    )


def _failed(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)


def _check_version(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < _FIRST_VERSION.get(timestamp, version + 1):
        raise UnsupportedVersionException(f"Timestamp {timestamp} is not known in version {version}")


async def _find(
    context: Context, source: HostedPartition, timestamp: int, request: ListOffsetsRequest
) -> Answer:
    log = source.log
    is_consumer = request.replica_id == CONSUMER
    if not is_consumer:
        limit = log.log_end_offset
    elif request.isolation_level == READ_COMMITTED:
        limit = log.last_stable_offset
    else:
        limit = log.high_watermark
    lagging = is_consumer and log.high_watermark < _epoch_start(source)
    match timestamp:
        case OffsetSpec.LATEST:
            if lagging:
                raise _not_available(context)
            return Answer(limit, _NOTHING, source.leader_epoch)
        case OffsetSpec.EARLIEST | OffsetSpec.EARLIEST_LOCAL:
            return Answer(
                log.log_start_offset, _NOTHING, log.leader_epochs.epoch_for_offset(log.log_start_offset)
            )
        case OffsetSpec.MAX_TIMESTAMP:
            record = await _result(context, log.search_max_timestamp())
        case OffsetSpec.LATEST_TIERED:
            return Answer()
        case _:
            record = await _result(context, log.search_timestamp(timestamp))
    if record is None:
        return Answer()
    if record.offset >= limit:
        if lagging:
            raise _not_available(context)
        return Answer()
    return Answer(record.offset, record.timestamp_ms, log.leader_epochs.epoch_for_offset(record.offset))


async def _result(context: Context, search: Search) -> TimestampOffset | None:
    """The result of a search. A search with more than one step takes long, so a thread does the other steps."""
    await context.pace(SEARCH_COST)
    try:
        next(search)
    except StopIteration as end:
        record: TimestampOffset | None = end.value
        return record
    return await context.ports.replicas.openings.run(search)


def _epoch_start(source: HostedPartition) -> int:
    """The first offset of the present leader epoch. Until the leader has committed this offset, its high watermark may
    be too low."""
    for epoch, start_offset in reversed(source.log.leader_epochs.entries):
        if epoch == source.leader_epoch:
            return start_offset
    return _NOTHING


def _not_available(context: Context) -> KafkaError:
    if context.api_version >= _OFFSET_NOT_AVAILABLE_FROM:
        return OffsetNotAvailableException()
    return LeaderNotAvailableException()
