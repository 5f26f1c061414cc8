"""Fetch (key 1, versions 4-18): whole batches from the logs, waiting up to max_wait_ms for min_bytes of them.

Consumers read up to the high watermark, or with read_committed up to the last stable offset and with the list of
aborted transactions (KIP-98); followers read to the log end. Sessions are KIP-227, divergence by epoch KIP-595, topic
ids (v13) KIP-516, leader hints (v16) KIP-951. What the page cache holds is read on the event loop without waiting;
what it does not hold is read in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, cast

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
from kcli.server.handlers.produce import leader_endpoints
from kcli.server.partitions.fetch_sessions import FetchScope, Target
from kcli.server.partitions.parked import ParkedFetch
from kcli.server.partitions.replicas import LeaderPartition
from kcli.server.requests.access import CLUSTER_ACTION, READ_TOPIC, per_resource
from kcli.storage.log.log import LogSlice

ACCESS = per_resource(READ_TOPIC, CLUSTER_ACTION)

logger = logging.getLogger(__name__)

_LEADER_HINT_FROM = 16
_STORAGE_ERROR_FROM = 6
_ZSTD_FROM = 10
_NO_LEADER = LeaderIdAndEpoch()
_LEADER_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


@dataclass(slots=True)
class Read:
    """What one partition has to give: a slice of its log, or an answer without records."""

    target: Target
    leader: LeaderPartition | None
    slice: LogSlice | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None
    answer: PartitionData | None = None


def handle(context: BrokerContext, request: FetchRequest) -> Any:
    broker = context.ports
    replica_id = max(request.replica_id, request.replica_state.replica_id)
    if context.throttle is not None:
        if replica_id >= 0:
            context.throttle.exempt()
        else:
            request = context.throttle.limit_fetch(request)
    scope = broker.fetch_sessions.open(request, context.api_version, broker.clock.now_ms())
    reads = _read_all(context, scope)
    if replica_id >= 0:
        _report_follower(replica_id, reads)
    size = _size(reads)
    if request.max_wait_ms <= 0 or size >= request.min_bytes or _is_decided(reads) or not scope.targets:
        return _respond(context, scope, reads)
    return _park(context, scope, reads, size)


def error_response(_context: BrokerContext, _request: FetchRequest, error: KafkaError) -> FetchResponse:
    return FetchResponse(error_code=error.code)


# --- reading ------------------------------------------------------------------------------------------------------


def _read_all(context: BrokerContext, scope: FetchScope) -> list[Read]:
    """Slices in the order of the request, within its limits; the first one with records has at least a batch."""
    request = scope.request
    left = min(request.max_bytes, context.ports.fetch_max_bytes)
    replica_id = max(request.replica_id, request.replica_state.replica_id)
    reads = []
    at_least_one = True
    for target in scope.targets:
        read = _read(context, request, target, replica_id, left, at_least_one)
        if read.slice is not None and read.slice.size_bytes:
            left -= read.slice.size_bytes
            at_least_one = False
        reads.append(read)
    return reads


def _read(
    context: BrokerContext,
    request: FetchRequest,
    target: Target,
    replica_id: int,
    left: int,
    at_least_one: bool,
) -> Read:
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
            return Read(target, leader, answer=diverged)
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
        return Read(target, leader, part, log.high_watermark, last_stable_offset, aborted)
    except KafkaError as error:
        return Read(target, None, answer=_failed(context, topic, wants.partition, error))
    except CorruptRecordError as error:
        # Not KAFKA_STORAGE_ERROR: on that a consumer only asks again, and nobody would hear of the damage.
        logger.error("Fetch of %s-%d from offset %d: %s", topic, wants.partition, wants.fetch_offset, error)
        return Read(
            target, None, answer=_failed(context, topic, wants.partition, CorruptRecordException(str(error)))
        )
    except StorageError as error:
        return Read(
            target, None, answer=_failed(context, topic, wants.partition, KafkaStorageException(str(error)))
        )


def _report_follower(replica_id: int, reads: list[Read]) -> None:
    """Counts what a follower has. Only its fetch's arrival counts: a parked fetch that looks again reports nothing new,
    and would wake itself.
    """
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


def _divergence(leader: LeaderPartition, target: Target) -> PartitionData | None:
    """Where the reader's log parted from ours, if it did (KIP-595)."""
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
    """Transactions in the slice that a read_committed consumer has to drop."""
    log = leader.log
    # Where the slice ends costs a look at the index; most logs have no aborted transaction at all.
    if not part.size_bytes or not log.has_aborted_transactions(offset):
        return ()
    upper = log.upper_bound_offset(offset, part.size_bytes)
    return tuple(
        AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
        for entry in log.aborted_transactions(offset, upper)
    )


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
        aborted_transactions=None,
        current_leader=leader,
    )


def _size(reads: list[Read]) -> int:
    return sum(read.slice.size_bytes for read in reads if read.slice is not None)


def _is_decided(reads: list[Read]) -> bool:
    """An error or a divergence is told at once."""
    return any(read.answer is not None for read in reads)


# --- waiting ------------------------------------------------------------------------------------------------------


def _park(
    context: BrokerContext, scope: FetchScope, reads: list[Read], size: int
) -> asyncio.Future[FetchResponse]:
    """Waits for appends; then reads again and answers, whatever there is by then."""
    request = scope.request
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[FetchResponse] = loop.create_future()

    def measure() -> int:
        fresh = _read_all(context, scope)
        return request.min_bytes if _is_decided(fresh) else _size(fresh)

    def respond() -> None:
        if answer.done():
            return
        if context.throttle is not None:
            context.throttle.resume()
        try:
            response = _respond(context, scope, _read_all(context, scope))
        except Exception as error:  # the waiting future is the only one who can still be told
            answer.set_exception(error)
            return
        finally:
            if context.throttle is not None:
                context.throttle.pause()
        if isinstance(response, asyncio.Future):
            response.add_done_callback(lambda done: _hand_over(done, answer))
        else:
            answer.set_result(response)

    def done() -> None:
        timer.cancel()
        # Not in the middle of somebody's append: other partitions of that request may follow.
        loop.call_soon(respond)

    parked = ParkedFetch(FetchWait(request.min_bytes, size), measure=measure, done=done)
    timer = loop.call_later(request.max_wait_ms / 1000, parked.finish)
    parked.park([read.leader.parked_fetches for read in reads if read.leader is not None])

    def forget(settled: asyncio.Future[FetchResponse]) -> None:
        if settled.cancelled():
            timer.cancel()
            parked.cancel()

    answer.add_done_callback(forget)
    return answer


def _hand_over(done: asyncio.Future[FetchResponse], answer: asyncio.Future[FetchResponse]) -> None:
    if answer.done():
        return
    error = done.exception()
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())


# --- answering ----------------------------------------------------------------------------------------------------


def _respond(context: BrokerContext, scope: FetchScope, reads: list[Read]) -> Any:
    """The response, or a future of it when the page cache does not hold all of the records."""
    results = []
    for read in reads:
        if read.answer is None:
            assert read.slice is not None
            try:
                records = read.slice.read_cached()
            except StorageError as error:
                _offline(context, read, error)
            else:
                if records is None:
                    return asyncio.ensure_future(_respond_from_disk(context, scope, reads))
                read.answer = _answer(scope.request, read, records)
        assert read.answer is not None
        results.append((read.target, read.answer))
    return _finish(context, scope, results)


async def _respond_from_disk(context: BrokerContext, scope: FetchScope, reads: list[Read]) -> FetchResponse:
    loop = asyncio.get_running_loop()
    results = []
    for read in reads:
        if read.answer is None:
            assert read.slice is not None
            try:
                read.answer = _answer(scope.request, read, await loop.run_in_executor(None, read.slice.read))
            except StorageError as error:
                _offline(context, read, error)
        assert read.answer is not None
        results.append((read.target, read.answer))
    return _finish(context, scope, results)


def _offline(context: BrokerContext, read: Read, error: StorageError) -> None:
    topic = read.target.topic if read.leader is None else read.leader.topic
    read.answer = _failed(context, topic, read.target.wants.partition, KafkaStorageException(str(error)))


def _answer(request: FetchRequest, read: Read, records: bytes | bytearray) -> PartitionData:
    assert read.leader is not None
    traffic = read.leader.traffic
    traffic.fetches += 1
    if request.replica_id < 0 and request.replica_state.replica_id < 0:
        traffic.bytes_out += len(records)
    else:
        traffic.replication_bytes_out += len(records)
    return PartitionData(
        partition_index=read.target.wants.partition,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.leader.log.log_start_offset,
        aborted_transactions=read.aborted,
        records=cast(bytes, records),  # any buffer is written as it is
    )


def _records_size(results: list[tuple[Target, PartitionData]]) -> int:
    return sum(len(read.records or b"") for _target, read in results)


def _finish(
    context: BrokerContext, scope: FetchScope, results: list[tuple[Target, PartitionData]]
) -> FetchResponse:
    for target, part in results:
        if part.error_code is not ErrorCode.NONE:
            _count_failure(context, target, part.error_code)
    if context.throttle is not None and context.throttle.refuses_fetch(_records_size(results)):
        return scope.without_records()
    leaders = {
        read.current_leader.leader_id
        for _target, read in results
        if read.current_leader is not _NO_LEADER and read.current_leader.leader_id >= 0
    }
    endpoints: tuple[NodeEndpoint, ...] = ()
    if leaders:
        endpoints = tuple(
            NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in leader_endpoints(context.ports.metadata, leaders, context.listener)
        )
    return scope.response(results, endpoints, context.ports.clock.now_ms())


def _count_failure(context: BrokerContext, target: Target, code: ErrorCode) -> None:
    metrics = context.ports.metrics
    metrics.request_failed(context.api_key, code)
    found = context.ports.metadata.topics.topic_by_id(target.topic_id)
    metrics.traffic.fetch_failed(target.topic if found is None else found.name, code)
