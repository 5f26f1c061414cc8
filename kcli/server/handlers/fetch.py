"""Fetch (key 1, versions 4-18): returns whole batches of the logs, and waits up to max_wait_ms for min_bytes.

Consumers read up to the high watermark. With read_committed they read up to the last stable offset, and get the list of
aborted transactions (KIP-98). Followers read up to the log end. Fetch sessions are from KIP-227, diverging epochs from
KIP-595, topic ids from KIP-516 (v13) and leader hints from KIP-951 (v16). This module reads records only if there are
few of them. The connection sends all other records directly from their files (network/answer_sender.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import cast

from kcli.errors import (
    ErrorCode,
    KafkaError,
    KafkaStorageException,
    StorageError,
    TopicAuthorizationException,
)
from kcli.model.request_values import FINAL_SESSION_EPOCH, INITIAL_SESSION_EPOCH
from kcli.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from kcli.protocol.wire.fetch_codec import TOPIC_ID_FROM
from kcli.replica.waiting import FetchWait
from kcli.server.handlers.ports import BrokerContext
from kcli.server.handlers.shared.hosted_partitions import HostedPartition, has_ended
from kcli.server.handlers.shared.leader_endpoints import leader_endpoints
from kcli.server.handlers.shared.partition_reads import (
    PartitionRead,
    failed_read,
    is_quiet,
    read_all,
    read_partition,
)
from kcli.server.metrics.requests import FETCH_FOLLOWER
from kcli.server.partitions.fetch_sessions import FetchScope, replica_of
from kcli.server.partitions.fetch_targets import FetchTarget
from kcli.server.partitions.parked import ParkedFetch
from kcli.server.requests.access import CLUSTER_ACTION, READ_TOPIC
from kcli.server.requests.turns import Steps, nested_steps, run_in_turns
from kcli.storage.log.log import LogSlice

# The most bytes of records that are copied into an answer. Other records are sent from their files, so that an unread
# answer takes little memory.
COPIED_PER_ANSWER_MAX_BYTES = 64 * 1024

# A step reads a partition, or makes the answer for a partition. It takes 3 to 10 µs.
STEPS_PER_TURN = 200
# A fetch of at most this many partitions reads all of them in one iteration of the event loop. The other steps of this
# turn are left for the preparation of the fetch.
_ONE_TURN_READS = STEPS_PER_TURN // 2


def handle(context: BrokerContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    response = run_in_turns(_serve(context, request), STEPS_PER_TURN)
    if isinstance(response, _WaitingFetch):
        return response.answer
    return response if isinstance(response, FetchResponse) else _flat(response)


def _serve(context: BrokerContext, request: FetchRequest) -> Steps[FetchResponse | _WaitingFetch]:
    broker = context.ports
    replica_id = replica_of(request)
    if replica_id >= 0:
        context.facts.is_of_kind(FETCH_FOLLOWER)
    if context.throttle is not None:
        if replica_id >= 0:
            context.throttle.exempt()
        else:
            request = context.throttle.limit_fetch(request)
    # A client that calls itself a follower must not touch any state before its right is checked.
    if replica_id >= 0 and not context.rights.allows(CLUSTER_ACTION):
        if context.throttle is not None:
            context.throttle.refuse()
        return (yield from _refused_follower(context, request))
    scope = yield from broker.fetch_sessions.open(request, context.api_version, broker.clock.now_ms())
    if replica_id < 0 and context.authorizer.is_open is not True:
        yield from _check_topics(context, scope)
    reads = yield from read_all(context, scope, is_arrival=True)
    min_bytes = min(request.min_bytes, request.max_bytes, broker.fetch_max_bytes)
    # A partition with an error, a divergence or a preferred replica is answered at once.
    if scope.by_key and request.max_wait_ms > 0 and not any(read.answer is not None for read in reads):
        sizes = {read.target: _waited_bytes(read, min_bytes) for read in reads}
        if sum(sizes.values()) < min_bytes:
            return _WaitingFetch(context, scope, reads, sizes, min_bytes)
    return (yield from _respond(context, scope, reads))


def _check_topics(context: BrokerContext, scope: FetchScope) -> Steps[None]:
    """Finds the topics of a consumer's fetch that the consumer may read. In a session, each fetch checks the
    permissions for every partition, even if the partition has no new records. The check is skipped if all partitions
    were allowed before and no permission has changed.
    """
    rights = context.rights
    key = rights.kept_key()
    if scope.is_allowed_by(key):
        return
    topics = context.ports.metadata.topics
    by_id = context.api_version >= TOPIC_ID_FROM

    def name_of(target: FetchTarget) -> str | None:
        if not by_id:
            return target.topic
        found = topics.topic_by_id(target.topic_id)
        return None if found is None else found.name

    names = (name for target in scope.by_key.values() if (name := name_of(target)) is not None)
    allowed = scope.allowed = yield from rights.allowed_steps(READ_TOPIC, names)
    are_all = True
    for target in scope.by_key.values():
        if name_of(target) not in allowed:  # also a target with an unknown id, which may be known later
            are_all = False
            scope.wake(target)
        yield
    if are_all:
        scope.keep_allowed(key)


def _refused_follower(context: BrokerContext, request: FetchRequest) -> Steps[FetchResponse]:
    """The answer to a client that may not act as a broker: an error for each partition, and no session."""
    if request.session_epoch not in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH):
        # The request does not list all partitions of the session. After this error, the client sends a full fetch,
        # which gets an error for each partition.
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    refused = TopicAuthorizationException()
    topics = yield from nested_steps(
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


def _rest(context: BrokerContext, scope: FetchScope, read: PartitionRead) -> bool:
    """Leaves the partition out of the next fetches of the session if the client already has all its records. The
    session reads the partition again only after a change. Returns True if the partition is left out."""
    if not is_quiet(read, scope):
        return False
    assert read.source is not None, "a quiet partition has no error"
    scope.rest(read.target, read.source.parked_fetches, context.ports.clock.now_ms())
    return True


async def _flat(large: Awaitable[FetchResponse | _WaitingFetch]) -> FetchResponse:
    response = await large
    return await response.answer if isinstance(response, _WaitingFetch) else response


def error_response(_context: BrokerContext, _request: FetchRequest, error: KafkaError) -> FetchResponse:
    return FetchResponse(error_code=error.code)


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
        "_watched",
        "answer",
    )

    def __init__(
        self,
        context: BrokerContext,
        scope: FetchScope,
        reads: list[PartitionRead],
        sizes: dict[FetchTarget, int],
        min_bytes: int,
    ) -> None:
        """Begins to wait. `reads` are the results of the first read, and `sizes` the bytes that it found in each
        partition."""
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[FetchResponse] = loop.create_future()
        self._context = context
        self._scope = scope
        self._sizes = sizes
        self._size = sum(sizes.values())
        self._min_bytes = min_bytes
        self._reading: asyncio.Future[FetchResponse] | None = (
            None  # the read after the wait, if it takes several turns
        )
        self._parked = ParkedFetch(
            FetchWait(min_bytes, self._size),
            measure=self._measure,
            done=self._wait_is_over,
            reads_uncommitted=scope.replica_id >= 0,
        )
        self._timer = loop.call_later(scope.request.max_wait_ms / 1000, self._time_is_over)
        self._watched = len(reads)
        context.ports.metrics.waits.fetches.begin(self._watched)
        scope.wait(self._parked)
        watches = scope.watches
        for read in reads:
            assert read.source is not None, "a fetch with an error does not wait"
            if not (watches and _rest(context, scope, read)):
                self._parked.park(read.source.parked_fetches, read.target)
        self.answer.add_done_callback(self._answered)
        self._look_at_changes(reads)

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
        reads = yield from read_all(self._context, self._scope)
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
        self._context.ports.metrics.waits.fetches.end(self._watched)
        if answer.cancelled():
            self._timer.cancel()
            self._parked.cancel()
            if self._reading is not None:
                self._reading.cancel()


# Answering.


def _respond(context: BrokerContext, scope: FetchScope, reads: list[PartitionRead]) -> Steps[FetchResponse]:
    """Copies a few small reads into the response. All other records are read from their files when they are sent.
    Empties `reads`.
    """
    left = COPIED_PER_ANSWER_MAX_BYTES
    results = []
    leaders: set[int] = set()
    watches = scope.watches
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
                read.answer = _answer(context, scope, read, records)
        if read.answer.error_code is not ErrorCode.NONE:
            _count_failure(context, read.target, read.answer.error_code)
        if read.answer.current_leader.leader_id >= 0:
            leaders.add(read.answer.current_leader.leader_id)
        results.append((read.target, read.answer))
        if watches:
            _rest(context, scope, read)
        yield
    return (yield from _finish(context, scope, results, leaders))


def _offline(context: BrokerContext, read: PartitionRead, error: StorageError) -> PartitionData:
    topic = read.target.topic if read.source is None else read.source.topic
    return failed_read(context, topic, read.target.wants.partition, KafkaStorageException(str(error)))


def _answer(
    context: BrokerContext, scope: FetchScope, read: PartitionRead, records: bytes | bytearray | LogSlice
) -> PartitionData:
    assert read.source is not None
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
    return PartitionData(
        partition_index=read.target.wants.partition,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.source.log.log_start_offset,
        aborted_transactions=read.aborted,
        records=cast(bytes, records),  # buffers and ranges of files go to the connection as they are
    )


def _is_reassigned(context: BrokerContext, source: HostedPartition, replica_id: int) -> bool:
    """Whether a reassignment is adding the replica that sent the fetch."""
    image = context.ports.metadata.partition(source.topic, source.partition)
    return image is not None and replica_id in image.adding


def _finish(
    context: BrokerContext,
    scope: FetchScope,
    results: list[tuple[FetchTarget, PartitionData]],
    leaders: set[int],
) -> Steps[FetchResponse]:
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
            for node, host, port, rack in leader_endpoints(context.ports.metadata, leaders, context.listener)
        )
    response = yield from scope.response(results, endpoints, context.ports.clock.now_ms())
    sent = 0
    for topic in response.responses:
        sent += len(topic.partitions)
        yield
    context.ports.metrics.requests.answered(context.api_key, sent)
    return response


def _count_failure(context: BrokerContext, target: FetchTarget, code: ErrorCode) -> None:
    metrics = context.ports.metrics
    metrics.request_failed(context.api_key, code)
    found = context.ports.metadata.topics.topic_by_id(target.topic_id)
    metrics.traffic.fetch_failed(target.topic if found is None else found.name, code)
