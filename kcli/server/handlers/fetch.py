"""Fetch (key 1, versions 4-18): returns whole batches of the logs, and waits up to max_wait_ms for min_bytes.

Consumers read up to the high watermark. With read_committed they read up to the last stable offset, and get the list of
aborted transactions (KIP-98). Followers read up to the log end. Fetch sessions are from KIP-227, diverging epochs from
KIP-595, topic ids from KIP-516 (v13) and leader hints from KIP-951 (v16). This module reads records only if there are
few of them. The connection sends all other records directly from their files (network/answer_sender.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from kcli.errors import (
    ErrorCode,
    KafkaError,
    KafkaStorageException,
    StorageError,
    TopicAuthorizationException,
)
from kcli.model.pace import nested
from kcli.model.request_values import FINAL_SESSION_EPOCH, INITIAL_SESSION_EPOCH
from kcli.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from kcli.protocol.wire.fetch_codec import TOPIC_ID_FROM
from kcli.replica.selector import Selector
from kcli.replica.waiting import FetchWait
from kcli.runtime.clock import Clock
from kcli.runtime.limited_lines import LimitedLines
from kcli.server.handlers.shared.hosted_partitions import HostedPartition, has_ended
from kcli.server.handlers.shared.leader_endpoints import leader_endpoints
from kcli.server.handlers.shared.partition_reads import (
    PartitionRead,
    failed_read,
    is_quiet,
    read_all,
    read_partition,
)
from kcli.server.metrics.metrics import Metrics
from kcli.server.metrics.requests import FETCH_FOLLOWER
from kcli.server.partitions.fetch_sessions import FetchScope, FetchSessions, replica_of
from kcli.server.partitions.fetch_targets import FetchTarget
from kcli.server.partitions.parked import ParkedFetch
from kcli.server.partitions.replicas import Replicas
from kcli.server.partitions.replication_quota import ReplicationQuota
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.access import CLUSTER_ACTION, READ_TOPIC
from kcli.server.requests.context import REFUSAL_COST, RequestContext
from kcli.server.requests.quotas import RequestThrottle
from kcli.storage.log.log import LogSlice

COPIED_PER_ANSWER_MAX_BYTES = 64 * 1024
"""The most bytes of records that are copied into an answer. Other records are sent from their files, so that an unread
answer takes little memory."""

ANSWER_COST = 5
"""The cost to make the answer for a partition, with its records. It takes 3 to 10 µs."""
PARTITION_COST = 1
ANSWERED_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Ports:
    clock: Clock
    loader: MetadataLoader
    metrics: Metrics
    replicas: Replicas
    fetch_sessions: FetchSessions
    fetch_max_bytes: int
    replica_selector: Selector
    leader_quota: ReplicationQuota
    damaged_batches: LimitedLines
    """The lines about fetches that found damaged batches."""


Context = RequestContext[Ports]


async def handle(context: Context, request: FetchRequest) -> FetchResponse:
    ports = context.ports
    is_follower = replica_of(request) >= 0
    if is_follower:
        context.facts.is_of_kind(FETCH_FOLLOWER)
    if context.throttle is not None:
        request = _throttled(context.throttle, request, is_follower=is_follower)
    # A client that calls itself a follower must not touch any state before its right is checked.
    if is_follower and not context.rights.allows(CLUSTER_ACTION):
        return await _refused_follower(context, request)
    scope = await ports.fetch_sessions.open(request, context.api_version, ports.clock.now_ms(), context.pace)
    if not is_follower and context.authorizer.is_open is not True:
        await _check_topics(context, scope)
    reads = await read_all(context, scope, is_arrival=True)
    # A partition with an error, a divergence or a preferred replica is answered at once.
    if scope.by_key and request.max_wait_ms > 0 and not any(read.answer is not None for read in reads):
        min_bytes = min(request.min_bytes, request.max_bytes, ports.fetch_max_bytes)
        sizes = {read.target: _waited_bytes(read, min_bytes) for read in reads}
        if sum(sizes.values()) < min_bytes:
            await _RecordsWait(context, scope, sizes, min_bytes).wait(reads)
            scope.check_is_last()
            reads = await read_all(context, scope)
    return await _respond(context, scope, reads)


async def error_response(_context: Context, _request: FetchRequest, error: KafkaError) -> FetchResponse:
    return FetchResponse(error_code=error.code)


def _throttled(throttle: RequestThrottle, request: FetchRequest, *, is_follower: bool) -> FetchRequest:
    """The request within the quota of the client. Followers have no quota."""
    if is_follower:
        throttle.exempt()
        return request
    return throttle.limit_fetch(request)


async def _check_topics(context: Context, scope: FetchScope) -> None:
    """Finds the topics of a consumer's fetch that the consumer may read. In a session, each fetch checks the
    permissions for every partition, even if the partition has no new records. The check is skipped if all partitions
    were allowed before and no permission has changed.
    """
    key = context.rights.permissions_key()
    if scope.is_allowed_by(key):
        return
    topics = context.ports.loader.image.topics
    by_id = context.api_version >= TOPIC_ID_FROM

    def name_of(target: FetchTarget) -> str | None:
        if not by_id:
            return target.topic
        topic = topics.topic_by_id(target.topic_id)
        return None if topic is None else topic.name

    targets = list(scope.by_key.values())
    names = (name for target in targets if (name := name_of(target)) is not None)
    allowed = scope.allowed = await context.allowed(READ_TOPIC, names)
    are_all = True
    for target in targets:
        await context.pace(PARTITION_COST)
        if name_of(target) not in allowed:  # also a target with an unknown id, which may be known later
            are_all = False
            scope.wake(target)
    scope.check_is_last()
    if are_all:
        scope.keep_allowed(key)


async def _refused_follower(context: Context, request: FetchRequest) -> FetchResponse:
    """The answer to a client that may not act as a broker: an error for each partition, and no session."""
    if context.throttle is not None:
        context.throttle.refuse()
    if request.session_epoch not in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH):
        # The request does not list all partitions of the session. After this error, the client sends a full fetch,
        # which gets an error for each partition.
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    refused = TopicAuthorizationException()
    topics = await nested(
        context.pace,
        REFUSAL_COST,
        request.topics,
        lambda topic: topic.partitions,
        lambda topic, part: failed_read(context, topic.topic, part.partition, refused),
        lambda topic, parts: FetchableTopicResponse(
            topic_id=topic.topic_id, topic=topic.topic, partitions=parts
        ),
    )
    return FetchResponse(responses=topics)


def _waited_bytes(read: PartitionRead, min_bytes: int) -> int:
    """Returns the number of bytes of a partition that count towards min_bytes. If a longer wait would give no more
    bytes, the result is at least `min_bytes`, so that the fetch is answered immediately."""
    if read.slice is None or (read.is_full and read.slice.size_bytes):
        return min_bytes
    return read.slice.size_bytes


def _rest(context: Context, scope: FetchScope, read: PartitionRead) -> bool:
    """Leaves the partition out of the next fetches of the session if the client already has all its records. The
    session reads the partition again only after a change. Returns True if the partition is left out."""
    if not is_quiet(read, scope):
        return False
    assert read.source is not None, "a quiet partition has no error"
    scope.rest(read.target, read.source.parked_fetches, context.ports.clock.now_ms())
    return True


# Waiting for records.


class _RecordsWait:
    """The wait of a fetch until min_bytes are readable, but at most max_wait_ms.

    Every append to one of its partitions may end the wait. The fetch then reads again and answers with the records that
    it finds, even if they are fewer than min_bytes.
    """

    __slots__ = ("_context", "_min_bytes", "_parked", "_scope", "_size", "_sizes")

    def __init__(
        self, context: Context, scope: FetchScope, sizes: dict[FetchTarget, int], min_bytes: int
    ) -> None:
        """`sizes` are the bytes that the first read found in each partition."""
        self._context = context
        self._scope = scope
        self._sizes = sizes
        self._size = sum(sizes.values())
        self._min_bytes = min_bytes
        self._parked = ParkedFetch(
            FetchWait(min_bytes, self._size), measure=self._measure, reads_uncommitted=scope.replica_id >= 0
        )

    async def wait(self, reads: list[PartitionRead]) -> None:
        """Returns when the wait is over. `reads` are the results of the first read. They are dropped, because the wait
        may be long."""
        waits, parked, count = self._context.ports.metrics.waits, self._parked, len(reads)
        seconds = self._scope.request.max_wait_ms / 1000
        timer = asyncio.get_running_loop().call_later(seconds, self._time_is_over)
        waits.fetches.begin(count)
        try:
            self._park(reads)
            self._look_at_changes(reads)
            reads.clear()
            # The fetch continues one turn after the end of the wait. Meanwhile, a produce request may still append to
            # other partitions of this fetch.
            await parked.ended
        finally:
            waits.fetches.end(count)
            timer.cancel()
            parked.cancel()

    def _park(self, reads: list[PartitionRead]) -> None:
        self._scope.wait(self._parked)
        watches = self._scope.watches
        for read in reads:
            assert read.source is not None, "a fetch with an error does not wait"
            if not (watches and _rest(self._context, self._scope, read)):
                self._parked.park(read.source.parked_fetches, read.target)

    def _look_at_changes(self, reads: list[PartitionRead]) -> None:
        """Finds the partitions that have changed since this fetch has read them, and has their readable bytes counted
        again.
        """
        for read in reads:
            source = read.source
            assert source is not None
            if has_ended(source):
                self._parked.finish()
            elif (source.log.log_end_offset, source.log.high_watermark) != (
                read.log_end_offset,
                read.high_watermark,
            ):
                self._parked.measure_again(read.target)
        for target in self._scope.targets():
            if target not in self._sizes and not self._parked.finished:
                self._read_woken(target)

    def _read_woken(self, target: FetchTarget) -> None:
        """Adds a partition to the wait. The partition had no new records when the fetch arrived, but has changed while
        other partitions were read.
        """
        read = read_partition(self._context, self._scope, target, self._bytes_max, True)
        if read.source is None:
            self._parked.finish()
        else:
            self._parked.park(read.source.parked_fetches, target)
            self._parked.measure_again(target)

    @property
    def _bytes_max(self) -> int:
        return min(self._scope.request.max_bytes, self._context.ports.fetch_max_bytes)

    def _measure(self, changed: Iterable[FetchTarget]) -> int:
        """Reads the changed partitions again. Returns the readable bytes of all partitions. For an unchanged partition,
        the size of its last read counts.
        """
        bytes_max = self._bytes_max
        for target in changed:
            read = read_partition(self._context, self._scope, target, bytes_max, True)
            size = _waited_bytes(read, self._min_bytes)
            self._size += size - self._sizes.get(target, 0)
            self._sizes[target] = size
        return self._size

    def _time_is_over(self) -> None:
        expired = self._context.ports.metrics.waits.expired
        if self._scope.replica_id >= 0:
            expired.follower_fetches += 1
        else:
            expired.consumer_fetches += 1
        self._parked.finish()


# Answering.


async def _respond(context: Context, scope: FetchScope, reads: list[PartitionRead]) -> FetchResponse:
    """Copies a few small reads into the response. All other records are read from their files when they are sent.
    Empties `reads`.
    """
    left = COPIED_PER_ANSWER_MAX_BYTES
    results = []
    leaders: set[int] = set()
    watches = scope.watches
    reads.reverse()
    for number in range(len(reads)):
        if number % ANSWERED_AT_ONCE == 0:
            await context.pace(min(ANSWERED_AT_ONCE, len(reads)) * ANSWER_COST)
        read = reads.pop()  # frees each read in its own slice, because 200,000 of them take long together
        answer = read.answer
        if answer is None:
            answer, copied_bytes = _answer(context, scope, read, left)
            left -= copied_bytes
        if answer.error_code is not ErrorCode.NONE:
            _count_failure(context, read.target, answer.error_code)
        if answer.current_leader.leader_id >= 0:
            leaders.add(answer.current_leader.leader_id)
        results.append((read.target, answer))
        if watches:
            _rest(context, scope, read)
    return await _finish(context, scope, results, leaders)


def _answer(
    context: Context, scope: FetchScope, read: PartitionRead, copied_max_bytes: int
) -> tuple[PartitionData, int]:
    """The answer for a partition, and the size of the records that were copied into it."""
    assert read.source is not None and read.slice is not None
    records: bytes | bytearray | LogSlice = read.slice
    copied_bytes = 0
    if read.slice.size_bytes <= copied_max_bytes:
        try:
            # None if the page cache does not have the bytes. Reading them from the device would block the event loop.
            cached = read.slice.read_cached()
        except StorageError as error:
            offline = KafkaStorageException(str(error))
            return failed_read(context, read.source.topic, read.target.wants.partition, offline), 0
        if cached is not None:
            records, copied_bytes = cached, len(cached)
    traffic = read.source.traffic
    traffic.fetches += 1
    if scope.replica_id < 0:
        traffic.bytes_out += len(records)
    else:
        traffic.replication_bytes_out += len(records)
        if records and _is_reassigned(context, read.source, scope.replica_id):
            traffic.reassignment_bytes_out += len(records)
        if read.is_throttled:
            context.ports.leader_quota.record(len(records))
    answer = PartitionData(
        partition_index=read.target.wants.partition,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.source.log.log_start_offset,
        aborted_transactions=read.aborted,
        records=cast(bytes, records),  # buffers and ranges of files go to the connection as they are
    )
    return answer, copied_bytes


def _is_reassigned(context: Context, source: HostedPartition, replica_id: int) -> bool:
    """Whether a reassignment is adding the replica that sent the fetch."""
    image = context.ports.loader.image.partition(source.topic, source.partition)
    return image is not None and replica_id in image.adding


async def _finish(
    context: Context,
    scope: FetchScope,
    results: list[tuple[FetchTarget, PartitionData]],
    leaders: set[int],
) -> FetchResponse:
    """Completes the response. `leaders` are the leaders of refused partitions. The response contains their addresses,
    because the client sends its next fetch to them.
    """
    if context.throttle is not None:
        size_bytes = sum(len(read.records or b"") for _target, read in results)
        if context.throttle.refuses_fetch(size_bytes):
            return scope.without_records()
    endpoints: tuple[NodeEndpoint, ...] = ()
    if leaders:
        endpoints = tuple(
            NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in leader_endpoints(
                context.ports.loader.image, leaders, context.listener
            )
        )
    response = await scope.response(results, endpoints, context.ports.clock.now_ms(), context.pace)
    sent = 0
    for number, topic in enumerate(response.responses):
        if number % ANSWERED_AT_ONCE == ANSWERED_AT_ONCE - 1:
            await context.pace(ANSWERED_AT_ONCE * PARTITION_COST)
        sent += len(topic.partitions)
    context.ports.metrics.requests.answered(context.api_key, sent)
    return response


def _count_failure(context: Context, target: FetchTarget, code: ErrorCode) -> None:
    metrics = context.ports.metrics
    metrics.request_failed(context.api_key, code)
    topic = context.ports.loader.image.topics.topic_by_id(target.topic_id)
    metrics.traffic.fetch_failed(target.topic if topic is None else topic.name, code)
