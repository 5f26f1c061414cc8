"""Produce (key 0, versions 3-13): appends each partition's batch to the log of its leader.

The response is sent after the append (acks=1), or when the in-sync replicas have the batch (acks=all). With acks=0 no
response is sent, and an error closes the connection. Each partition has its own error, such as INVALID_RECORD,
CORRUPT_MESSAGE, MESSAGE_TOO_LARGE or NOT_LEADER_OR_FOLLOWER (with the leader, KIP-951). The log checks idempotence
(KIP-98). KIP-467 defines errors of single records, and KIP-516 defines topic ids (v13).

While a request waits for the commit of its records, the connection serves its next Produce request. Before this wait,
the next request must wait, because appends keep the order of the requests. A request pauses before if the broker does
not know yet that it leads the partition, or while a coordinator verifies the transaction. It also pauses while a thread
decompresses and checks a large batch, or if it has many partitions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import repeat

from kcli.errors import (
    ErrorCode,
    InvalidRequiredAcksException,
    InvalidTopicException,
    KafkaError,
    NotLeaderOrFollowerException,
    ProtocolError,
    TopicAuthorizationException,
    TransactionalIdAuthorizationException,
    UnknownTopicIdException,
    UnsupportedCompressionTypeException,
)
from kcli.model.ids import Offset
from kcli.model.pace import nested
from kcli.model.request_values import ACKS_ALL
from kcli.model.topic_names import is_internal
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import (
    CODEC_MASK,
    FLAGS_POSITION,
    TRANSACTIONAL,
)
from kcli.protocol.batches.compression import Codec
from kcli.protocol.batches.produced import only_batch
from kcli.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kcli.replica.waiting import ProduceWait
from kcli.runtime import log_text
from kcli.runtime.clock import Clock
from kcli.runtime.limited_lines import LimitedLines
from kcli.server.coordinators.transaction_verification import TransactionVerifier, VerificationResults
from kcli.server.handlers.shared.hosted_partitions import error_of_ended
from kcli.server.handlers.shared.leader_endpoints import leader_endpoints
from kcli.server.handlers.shared.produce_transactions import (
    topic_name,
    transactional_batches,
    verified,
)
from kcli.server.metrics.metrics import Metrics
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.partitions.parked import ParkedRequest
from kcli.server.partitions.replicas import Replicas
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.server.requests.rights import EVERY_NAME
from kcli.storage.log.log import AppendResult, PartitionLog
from kcli.storage.log.validation import CheckedBatch

_log = logging.getLogger("kcli.server.ReplicaManager")

TOPIC_COST = 5
APPEND_COST = 20
APPENDED_AT_ONCE = 10
CHECK_COST = 1
"""The cost to look at the response of a partition, or to replace it."""
WAIT_COST = 3
"""The cost to begin the wait for the commit of a partition. The response for a failed wait costs the same."""

ZSTD_FROM = 7
_LEADER_HINT_FROM = 10
_ZSTD = int(Codec.ZSTD)  # an int, because comparing ints is faster
_ADMIN_CLIENT = "__admin_client"
_NO_LEADER = LeaderIdAndEpoch()
_WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""If an append fails with one of these errors, the log start offset in the response is -1. For all other errors, the
response has the log start offset of the log."""

NO_VERDICTS: VerificationResults = {}
_LOGGED = frozenset({ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR})
"""The errors for batches with invalid bytes. The broker logs the reason of these errors, as in Kafka, because clients
show only the error code."""


@dataclass(frozen=True, slots=True)
class Ports:
    clock: Clock
    loader: MetadataLoader
    metrics: Metrics
    replicas: Replicas
    verifier: TransactionVerifier
    refused_batches: LimitedLines
    """The lines about batches of clients that are refused."""


Context = RequestContext[Ports]

Place = tuple[int, int]
"""The place of a partition in a request: the index of its topic, and its index in this topic."""


@dataclass(frozen=True, slots=True)
class Opening:
    """An append that waits until a thread has checked its batch, or until such an append before it is done."""

    leader: LeaderPartition
    size_bytes: int
    appending: asyncio.Task[AppendResult]


@dataclass(slots=True)
class Appends:
    """The appends of one request. `topics` are the parts of its response.

    `openings` are the appends that are not done. `uncommitted` are the partitions whose records are not committed, and
    `commits` has for each of them the high watermark at which they are committed. `leaders` are the brokers that the
    response names as leaders.
    """

    context: Context
    request: ProduceRequest
    allowed: Container[str]
    verdicts: VerificationResults
    now_ms: int
    topics: list[TopicProduceResponse] = field(default_factory=list)
    openings: dict[Place, Opening] = field(default_factory=dict)
    uncommitted: dict[Place, LeaderPartition] = field(default_factory=dict)
    commits: dict[LeaderPartition, Offset] = field(default_factory=dict)
    leaders: set[int] = field(default_factory=set)


async def handle(context: Context, request: ProduceRequest) -> ProduceResponse | None:
    if request.acks not in (ACKS_ALL, 0, 1):
        return await error_response(context, request, InvalidRequiredAcksException())
    batches = await transactional_batches(context, request.topic_data)
    if batches and not _may_use(context, request.transactional_id):
        return await error_response(context, request, TransactionalIdAuthorizationException())
    allowed = await context.allowed(WRITE_TOPIC, _topic_of_each_partition(context, request))
    if await context.ports.replicas.hold(_partitions(context, request, allowed), context.pace) and batches:
        batches = await transactional_batches(context, request.topic_data)  # their leaders may be new
    verdicts = await verified(context, request, allowed, batches) if batches else NO_VERDICTS
    appends = Appends(context, request, allowed, verdicts, context.ports.clock.now_ms())
    try:
        await _append_all(appends)
    finally:
        if appends.openings:
            await _until_opened(appends)
    if appends.openings:
        await _end_openings(appends)
    if request.acks == 0:
        await _close_on_error(context, appends.topics)
        return None
    if appends.uncommitted:
        await _wait_for_commits(appends)
    return _response(appends)


async def error_response(context: Context, request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """The response with this error for every partition of the request."""
    if request.acks == 0:
        raise ProtocolError(f"Produce with acks=0 failed: {error.message}")
    topics = await nested(
        context.pace,
        REFUSAL_COST,
        request.topic_data,
        lambda topic: topic.partition_data,
        lambda _, part: _failed(part.index, error),
        lambda topic, rows: TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=rows
        ),
    )
    return ProduceResponse(responses=topics)


# The checks before the appends.


def _may_use(context: Context, transactional_id: str | None) -> bool:
    """Whether the client may write records with this transactional id."""
    return transactional_id is not None and context.rights.allows(WRITE_TRANSACTIONAL_ID, transactional_id)


def _topic_of_each_partition(context: Context, request: ProduceRequest) -> Iterator[str]:
    """The name of the topic of each partition. Unknown topic ids are left out."""
    for topic in request.topic_data:
        name = topic_name(context, topic)
        if name is not None:
            yield from repeat(name, len(topic.partition_data))


def _partitions(
    context: Context, request: ProduceRequest, allowed: Container[str]
) -> Iterator[TopicPartition]:
    """The partitions of the request to which the client may write."""
    for topic in request.topic_data:
        name = topic_name(context, topic)
        if name is not None and name in allowed:
            for part in topic.partition_data:
                yield TopicPartition(name, part.index)


# The appends.


async def _append_all(appends: Appends) -> None:
    """Appends the batch of each partition. A batch that a thread must check is appended later."""
    context, results = appends.context, 0
    for nth, topic in enumerate(appends.request.topic_data):
        rows: list[PartitionProduceResponse] = []
        for begin in range(0, len(topic.partition_data) or 1, APPENDED_AT_ONCE):
            some = topic.partition_data[begin : begin + APPENDED_AT_ONCE]
            await context.pace(TOPIC_COST + len(some) * APPEND_COST)
            rows += _append_some(appends, topic, some, (nth, begin))
        results += len(rows)
        appends.topics.append(
            TopicProduceResponse(topic_id=topic.topic_id, name=topic.name, partition_responses=tuple(rows))
        )
    context.ports.metrics.requests.answered(context.api_key, results - 1)  # the request itself does not count


def _append_some(
    appends: Appends, topic: TopicProduceData, some: tuple[PartitionProduceData, ...], first: Place
) -> list[PartitionProduceResponse]:
    """Appends the batches of some partitions of a topic. `first` is the place of the first of them."""
    name = topic_name(appends.context, topic)
    if name is None:
        unknown = UnknownTopicIdException()
        return [_failed(part.index, unknown) for part in some]
    if appends.allowed is not EVERY_NAME and name not in appends.allowed:
        refused = TopicAuthorizationException()
        return [_refused(appends, name, part.index, len(part.records or b""), refused) for part in some]
    nth, begin = first
    return [_append(appends, name, part, (nth, at)) for at, part in enumerate(some, begin)]


def _append(
    appends: Appends, topic: str, part: PartitionProduceData, place: Place
) -> PartitionProduceResponse:
    """Appends a batch, or begins to open it in a thread. In the second case, the result is replaced later."""
    context, request = appends.context, appends.request
    log: PartitionLog | None = None  # set as soon as the log is found
    try:
        leader = context.ports.replicas.get(topic, part.index)
        if is_internal(topic) and context.client_id != _ADMIN_CLIENT:
            raise InvalidTopicException
        records = only_batch(part.records or b"")
        flags = records[FLAGS_POSITION]
        if flags & CODEC_MASK == _ZSTD and context.api_version < ZSTD_FROM:
            raise UnsupportedCompressionTypeException
        verification = None
        if flags & TRANSACTIONAL:
            key = TopicPartition(topic, part.index)
            if key not in appends.verdicts:
                # This broker became the leader of the partition while the coordinator verified the other partitions.
                raise NotLeaderOrFollowerException("The leader of the partition has just changed")
            verdict = appends.verdicts[key]
            if isinstance(verdict, KafkaError):
                raise verdict
            verification = verdict
        log = leader.log
        stage = None if context.trace is None else context.trace.appending(topic, part.index, records)
        batch = leader.check_client_batch(records, acks=request.acks, now_ms=appends.now_ms)
        if isinstance(batch, CheckedBatch) and leader.queue.is_empty:
            result = leader.append_checked(batch, now_ms=appends.now_ms, verification=verification)
            if stage is not None:
                stage.end()
            return _appended(appends, leader, result, place)
        appending = leader.append_opened(
            batch, acks=request.acks, now_ms=appends.now_ms, verification=verification
        )
    except KafkaError as error:
        return _refused(appends, topic, part.index, len(part.records or b""), error, log)
    if stage is not None:
        appending.add_done_callback(lambda _: stage.end())
    appends.openings[place] = Opening(leader, len(records), appending)
    return PartitionProduceResponse(index=part.index)


async def _until_opened(appends: Appends) -> None:
    """Waits until the batches that a thread checks are appended too. All must end, also if the request fails, because
    their bytes are in the buffer of the request."""
    await asyncio.wait([opening.appending for opening in appends.openings.values()])


async def _end_openings(appends: Appends) -> None:
    """Takes the results of the batches that a thread has checked."""
    changes = {}
    for place, opening in appends.openings.items():
        leader = opening.leader
        try:
            changes[place] = _appended(appends, leader, opening.appending.result(), place)
        except KafkaError as error:
            changes[place] = _refused(
                appends, leader.topic, leader.partition, opening.size_bytes, error, leader.log
            )
    await _change(appends, changes)


async def _change(appends: Appends, changes: Mapping[Place, PartitionProduceResponse]) -> None:
    """Replaces the responses of some partitions."""
    rows_by_topic: dict[int, list[PartitionProduceResponse]] = {}
    for (nth, row), response in changes.items():
        await appends.context.pace(CHECK_COST)
        if nth not in rows_by_topic:
            rows_by_topic[nth] = [*appends.topics[nth].partition_responses]
        rows_by_topic[nth][row] = response
    for nth, rows in rows_by_topic.items():
        appends.topics[nth] = replace(appends.topics[nth], partition_responses=tuple(rows))


def _appended(
    appends: Appends, leader: LeaderPartition, result: AppendResult, place: Place
) -> PartitionProduceResponse:
    if appends.request.acks == ACKS_ALL and leader.log.high_watermark <= result.last_offset:
        appends.uncommitted[place] = leader
        # The offset of a repeated batch may be lower than the offset of an earlier batch of the request.
        appends.commits[leader] = max(result.next_offset, appends.commits.get(leader, result.next_offset))
    return PartitionProduceResponse(
        index=leader.partition,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )


# Errors.


def _refused(
    appends: Appends,
    topic: str,
    index: int,
    size_bytes: int,
    error: KafkaError,
    log: PartitionLog | None = None,
) -> PartitionProduceResponse:
    """The response for a refused batch. `log` is the log of the partition, or None if the batch was refused before the
    log was found."""
    context = appends.context
    metrics = context.ports.metrics
    metrics.request_failed(context.api_key, error.code)
    if context.trace is not None:
        context.trace.error = error.code.name
    metrics.traffic.produce_failed(topic, error, size_bytes)
    if error.code in _LOGGED and not getattr(error, "record_errors", ()):
        ending = context.ports.refused_batches.ending(context.ports.clock.monotonic())
        if ending is not None:
            _log.warning(
                "Refusing a batch for partition %s-%d from %s (client id %s) with %s: %s%s",
                log_text.name(topic),
                index,
                context.peer_host,
                log_text.name(context.client_id),
                error.code.name,
                log_text.reason(error.message),
                ending,
            )
    failed = _failed(index, error, _leader_hint(appends, topic, index, error.code))
    if log is None or error.code in _WITHOUT_LOG_START:
        return failed
    return replace(failed, log_start_offset=log.log_start_offset)


def _failed(index: int, error: KafkaError, leader: LeaderIdAndEpoch = _NO_LEADER) -> PartitionProduceResponse:
    """The response for a failed partition. As in Kafka, it has a message only if single records have errors."""
    record_errors = getattr(error, "record_errors", ())
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        record_errors=tuple(
            BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=message)
            for batch_index, message in record_errors
        ),
        error_message=error.message if record_errors else None,
        current_leader=leader,
    )


def _leader_hint(appends: Appends, topic: str, index: int, code: ErrorCode) -> LeaderIdAndEpoch:
    """The present leader of a partition that this broker does not lead (KIP-951)."""
    if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER or appends.context.api_version < _LEADER_HINT_FROM:
        return _NO_LEADER
    image = appends.context.ports.loader.image.partition(topic, index)
    if image is None:
        return _NO_LEADER
    if image.leader >= 0:
        appends.leaders.add(image.leader)
    return LeaderIdAndEpoch(leader_id=image.leader, leader_epoch=image.leader_epoch)


async def _close_on_error(context: Context, topics: list[TopicProduceResponse]) -> None:
    """If a partition has an error, closes the connection, because a producer with acks=0 gets no response."""
    for topic in topics:
        for part in topic.partition_responses:
            await context.pace(CHECK_COST)
            if part.error_code is not ErrorCode.NONE:
                raise ProtocolError(
                    f"Produce with acks=0 failed for {topic.name or topic.topic_id}-{part.index}: "
                    f"{part.error_code.name}"
                )


# The wait for the commits, and the response.


async def _wait_for_commits(appends: Appends) -> None:
    """Waits until the records of all partitions are committed, or until the time of the request is over. Then each
    uncommitted partition has an error."""
    context, commits = appends.context, appends.commits
    waits = context.ports.metrics.waits
    outcomes: dict[LeaderPartition, ErrorCode] = {}
    parked = ParkedRequest(ProduceWait(len(commits)))

    def committed(leader: LeaderPartition) -> None:
        # The outcome is taken now, because the leader may lose its ISR or its leadership while other partitions wait.
        outcomes[leader] = _outcome(context, leader, commits[leader])
        parked.committed()

    begun = []
    waits.produces.begin(len(commits))
    try:
        for leader, offset in commits.items():
            await context.pace(WAIT_COST)
            begun.append(leader.when_committed(offset, partial(committed, leader)))
        context.wait_only()
        await parked.wait(appends.request.timeout_ms)
    finally:
        waits.produces.end(len(commits))
        for wait in begun:
            if wait is not None:
                wait.drop()
    waits.expired.produces += len(commits) - len(outcomes)
    await _change(appends, await _failures(appends, outcomes))


def _outcome(context: Context, leader: LeaderPartition, offset: Offset) -> ErrorCode:
    """Returns the error code of a partition whose wait has ended. The wait ends when the records are committed, or when
    this broker loses the leadership."""
    if leader.is_leader:
        return leader.state.produce_outcome(offset, leader.log.high_watermark)
    return error_of_ended(context.ports.loader.image, leader)


async def _failures(
    appends: Appends, outcomes: Mapping[LeaderPartition, ErrorCode]
) -> dict[Place, PartitionProduceResponse]:
    """The responses of the partitions whose records are not committed."""
    failures = {}
    for place, leader in appends.uncommitted.items():
        await appends.context.pace(WAIT_COST)
        code = outcomes.get(leader, ErrorCode.REQUEST_TIMED_OUT)
        if code is not ErrorCode.NONE:
            nth, row = place
            hint = _leader_hint(appends, leader.topic, leader.partition, code)
            appended = appends.topics[nth].partition_responses[row]
            failures[place] = replace(appended, error_code=code, current_leader=hint)
    return failures


def _response(appends: Appends) -> ProduceResponse:
    """The response, with the endpoints of the leaders that it names (KIP-951)."""
    if not appends.leaders:
        return ProduceResponse(responses=tuple(appends.topics))
    context = appends.context
    endpoints = leader_endpoints(context.ports.loader.image, appends.leaders, context.listener)
    return ProduceResponse(
        responses=tuple(appends.topics),
        node_endpoints=tuple(
            NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in endpoints
        ),
    )
