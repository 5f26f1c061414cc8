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

from collections.abc import Awaitable, Container, Generator
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
from kcli.model.request_values import READ_COMMITTED, OffsetSpec
from kcli.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kcli.server.handlers.ports import BrokerContext
from kcli.server.handlers.shared.hosted_partitions import HostedPartition, leader_of
from kcli.server.requests.access import DESCRIBE_TOPIC
from kcli.server.requests.answers import then
from kcli.server.requests.turns import REFUSALS_PER_TURN, nested_steps, next_turn, run_in_turns

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


@dataclass(frozen=True, slots=True)
class Found:
    """The result for one partition. All fields are -1 if there is no such offset."""

    offset: int = _NOTHING
    timestamp: int = _NOTHING
    leader_epoch: int = _NOTHING


Answering = Generator[None, None, ListOffsetsPartitionResponse]
"""Makes the answer for one partition, in steps. An answer with more than one step takes long, so another thread may
continue it."""

Turn = Answering | None
"""A pause of the handler, in which other clients are served. If the value is not None, it is an answer that another
thread completes during the pause."""

SLICE_PARTITIONS = 50
"""Partitions that are answered in one iteration of the event loop. A turn takes about a millisecond."""

SLICE_NAMES = 5000
"""Topics and partitions of a request that are listed by topic name in one iteration of the event loop. A turn takes
about a millisecond."""


def handle(
    context: BrokerContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    allowed = context.rights.allowed_in_turns(DESCRIBE_TOPIC, (topic.name for topic in request.topics))
    return then(allowed, lambda names: _answer_allowed(context, request, names))


def _answer_allowed(
    context: BrokerContext, request: ListOffsetsRequest, allowed: Container[str]
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    turns = _answer_all(context, request, allowed)
    try:
        return _answer_later(context, turns, next(turns))
    except StopIteration as end:
        response: ListOffsetsResponse = end.value
        return response


async def _answer_later(
    context: BrokerContext,
    turns: Generator[Turn, ListOffsetsPartitionResponse | None, ListOffsetsResponse],
    turn: Turn,
) -> ListOffsetsResponse:
    while True:
        found = None
        if turn is None:
            await next_turn()
        else:
            found = await context.ports.replicas.openings.run(turn)
        try:
            turn = turns.send(found)
        except StopIteration as end:
            response: ListOffsetsResponse = end.value
            return response


def _answer_all(
    context: BrokerContext, request: ListOffsetsRequest, allowed: Container[str]
) -> Generator[Turn, ListOffsetsPartitionResponse | None, ListOffsetsResponse]:
    """Answers for all partitions. Yields regularly, so that the event loop can serve other clients."""
    # As in Kafka, a topic or partition that occurs twice in the request has one answer.
    asked: dict[str, dict[int, ListOffsetsPartition]] = {}
    twice: set[tuple[str, int]] = set()
    nth = 0
    for topic in request.topics:
        parts = asked.setdefault(topic.name, {})
        nth += 1
        if nth % SLICE_NAMES == 0:
            yield None
        for part in topic.partitions:
            nth += 1
            if nth % SLICE_NAMES == 0:
                yield None
            if part.partition_index in parts:
                twice.add((topic.name, part.partition_index))
            parts[part.partition_index] = part
    topics, nth = [], 0
    for name, parts in asked.items():
        rows = []
        for index, part in parts.items():
            nth += 1
            if nth % SLICE_PARTITIONS == 0:
                yield None
            if name not in allowed:
                rows.append(_failed(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                continue
            answering = _answer(context, request, name, part, (name, index) in twice)
            try:
                next(answering)
            except StopIteration as end:
                rows.append(end.value)
            else:
                row = yield answering
                assert row is not None, "an answer is sent for each partition that takes long"
                rows.append(row)
        topics.append(ListOffsetsTopicResponse(name=name, partitions=tuple(rows)))
    return ListOffsetsResponse(topics=tuple(topics))


def error_response(
    _context: BrokerContext, request: ListOffsetsRequest, error: KafkaError
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    topics = nested_steps(
        request.topics,
        lambda topic: topic.partitions,
        lambda _, part: _failed(part.partition_index, error.code),
        lambda topic, parts: ListOffsetsTopicResponse(name=topic.name, partitions=parts),
    )
    return then(run_in_turns(topics, REFUSALS_PER_TURN), lambda failed: ListOffsetsResponse(topics=failed))


def _answer(
    context: BrokerContext, request: ListOffsetsRequest, topic: str, part: ListOffsetsPartition, twice: bool
) -> Answering:
    index = part.partition_index
    try:
        if twice:
            raise InvalidRequestException(f"{topic}-{index} is asked for more than once")
        _check_version(part.timestamp, context.api_version)
        source = context.ports.replicas.hosted(topic, index)
        if request.replica_id == DEBUGGING_REPLICA:
            source.check_epoch(part.current_leader_epoch)
        else:
            source = leader_of(source, part.current_leader_epoch)
        found = yield from _find(context, source, part.timestamp, request)
    except KafkaError as error:
        return _failed(index, error.code)
    except StorageError as error:
        wrong = CorruptRecordException if isinstance(error, CorruptRecordError) else KafkaStorageException
        return _failed(index, wrong.code)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        offset=found.offset,
        timestamp=found.timestamp,
        leader_epoch=found.leader_epoch,
    )


def _failed(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)


def _check_version(timestamp: int, version: int) -> None:
    if timestamp < 0 and version < _FIRST_VERSION.get(timestamp, version + 1):
        raise UnsupportedVersionException(f"Timestamp {timestamp} is not known in version {version}")


def _find(
    context: BrokerContext, source: HostedPartition, timestamp: int, request: ListOffsetsRequest
) -> Generator[None, None, Found]:
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
            return Found(limit, _NOTHING, source.leader_epoch)
        case OffsetSpec.EARLIEST | OffsetSpec.EARLIEST_LOCAL:
            return Found(
                log.log_start_offset, _NOTHING, log.leader_epochs.epoch_for_offset(log.log_start_offset)
            )
        case OffsetSpec.MAX_TIMESTAMP:
            record = yield from log.search_max_timestamp()
        case OffsetSpec.LATEST_TIERED:
            return Found()
        case _:
            record = yield from log.search_timestamp(timestamp)
    if record is None:
        return Found()
    if record.offset >= limit:
        if lagging:
            raise _not_available(context)
        return Found()
    return Found(record.offset, record.timestamp_ms, log.leader_epochs.epoch_for_offset(record.offset))


def _epoch_start(source: HostedPartition) -> int:
    """The first offset of the present leader epoch. Until the leader has committed this offset, its high watermark may
    be too low."""
    for epoch, start_offset in reversed(source.log.leader_epochs.entries):
        if epoch == source.leader_epoch:
            return start_offset
    return _NOTHING


def _not_available(context: BrokerContext) -> KafkaError:
    if context.api_version >= _OFFSET_NOT_AVAILABLE_FROM:
        return OffsetNotAvailableException()
    return LeaderNotAvailableException()
