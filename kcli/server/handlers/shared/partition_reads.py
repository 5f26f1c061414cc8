"""Reads partitions for Fetch: makes the checks of a partition in Kafka's order, and finds the records to send in the
partition's log.

Followers read from the leader only, up to the log end. Consumers may also read from a follower (KIP-392). A consumer
reads up to the high watermark or the last stable offset of its replica.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from kcli.errors import (
    CorruptRecordError,
    CorruptRecordException,
    ErrorCode,
    InconsistentTopicIdException,
    KafkaError,
    KafkaStorageException,
    NotLeaderOrFollowerException,
    OffsetOutOfRangeException,
    StorageError,
    TopicAuthorizationException,
    UnknownLeaderEpochException,
    UnknownTopicIdException,
    UnsupportedCompressionTypeException,
)
from kcli.model.ids import NO_LEADER, BrokerId, LeaderEpoch, Offset
from kcli.model.request_values import READ_COMMITTED
from kcli.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    LeaderIdAndEpoch,
    PartitionData,
)
from kcli.protocol.wire.fetch_codec import TOPIC_ID_FROM
from kcli.replica.selector import Candidate, Selector, leader_only
from kcli.runtime.clock import Clock
from kcli.runtime.limited_lines import LimitedLines
from kcli.server.handlers.shared.hosted_partitions import HostedPartition, has_ended, leader_of
from kcli.server.partitions.fetch_sessions import FetchScope
from kcli.server.partitions.fetch_targets import FetchTarget
from kcli.server.partitions.leader_partition import LeaderPartition
from kcli.server.partitions.replicas import Replicas
from kcli.server.partitions.replication_quota import ReplicationQuota
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.requests.context import RequestContext
from kcli.storage.log.log import LogSlice, PartitionLog

_log = logging.getLogger(__name__)

_READ_FROM_FOLLOWER_SINCE = 11
_LEADER_HINT_FROM = 16
_STORAGE_ERROR_FROM = 6
_ZSTD_FROM = 10
_UNKNOWN_LEADER = LeaderIdAndEpoch()
_LEADER_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

READ_COST = 5
"""The cost to read a partition. It takes 3 to 10 µs."""
READ_AT_ONCE = 50


class ReadPorts(Protocol):
    """The ports that a read of a partition needs."""

    @property
    def clock(self) -> Clock: ...
    @property
    def loader(self) -> MetadataLoader: ...
    @property
    def replicas(self) -> Replicas: ...
    @property
    def fetch_max_bytes(self) -> int: ...
    @property
    def replica_selector(self) -> Selector: ...
    @property
    def leader_quota(self) -> ReplicationQuota: ...
    @property
    def damaged_batches(self) -> LimitedLines: ...


Context = RequestContext[ReadPorts]


@dataclass(slots=True)
class PartitionRead:
    """The result for one partition: a range of its log, or a response without records.

    `source` is the replica that was read. `is_throttled` is True if the bytes count for the replication quota.
    `is_full` is True if the next records are in another segment, so a longer wait would give no more bytes.
    """

    target: FetchTarget
    source: HostedPartition | None
    slice: LogSlice | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_end_offset: int = -1
    aborted: tuple[AbortedTransaction, ...] | None = None
    answer: PartitionData | None = None
    is_throttled: bool = False
    is_full: bool = False


async def read_all(context: Context, scope: FetchScope, *, is_arrival: bool = False) -> list[PartitionRead]:
    """Reads the partitions in the order of the request, within the limits of the request.

    The first partition with records returns at least one whole batch, even if the batch exceeds the limits. If
    `is_arrival` is True, the offsets of the request count as a follower's progress. When a waiting fetch reads again,
    `is_arrival` is False.
    """
    left = min(scope.request.max_bytes, context.ports.fetch_max_bytes)
    reads = []
    at_least_one = True
    targets = scope.targets()
    for number, target in enumerate(targets):
        if number % READ_AT_ONCE == 0:
            await context.pace(min(READ_AT_ONCE, len(targets) - number) * READ_COST)
        read = read_partition(context, scope, target, left, at_least_one, is_arrival=is_arrival)
        if read.slice is not None and read.slice.size_bytes:
            left -= read.slice.size_bytes
            at_least_one = False
        reads.append(read)
    return reads


def read_partition(
    context: Context,
    scope: FetchScope,
    target: FetchTarget,
    left: int,
    at_least_one: bool,
    *,
    is_arrival: bool = False,
) -> PartitionRead:
    topic, partition = target.topic, target.wants.partition
    try:
        topic_id = None
        if context.api_version >= TOPIC_ID_FROM:
            topic_image = context.ports.loader.image.topics.topic_by_id(target.topic_id)
            if topic_image is None:
                raise UnknownTopicIdException
            topic, topic_id = topic_image.name, topic_image.topic_id
        if scope.allowed is not None and topic not in scope.allowed:
            raise TopicAuthorizationException
        source = context.ports.replicas.hosted(topic, partition)
        # Usually both are the same object, and comparing two UUIDs would take longer than the rest of these checks.
        own_id = source.log.topic_id
        if topic_id is not None and own_id is not topic_id and own_id != topic_id:
            raise InconsistentTopicIdException(f"{source} has another topic id")
        if scope.replica_id >= 0:
            return _read_for_follower(context, scope, target, source, left, at_least_one, is_arrival)
        return _read_for_consumer(context, scope, target, source, left, at_least_one)
    except KafkaError as error:
        return PartitionRead(target, None, answer=failed_read(context, topic, partition, error))
    except CorruptRecordError as error:
        # The error is not KAFKA_STORAGE_ERROR, because a consumer would retry after that error and would not report the
        # damage.
        ending = context.ports.damaged_batches.ending(context.ports.clock.monotonic())
        if ending is not None:
            text = "Fetch of %s-%d from offset %d: %s%s"
            _log.error(text, topic, partition, target.wants.fetch_offset, error, ending)
        damage = CorruptRecordException(str(error))
        return PartitionRead(target, None, answer=failed_read(context, topic, partition, damage))
    except StorageError as error:
        offline = KafkaStorageException(str(error))
        return PartitionRead(target, None, answer=failed_read(context, topic, partition, offline))


def _read_for_follower(
    context: Context,
    scope: FetchScope,
    target: FetchTarget,
    source: HostedPartition,
    left: int,
    at_least_one: bool,
    is_arrival: bool,
) -> PartitionRead:
    wants, replica = target.wants, BrokerId(scope.replica_id)
    leader = leader_of(source, wants.current_leader_epoch)
    if replica not in leader.followers:
        raise _not_a_replica(leader, wants.current_leader_epoch)
    if (diverged := _divergence(leader.log, target)) is not None:
        return PartitionRead(target, leader, answer=diverged)
    log, quota = leader.log, context.ports.leader_quota
    throttled = log.config.leader_replication_throttled_replicas
    is_throttled = bool(throttled) and quota.throttles(leader.topic, leader.partition, throttled)
    end_offset = log.log_end_offset
    if is_throttled and quota.is_exceeded and replica not in leader.state.isr.members:
        end_offset = Offset(wants.fetch_offset)
    read = _read_log(context, target, leader, end_offset, left, at_least_one)
    read.is_throttled = is_throttled
    if is_arrival:
        # The response keeps the high watermark from before this call: the follower learns by its next fetch that the
        # records are committed.
        leader.follower_fetched(
            replica,
            log_start_offset=Offset(wants.log_start_offset),
            log_end_offset=Offset(wants.fetch_offset),
            broker_epoch=scope.request.replica_state.replica_epoch,
        )
    return read


def _read_for_consumer(
    context: Context,
    scope: FetchScope,
    target: FetchTarget,
    source: HostedPartition,
    left: int,
    at_least_one: bool,
) -> PartitionRead:
    wants, request = target.wants, scope.request
    if context.api_version >= _READ_FROM_FOLLOWER_SINCE:
        source.check_epoch(wants.current_leader_epoch)
    else:
        source = leader_of(source, wants.current_leader_epoch)
    log = source.log
    if request.rack_id and isinstance(source, LeaderPartition):
        preferred = _preferred_replica(context, source, request.rack_id, Offset(wants.fetch_offset))
        if preferred != NO_LEADER:
            return PartitionRead(target, source, answer=_elsewhere(log, wants.partition, preferred))
    if (diverged := _divergence(log, target)) is not None:
        return PartitionRead(target, source, answer=diverged)
    is_committed_only = request.isolation_level == READ_COMMITTED
    limit = log.last_stable_offset if is_committed_only else log.high_watermark
    read = _read_log(context, target, source, limit, left, at_least_one)
    if is_committed_only:
        assert read.slice is not None
        read.aborted = _aborted(log, Offset(wants.fetch_offset), read.slice)
    return read


def _read_log(
    context: Context,
    target: FetchTarget,
    source: HostedPartition,
    end_offset: Offset,
    left: int,
    at_least_one: bool,
) -> PartitionRead:
    log, wants = source.log, target.wants
    if log.config.compression_type == "zstd" and context.api_version < _ZSTD_FROM:
        raise UnsupportedCompressionTypeException
    size_max = max(min(left, wants.partition_max_bytes), 0)
    part = log.read(Offset(wants.fetch_offset), size_max, end_offset=end_offset, at_least_one=at_least_one)
    last_segment = log.local.segments[-1].base_offset
    return PartitionRead(
        target,
        source,
        part,
        log.high_watermark,
        log.last_stable_offset,
        log.log_end_offset,
        is_full=wants.fetch_offset < last_segment <= end_offset,
    )


def is_quiet(read: PartitionRead, scope: FetchScope) -> bool:
    """Whether the client of a session already has all records of the partition. The partition must then be read again
    only after a change.
    """
    source, target = read.source, read.target
    if source is None or read.slice is None or read.slice.size_bytes:
        return False
    log = source.log
    if scope.replica_id >= 0:
        assert isinstance(source, LeaderPartition)
        # A follower outside the ISR may join at each of its fetches.
        if scope.replica_id not in source.state.isr.members:
            return False
        limit = log.log_end_offset
    elif scope.request.isolation_level == READ_COMMITTED:
        limit = log.last_stable_offset
    else:
        limit = log.high_watermark
    return (
        target.wants.fetch_offset >= limit
        and target.told_high_watermark == log.high_watermark
        and target.told_log_start_offset == log.log_start_offset
        and not has_ended(source)
    )


def _not_a_replica(leader: LeaderPartition, epoch: int) -> KafkaError:
    if epoch >= 0:
        return UnknownLeaderEpochException(f"{leader} has no such replica in epoch {leader.leader_epoch}")
    return NotLeaderOrFollowerException(f"{leader} has no such replica")


def _divergence(log: PartitionLog, target: FetchTarget) -> PartitionData | None:
    """Returns a response with the offset at which the reader's log diverged from this log (KIP-595), or None if the
    logs agree.
    """
    wants = target.wants
    if wants.last_fetched_epoch < 0:
        return None
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


def _preferred_replica(context: Context, leader: LeaderPartition, rack: str, offset: Offset) -> int:
    """Returns the follower from which a consumer in `rack` should read `offset`, or NO_LEADER if the consumer should
    read from the leader.

    Possible followers are in the ISR, have the offset in their log, and have the consumer's listener.
    """
    selector = context.ports.replica_selector
    if selector is leader_only:
        return NO_LEADER
    brokers = context.ports.loader.image.brokers
    candidates = [
        Candidate(replica, brokers[replica].rack, state.log_end_offset, state.caught_up_ms)
        for replica, state in leader.followers.items()
        if replica in leader.state.isr.members
        and state.log_start_offset <= offset <= state.log_end_offset
        and replica in brokers
        and not brokers[replica].fenced
        and context.listener in brokers[replica].endpoints
    ]
    own = brokers.get(leader.state.node_id)
    chosen = selector(rack, None if own is None else own.rack, candidates)
    return NO_LEADER if chosen is None else chosen


def _elsewhere(log: PartitionLog, partition: int, preferred: int) -> PartitionData:
    """The response to a consumer that should read from another replica. The response has no records, and the offset of
    the request is not checked.
    """
    return PartitionData(
        partition_index=partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=preferred,
    )


def _aborted(log: PartitionLog, offset: Offset, part: LogSlice) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that have records among the read records. A read_committed consumer drops
    their records.
    """
    # This is checked first, because most logs have no aborted transactions. Finding the end offset of the slice needs a
    # read of the index.
    if not part.size_bytes or not log.local.has_aborted_transactions(offset):
        return ()
    upper = log.local.upper_bound_offset(offset, part.size_bytes)
    return tuple(
        AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
        for entry in log.local.aborted_transactions(offset, upper)
    )


_REFUSED_UNREAD = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Errors that Kafka finds before it reads the partition. If a partition has such an error, its list of aborted
transactions is empty, not null."""


def failed_read(context: Context, topic: str, index: int, error: KafkaError) -> PartitionData:
    code, version = error.code, context.api_version
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_FROM:
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = _UNKNOWN_LEADER
    if code in _LEADER_MOVED and version >= _LEADER_HINT_FROM:
        image = context.ports.loader.image.partition(topic, index)
        if image is not None:
            leader = LeaderIdAndEpoch(leader_id=image.leader, leader_epoch=image.leader_epoch)
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        aborted_transactions=() if code in _REFUSED_UNREAD else None,
        current_leader=leader,
    )
