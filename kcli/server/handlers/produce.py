"""Produce (key 0, versions 3-13): appends each partition's batch to the log of its leader.

The response is sent after the append (acks=1), or when the in-sync replicas have the batch (acks=all). With acks=0 no
response is sent, and an error closes the connection. A large batch is decompressed and checked in a thread, and the
next requests of the connection wait. The next requests also wait while a request is held (delayed). A request is held
if it arrives before the broker has read that the broker leads the partition. Each partition has its own error, such as
INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE or NOT_LEADER_OR_FOLLOWER (with the leader, KIP-951). The log checks
idempotence (KIP-98). KIP-467 defines errors of single records, and KIP-516 defines topic ids (v13).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
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
from kcli.protocol.wire.produce_codec import TOPIC_ID_FROM, has_few_partitions
from kcli.replica.waiting import ProduceWait
from kcli.runtime import log_text
from kcli.server.coordinators.transaction_verification import VerificationResults
from kcli.server.handlers.ports import BrokerContext
from kcli.server.handlers.shared.hosted_partitions import error_of_ended
from kcli.server.handlers.shared.leader_endpoints import leader_endpoints
from kcli.server.handlers.shared.produce_transactions import (
    TransactionalBatch,
    transactional_batches,
    transactional_steps,
    verified,
)
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.partitions.parked import ParkedProduce
from kcli.server.requests.access import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID
from kcli.server.requests.answers import finished, is_unfinished, then
from kcli.server.requests.rights import EVERY_NAME
from kcli.server.requests.turns import REFUSALS_PER_TURN, Steps, nested_steps, run_in_turns
from kcli.storage.log.log import AppendResult, PartitionLog

_log = logging.getLogger("kcli.server.ReplicaManager")

APPENDED_PER_TURN = 50
"""Topics of a large request that are appended in one iteration of the event loop. A refused topic takes 10 µs, and a
batch takes 20 µs. A topic with more than PARTITIONS_PER_STEP partitions counts several times."""
PARTITIONS_PER_STEP = 4
TOPICS_PER_TURN = 100
"""Topics of a large request whose transactions are read in one iteration of the event loop."""

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
_NOT_LED_THEN = NotLeaderOrFollowerException("The leader of the partition has just changed")


Pending = list[tuple[LeaderPartition, Offset]]
"""The partitions whose records are written but not committed. The offset is the high watermark at which the records are
committed."""


@dataclass(slots=True)
class Progress:
    """The results that are collected while the batches of a request are appended.

    `later` contains a task for each answer that is not ready. The key is the index of the topic and the index of the
    partition in the request.
    """

    now_ms: int
    allowed: Container[str]
    verdicts: VerificationResults
    pending: Pending
    later: dict[tuple[int, int], asyncio.Task[PartitionProduceResponse]]


def handle(
    context: BrokerContext, request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.acks not in (ACKS_ALL, 0, 1):
        return error_response(context, request, InvalidRequiredAcksException())
    if has_few_partitions(request.topic_data):
        return _authorized(context, request, list(transactional_batches(context, request.topic_data)))
    # The dispatch has copied the frame of such a request, so the records may be kept for later turns.
    transactional = run_in_turns(transactional_steps(context, request), TOPICS_PER_TURN)
    return then(transactional, partial(_authorized, context, request))


def _authorized(
    context: BrokerContext, request: ProduceRequest, transactional: list[TransactionalBatch]
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Checks the permissions of the client, and appends the batches of the topics to which the client may write."""
    transactional_id = request.transactional_id
    if transactional and (
        transactional_id is None or not context.rights.allows(WRITE_TRANSACTIONAL_ID, transactional_id)
    ):
        return error_response(context, request, TransactionalIdAuthorizationException())
    if context.authorizer.is_open is True:
        return _when_led(context, request, transactional, EVERY_NAME)
    names = _partition_topics(context, request)
    if has_few_partitions(request.topic_data):
        return _when_led(context, request, transactional, context.rights.allowed(WRITE_TOPIC, names))
    allowed = context.rights.allowed_in_turns(WRITE_TOPIC, names)
    return then(allowed, partial(_when_led, context, request, transactional))


def _when_led(
    context: BrokerContext,
    request: ProduceRequest,
    transactional: list[TransactionalBatch],
    allowed: Container[str],
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Appends the batches of the request. If this broker may soon become the leader of a partition, first waits for the
    leadership."""
    if has_few_partitions(request.topic_data):
        held = context.ports.replicas.hold(_partitions(context, request, allowed))
        if held is not None:
            return _after_hold(context, _kept(request), allowed, held)
    return _verified(context, request, transactional, allowed)


async def _after_hold(
    context: BrokerContext, request: ProduceRequest, allowed: Container[str], held: Awaitable[None]
) -> ProduceResponse | None:
    await held
    transactional = list(transactional_batches(context, request.topic_data))
    return await finished(_verified(context, request, transactional, allowed))


def _partitions(
    context: BrokerContext, request: ProduceRequest, allowed: Container[str]
) -> Iterator[TopicPartition]:
    """The partitions of the request to which the client may write."""
    for topic in request.topic_data:
        name = _name(context, topic)
        if name in allowed:
            for part in topic.partition_data:
                yield TopicPartition(name, part.index)


def _verified(
    context: BrokerContext,
    request: ProduceRequest,
    transactional: list[TransactionalBatch],
    allowed: Container[str],
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Appends the batches of the request. Batches of a transaction are verified first."""
    if not transactional:
        return _produce(context, request, allowed, NO_VERDICTS)
    verdicts = verified(context, request, allowed, transactional)
    if is_unfinished(verdicts):
        kept = _kept(request) if has_few_partitions(request.topic_data) else request
        return then(verdicts, partial(_produce, context, kept, allowed))
    return _produce(context, request, allowed, verdicts)


def _partition_topics(context: BrokerContext, request: ProduceRequest) -> Iterator[str]:
    """The name of the topic of each partition. Unknown topic ids are left out."""
    for topic in request.topic_data:
        name: str | None = topic.name
        if context.api_version >= TOPIC_ID_FROM:
            found = context.ports.metadata.topics.topic_by_id(topic.topic_id)
            name = None if found is None else found.name
        if name is not None:
            yield from repeat(name, len(topic.partition_data))


def _kept(request: ProduceRequest) -> ProduceRequest:
    """Copies the records of the request, because the connection reads the next request into the same buffer."""
    return replace(
        request,
        topic_data=tuple(
            replace(
                topic,
                partition_data=tuple(
                    part if part.records is None else replace(part, records=bytes(part.records))
                    for part in topic.partition_data
                ),
            )
            for topic in request.topic_data
        ),
    )


def _produce(
    context: BrokerContext, request: ProduceRequest, allowed: Container[str], verdicts: VerificationResults
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Appends to every partition of the allowed topics. Returns None if acks=0. Returns an awaitable if a thread checks
    a batch, or if records wait for their commit."""
    progress = Progress(context.ports.clock.now_ms(), allowed, verdicts, [], {})
    if not has_few_partitions(request.topic_data):
        topics = run_in_turns(_append_steps(context, request, progress), APPENDED_PER_TURN)
        return then(topics, partial(_appended_all, context, request, progress))
    appended = [_append_topic(context, request, progress, nth) for nth in range(len(request.topic_data))]
    return _appended_all(context, request, progress, appended)


def _appended_all(
    context: BrokerContext, request: ProduceRequest, progress: Progress, topics: list[TopicProduceResponse]
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    response = ProduceResponse(responses=tuple(topics))
    context.ports.metrics.requests.answered(context.api_key, -1)  # its partitions count, and not the request
    if progress.later:
        return _opened(context, request, response, progress)
    return _answer(context, request, response, progress.pending)


async def _opened(
    context: BrokerContext, request: ProduceRequest, response: ProduceResponse, progress: Progress
) -> ProduceResponse | None:
    """Waits until the batches that a thread checks are also appended. Then answers as it does for a request without
    such batches."""
    await asyncio.wait(progress.later.values())
    topics = list(response.responses)
    changed: dict[int, list[PartitionProduceResponse]] = {}
    for (nth, row), task in progress.later.items():
        changed.setdefault(nth, [*topics[nth].partition_responses])[row] = task.result()
    for nth, rows in changed.items():
        topics[nth] = replace(topics[nth], partition_responses=tuple(rows))
    answer = _answer(context, request, ProduceResponse(responses=tuple(topics)), progress.pending)
    return await answer if is_unfinished(answer) else answer


def _answer(
    context: BrokerContext, request: ProduceRequest, response: ProduceResponse, pending: Pending
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    if request.acks == 0:
        _close_on_error(response)
        return None
    if pending:
        return _wait(context, request, response, pending)
    return _with_endpoints(context, response)


def error_response(
    context: BrokerContext, request: ProduceRequest, error: KafkaError
) -> ProduceResponse | Awaitable[ProduceResponse]:
    """The response with this error for every partition of the request."""
    if request.acks == 0:
        raise ProtocolError(f"Produce with acks=0 failed: {error.message}")
    topics = nested_steps(
        request.topic_data,
        lambda topic: topic.partition_data,
        lambda _, part: _failed(part.index, error),
        lambda topic, rows: TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=rows
        ),
    )
    return then(run_in_turns(topics, REFUSALS_PER_TURN), lambda rows: ProduceResponse(responses=rows))


def _append_steps(
    context: BrokerContext, request: ProduceRequest, progress: Progress
) -> Steps[list[TopicProduceResponse]]:
    """Appends the batches of a large request. Yields after each topic, and after a few partitions."""
    topics = []
    for nth, topic in enumerate(request.topic_data):
        part = _append_topic(context, request, progress, nth, 0, PARTITIONS_PER_STEP)
        yield
        if len(topic.partition_data) > PARTITIONS_PER_STEP:
            rows = [*part.partition_responses]
            for begin in range(PARTITIONS_PER_STEP, len(topic.partition_data), PARTITIONS_PER_STEP):
                end = begin + PARTITIONS_PER_STEP
                rows += _append_topic(context, request, progress, nth, begin, end).partition_responses
                yield
            part = replace(part, partition_responses=tuple(rows))
        topics.append(part)
    return topics


def _append_topic(
    context: BrokerContext,
    request: ProduceRequest,
    progress: Progress,
    nth: int,
    begin: int = 0,
    end: int | None = None,
) -> TopicProduceResponse:
    """Appends the batches of a topic, or only those from row `begin` to row `end`."""
    topic = request.topic_data[nth]
    partitions = topic.partition_data[begin:end]
    context.ports.metrics.requests.answered(context.api_key, len(partitions))
    name = topic.name
    if context.api_version >= TOPIC_ID_FROM:
        found = context.ports.metadata.topics.topic_by_id(topic.topic_id)
        if found is None:
            error = UnknownTopicIdException()
            rows = tuple(_failed(part.index, error) for part in partitions)
            return TopicProduceResponse(topic_id=topic.topic_id, partition_responses=rows)
        name = found.name
    if progress.allowed is not EVERY_NAME and name not in progress.allowed:
        refused = TopicAuthorizationException()
        rows = tuple(
            [
                _refused(context, name, part.index, len(part.records or b""), refused, None)
                for part in partitions
            ]
        )
        return TopicProduceResponse(topic_id=topic.topic_id, partition_responses=rows, name=topic.name)
    rows = tuple(
        [
            _append(context, request, name, part, (nth, row), progress)
            for row, part in enumerate(partitions, begin)
        ]
    )
    return TopicProduceResponse(topic_id=topic.topic_id, name=topic.name, partition_responses=rows)


def _append(
    context: BrokerContext,
    request: ProduceRequest,
    topic: str,
    part: PartitionProduceData,
    place: tuple[int, int],
    progress: Progress,
) -> PartitionProduceResponse:
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
            # A partition has no verification if this broker became its leader while the coordinator verified the
            # other partitions.
            verdict = progress.verdicts.get(TopicPartition(topic, part.index), _NOT_LED_THEN)
            if isinstance(verdict, KafkaError):
                raise verdict
            verification = verdict
        log = leader.log
        append = None if context.trace is None else context.trace.appending(topic, part.index, records)
        result = leader.append_client(
            records, acks=request.acks, now_ms=progress.now_ms, verification=verification
        )
        if append is not None:
            append.end()
            if isinstance(result, asyncio.Task):
                result.add_done_callback(lambda _: append.end())
    except KafkaError as error:
        return _refused(context, topic, part.index, len(part.records or b""), error, log)
    if isinstance(result, AppendResult):
        return _appended(request, leader, part.index, result, progress.pending)
    progress.later[place] = asyncio.get_running_loop().create_task(
        _append_later(context, request, leader, len(records), result, progress.pending)
    )
    return PartitionProduceResponse(index=part.index)  # replaced when the task has the result


async def _append_later(
    context: BrokerContext,
    request: ProduceRequest,
    leader: LeaderPartition,
    size_bytes: int,
    result: asyncio.Task[AppendResult],
    pending: Pending,
) -> PartitionProduceResponse:
    try:
        return _appended(request, leader, leader.partition, await result, pending)
    except KafkaError as error:
        return _refused(context, leader.topic, leader.partition, size_bytes, error, leader.log)


def _appended(
    request: ProduceRequest, leader: LeaderPartition, index: int, result: AppendResult, pending: Pending
) -> PartitionProduceResponse:
    if request.acks == ACKS_ALL and leader.log.high_watermark <= result.last_offset:
        pending.append((leader, result.next_offset))
    return PartitionProduceResponse(
        index=index,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
    )


def _refused(
    context: BrokerContext,
    topic: str,
    index: int,
    size_bytes: int,
    error: KafkaError,
    log: PartitionLog | None,
) -> PartitionProduceResponse:
    """The response for a refused batch. `log` is the log of the partition, or None if the batch was refused before the
    log was found."""
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
    failed = _failed(index, error, _leader_hint(context, topic, index, error.code))
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


def _leader_hint(context: BrokerContext, topic: str, index: int, code: ErrorCode) -> LeaderIdAndEpoch:
    if code is not ErrorCode.NOT_LEADER_OR_FOLLOWER or context.api_version < _LEADER_HINT_FROM:
        return _NO_LEADER
    image = context.ports.metadata.partition(topic, index)
    if image is None:
        return _NO_LEADER
    return LeaderIdAndEpoch(leader_id=image.leader, leader_epoch=image.leader_epoch)


def _with_endpoints(context: BrokerContext, response: ProduceResponse) -> ProduceResponse:
    """Adds the endpoints of the leaders in the response (KIP-951)."""
    leaders = {
        part.current_leader.leader_id
        for topic in response.responses
        for part in topic.partition_responses
        if part.current_leader is not _NO_LEADER and part.current_leader.leader_id >= 0
    }
    if not leaders:
        return response
    endpoints = leader_endpoints(context.ports.metadata, leaders, context.listener)
    return ProduceResponse(
        responses=response.responses,
        node_endpoints=tuple(
            NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in endpoints
        ),
    )


def _close_on_error(response: ProduceResponse) -> None:
    """If a partition has an error, closes the connection, because a producer with acks=0 gets no response."""
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code is not ErrorCode.NONE:
                raise ProtocolError(
                    f"Produce with acks=0 failed for {topic.name or topic.topic_id}-{part.index}: "
                    f"{part.error_code.name}"
                )


def _wait(
    context: BrokerContext, request: ProduceRequest, response: ProduceResponse, pending: Pending
) -> asyncio.Future[ProduceResponse]:
    """Returns a future of the response. The future is done when the records of all partitions are committed, or after
    the timeout. After the timeout, each uncommitted partition has an error.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[ProduceResponse] = loop.create_future()
    outcomes = [ErrorCode.REQUEST_TIMED_OUT] * len(pending)
    waits = context.ports.metrics.waits
    waits.produces.begin(len(pending))

    def done() -> None:
        timer.cancel()
        waits.produces.end(len(pending))
        if not answer.done():
            failures = {
                (leader.topic, leader.partition): outcome
                for (leader, _), outcome in zip(pending, outcomes, strict=True)
                if outcome is not ErrorCode.NONE
            }
            answer.set_result(_with_endpoints(context, _after_wait(context, response, failures)))

    def committed(number: int) -> None:
        # The outcome is taken now, because the leader may lose its ISR or its leadership while other partitions wait.
        outcomes[number] = _outcome(context, *pending[number])
        parked.committed()

    def timed_out() -> None:
        for wait, outcome in zip(commits, outcomes, strict=True):
            if wait is not None:
                wait.drop()
            waits.expired.produces += outcome is ErrorCode.REQUEST_TIMED_OUT
        parked.finish()

    parked = ParkedProduce(ProduceWait(len(pending)), done)
    timer = loop.call_later(max(request.timeout_ms, 0) / 1000, timed_out)
    commits = [
        leader.when_committed(offset, partial(committed, number))
        for number, (leader, offset) in enumerate(pending)
    ]
    return answer


def _after_wait(
    context: BrokerContext, response: ProduceResponse, failures: Mapping[tuple[str, int], ErrorCode]
) -> ProduceResponse:
    """The response after the wait, with the errors of the partitions whose records are not committed."""
    if not failures:
        return response
    return ProduceResponse(
        responses=tuple(
            replace(
                topic,
                partition_responses=tuple(
                    replace(part, error_code=code, current_leader=_leader_hint(context, key[0], key[1], code))
                    if (code := failures.get(key := (_name(context, topic), part.index))) is not None
                    else part
                    for part in topic.partition_responses
                ),
            )
            for topic in response.responses
        )
    )


def _name(context: BrokerContext, topic: TopicProduceData | TopicProduceResponse) -> str:
    if topic.name:
        return topic.name
    found = context.ports.metadata.topics.topic_by_id(topic.topic_id)
    return "" if found is None else found.name


def _outcome(context: BrokerContext, leader: LeaderPartition, offset: Offset) -> ErrorCode:
    """Returns the error code of a partition whose wait has ended. The wait ends when the records are committed, or when
    this broker loses the leadership."""
    if leader.is_leader:
        return leader.state.produce_outcome(offset, leader.log.high_watermark)
    return error_of_ended(context, leader)
