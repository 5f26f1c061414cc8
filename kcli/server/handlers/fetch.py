"""Fetch (key 1, versions 4-18): returns whole batches of the logs, and waits up to max_wait_ms for min_bytes.

Consumers read up to the high watermark. With read_committed they read up to the last stable offset, and get the list of
aborted transactions (KIP-98). Followers read up to the log end. These KIPs define fetch sessions (KIP-227), divergence
by epoch (KIP-595), topic ids (KIP-516, v13) and leader hints (KIP-951, v16). This module reads only a few small slices
of records. The connection sends all other records from their files (network/answer_sender.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import cast

from kcli.errors import (
    CorruptRecordError,
    CorruptRecordException,
    ErrorCode,
    KafkaError,
    KafkaStorageException,
    NotLeaderOrFollowerException,
    OffsetOutOfRangeException,
    StorageError,
    UnknownLeaderEpochException,
    UnknownTopicIdException,
    UnsupportedCompressionTypeException,
)
from kcli.model.ids import LeaderEpoch, Offset
from kcli.model.request_values import READ_COMMITTED
from kcli.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kcli.protocol.wire.fetch_codec import TOPIC_ID_FROM
from kcli.replica.waiting import FetchWait
from kcli.server.handlers.ports import BrokerContext
from kcli.server.handlers.shared.leader_endpoints import leader_endpoints
from kcli.server.partitions.fetch_sessions import FetchScope, FetchTarget, replica_of
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.partitions.parked import ParkedFetch
from kcli.server.requests.access import CLUSTER_ACTION, READ_TOPIC, per_resource
from kcli.server.requests.turns import Steps, run_in_turns
from kcli.storage.log.log import LogSlice

ACCESS = per_resource(READ_TOPIC, CLUSTER_ACTION)

_log = logging.getLogger(__name__)

# The most bytes of records that are copied into an answer. Other records are sent from their files, so that an unread
# answer takes little memory.
COPIED_PER_ANSWER_MAX_BYTES = 64 * 1024

# A step reads a partition, or makes the answer for a partition. It takes 3 to 10 µs.
STEPS_PER_TURN = 200

_LEADER_HINT_FROM = 16
_STORAGE_ERROR_FROM = 6
_ZSTD_FROM = 10
_NO_LEADER = LeaderIdAndEpoch()
_LEADER_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@dataclass(slots=True)
class PartitionRead:
    """The result for one partition: a slice of its log, or a response without records."""

    target: FetchTarget
    leader: LeaderPartition | None
    slice: LogSlice | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None
    answer: PartitionData | None = None


def handle(context: BrokerContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    response = run_in_turns(_serve(context, request), STEPS_PER_TURN)
    if isinstance(response, _WaitingFetch):
        return response.answer
    return response if isinstance(response, FetchResponse) else _flat(response)


def _serve(context: BrokerContext, request: FetchRequest) -> Steps[FetchResponse | _WaitingFetch]:
    broker = context.ports
    replica_id = replica_of(request)
    if context.throttle is not None:
        if replica_id >= 0:
            context.throttle.exempt()
        else:
            request = context.throttle.limit_fetch(request)
    scope = yield from broker.fetch_sessions.open(request, context.api_version, broker.clock.now_ms())
    reads = yield from _read_all(context, scope)
    if replica_id >= 0:
        _report_follower(replica_id, reads)
    min_bytes = min(request.min_bytes, request.max_bytes, broker.fetch_max_bytes)
    # A partition with an error or a divergence is answered at once.
    if reads and request.max_wait_ms > 0 and not any(read.answer is not None for read in reads):
        sizes = [0 if read.slice is None else read.slice.size_bytes for read in reads]
        if sum(sizes) < min_bytes:
            return _WaitingFetch(context, scope, reads, sizes, min_bytes)
    return (yield from _respond(context, scope, reads))


async def _flat(large: Awaitable[FetchResponse | _WaitingFetch]) -> FetchResponse:
    response = await large
    return await response.answer if isinstance(response, _WaitingFetch) else response


def error_response(_context: BrokerContext, _request: FetchRequest, error: KafkaError) -> FetchResponse:
    return FetchResponse(error_code=error.code)


# Reading.


def _read_all(context: BrokerContext, scope: FetchScope) -> Steps[list[PartitionRead]]:
    """Reads slices in the order of the request, within the limits of the request. Yields after each partition.

    The first slice with records contains at least one whole batch, even if that exceeds the limits.
    """
    request = scope.request
    left = min(request.max_bytes, context.ports.fetch_max_bytes)
    reads = []
    at_least_one = True
    for target in scope.targets:
        read = _read(context, request, target, scope.replica_id, left, at_least_one)
        if read.slice is not None and read.slice.size_bytes:
            left -= read.slice.size_bytes
            at_least_one = False
        reads.append(read)
        yield
    return reads


def _read(
    context: BrokerContext,
    request: FetchRequest,
    target: FetchTarget,
    replica_id: int,
    left: int,
    at_least_one: bool,
) -> PartitionRead:
    wants = target.wants
    topic = target.topic
    try:
        if context.api_version >= TOPIC_ID_FROM:
            found = context.ports.metadata.topics.topic_by_id(target.topic_id)
            if found is None:
                raise UnknownTopicIdException
            topic = found.name
        leader = context.ports.replicas.get(topic, wants.partition)
        leader.check_epoch(wants.current_leader_epoch)
        log = leader.log
        if log.config.compression_type == "zstd" and context.api_version < _ZSTD_FROM:
            raise UnsupportedCompressionTypeException
        if replica_id >= 0 and replica_id not in leader.followers:
            raise _not_a_replica(leader, wants.current_leader_epoch)
        if wants.last_fetched_epoch >= 0 and (diverged := _divergence(leader, target)) is not None:
            return PartitionRead(target, leader, answer=diverged)
        last_stable_offset = log.last_stable_offset
        if replica_id >= 0:
            limit = log.log_end_offset
        elif request.isolation_level == READ_COMMITTED:
            limit = last_stable_offset
        else:
            limit = log.high_watermark
        size_max = max(min(left, wants.partition_max_bytes), 0)
        offset = Offset(wants.fetch_offset)
        part = log.read(offset, size_max, end_offset=limit, at_least_one=at_least_one)
        aborted = None
        if request.isolation_level == READ_COMMITTED and replica_id < 0:
            aborted = _aborted(leader, offset, part)
        return PartitionRead(target, leader, part, log.high_watermark, last_stable_offset, aborted)
    except KafkaError as error:
        return PartitionRead(target, None, answer=_failed(context, topic, wants.partition, error))
    except CorruptRecordError as error:
        # The error is not KAFKA_STORAGE_ERROR, because a consumer would retry after that error and would not report the
        # damage.
        _log.error("Fetch of %s-%d from offset %d: %s", topic, wants.partition, wants.fetch_offset, error)
        return PartitionRead(
            target, None, answer=_failed(context, topic, wants.partition, CorruptRecordException(str(error)))
        )
    except StorageError as error:
        return PartitionRead(
            target, None, answer=_failed(context, topic, wants.partition, KafkaStorageException(str(error)))
        )


def _report_follower(replica_id: int, reads: list[PartitionRead]) -> None:
    """Records the progress of a follower, once per fetch. Do not call it when a waiting fetch reads again: the follower
    has made no progress, and the call would wake the same fetch."""
    for read in reads:
        if read.leader is not None and read.slice is not None:
            wants = read.target.wants
            read.leader.follower_fetched(
                replica_id, log_start_offset=wants.log_start_offset, log_end_offset=wants.fetch_offset
            )


def _not_a_replica(leader: LeaderPartition, epoch: int) -> KafkaError:
    if epoch >= 0:
        return UnknownLeaderEpochException(f"{leader} has no such replica in epoch {leader.leader_epoch}")
    return NotLeaderOrFollowerException(f"{leader} has no such replica")


def _divergence(leader: LeaderPartition, target: FetchTarget) -> PartitionData | None:
    """A response with the point at which the reader's log diverged from this log (KIP-595). None if the logs agree."""
    wants, log = target.wants, leader.log
    epoch, end_offset = log.end_offset_for_epoch(LeaderEpoch(wants.last_fetched_epoch))
    if epoch < 0 or wants.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRangeException
    if epoch >= wants.last_fetched_epoch and end_offset >= wants.fetch_offset:
        return None
    return PartitionData(
        partition_index=wants.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
    )


def _aborted(leader: LeaderPartition, offset: Offset, part: LogSlice) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that have records in the slice. A read_committed consumer drops these records."""
    log = leader.log
    # This is checked first, because most logs have no aborted transactions. Finding the end offset of the slice needs a
    # read of the index.
    if not part.size_bytes or not log.has_aborted_transactions(offset):
        return ()
    upper = log.upper_bound_offset(offset, part.size_bytes)
    return tuple(
        AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
        for entry in log.aborted_transactions(offset, upper)
    )


_REFUSED_UNREAD = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Errors with which Kafka refuses a partition before it reads. The list of aborted transactions of such a partition is
empty, not null."""


def _failed(context: BrokerContext, topic: str, index: int, error: KafkaError) -> PartitionData:
    code, version = error.code, context.api_version
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_FROM:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = _NO_LEADER
    if code in _LEADER_MOVED and version >= _LEADER_HINT_FROM:
        image = context.ports.metadata.partition(topic, index)
        if image is not None:
            leader = LeaderIdAndEpoch(leader_id=image.leader, leader_epoch=image.leader_epoch)
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        aborted_transactions=() if code in _REFUSED_UNREAD else None,
        current_leader=leader,
    )


# Waiting for records.


class _WaitingFetch:
    """A fetch that waits until min_bytes are readable, but at most max_wait_ms. `answer` is the future of the response.

    Every append to one of its partitions may end the wait. The fetch then reads again and answers with the records that
    it finds, even if they are fewer than min_bytes.
    """

    __slots__ = (
        "_context",
        "_min_bytes",
        "_parked",
        "_reading",
        "_scope",
        "_size",
        "_sizes",
        "_timer",
        "answer",
    )

    def __init__(
        self,
        context: BrokerContext,
        scope: FetchScope,
        reads: list[PartitionRead],
        sizes: list[int],
        min_bytes: int,
    ) -> None:
        """Begins to wait. `reads` are the results of the first read, and `sizes` the bytes that it found in each
        partition."""
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[FetchResponse] = loop.create_future()
        self._context = context
        self._scope = scope
        self._sizes = sizes
        self._size = sum(sizes)
        self._min_bytes = min_bytes
        self._reading: asyncio.Future[FetchResponse] | None = (
            None  # the read after the wait, if it takes turns
        )
        self._parked = ParkedFetch(
            FetchWait(min_bytes, self._size), measure=self._measure, done=self._wait_is_over
        )
        self._timer = loop.call_later(scope.request.max_wait_ms / 1000, self._parked.finish)
        self._parked.park([read.leader.parked_fetches for read in reads if read.leader is not None])
        self.answer.add_done_callback(self._answered)
        if len(reads) > STEPS_PER_TURN:
            self._look_at_changes(reads)

    def _look_at_changes(self, reads: list[PartitionRead]) -> None:
        """Measures the partitions that have changed since they were read in an earlier turn of the loop."""
        for read in reads:
            leader = read.leader
            assert leader is not None
            if not leader.is_leader:
                self._parked.finish()
            elif leader.log.high_watermark != read.high_watermark:
                self._parked.changed(leader.parked_fetches, 0, measure=True)

    def _measure(self, changed: Iterable[int]) -> int:
        """Reads the changed partitions again. Returns the size of all slices. Unchanged partitions keep the sizes of
        their last reads."""
        scope = self._scope
        left = min(scope.request.max_bytes, self._context.ports.fetch_max_bytes)
        for number in changed:
            read = _read(self._context, scope.request, scope.targets[number], scope.replica_id, left, True)
            if read.slice is None:
                return self._min_bytes
            self._size += read.slice.size_bytes - self._sizes[number]
            self._sizes[number] = read.slice.size_bytes
        return self._size

    def _wait_is_over(self) -> None:
        self._timer.cancel()
        # Answer one turn later, because a produce request may still append to other partitions of this fetch.
        asyncio.get_running_loop().call_soon(self._respond)

    def _respond(self) -> None:
        if self.answer.done():
            return
        throttle = self._context.throttle
        if throttle is not None:
            throttle.resume()
        try:
            response = run_in_turns(self._read_again(), STEPS_PER_TURN)
        except (
            Exception
        ) as error:  # the event loop calls this method, so only the future can report the error
            self.answer.set_exception(error)
            return
        finally:
            if throttle is not None:
                throttle.pause()
        if isinstance(response, FetchResponse):
            self.answer.set_result(response)
        else:
            timed = response if throttle is None else throttle.waits_for(response)
            self._reading = asyncio.ensure_future(timed)
            self._reading.add_done_callback(self._responded)

    def _read_again(self) -> Steps[FetchResponse]:
        reads = yield from _read_all(self._context, self._scope)
        return (yield from _respond(self._context, self._scope, reads))

    def _responded(self, response: asyncio.Future[FetchResponse]) -> None:
        self._reading = None
        if self.answer.done():
            return
        error = response.exception()
        if error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(response.result())

    def _answered(self, answer: asyncio.Future[FetchResponse]) -> None:
        """Ends the wait if the answer was cancelled, because the client's connection is closed."""
        if answer.cancelled():
            self._timer.cancel()
            self._parked.cancel()
            if self._reading is not None:
                self._reading.cancel()


# Answering.


def _respond(context: BrokerContext, scope: FetchScope, reads: list[PartitionRead]) -> Steps[FetchResponse]:
    """Copies a few small slices of records into the response. All other slices are read when they are sent. Empties
    `reads`."""
    left = COPIED_PER_ANSWER_MAX_BYTES
    results = []
    leaders: set[int] = set()
    reads.reverse()
    while reads:
        read = reads.pop()  # frees each read in its own step, because 200,000 of them take long together
        if read.answer is None:
            assert read.slice is not None
            records: bytes | bytearray | LogSlice = read.slice
            if read.slice.size_bytes <= left:
                try:
                    # None if the page cache does not have the bytes. Reading them from the device would block the event
                    # loop.
                    cached = read.slice.read_cached()
                except StorageError as error:
                    read.answer = _offline(context, read, error)
                else:
                    if cached is not None:
                        records = cached
                        left -= len(cached)
            if read.answer is None:
                read.answer = _answer(scope, read, records)
        if read.answer.error_code is not ErrorCode.NONE:
            _count_failure(context, read.target, read.answer.error_code)
        if read.answer.current_leader.leader_id >= 0:
            leaders.add(read.answer.current_leader.leader_id)
        results.append((read.target, read.answer))
        yield
    return (yield from _finish(context, scope, results, leaders))


def _offline(context: BrokerContext, read: PartitionRead, error: StorageError) -> PartitionData:
    topic = read.target.topic if read.leader is None else read.leader.topic
    return _failed(context, topic, read.target.wants.partition, KafkaStorageException(str(error)))


def _answer(scope: FetchScope, read: PartitionRead, records: bytes | bytearray | LogSlice) -> PartitionData:
    assert read.leader is not None
    traffic = read.leader.traffic
    traffic.fetches += 1
    if scope.replica_id < 0:
        traffic.bytes_out += len(records)
    else:
        traffic.replication_bytes_out += len(records)
    return PartitionData(
        partition_index=read.target.wants.partition,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.leader.log.log_start_offset,
        aborted_transactions=read.aborted,
        records=cast(bytes, records),  # buffers and ranges of files go to the connection as they are
    )


def _finish(
    context: BrokerContext,
    scope: FetchScope,
    results: list[tuple[FetchTarget, PartitionData]],
    leaders: set[int],
) -> Steps[FetchResponse]:
    """Completes the response. `leaders` are the leaders of refused partitions, and the client needs their addresses."""
    if context.throttle is not None:
        size_bytes = sum(len(read.records or b"") for _target, read in results)
        if context.throttle.refuses_fetch(size_bytes):
            return scope.without_records()
    endpoints: tuple[NodeEndpoint, ...] = ()
    if leaders:
        endpoints = tuple(
            NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in leader_endpoints(context.ports.metadata, leaders, context.listener)
        )
    return (yield from scope.response(results, endpoints, context.ports.clock.now_ms()))


def _count_failure(context: BrokerContext, target: FetchTarget, code: ErrorCode) -> None:
    metrics = context.ports.metrics
    metrics.request_failed(context.api_key, code)
    found = context.ports.metadata.topics.topic_by_id(target.topic_id)
    metrics.traffic.fetch_failed(target.topic if found is None else found.name, code)
